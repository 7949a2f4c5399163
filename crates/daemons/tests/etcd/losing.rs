//! Members that lost their data, or were removed: what is gone does not come back under its old name.

use daemons::etcd::{EtcdError, Start, remove};

use crate::stage::{Node, Stage, contents, get, put};

#[tokio::test]
async fn a_founder_that_lost_its_data_comes_back_as_a_new_member() {
    let stage = Stage::new();
    let [_one, _two, three] = stage.three().await;
    let before = stage.all_well(1, &[1, 2, 3]).await;
    put(&stage.access(1), "key", "value").await;
    // With its notes, then without anything: by the same list both times, as a service manager would start it.
    let options = three.options.clone();
    three.lose_data().await;
    let mut three = Node::start(options.clone());
    three.serves().await;
    let between = stage.all_well(1, &[1, 2, 3]).await;
    assert_ne!(between[2].id, before[2].id);
    assert_eq!(get(&stage.access(3), "key").await.as_deref(), Some("value"));

    three.lose_all().await;
    let mut three = Node::start(options);
    three.serves().await;
    let after = stage.all_well(1, &[1, 2, 3]).await;
    assert_ne!(after[2].id, between[2].id);
    assert_eq!(
        after[..2].iter().map(|m| m.id).collect::<Vec<_>>(),
        before[..2].iter().map(|m| m.id).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_first_node_that_lost_its_data_founds_no_second_cluster() {
    let stage = Stage::new();
    let mut node = stage.start(1, Start::First);
    node.serves().await;
    node.lose_data().await;
    let why = stage.start(1, Start::First).fails().await;
    assert!(why.contains("must not found a cluster anew"), "{why}");
    assert!(!stage.data(1).join("data").exists());
}

#[tokio::test]
async fn a_data_folder_of_another_cluster_is_refused_and_nothing_changes() {
    let stage = Stage::new();
    let mut one = stage.start(1, Start::First);
    one.serves().await;
    let mut two = stage.start(2, Start::First);
    two.serves().await;
    two.stop().await;
    let before = contents(&stage.data(2));
    let why = stage.start(2, stage.join(&[1])).fails().await;
    assert!(why.contains("belongs to another cluster"), "{why}");
    // The same where only the note is left.
    std::fs::rename(stage.data(2).join("data"), stage.data(3)).unwrap();
    let why = stage.start(2, stage.join(&[1])).fails().await;
    assert!(why.contains("belongs to another cluster"), "{why}");
    std::fs::rename(stage.data(3), stage.data(2).join("data")).unwrap();
    assert_eq!(contents(&stage.data(2)), before);
    assert_eq!(stage.members(1).await.len(), 1);
}

#[tokio::test]
async fn the_living_are_not_removed_and_the_removed_are_told() {
    let stage = Stage::new();
    let [_one, _two, three] = stage.three().await;
    stage.all_well(1, &[1, 2, 3]).await;
    let access = stage.access(1);
    let alive = remove(&access, "n3").await.unwrap_err();
    assert!(matches!(alive, EtcdError::Alive { .. }), "{alive}");
    let unknown = remove(&access, "n9").await.unwrap_err().to_string();
    assert_eq!(unknown, "no member is called n9; there are n1, n2, n3");
    assert_eq!(stage.members(1).await.len(), 3);

    let options = three.options.clone();
    three.crash().await;
    remove(&access, "n3").await.unwrap();
    stage.all_well(1, &[1, 2]).await;
    let why = Node::start(options.clone()).fails().await;
    assert!(why.contains("was removed from the cluster"), "{why}");
    // With a new data folder it is welcome.
    let mut three = Node::start(daemons::etcd::Options {
        data: stage.data(33),
        start: stage.join(&[1]),
        ..options
    });
    three.serves().await;
    stage.all_well(1, &[1, 2, 3]).await;
}
