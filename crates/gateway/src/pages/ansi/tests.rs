use proptest::prelude::*;

use super::*;

fn check(output: &str, expected: &str) {
    assert_eq!(AnsiConverter::convert(output.as_bytes()), expected, "{output:?}");
}

/// The chunks of an output, each converted on its own.
fn in_chunks(chunks: &[&[u8]]) -> Vec<String> {
    let mut converter = AnsiConverter::default();
    let mut html: Vec<_> = chunks.iter().map(|chunk| converter.push(chunk)).collect();
    html.push(converter.finish());
    html
}

#[test]
fn colours_and_type_styles_become_classes() {
    check("plain", "plain");
    check(
        "\x1b[31mred\x1b[0m plain",
        "<span class=\"ansi-f1\">red</span> plain",
    );
    check(
        "\x1b[1;4;92;44mx\x1b[22;24;39;49my",
        "<span class=\"ansi-f10 ansi-b4 ansi-bold ansi-underline\">x</span>y",
    );
    check("\x1b[7mx\x1b[27my", "<span class=\"ansi-inverse\">x</span>y");
    check("\x1b[7;31mx", "<span class=\"ansi-b1\">x</span>");
    check("\x1b[2mx\x1b[mx", "<span class=\"ansi-dim\">x</span>x");
    check("\x1b[3mx\x1b[23mx", "<span class=\"ansi-italic\">x</span>x");
    check("\x1b[38;5;196mx", "<span class=\"ansi-f9\">x</span>");
    check("\x1b[48;2;0;0;250mx", "<span class=\"ansi-b4\">x</span>");
    check(
        "\x1b[38:5:2mx\x1b[38:2::255:0:0my",
        "<span class=\"ansi-f2\">x</span><span class=\"ansi-f9\">y</span>",
    );
    // Unknown or incomplete parameters change nothing.
    for nothing in [
        "\x1b[38;5m",
        "\x1b[38;2;1;2m",
        "\x1b[38;9m",
        "\x1b[58m",
        "\x1b[99999999999m",
        "\x1b[38;5;256m",
    ] {
        check(&format!("{nothing}x"), "x");
    }
}

#[test]
fn other_sequences_are_removed() {
    for sequence in [
        "\x1b[2J",
        "\x1b[H",
        "\x1b[?25l",
        "\x1b[10;20H",
        "\x1b(B",
        "\x1b=",
        "\x1bM",
        "\x1b]0;a title\x07",
        "\x1b]8;;https://example.org\x1b\\",
        "\x1bPq#0\x1b\\",
        "\x1b[>4;2m",
        "\x1b#8",
    ] {
        check(&format!("a{sequence}b"), "ab");
    }
    check("a\x1b]0;<script>\x07b", "ab");
}

#[test]
fn what_is_no_sequence_is_shown() {
    let shown = |text: &str| format!("<span class=\"control-character\">\u{241b}</span>{text}");
    check("\x1b[31", &shown("[31"));
    check("\x1b[3\u{e9}", &shown("[3\u{e9}"));
    check("\x1b]0;no end\nnext", &shown("]0;no end\nnext"));
    check(
        "\x1b\x1b[31mx",
        &format!("{}<span class=\"ansi-f1\">x</span>", shown("")),
    );
    let long = "x".repeat(10_000);
    let html = AnsiConverter::convert(format!("\x1b]{long}").as_bytes());
    assert_eq!(html.matches('x').count(), 10_000, "nothing is lost");
    check(
        "a\0b\x07\x7f",
        "a<span class=\"control-character\">\u{2400}</span>b<span class=\"control-character\">\u{2407}</span><span class=\"control-character\">\u{2421}</span>",
    );
    check("\u{202e}x", "<span class=\"control-character\">U+202E</span>x");
    check(
        "\u{9b}31mx",
        "<span class=\"control-character\">U+009B</span>31mx",
    );
}

#[test]
fn a_line_that_is_written_again_shows_its_last_text() {
    check("10%\r20%\r\ndone", "20%\ndone");
    check("100%\r5%", "5%0%");
    check("100%\r\x1b[K5%", "5%");
    check("100%\x1b[2K5%", "5%");
    check("a\u{8}b\u{8}\u{8}\u{8}c", "c");
    check("one\r\ntwo\r\n", "one\ntwo\n");
    check("one\r\r\ntwo", "one\ntwo");
    check("\x1b[31m10%\r\x1b[32m20%", "<span class=\"ansi-f2\">20%</span>");
}

#[test]
fn the_state_is_carried_from_chunk_to_chunk() {
    let check = |chunks: &[&[u8]], expected: &[&str]| assert_eq!(in_chunks(chunks), expected, "{chunks:?}");
    check(&[b"caf\xc3", b"\xa9"], &["caf", "\u{e9}", ""]);
    check(&[b"\xf0\x9f", b"\x98", b"\x80"], &["", "", "\u{1f600}", ""]);
    check(&[b"a\xc3"], &["a", "\u{fffd}"]);
    check(&[b"\xff\xfea\xe2(b"], &["\u{fffd}\u{fffd}a\u{fffd}(b", ""]);
    check(
        &[b"\x1b", b"[3", b"1mred", b" still\x1b", b"[0mno"],
        &[
            "",
            "",
            "<span class=\"ansi-f1\">red</span>",
            "<span class=\"ansi-f1\"> still</span>",
            "no",
            "",
        ],
    );
    // A line that was sent cannot be written again.
    check(&[b"10%", b"\r20%", b"\r\n"], &["10%", "\n20%", "\n", ""]);
    check(&[b"10%\r", b"20%"], &["10%", "\n20%", ""]);
    check(&[b"10%\r", b"\n"], &["10%", "\n", ""]);
    check(&[b"10%", b"\x1b[2K\x08x"], &["10%", "x", ""]);
}

#[test]
fn html_is_text() {
    check(
        "<script>alert(1)</script>&amp;\"'",
        "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;&quot;&#39;",
    );
}

/// The text that a browser shows. Panics if there is any tag but our spans.
fn text_of(html: &str) -> String {
    let (mut text, mut rest, mut depth) = (String::new(), html, 0);
    while let Some(place) = rest.find(['<', '&']) {
        text.push_str(&rest[..place]);
        rest = &rest[place..];
        let known = [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&amp;", "&"),
            ("&quot;", "\""),
            ("&#39;", "'"),
        ];
        if let Some((entity, shown)) = known.iter().find(|(entity, _)| rest.starts_with(entity)) {
            text.push_str(shown);
            rest = &rest[entity.len()..];
        } else if let Some(after) = rest.strip_prefix("</span>") {
            depth -= 1;
            rest = after;
        } else {
            let after = rest.strip_prefix("<span class=\"").expect("one of our tags");
            let (classes, after) = after.split_once("\">").expect("the end of a tag");
            let is_ours = |class: &str| {
                let name = class.trim_end_matches(|c: char| c.is_ascii_digit());
                [
                    "ansi-f",
                    "ansi-b",
                    "ansi-bold",
                    "ansi-dim",
                    "ansi-italic",
                    "ansi-underline",
                    "ansi-inverse",
                    "control-character",
                ]
                .contains(&name)
            };
            assert!(classes.split(' ').all(is_ours), "{classes}");
            depth += 1;
            rest = after;
        }
        assert!((0..=2).contains(&depth), "{html}");
    }
    assert_eq!(depth, 0, "{html}");
    text.push_str(rest);
    text
}

proptest! {
    #[test]
    fn the_text_is_kept(output in "([ -~\\n\\t\u{a0}-\u{2ff}\u{1f600}]|<b>|&lt;|\x1b\\[[0-9;]{0,6}m|\x1b\\[[0-9]J|\x1b\\(B){0,80}", cuts in prop::collection::vec(0usize..400, 0..6)) {
        // Without its escape sequences.
        let mut expected = output.clone();
        while let Some(start) = expected.find('\x1b') {
            let length = expected[start + 2..].find(|c: char| c.is_ascii_alphabetic()).unwrap() + 3;
            expected.replace_range(start..start + length, "");
        }
        let bytes = output.as_bytes();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let shown: String = in_chunks(&chunks).iter().map(|html| text_of(html)).collect();
        prop_assert_eq!(shown, expected.clone());
        prop_assert_eq!(text_of(&AnsiConverter::convert(bytes)), expected);
    }

    #[test]
    fn any_bytes_become_our_spans_and_text(chunks in prop::collection::vec(prop::collection::vec(
        prop_oneof![any::<u8>(), prop::sample::select(&b"\x1b[]m;0123\x07\r\n\x08<>&\"K"[..])], 0..60), 0..5)) {
        let chunks: Vec<_> = chunks.iter().map(Vec::as_slice).collect();
        for html in in_chunks(&chunks) {
            text_of(&html);
        }
    }
}

/// Every colour of text can be read on every background, in the light and in the dark scheme.
#[test]
fn colours_have_enough_contrast() {
    let tokens = include_str!("../../../../../web/style/tokens.css");
    let (light, dark) = tokens.split_once("@media (prefers-color-scheme: dark)").unwrap();
    for scheme in [light, dark] {
        let colour = |name: &str| {
            let (_, after) = scheme
                .split_once(&format!("--{name}: #"))
                .unwrap_or_else(|| panic!("no {name}"));
            u32::from_str_radix(&after[..6], 16).unwrap()
        };
        let foregrounds: Vec<_> = (0..16)
            .map(|number| format!("ansi-{number}"))
            .chain(["ink".into(), "dim".into()])
            .collect();
        let backgrounds: Vec<_> = (0..8)
            .map(|number| format!("ansi-b{number}"))
            .chain(["soft".into()])
            .collect();
        for foreground in &foregrounds {
            for background in &backgrounds {
                let contrast = contrast(colour(foreground), colour(background));
                assert!(contrast >= 4.5, "{foreground} on {background}: {contrast}");
            }
        }
        assert!(contrast(colour("paper"), colour("ink")) >= 4.5);
    }
}

/// The contrast of two colours, as WCAG defines it.
fn contrast(one: u32, other: u32) -> f64 {
    let luminance = |colour: u32| {
        let part = |shift: u32| {
            let value = f64::from(colour >> shift & 0xff) / 255.0;
            match value <= 0.04045 {
                true => value / 12.92,
                false => ((value + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}
