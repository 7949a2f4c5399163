//! Crashes between the steps of joining and founding.

use daemons::etcd::{MemberState, Options, Start};
use etcd_client::MemberAddOptions;
use tokio::process::Command;

use crate::stage::{Node, Stage, members_once, reached, wait_until};

#[tokio::test]
async fn added_but_never_started() {
    let stage = Stage::new();
    let mut first = stage.start(1, Start::First);
    first.serves().await;
    let options = stage.options(2, stage.join(&[1]));
    let why = Node::start(Options {
        program: stage.fake_etcd("exit 7"),
        ..options.clone()
    })
    .fails()
    .await;
    assert!(why.contains("exit code 7"), "{why}");
    let left_behind = stage.members(1).await;
    let unstarted = left_behind
        .iter()
        .find(|member| member.state == MemberState::Unstarted);
    let unstarted = unstarted.expect("it was added").id;

    let mut second = Node::start(options);
    second.serves().await;
    let seen = stage.all_well(1, &[1, 2]).await;
    assert!(seen.iter().all(|member| member.id != unstarted), "{seen:?}");
}

#[tokio::test]
async fn started_but_never_promoted() {
    let stage = Stage::new();
    let mut first = stage.start(1, Start::First);
    first.serves().await;
    let mut client = reached(&stage.access(1)).await;
    let learner = Some(MemberAddOptions::new().with_is_learner());
    let peer = format!("http://{}", stage.peer(2));
    client.member_add([&peer], learner).await.unwrap();
    // As the daemon starts it, until it is there as a learner.
    let advertise = format!("http://{}", stage.client(2));
    let mut etcd = Command::new("etcd")
        .arg("--name=n2")
        .arg(format!("--data-dir={}", stage.data(2).join("data").display()))
        .args([
            format!("--listen-client-urls={advertise}"),
            format!("--advertise-client-urls={advertise}"),
        ])
        .args([
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
        ])
        .arg(format!("--initial-cluster=n1=http://{},n2={peer}", stage.peer(1)))
        .args(["--initial-cluster-state=existing", "--log-level=error"])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    members_once(stage.access(1), "a learner", |seen| {
        seen.iter().any(|member| member.state == MemberState::Learner)
    })
    .await;
    etcd.kill().await.unwrap();

    let mut second = stage.start(2, stage.join(&[1]));
    second.serves().await;
    stage.all_well(1, &[1, 2]).await;
}

#[tokio::test]
async fn decided_but_never_started() {
    let stage = Stage::new();
    let mut others = [1, 2].map(|node| stage.start(node, stage.founders(&[1, 2, 3])));
    let options = stage.options(3, stage.founders(&[1, 2, 3]));
    let why = Node::start(Options {
        program: stage.fake_etcd("exit 7"),
        ..options.clone()
    })
    .fails()
    .await;
    assert!(why.contains("exit code 7"), "{why}");
    // The others are two of three and serve without it; its place is kept.
    for other in &mut others {
        other.serves().await;
    }
    let mut third = Node::start(options);
    third.serves().await;
    stage.all_well(1, &[1, 2, 3]).await;
}

#[tokio::test]
async fn killed_between_the_promise_and_the_start() {
    let stage = Stage::new();
    let first = stage.start(1, stage.founders(&[1, 2]));
    let second = stage.start(2, stage.founders(&[1, 2]));
    let note = stage.data(1).join("founding");
    wait_until("a promise is on disk", || note.exists()).await;
    first.crash().await;
    second.crash().await;
    let _nodes = [1, 2].map(|node| stage.start(node, stage.founders(&[1, 2])));
    stage.all_well(1, &[1, 2]).await;
}
