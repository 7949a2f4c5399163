//! Imports that end in the middle.

use std::time::{Duration, Instant};

use roots::ImportError;

use crate::archive_builder::{archive, file};
use crate::harness::{TestRoots, import_options};

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_import_leaves_nothing() {
    let roots = TestRoots::new();
    let path = roots.path("archive");
    let files: Vec<_> = (0..5000).map(|index| file(format!("f{index}"), "x")).collect();
    std::fs::write(&path, archive(&files)).unwrap();
    let options = import_options("r", &path);
    let result = std::thread::scope(|scope| {
        let import = scope.spawn(|| roots::import(&roots.store, &options));
        let tree = roots.store.folder().join(".work-r/generation/tree");
        wait_until("the import has begun", || {
            crate::harness::entries(&tree).len() > 10
        });
        options.interrupt.interrupt();
        import.join().unwrap()
    });
    assert!(matches!(result, Err(ImportError::Interrupted)), "{result:?}");
    roots.assert_nothing_left("an interrupted import");
}
