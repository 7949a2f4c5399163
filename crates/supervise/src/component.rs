//! Every long-lived task and thread of every process, and what happens when it panics or ends by itself.

use std::fmt;

/// What to do about a component that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The process is no longer ready, ends with an error that names the component, and boot or systemd starts it
    /// again. For what tasks depend on: after a panic nothing is known of the component's state.
    EndProcess,
    /// The component is started again after a pause that grows; the log and a metric tell it. For what tasks do not
    /// depend on: a panic that comes again and again must not end the whole process each time.
    Restart,
}

macro_rules! components {
    ($($variant:ident, $name:literal, $on_failure:ident;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Component { $($variant,)* }

        impl Component {
            pub const ALL: &[Component] = &[$(Component::$variant,)*];

            /// As it stands in the log.
            pub const fn name(self) -> &'static str {
                match self { $(Component::$variant => $name,)* }
            }

            pub const fn on_failure(self) -> OnFailure {
                match self { $(Component::$variant => OnFailure::$on_failure,)* }
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
    // In `store`. The reader of MongoDB's change stream is not here: its follower opens another one.
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
    // In `executor`. Its report loop is the executor itself.
    Slot,             "a slot of the executor",           EndProcess;
    Spool,            "the executor's spool writer",      EndProcess;
    MemoryReserve,    "the executor's memory reserve",    EndProcess;
    HintWatch,        "the executor's watch for hints",   Restart;
    // In `registry`.
    LeadershipTimer,  "the timer that ends leadership",   EndProcess;
    // In `daemons`. Not here: the follower of the records in etcd, without which the daemon looks every few seconds;
    // the renewal of the claim to initiate, without which the claim ends; the server of the founding proposal, which
    // its owner starts again.
    MongodMonitor,    "the monitor of mongod",            EndProcess;
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
