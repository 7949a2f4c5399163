use std::time::Instant;

use cluster_tests::{Cluster, Forming, SERVICE};
use model::Status;

use crate::stage::{quick, runs_a_task};

/// So many judicators become one cluster, each of them knows all of it, and each can be asked for everything.
async fn forms(forming: Forming, judicators: usize) -> Cluster {
    let begun = Instant::now();
    let mut cluster = Cluster::new().with_names();
    cluster.form(forming, judicators);
    cluster.add_executor("e1");
    cluster.add_gateway("g1");
    let roster = cluster.whole(judicators).await;
    println!("{forming:?}: formed after {:?}", begun.elapsed());
    cluster.working(1).await;
    println!("{forming:?}: at work after {:?}", begun.elapsed());
    let task = cluster.run(quick(&cluster)).await;
    assert_eq!(task.status, Status::Success, "{task:?}");
    cluster
        .roster_with("how long every server has been up", |roster| {
            let mut parts = roster.0.iter().flat_map(|node| [&node.etcd, &node.mongodb]);
            parts.all(|part| part.as_ref().is_some_and(|part| part.uptime_seconds.is_some()))
        })
        .await;
    let names = roster.names();
    for name in &names {
        let address = cluster.machine(name).at(cluster_tests::RPC);
        let gateway = cluster.plain_gateway(&format!("by-{name}"), "127.0.0.1:0", &[&address]);
        let client = api::Client::new(&gateway.address("http"), None).unwrap();
        // Written through one, read through every one.
        assert_eq!(client.get(task.id, None).await.unwrap(), task);
        let mut seen: Vec<_> = client.judicators().await.unwrap();
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        let seen: Vec<_> = seen.iter().map(|judicator| judicator.name.as_str()).collect();
        assert_eq!(seen, names, "as {name} sees it");
    }
    cluster
}

#[tokio::test]
async fn one_begins_and_the_others_join() {
    forms(Forming::Join, 3).await;
}

#[tokio::test]
async fn a_fixed_list_begins_at_the_same_moment() {
    forms(Forming::Members, 3).await;
}

/// And whoever comes later finds them by the same name.
#[tokio::test]
async fn three_begin_at_the_same_moment_and_find_each_other_by_name() {
    let mut cluster = forms(Forming::Discover(SERVICE), 3).await;
    cluster.add_judicator("j4");
    let names = ["j1", "j2", "j3", "j4"].map(String::from);
    cluster.discoverable(SERVICE, &names);
    let begun = Instant::now();
    cluster.start_judicator("j4", &["--discover", SERVICE].map(String::from));
    let roster = cluster.whole(4).await;
    println!("a fourth has joined after {:?}", begun.elapsed());
    assert_eq!(roster.names(), names);
    let by_name = ["--discover", SERVICE];
    cluster.add_gateway_by("g2", &by_name);
    cluster.add_executor_by("e2", &by_name);
    cluster.working(2).await;
    runs_a_task(&cluster).await;
}

/// Three of them are the first, whichever these are. The name is that of a service in Docker Swarm.
#[tokio::test]
async fn four_begin_at_the_same_moment_where_three_are_expected() {
    forms(Forming::Discover("tasks.judicators"), 4).await;
}
