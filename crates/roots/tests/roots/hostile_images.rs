//! Images that are damaged, incomplete or hostile. Each is refused with the name of the file or member, and leaves nothing.

use crate::archive_builder::{TestMember, file, folder, hard_link, link};
use crate::harness::{TestRoots, causes};
use crate::image_builder::{MACHINE, TestImage, gzip_layer, layer};

fn check_refused(what: &str, image: &TestImage, expected: &[&str]) {
    let roots = TestRoots::new();
    let folder = roots.path("layout");
    image.write_folder(&folder);
    // The same files as an archive and in a folder.
    let results = [
        roots.import_bytes("r", &image.archive()),
        roots.import("r", &folder),
    ];
    for result in results {
        let error = causes(&result.err().unwrap_or_else(|| panic!("{what} was accepted")));
        for part in expected {
            assert!(error.contains(part), "{what}: no {part:?} in {error}");
        }
        roots.assert_nothing_left(what);
    }
}

fn check_layers(what: &str, layers: &[&[TestMember]], expected: &[&str]) {
    let layers: Vec<_> = layers.iter().map(|members| layer(members)).collect();
    check_refused(what, &TestImage::layout(&layers), expected);
    check_refused(what, &TestImage::docker(&layers), expected);
}

#[test]
fn members_beneath_links_of_any_layer_that_lead_out_are_refused() {
    check_layers(
        "a link and a member in one layer",
        &[&[link("l", "../../.."), file("l/x", "a")]],
        &["'l/x'", "leads out"],
    );
    check_layers(
        "a link and a member in different layers",
        &[&[folder("a"), link("a/l", "/outside")], &[file("a/l/x", "a")]],
        &["'a/l/x'", "'a/l'", "'/outside'"],
    );
    check_layers(
        "a folder that a later layer replaces by a link",
        &[
            &[folder("a"), file("a/x", "1")],
            &[link("a", "..")],
            &[file("a/x", "2")],
        ],
        &["'a/x'", "leads out"],
    );
    check_layers(
        "a hard link to a file beneath a link that leads out",
        &[&[link("l", "..")], &[hard_link("h", "l/victim")]],
        &["'h'", "leads out"],
    );
}

#[test]
fn whiteouts_that_would_remove_other_files_are_refused() {
    let base: &[TestMember] = &[
        folder("a"),
        file("a/x", "1"),
        link("out", "../outside"),
        link("up", ".."),
    ];
    for (what, member) in [
        ("a whiteout of the parent", "a/.wh..."),
        ("a whiteout of the folder itself", "a/.wh.."),
        ("a whiteout of nothing", "a/.wh."),
        ("a whiteout in a parent", "../.wh.outside"),
        ("a whiteout through a link that leads out", "out/.wh.victim"),
        ("a whiteout through a link to a parent", "up/.wh.outside"),
        ("all files behind a link that leads out", "out/.wh..wh..opq"),
        ("a file beneath a whiteout", ".wh.a/x"),
    ] {
        check_layers(what, &[base, &[file(member, "")]], &[&format!("'{member}'")]);
    }
}

#[test]
fn wrong_digests_and_sizes_are_refused() {
    let members = [file("a", "content")];
    let layers = [gzip_layer(&members)];
    let layout = TestImage::layout(&layers);
    let layer_start = &layers[0].file[..4];

    let mut damaged = layout.clone();
    damaged.damage(layer_start);
    check_refused(
        "a damaged layer",
        &damaged,
        &["blobs/sha256/", "has the digest", "damaged"],
    );
    let mut damaged = layout.clone();
    damaged.damage(b"{\"config\":{\"digest\"");
    check_refused(
        "a damaged manifest",
        &damaged,
        &["blobs/sha256/", "has the digest"],
    );
    let mut damaged = layout.clone();
    damaged.damage(b"{\"architecture\"");
    check_refused(
        "a damaged configuration",
        &damaged,
        &["blobs/sha256/", "has the digest"],
    );

    let mut longer = layout.clone();
    let found = longer
        .files
        .iter_mut()
        .find(|(_, bytes)| bytes.starts_with(layer_start));
    found.unwrap().1.push(0);
    check_refused("a longer layer", &longer, &["its descriptor says"]);
    let mut incomplete = layout.clone();
    incomplete
        .files
        .retain(|(_, bytes)| !bytes.starts_with(layer_start));
    check_refused(
        "a missing layer",
        &incomplete,
        &["blobs/sha256/", "cannot be read"],
    );

    // The file is as its descriptor says, but it unpacks to something else.
    let mut other = gzip_layer(&members);
    other.content = b"something else".to_vec();
    check_refused(
        "a wrong digest of a layer's content",
        &TestImage::layout(&[other.clone()]),
        &["unpacks to content with the digest", "rootfs.diff_ids"],
    );
    check_refused(
        "the same in an archive of docker",
        &TestImage::docker(&[other]),
        &["rootfs.diff_ids"],
    );
    let mut damaged = TestImage::docker(&layers);
    damaged.damage(b"{\"architecture\"");
    check_refused(
        "a damaged configuration of docker",
        &damaged,
        &[".json", "has the digest"],
    );
}

#[test]
fn images_that_are_not_one_image_for_this_machine_are_refused() {
    let layers = [layer(&[file("a", "x")])];
    let mut image = TestImage::default();
    let mut other = image.add_manifest("mips64le", &layers);
    image.set_index(&[other.clone()]);
    check_refused(
        "another machine",
        &image,
        &[&format!("linux/{MACHINE}"), "linux/mips64le"],
    );
    other["platform"] = serde_json::json!({"architecture": "riscv32", "os": "plan9"});
    image.set_index(&[other]);
    check_refused("another platform", &image, &["plan9/riscv32"]);
    image.set_index(&[]);
    check_refused("an empty index", &image, &["no image at all"]);

    let mut several = TestImage::default();
    let mut first = several.add_manifest(MACHINE, &layers);
    first["annotations"] = serde_json::json!({"org.opencontainers.image.ref.name": "one:latest"});
    let second = several.add_manifest(MACHINE, &[layer(&[file("b", "x")])]);
    several.set_index(&[first, second]);
    check_refused("two images", &several, &["several images", "one:latest"]);
    let mut docker = TestImage::docker(&layers);
    let entry = r#"{"Config": "c", "RepoTags": ["y:2"], "Layers": []}"#;
    docker.set("manifest.json", format!("[{entry}, {entry}]").as_bytes());
    check_refused("two images of docker", &docker, &["several images", "y:2"]);
}

#[test]
fn documents_that_are_not_as_the_format_requires_are_refused() {
    let layers = [layer(&[file("a", "x")])];
    let mut image = TestImage::layout(&layers);
    image.set("index.json", b"{}");
    check_refused("an index without manifests", &image, &["index.json", "manifests"]);
    image.set("index.json", &vec![b' '; 5 << 20]);
    check_refused("a large index", &image, &["index.json", "larger than"]);
    let wrong = r#"{"manifests": [{"mediaType": "", "digest": "sha256:../../x", "size": 1}]}"#;
    image.set("index.json", wrong.as_bytes());
    check_refused(
        "a digest that is a path",
        &image,
        &["'sha256:../../x' is not a digest"],
    );

    let mut loops = TestImage::default();
    let mut index = serde_json::json!({"manifests": []});
    for _ in 0..6 {
        let blob = loops.add_blob(
            "application/vnd.oci.image.index.v1+json",
            index.to_string().as_bytes(),
        );
        index = serde_json::json!({"manifests": [blob]});
    }
    loops.set("oci-layout", b"{}");
    loops.set("index.json", index.to_string().as_bytes());
    check_refused("indexes in indexes", &loops, &["nested too deeply"]);

    let mut encrypted = layer(&[file("a", "x")]);
    encrypted.media_type = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted";
    check_refused(
        "an encrypted layer",
        &TestImage::layout(&[encrypted]),
        &["media type", "encrypted"],
    );

    let mut uneven = TestImage::docker(&layers);
    let manifest = uneven
        .files
        .iter()
        .find(|(path, _)| path == "manifest.json")
        .unwrap()
        .1
        .clone();
    let mut manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    manifest[0]["Layers"] = serde_json::json!([]);
    uneven.set("manifest.json", manifest.to_string().as_bytes());
    check_refused("fewer layers than digests", &uneven, &["0 layers and 1 digests"]);
    manifest[0]["Config"] = "../../../etc/passwd".into();
    uneven.set("manifest.json", manifest.to_string().as_bytes());
    check_refused(
        "a configuration elsewhere",
        &uneven,
        &["etc/passwd", "cannot be read"],
    );
}
