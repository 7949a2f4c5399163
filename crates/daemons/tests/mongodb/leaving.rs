//! Leaving and being removed.

use std::time::Duration;

use daemons::mongodb::{Departure, MongodbError, Pace, Step, leave, may_leave, members, remove};

use crate::ground::{Ground, SECRET, act, until};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn who_leaves_is_removed_and_does_not_come_back_with_its_old_data() {
    let mut ground = Ground::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;

    // The primary: another has to take over first.
    let primary = ground.primary().await;
    let options = ground.options(&primary);
    assert_eq!(leave(&options, PATIENCE).await.unwrap(), Departure::Done);
    assert_eq!(leave(&options, PATIENCE).await.unwrap(), Departure::Done);
    ground.stop(&primary).await;
    let others: Vec<&str> = ["a", "b", "c"]
        .into_iter()
        .filter(|name| *name != primary)
        .collect();
    ground
        .until_set_is(&format!("{}+ {}+", others[0], others[1]))
        .await;
    let told = ground.failure_of(options.clone()).await;
    assert!(told.contains("has left the cluster"), "{told}");
    assert!(options.data.join("data/WiredTiger").exists());

    // One that answers is not removed, one that is gone is.
    let (dead, last) = (others[0], others[1]);
    let refused = remove(&ground.access, dead, PATIENCE).await.unwrap_err();
    assert!(matches!(refused, MongodbError::StillThere { .. }), "{refused}");
    let refused = remove(&ground.access, "nobody", PATIENCE).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("no member of the replica set is named nobody; the members are {dead}, {last}")
    );
    // Two members are each other's majority: the set is rid of one that is down only with a third.
    ground.start("d");
    ground.until_set_is(&sorted([dead, last, "d"])).await;
    ground.crash(dead).await;
    assert_eq!(
        remove(&ground.access, dead, PATIENCE).await.unwrap(),
        Departure::Done
    );
    assert_eq!(
        remove(&ground.access, dead, PATIENCE).await.unwrap(),
        Departure::Done
    );
    ground.until_set_is(&sorted([last, "d"])).await;
    // It was away when it was removed, and is told so when it comes back.
    let options = ground.options(dead);
    let told = ground.failure_of(options).await;
    assert!(told.contains("has left the cluster"), "{told}");

    let options = ground.options("d");
    assert_eq!(leave(&options, PATIENCE).await.unwrap(), Departure::Done);
    ground.stop("d").await;
    ground.until_set_is(&sorted([last])).await;
    let options = ground.options(last);
    let refused = leave(&options, PATIENCE).await.unwrap_err();
    assert!(matches!(refused, MongodbError::LastMember { .. }), "{refused}");
    assert_eq!(members(&ground.access).await.unwrap().len(), 1);
    ground.end().await;
}

#[tokio::test]
async fn one_that_is_needed_does_not_leave_and_blocks_nobody() {
    let mut ground = Ground::new(None).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;
    ground.crash("c").await;
    ground.primary().await;

    // Without b, a would be one of two. Nothing is changed.
    let options = ground.options("b");
    for refused in [
        may_leave(&options).await.unwrap_err(),
        leave(&options, PATIENCE).await.unwrap_err(),
    ] {
        let told = refused.to_string();
        assert!(
            told.contains("needs b") && told.contains("Bring back c (unreachable)"),
            "{told}"
        );
    }
    assert_eq!(ground.records_below("left/").await, Vec::<String>::new());
    assert_eq!(members(&ground.access).await.unwrap().len(), 3);

    // As if c had gone down only after b was allowed to leave: mongod refuses to remove it.
    ground.deregister("b").await;
    let refused = leave(&options, Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(refused, MongodbError::StillMember { .. }), "{refused}");
    assert!(!options.data.join("left").exists());
    // Until then it is a member, and comes back as one.
    ground.stop("b").await;
    ground.start("b");
    // To be rid of c is possible, and then the rest is.
    assert_eq!(
        remove(&ground.access, "c", PATIENCE).await.unwrap(),
        Departure::Done
    );
    assert_eq!(leave(&options, PATIENCE).await.unwrap(), Departure::Done);
    assert!(options.data.join("left").exists());
    ground.stop("b").await;
    ground.until_set_is("a+").await;
    ground.end().await;
}

#[tokio::test]
async fn the_only_one_with_a_vote_gives_one_away_before_it_goes() {
    let mut ground = Ground::new(None).await;
    let mut first = ground.walk_until("a", &Step::Tend).await;
    ground.start("b");
    ground.until_registered("b").await;
    // Adds b as soon as its own config is in force, and goes no further. Once b has the data, a may leave.
    until("b is added", async || {
        act(&mut first, &Step::Tend).await == Pace::Now
    })
    .await;
    let options = ground.options("a");
    until("b has the data", async || may_leave(&options).await.is_ok()).await;
    assert_eq!(ground.states().await[1].votes, 0);
    ground.deregister("a").await;
    ground.crash_node("a", first).await;

    // The next life knows that it has left, and that nobody could take over.
    ground.start("a");
    assert_eq!(leave(&options, PATIENCE).await.unwrap(), Departure::Done);
    ground.stop("a").await;
    ground.until_set_is("b+").await;
    ground.end().await;
}

fn sorted<const N: usize>(mut names: [&str; N]) -> String {
    names.sort_unstable();
    names.map(|name| format!("{name}+")).join(" ")
}
