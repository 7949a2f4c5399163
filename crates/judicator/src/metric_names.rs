//! The names and descriptions of the judicator's metrics. The process installs the recorder.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(crate) const ADDS: &str = "conclave_adds_total";
pub(crate) const CLAIMS: &str = "conclave_claims_total";
pub(crate) const FINISHES: &str = "conclave_finishes_total";
pub(crate) const RETIRED: &str = "conclave_tasks_retired_total";
pub(crate) const DAMAGED: &str = "conclave_blobs_damaged";
pub(crate) const ORPHANED: &str = "conclave_blobs_orphaned_total";
pub(crate) const EXPIRED: &str = "conclave_sessions_expired_total";
pub(crate) const UPLOADS_REPEATED: &str = "conclave_uploads_repeated_total";
pub(crate) const QUEUE_SECONDS: &str = "conclave_task_queue_seconds";
pub(crate) const RUN_SECONDS: &str = "conclave_task_run_seconds";
pub(crate) const REPORT_SECONDS: &str = "conclave_report_seconds";

pub(crate) fn describe() {
    describe_counter!(ADDS, "Tasks added");
    describe_counter!(CLAIMS, "Tasks handed to executors; each attempt counts");
    describe_counter!(FINISHES, "Tasks that are done, by final status");
    describe_counter!(RETIRED, "Tasks removed by retention");
    describe_counter!(supervise::RESTARTS, "Components that failed and were restarted");
    describe_gauge!(DAMAGED, "Damaged blobs that were not put again");
    describe_counter!(ORPHANED, "Files removed because no blob refers to them");
    describe_counter!(
        "conclave_store_unreadable_rows_total",
        "Rows of the store that cannot be read and are skipped"
    );
    describe_counter!(EXPIRED, "Sessions expired because their executor was silent");
    describe_counter!(
        UPLOADS_REPEATED,
        "Results that executors must upload again because the store lacks blobs of them"
    );
    describe_histogram!(
        QUEUE_SECONDS,
        Unit::Seconds,
        "Time from adding a task to handing it out"
    );
    describe_histogram!(
        RUN_SECONDS,
        Unit::Seconds,
        "Time from handing a task out to its result"
    );
    describe_histogram!(
        REPORT_SECONDS,
        Unit::Seconds,
        "Time to answer an executor's report"
    );
}
