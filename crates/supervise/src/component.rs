//! The table of all long-lived tasks and threads, and what happens when one panics or returns.

use std::fmt;

/// What happens when a component (a long-lived task or thread) fails: the process ends, or the component restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The process is no longer ready and exits with an error that names the component; boot or systemd starts it again.
    /// For components that tasks depend on: after a panic the state of the component is unknown.
    EndProcess,
    /// The component is started again after a pause that grows, with a log line and a metric. For components that tasks
    /// do not depend on: a panic that repeats must not end the process each time.
    Restart,
}

macro_rules! components {
    ($($variant:ident, $name:literal, $on_failure:ident;)*) => {
        /// A long-lived task or thread of a Conclave process, such as the RPC server, whose failure is detected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Component { $($variant,)* }

        impl Component {
            pub const ALL: &[Component] = &[$(Component::$variant,)*];

            /// The name in log lines and error messages.
            pub const fn name(self) -> &'static str {
                match self { $(Component::$variant => $name,)* }
            }

            pub const fn on_failure(self) -> FailurePolicy {
                match self { $(Component::$variant => FailurePolicy::$on_failure,)* }
            }
        }
    };
}

components! {
    // The parts of a node, in `conclave`.
    Gateway,          "the gateway",                      EndProcess;
    Executor,         "the executor",                     EndProcess;
    RpcServer,        "the RPC server",                   EndProcess;
    Judicator,        "the judicator",                    EndProcess;
    Registration,     "the registration",                 EndProcess;
    JudicatorList,    "the list of judicators",           EndProcess;
    Reload,           "the reader of changed settings",   EndProcess;
    MetricsUpkeep,    "the metrics' upkeep",              Restart;
    // In `store`. The reader of MongoDB's change stream is not in the table: the change follower opens a new stream.
    StoreWriter,      "the store's writer",               EndProcess;
    StoreAdder,       "the store's adder",                EndProcess;
    StoreCleaner,     "the store's cleaner of files",     EndProcess;
    StoreChanges,     "the store's change follower",      EndProcess;
    // In `judicator`.
    Dispatch,         "the judicator's dispatch",         EndProcess;
    Expiry,           "the judicator's session expiry",   EndProcess;
    SystemErrorLog,   "the judicator's log of failures",  EndProcess;
    Retention,        "the judicator's retention",        Restart;
    BlobScan,         "the judicator's scan of blobs",    Restart;
    History,          "the judicator's history",          Restart;
    // In `executor`. Its report loop is the executor itself.
    Slot,             "a slot of the executor",           EndProcess;
    Spool,            "the executor's spool writer",      EndProcess;
    MemoryReserve,    "the executor's memory reserve",    EndProcess;
    Uploader,         "the executor's uploader",          EndProcess;
    HintWatch,        "the executor's watch for hints",   Restart;
    ToolFinder,       "the executor's search for tools",  Restart;
    OutputServer,     "the executor's server of output",  Restart;
    // In `registry`.
    LeadershipTimer,  "the timer that ends leadership",   EndProcess;
    // In `daemons`. Not in the table, because their failure is handled in place: the follower of the records in etcd
    // (without it the daemon polls every few seconds), the renewal of the claim to initiate (without it the claim
    // expires), and the server of the founding proposal (its owner starts it again).
    MongodMonitor,    "the monitor of mongod",            EndProcess;
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
