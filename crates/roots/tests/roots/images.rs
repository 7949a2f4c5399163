//! Images of containers: layers, whiteouts, platforms, and the forms in which tools write them.

use std::fs;

use crate::archive_builder::{TestMember, archive, archive_without_end, file, folder, link};
use crate::harness::{TestRoots, causes, paths};
use crate::image_builder::{MACHINE, TestImage, TestLayer, gzip_layer, layer};

/// The paths in the root that these layers make.
fn unpack(layers: &[&[TestMember]]) -> Vec<String> {
    let layers: Vec<TestLayer> = layers.iter().map(|members| layer(members)).collect();
    let roots = TestRoots::new();
    paths(&roots.import_tree(&TestImage::layout(&layers).archive()))
}

#[test]
fn a_whiteout_removes_what_earlier_layers_have_unpacked() {
    let base: &[TestMember] = &[
        folder("d"),
        file("d/a", "1"),
        file("d/b", "1"),
        folder("d/e"),
        file("d/e/x", "1"),
    ];
    let check = |second: &[TestMember], expected: &[&str]| {
        assert_eq!(unpack(&[base, second]), expected);
    };
    check(&[file("d/.wh.a", "")], &["d", "d/b", "d/e", "d/e/x"]);
    check(&[file("d/.wh.e", "")], &["d", "d/a", "d/b"]);
    check(&[file(".wh.d", "")], &[]);
    check(
        &[file("d/.wh.missing", ""), file("no/.wh.x", "")],
        &["d", "d/a", "d/b", "d/e", "d/e/x"],
    );
    check(&[file("d/.wh..wh..opq", "")], &["d"]);
    // Whatever the order of the members is, the layer's own files stay.
    check(&[file("d/new", "2"), file("d/.wh..wh..opq", "")], &["d", "d/new"]);
    check(&[file("d/.wh..wh..opq", ""), file("d/new", "2")], &["d", "d/new"]);
    check(
        &[file("d/e/new", "2"), file("d/.wh..wh..opq", "")],
        &["d", "d/e", "d/e/new"],
    );
    check(
        &[file("d/a", "2"), file("d/.wh.a", "")],
        &["d", "d/a", "d/b", "d/e", "d/e/x"],
    );
    check(
        &[folder("d/e"), file("d/e/new", "2"), file("d/.wh.e", "")],
        &["d", "d/a", "d/b", "d/e", "d/e/new"],
    );
    // Files of another layer format are ignored.
    check(
        &[
            folder(".wh..wh.plnk"),
            file(".wh..wh.plnk/1.2", ""),
            file(".wh..wh.aufs", ""),
        ],
        &["d", "d/a", "d/b", "d/e", "d/e/x"],
    );
}

#[test]
fn later_layers_replace_files_and_follow_links_inside_the_root() {
    let roots = TestRoots::new();
    let tree = roots.import_tree(
        &TestImage::layout(&[
            layer(&[
                folder("usr/lib"),
                link("lib", "usr/lib"),
                file("usr/lib/a", "1"),
                file("usr/lib/b", "1"),
            ]),
            layer(&[file("lib/a", "2"), file("lib/.wh.b", ""), file("lib/c", "2")]),
        ])
        .archive(),
    );
    assert_eq!(paths(&tree), ["lib", "usr", "usr/lib", "usr/lib/a", "usr/lib/c"]);
    assert_eq!(fs::read(tree.join("usr/lib/a")).unwrap(), b"2");
}

#[test]
fn every_form_of_the_same_image_gives_the_same_root() {
    let members = [folder("bin"), file("bin/true", "x".repeat(50_000))];
    let second = [file("etc/name", "y")];
    let layers = [gzip_layer(&members), layer(&second)];
    let plain = [layer(&members), layer(&second)];
    let roots = TestRoots::new();
    let layout = TestImage::layout(&layers);
    let folder = roots.path("layout");
    layout.write_folder(&folder);
    let both = {
        // What `docker save` writes today: an image layout with the old manifest beside it.
        let mut image = TestImage::layout(&layers);
        image.set("manifest.json", b"[]");
        image.set("repositories", b"{}");
        image
    };
    let compressed = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, &layout.archive()).unwrap();
        encoder.finish().unwrap()
    };
    let mut hashes = vec![roots.import("r", &folder).unwrap().record.sha256];
    for bytes in [
        layout.archive(),
        compressed,
        both.archive(),
        TestImage::docker(&layers).archive(),
        TestImage::docker(&plain).archive(),
    ] {
        let new = roots
            .import_bytes("r", &bytes)
            .unwrap_or_else(|error| panic!("{}", causes(&error)));
        hashes.push(new.record.sha256);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1);
    assert_eq!(roots.entries(), ["r"]);
}

/// The digest of a layer shows that it is complete.
#[test]
fn a_layer_needs_no_end_marker() {
    for tool in ["cat", "gzip", "zstd", "xz"] {
        let roots = TestRoots::new();
        let content = archive_without_end(&[file("a", "x")]);
        let (plain, packed) = (roots.path("plain"), roots.path("packed"));
        fs::write(&plain, &content).unwrap();
        let status = std::process::Command::new(tool)
            .stdin(fs::File::open(&plain).unwrap())
            .stdout(fs::File::create(&packed).unwrap())
            .status();
        assert!(status.unwrap().success(), "{tool}");
        let layer = TestLayer {
            file: fs::read(&packed).unwrap(),
            content,
            ..layer(&[])
        };
        let tree = roots.import_tree(&TestImage::layout(&[layer]).archive());
        assert_eq!(paths(&tree), ["a"], "{tool}");
    }
}

/// As Jib writes it: names that no other tool uses.
#[test]
fn an_image_is_known_by_its_manifest() {
    let image = TestImage::docker(&[gzip_layer(&[file("a", "x")])]);
    let manifest: serde_json::Value = serde_json::from_slice(&image.files.last().unwrap().1).unwrap();
    let renamed: Vec<TestMember> = image
        .files
        .iter()
        .map(|(path, bytes)| match path.as_str() {
            "manifest.json" => {
                let mut manifest = manifest.clone();
                manifest[0]["Config"] = "config.json".into();
                manifest[0]["Layers"] = serde_json::json!(["layer.tar.gz"]);
                file(path, manifest.to_string())
            }
            path if path.ends_with("layer.tar") => file("layer.tar.gz", bytes),
            _ => file("config.json", bytes),
        })
        .collect();
    let roots = TestRoots::new();
    assert_eq!(paths(&roots.import_tree(&archive(&renamed))), ["a"]);
}

#[test]
fn a_layer_that_docker_stored_once_is_found_by_its_link() {
    let image = TestImage::docker(&[
        layer(&[file("a", "1")]),
        layer(&[file("b", "1")]),
        layer(&[file("a", "1")]),
    ]);
    let mut members = vec![];
    let mut third = 0;
    for (path, bytes) in &image.files {
        let is_layer = path.ends_with("layer.tar");
        third += usize::from(is_layer);
        match is_layer && third == 3 {
            // The path of the first layer, from the folder of the third.
            true => members.push(link(path, format!("../{}", image.files[1].0))),
            false => members.push(file(path, bytes)),
        }
    }
    let roots = TestRoots::new();
    assert_eq!(paths(&roots.import_tree(&archive(&members))), ["a", "b"]);
}

#[test]
fn the_image_for_this_machine_is_chosen() {
    let mut image = TestImage::default();
    let other = image.add_manifest("mips64le", &[layer(&[file("other", "x")])]);
    let mut ours = image.add_manifest(MACHINE, &[layer(&[file("ours", "x")])]);
    ours["platform"] = serde_json::json!({"architecture": MACHINE, "os": "linux"});
    let mut missing = ours.clone();
    missing["digest"] = format!("sha256:{}", "0".repeat(64)).into();
    missing["platform"] = serde_json::json!({"architecture": "unknown", "os": "unknown"});
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [missing, other, ours]});
    let nested = image.add_blob(
        "application/vnd.oci.image.index.v1+json",
        index.to_string().as_bytes(),
    );
    // The same image twice, as `docker save` of two tags writes it.
    image.set_index(&[nested.clone(), nested]);
    let roots = TestRoots::new();
    assert_eq!(paths(&roots.import_tree(&image.archive())), ["ours"]);
}
