//! Declares every configuration key: its name, type, default and documentation.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use api::ByteSize;
use model::{ExecutorName, UserName};
use sandbox::{NamedNetwork, WaivableLimit};

use super::layers::ConfigLayers;
use super::roots::RootSetting;
use super::value::{
    AutoOr, BindMount, CgroupPath, ConfigValue, DataFolder, FirstUserId, HostAddress, HostPort,
    InitialMember, IsolationMode, LogSetting, MaxLimit, MetricsSetting, NodeName, OpenFileLimit, PortNumber,
    ProgramPath, ReplicaSetName, RootsFolder, SlotCount, ThreadCount,
};

/// The declaration of one configuration key: its name, default, documentation and accepted values.
#[derive(Debug)]
pub(crate) struct ConfigKey {
    /// The name with its section: `executor.self_kill`.
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    pub(crate) doc: &'static str,
    /// Describes the accepted values, for error messages.
    pub(crate) accepts: &'static str,
    /// Parses a value and returns it in canonical form.
    pub(crate) normalize: fn(&str) -> Result<String, String>,
    pub(super) is_path: bool,
    /// Whether a text is the key's keyword, `none` or `auto`, and so not a path.
    pub(super) is_keyword: fn(&str) -> bool,
}

/// Declares the sections as structs, `Config` over them, and the table `KEYS`.
macro_rules! keys {
    ($(
        $field:ident: $section:ident = $prefix:literal {
            $( #[doc = $doc:literal] $key:ident: $kind:ty = $default:literal, )*
        }
    )*) => {
        /// The complete configuration of a node as typed values, after all layers are merged.
        #[derive(Clone, Debug)]
        pub(crate) struct Config {
            $( pub(crate) $field: $section, )*
            /// The roots that the operator manages.
            pub(crate) roots: Vec<RootSetting>,
        }

        $(
            #[doc = concat!("The section `", $prefix, "` of a node's configuration, as typed values.")]
            #[derive(Clone, Debug)]
            pub(crate) struct $section {
                $( #[doc = $doc] pub(crate) $key: $kind, )*
            }
        )*

        pub(crate) const KEYS: &[ConfigKey] = &[
            $( $( ConfigKey {
                name: concat!($prefix, ".", stringify!($key)),
                default: $default,
                doc: $doc.trim_ascii(),
                accepts: <$kind as ConfigValue>::ACCEPTS,
                normalize: |text| <$kind as ConfigValue>::parse(text).map(|value| value.to_text()),
                is_path: <$kind as ConfigValue>::IS_PATH,
                is_keyword: |text| <$kind as ConfigValue>::KEYWORD == Some(text),
            }, )* )*
        ];

        impl Config {
            pub(super) fn build(layers: &ConfigLayers) -> Result<Config> {
                Ok(Config {
                    $( $field: $section {
                        $( $key: layers.read(concat!($prefix, ".", stringify!($key)))?, )*
                    }, )*
                    roots: layers.roots().cloned().collect(),
                })
            }
        }
    };
}

keys! {
    node: NodeSection = "node" {
        /// Folder for all data of the node; `auto` is `/var/lib/conclave` for root, else `conclave` in `$XDG_DATA_HOME` or `~/.local/share`.
        data: DataFolder = "auto",
        /// Name of the node, unique in its cluster; `auto` is the host name.
        name: NodeName = "auto",
        /// In a cluster: address at which the other nodes reach this one. With `etcd.discover` the default is the machine's only address.
        address: HostAddress = "127.0.0.1",
        /// Log level, or levels of single crates like `info,judicator=debug`; with `json` in the list each line is a JSON object. The log goes to stderr.
        log: LogSetting = "info",
        /// Allows listening on addresses that other machines can reach without a secret or tokens.
        insecure: bool = "false",
    }
    boot: BootSection = "boot" {
        /// How long a service may take to stop before it is killed.
        stop_grace: Duration = "15s",
        /// The longest delay before a service that keeps failing is restarted.
        restart_most: Duration = "10s",
        /// Size at which a service's log file is rotated.
        log_size: ByteSize = "16MiB",
        /// How many rotated log files are kept for each service.
        log_keep: NonZeroU32 = "4",
    }
    etcd: EtcdSection = "etcd" {
        /// The etcd program, version 3.4 or newer.
        program: ProgramPath = "etcd",
        /// etcd's port for clients; on executors and gateways the port of the etcd proxy, on loopback.
        client_port: PortNumber = "2379",
        /// etcd's port for its other members.
        peer_port: PortNumber = "2380",
        /// This node starts a new cluster as its first node. Set only one of `first`, `members`, `join` and `discover`.
        first: bool = "false",
        /// This node forms a new cluster with these nodes, each as NAME=HOST:PORT of its etcd's peer port.
        members: Option<Vec<InitialMember>> = "none",
        /// This node joins a cluster through any of these etcd members, each as HOST:PORT of its client port.
        join: Option<Vec<HostPort>> = "none",
        /// This node finds the other nodes by this DNS name (and by `tasks.` followed by the name).
        discover: Option<HostAddress> = "none",
        /// With `discover`: this many nodes form a new cluster together, later nodes join; with `none` this node only joins.
        expect: Option<NonZeroU32> = "none",
        /// How many seconds etcd may take to become ready before it is killed and restarted.
        tries: NonZeroU32 = "60",
        /// Largest size of etcd's database (`--quota-backend-bytes`).
        quota: ByteSize = "2GiB",
        /// Duration of the etcd leases of judicators: for how long a judicator that no longer answers stays registered and leader.
        lease: Duration = "5s",
    }
    mongodb: MongodbSection = "mongodb" {
        /// The mongod program, version 6.0 or newer.
        program: ProgramPath = "mongod",
        /// mongod's port.
        port: PortNumber = "27017",
        /// Name of the replica set.
        set: ReplicaSetName = "conclave",
        /// How many seconds mongod may take to become ready before it is killed and restarted.
        tries: NonZeroU32 = "60",
        /// Size of mongod's cache; with `none` mongod decides, which takes half of the machine's memory.
        cache: Option<ByteSize> = "none",
    }
    judicator: JudicatorSection = "judicator" {
        /// Address for the RPC of executors and gateways; `conclave up` listens on it only if it is set.
        listen: HostPort = "127.0.0.1:7010",
        /// Name of the judicator in lists; `auto` is the host name.
        name: NodeName = "auto",
        /// How long an executor may send no report before its tasks are given to others.
        lease: Duration = "10s",
        /// How much longer than the lease the judicator waits before it ends an executor's session.
        grace: Duration = "1s",
        /// How many attempts of a task may be lost with their executors before the task ends as `system_error`, if the task does not say.
        attempts: NonZeroU32 = "3",
        /// Largest number of attempts that a task may request.
        max_attempts: NonZeroU32 = "100",
        /// How long a finished task is kept; `none` is for ever.
        keep_done: Option<Duration> = "7d",
        /// How long a blob that no task uses is kept.
        keep_blobs: Duration = "1d",
        /// Shortest duration of one scan of all blobs for damage; the next scan follows at once.
        scan_blobs: Duration = "1d",
        /// File with languages that extend or override the built-in language table; `none` is the built-in table.
        languages: Option<PathBuf> = "none",
        /// How long an executor that is gone stays in lists.
        forget_executors: Duration = "1d",
        /// Size of the largest blob.
        max_blob: ByteSize = "1GiB",
        /// Largest number of files of one task, source and data together.
        max_files: NonZeroU32 = "1000",
        /// Largest size of a task's inline files, input, arguments and environment together; larger files must be blobs.
        max_inline: ByteSize = "8MiB",
        /// Largest size of a command, or of one of its environment variables.
        max_command: ByteSize = "64KiB",
        /// Largest number of arguments of a command.
        max_args: NonZeroU32 = "1000",
        /// Largest number of environment variables of a command.
        max_env: NonZeroU32 = "1000",
    }
    executor: ExecutorSection = "executor" {
        /// Name of the executor; `auto` is the host name with an id that is kept in the data folder.
        name: Option<ExecutorName> = "auto",
        /// Number of tasks that run at the same time; `auto` is one per core; with 0 `conclave up` starts no executor.
        slots: SlotCount = "auto",
        /// Addresses of judicators, for an executor outside of a cluster.
        judicators: Vec<HostPort> = "127.0.0.1:7010",
        /// How often the executor reports to a judicator when nothing has changed.
        heartbeat: Duration = "2s",
        /// How long the executor may fail to report before it stops its own tasks; less than the judicator's lease.
        self_kill: Duration = "7s",
        /// How long a blob download may make no progress, or a slot may exceed the time limits of its task, before the attempt is lost.
        stall: Duration = "30s",
        /// How long running tasks may continue when the executor stops; then they are returned to the judicator.
        stop_grace: Duration = "5s",
        /// Size of the blob cache.
        cache: ByteSize = "4GiB",
        /// Number of bytes of stdout and of stderr that are kept for each step.
        keep_output: ByteSize = "16MiB",
        /// Largest number of files that are kept for each task.
        keep_files: NonZeroU32 = "1000",
        /// Largest size of all files together that are kept for each task.
        keep_bytes: ByteSize = "256MiB",
        /// Disk space for output and kept files that wait for their upload to a judicator. Without room for those of another task, the executor takes none.
        outgoing: ByteSize = "4GiB",
        /// Memory that must stay free on the machine. When less is free, the executor accepts no tasks, and returns or ends its newest ones. `auto` is a twentieth of the machine's memory, between 256MiB and 2GiB, but at most an eighth.
        reserve: AutoOr<ByteSize> = "auto",
        /// Memory and space together that one task may request; `auto` is an equal share per slot of the memory beyond the reserve, or the default of a task if that is more.
        slot_memory: AutoOr<ByteSize> = "auto",
        /// How tasks are isolated: `cell` runs each step in a cell; `none` is for trusted work.
        isolation: IsolationMode = "cell",
        /// Whether each slot runs its tasks on a CPU of its own, so that times of programs that are judged can be compared.
        pin: bool = "false",
        /// Whether tasks with cases are judged without cells, too. A program without a cell can look for the answers and for other cases.
        judge_without_cells: bool = "false",
    }
    sandbox: SandboxSection = "sandbox" {
        /// Folder with the root file system of the cells; `none` shares this machine's programs and libraries.
        root: Option<PathBuf> = "none",
        /// Folder of the roots that `conclave root` makes; `auto` is `roots` in the data folder.
        roots: RootsFolder = "auto",
        /// More files and folders of this machine that are mounted into cells read-only, as PATH or PATH:PATH-IN-THE-CELL.
        binds: Option<Vec<BindMount>> = "none",
        /// First of the user and group ids that tasks run as, eight per slot and one more. Without root it must be one of the user's subordinate ids.
        first_user: FirstUserId = "1900000000",
        /// Parent control group of the tasks' control groups; `none` is the executor's own.
        cgroup: Option<CgroupPath> = "none",
        /// Memory limit of a step that requests none, for all its processes together; `none` is unlimited.
        memory: Option<ByteSize> = "1GiB",
        /// Limit on processes and threads of a step that requests none; `none` is unlimited.
        processes: Option<NonZeroU32> = "512",
        /// Limit on open files per process of a step that requests none, and the maximum that a step may request if `limits.max.open_files` is not set; `auto` is 1024, or fewer if the processes of all slots together could open more than a quarter of the files that the machine allows.
        open_files: OpenFileLimit = "auto",
        /// Limit on the size of all files of a task together, if it requests none. The files are kept in memory.
        space: ByteSize = "256MiB",
        /// Largest number of files and folders of a task in its cell.
        files: NonZeroU32 = "65536",
        /// Networks that tasks may request, each a network namespace of this machine, as NAME=FILE.
        networks: Option<Vec<NamedNetwork>> = "none",
        /// Limits that need not be enforced for all processes of a task together: memory, processes, cpu.
        allow_weaker: Option<Vec<WaivableLimit>> = "none",
    }
    gateway: GatewaySection = "gateway" {
        /// Address of the HTTP API and the web pages.
        listen: HostPort = "127.0.0.1:7000",
        /// Number of threads that serve requests; `auto` is one per core.
        threads: ThreadCount = "auto",
        /// Addresses of judicators, for a gateway outside of a cluster.
        judicators: Vec<HostPort> = "127.0.0.1:7010",
        /// Largest size of a request body, except for blobs.
        max_body: ByteSize = "64MiB",
        /// Largest number of tasks in one request.
        max_batch: NonZeroU32 = "10000",
        /// Longest time that a request waits for a task; a longer `wait` is shortened to it.
        max_wait: Duration = "60s",
        /// Largest number of connections; fewer if the hard limit on open files does not allow as many.
        max_connections: NonZeroU32 = "10000",
        /// Largest number of requests that wait for a task, event streams included.
        max_waiting: NonZeroU32 = "8192",
        /// Largest number of uploads at the same time: blobs, and requests whose body of more than 16 KiB has not yet arrived.
        max_uploads: NonZeroU32 = "512",
        /// Largest number of text searches at the same time; they also count as requests.
        max_text_searches: NonZeroU32 = "32",
        /// Largest number of all other requests at the same time.
        max_requests: NonZeroU32 = "512",
        /// Share, in percent, of the connections, uploads, text searches, requests, waits, bytes and unpackers that one caller may use: a token's user or, without tokens, an IP address.
        share: NonZeroU32 = "50",
        /// Largest number of bytes of requests, unpacked zips and responses in memory.
        max_bytes: ByteSize = "256MiB",
        /// Lowest rate, in bytes per second, at which a client must send a body or read a response.
        min_rate: ByteSize = "1KiB",
        /// How long a body may arrive more slowly than `gateway.min_rate` before the request is refused.
        body_stall: Duration = "10s",
        /// How long a client may read a response more slowly than `gateway.min_rate` before its connection is closed.
        answer_stall: Duration = "30s",
        /// Largest number of zips that are unpacked at the same time, each on its own thread.
        unpackers: NonZeroU32 = "2",
        /// Largest unpacked size of all zips of one request together.
        max_unpacked: ByteSize = "256MiB",
        /// Files and inputs larger than this are stored as blobs instead of inside the task.
        inline: ByteSize = "32KiB",
        /// Access to `/metrics`: `open` for everyone, `token` for everyone with a token, `off` for no one; `auto` is `token` if there are tokens, else `open`.
        metrics: MetricsSetting = "auto",
        /// How long a sign-in with a browser is valid, if there are tokens.
        sign_in_time: Duration = "12h",
        /// Users, separated by commas, whose tokens may drain and resume executors, and see and change the tasks of all users. Without tokens everyone may.
        operators: Option<Vec<UserName>> = "none",
    }
    limits_default: LimitsDefaultSection = "limits.default" {
        /// Wall-clock time limit of a step that requests none.
        wall: Option<Duration> = "60s",
        /// CPU time of all processes of the step together.
        cpu: Option<Duration> = "none",
        /// Memory of all processes of the step together; `none` is the maximum or, without one and with cells, `sandbox.memory`.
        memory: Option<ByteSize> = "none",
        /// Size of stdout and of stderr.
        output: Option<ByteSize> = "none",
        /// Number of processes and threads at the same time; `none` is the maximum or, without one and with cells, `sandbox.processes`.
        processes: Option<NonZeroU32> = "none",
        /// Size of each file that the step writes.
        file_size: Option<ByteSize> = "none",
        /// Number of open files of each process; `none` is the maximum or, without one and with cells, `sandbox.open_files`.
        open_files: Option<NonZeroU32> = "none",
        /// Stack size of each process; `none` is that of the executor.
        stack: Option<ByteSize> = "none",
        /// Size of all files of the task together, if it runs in a cell; `none` is the maximum or, without one, `sandbox.space`.
        space: Option<ByteSize> = "none",
    }
    limits_max: LimitsMaxSection = "limits.max" {
        /// Largest wall-clock time limit that a step may request.
        wall: Option<Duration> = "1d",
        /// Largest CPU time limit.
        cpu: Option<Duration> = "none",
        /// Largest memory limit; `auto` is what an executor can give to a task (`executor.slot_memory`), its space included.
        memory: MaxLimit<ByteSize> = "auto",
        /// Largest output limit.
        output: Option<ByteSize> = "16MiB",
        /// Largest number of processes and threads; `auto` is a slot's share of half of what the executor's kernel and control groups allow, or fewer if they could not open 16 files each.
        processes: MaxLimit<NonZeroU32> = "auto",
        /// Largest limit on the size of a file.
        file_size: Option<ByteSize> = "none",
        /// Largest number of open files of each process; `auto` is, with cells, `sandbox.open_files`.
        open_files: MaxLimit<NonZeroU32> = "auto",
        /// Largest stack size.
        stack: Option<ByteSize> = "none",
        /// Largest size of all files of the task together; `auto` is what an executor can give to a task (`executor.slot_memory`), its memory included.
        space: MaxLimit<ByteSize> = "auto",
    }
    secrets: SecretsSection = "secrets" {
        /// File with the shared secret by which nodes authenticate to each other.
        cluster_file: Option<PathBuf> = "none",
        /// File with the certificate of the CA that signs etcd's certificates.
        etcd_ca_file: Option<PathBuf> = "none",
        /// File with this node's certificate, for etcd's server and clients.
        etcd_cert_file: Option<PathBuf> = "none",
        /// File with the private key of that certificate.
        etcd_key_file: Option<PathBuf> = "none",
        /// File of the tokens that the HTTP API accepts: a token and its user on each line.
        tokens_file: Option<PathBuf> = "none",
    }
}

impl Config {
    /// The folder of the roots that `conclave root` makes.
    pub(crate) fn roots_folder(&self) -> PathBuf {
        match &self.sandbox.roots.0 {
            Some(folder) => folder.clone(),
            None => self.node.data.0.join("roots"),
        }
    }
}

impl ConfigKey {
    /// `CONCLAVE_EXECUTOR_SELF_KILL` for `executor.self_kill`.
    pub(crate) fn variable(&self) -> String {
        format!("CONCLAVE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// The name without its section.
    pub(super) fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Whether `name` is this key's section or a parent of it.
    pub(super) fn is_in_section(&self, name: &str) -> bool {
        self.name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid() {
        for key in KEYS {
            assert!((key.normalize)(key.default).is_ok(), "{}", key.name);
            assert!(!key.doc.is_empty() && !key.accepts.is_empty(), "{}", key.name);
        }
    }

    #[test]
    fn the_documentation_lists_every_key_with_its_default() {
        let page = include_str!("../../../../docs/configuration.md");
        for key in KEYS {
            let row = format!("| `{}` | `{}` | {} |", key.name, key.default, key.doc);
            assert!(
                page.contains(&row),
                "docs/configuration.md lacks this line:\n{row}"
            );
        }
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(
            rows,
            KEYS.len(),
            "docs/configuration.md lists a key that does not exist"
        );
    }
}
