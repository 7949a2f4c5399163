//! Reports to boot what a daemon is waiting for, without repeating itself.

use boot::{BootConnection, ServiceMessage};

/// Reports the status of the etcd or mongod daemon to boot: what it is waiting for, and when it is ready. Each change
/// is sent once.
pub(crate) struct StatusReporter {
    boot: BootConnection,
    last: LastReport,
}

impl StatusReporter {
    pub(crate) fn new(boot: &BootConnection) -> StatusReporter {
        StatusReporter {
            boot: boot.clone(),
            last: LastReport::default(),
        }
    }

    /// What the daemon is waiting for, or what is wrong. Logged and sent if it differs from the last report.
    pub(crate) fn activity(&mut self, activity: &str) {
        if let Some(message) = self.last.activity(activity) {
            tracing::info!("{activity}");
            self.boot.send(&message);
        }
    }

    /// The daemon serves, and nothing is wrong.
    pub(crate) fn ready(&mut self) {
        if let Some(message) = self.last.ready() {
            self.boot.send(&message);
        }
    }

    /// Whether the daemon has ever been ready.
    pub(crate) fn has_been_ready(&self) -> bool {
        self.last.has_been_ready
    }

    pub(crate) fn server_pid(&self, pid: u32) {
        self.boot.send(&ServiceMessage::ServerPid(pid));
    }
}

/// The last status that the etcd or mongod daemon sent to boot, which decides whether the next message is new.
#[derive(Debug, Default)]
struct LastReport {
    has_been_ready: bool,
    /// Empty if the last report was that the daemon is ready.
    activity: String,
}

impl LastReport {
    fn activity(&mut self, activity: &str) -> Option<ServiceMessage> {
        if self.activity == activity {
            return None;
        }
        self.activity = activity.to_string();
        Some(ServiceMessage::Activity(activity.to_string()))
    }

    /// After an activity, `Ready` is sent again: that is how boot learns that the trouble is over.
    fn ready(&mut self) -> Option<ServiceMessage> {
        if self.has_been_ready && self.activity.is_empty() {
            return None;
        }
        self.has_been_ready = true;
        self.activity.clear();
        Some(ServiceMessage::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_status_is_reported_once() {
        let activity = |text: &str| Some(ServiceMessage::Activity(text.into()));
        let mut last = LastReport::default();
        assert_eq!(last.activity("starting"), activity("starting"));
        assert_eq!(last.activity("starting"), None);
        assert!(!last.has_been_ready);
        assert_eq!(last.ready(), Some(ServiceMessage::Ready));
        assert_eq!(last.ready(), None);
        assert_eq!(last.activity("no primary"), activity("no primary"));
        assert!(last.has_been_ready);
        assert_eq!(last.ready(), Some(ServiceMessage::Ready));
        assert_eq!(last.ready(), None);
        assert_eq!(last.activity("no primary"), activity("no primary"));
    }

    #[test]
    fn ready_is_reported_without_an_earlier_activity() {
        assert_eq!(LastReport::default().ready(), Some(ServiceMessage::Ready));
    }
}
