//! Cells that are pinned to processors, so that what runs beside a case disturbs its time less.

use std::collections::BTreeSet;

use cluster_tests::TestSystem;
use serde_json::json;

use crate::harness::{JudgingNode, text};

/// Prints the processors on which it may run.
const PROCESSORS: &str = "import os\nprint(*sorted(os.sched_getaffinity(0)))";

/// The processors of every case of several tasks.
async fn processors_of_cases(flags: &[&str]) -> BTreeSet<String> {
    let node = JudgingNode::start_with(TestSystem::new().expect("a folder"), flags);
    let task = json!({
        "language": "python", "source_code": PROCESSORS,
        "cases": [{"name": "1"}, {"name": "2"}, {"name": "3"}, {"name": "4"}],
    });
    let mut seen = BTreeSet::new();
    // Enough tasks at once for both slots.
    for task in futures::future::join_all([(); 4].map(|()| node.judge(&task))).await {
        task.assert_status("success", "accepted");
        seen.extend(
            task.cases()
                .iter()
                .map(|case| text(&case["execute"]["stdout"]).trim().to_string()),
        );
    }
    seen
}

#[tokio::test]
async fn slots_are_pinned_to_processors_if_that_is_asked_for() {
    let all: Vec<_> = (0..nix::sched::CpuSet::count())
        .filter(|number| {
            let own = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("an affinity");
            own.is_set(*number).unwrap_or(false)
        })
        .map(|number| number.to_string())
        .collect();
    assert_eq!(processors_of_cases(&[]).await, BTreeSet::from([all.join(" ")]));
    let pinned = processors_of_cases(&["--pin"]).await;
    let allowed: BTreeSet<_> = all.iter().take(2).cloned().collect();
    assert!(pinned.is_subset(&allowed), "{pinned:?} of {allowed:?}");
    assert!(!pinned.is_empty());
}
