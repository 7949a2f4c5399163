use std::time::Instant;

use cluster_tests::{FormationMethod, SERVICE, TestCluster};
use model::TaskStatus;

use crate::harness::{assert_runs_a_task, short_task};

/// Forms a cluster, and asserts that each judicator lists all of them and serves every call.
async fn assert_forms(method: FormationMethod, judicators: usize) -> TestCluster {
    let begun = Instant::now();
    let mut cluster = TestCluster::new().with_dns();
    cluster.form(method, judicators);
    cluster.add_executor("e1");
    cluster.add_gateway("g1");
    let judicators = cluster.wait_until_complete(judicators).await;
    println!("{method:?}: formed after {:?}", begun.elapsed());
    cluster.wait_for_executors(1).await;
    println!("{method:?}: executing after {:?}", begun.elapsed());
    let task = cluster.run(short_task(&cluster)).await;
    assert_eq!(task.status, TaskStatus::Success, "{task:?}");
    cluster
        .wait_for_judicators("how long every server has been up", |judicators| {
            let mut parts = judicators.0.iter().flat_map(|node| [&node.etcd, &node.mongodb]);
            parts.all(|part| part.as_ref().is_some_and(|part| part.uptime_seconds.is_some()))
        })
        .await;
    let names = judicators.names();
    for name in &names {
        let address = cluster.node(name).address_of(cluster_tests::RPC);
        let gateway = cluster.plain_gateway(&format!("by-{name}"), "127.0.0.1:0", &[&address]);
        let client = api::HttpClient::new(&gateway.address("http"), None).unwrap();
        // A task that was written through one judicator is readable through each.
        assert_eq!(client.get(task.id, None).await.unwrap(), task);
        let mut seen: Vec<_> = client.judicators().await.unwrap();
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        let seen: Vec<_> = seen.iter().map(|judicator| judicator.name.as_str()).collect();
        assert_eq!(seen, names, "as {name} sees it");
    }
    cluster
}

#[tokio::test]
async fn one_bootstraps_and_the_others_join() {
    assert_forms(FormationMethod::Join, 3).await;
}

#[tokio::test]
async fn a_static_list_of_members_starts_at_once() {
    assert_forms(FormationMethod::Members, 3).await;
}

/// A later judicator, gateway and executor discover the cluster by the same name.
#[tokio::test]
async fn three_start_at_once_and_discover_each_other_by_dns() {
    let mut cluster = assert_forms(FormationMethod::Discover(SERVICE), 3).await;
    cluster.add_judicator("j4");
    let names = ["j1", "j2", "j3", "j4"].map(String::from);
    cluster.answer_dns_with(SERVICE, &names);
    let begun = Instant::now();
    cluster.start_judicator("j4", &["--discover", SERVICE].map(String::from));
    let judicators = cluster.wait_until_complete(4).await;
    println!("a fourth has joined after {:?}", begun.elapsed());
    assert_eq!(judicators.names(), names);
    let by_name = ["--discover", SERVICE];
    cluster.add_gateway_by("g2", &by_name);
    cluster.add_executor_by("e2", &by_name);
    cluster.wait_for_executors(2).await;
    assert_runs_a_task(&cluster).await;
}

/// Any three of them form the cluster, and the fourth joins. The name is that of a Docker Swarm service.
#[tokio::test]
async fn four_start_at_once_where_three_are_expected() {
    assert_forms(FormationMethod::Discover("tasks.judicators"), 4).await;
}
