//! Every key, once: its name, type, default and what it is for.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use api::Size;
use model::ExecutorName;
use sandbox::{Network, Wall};

use super::layers::Layers;
use super::value::{
    Address, Auto, Bind, DataFolder, Founder, GroupPath, Host, Isolation, Log, Metrics, Most, NodeName,
    OpenFiles, Port, Program, SetName, Slots, Threads, UserNumber, Value,
};

#[derive(Debug)]
pub(crate) struct Key {
    /// With its section: `executor.self_kill`.
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    pub(crate) doc: &'static str,
    /// What the value may be, for people.
    pub(crate) accepts: &'static str,
    /// The value as the node understood it.
    pub(crate) show: fn(&str) -> Result<String, String>,
    pub(super) path: bool,
    /// Whether the text is one of the words, like `none`, that stand for something else than a path.
    pub(super) words: fn(&str) -> bool,
}

/// Declares the sections as structs, `Config` over them, and the table `KEYS`.
macro_rules! keys {
    ($(
        $field:ident: $section:ident = $prefix:literal {
            $( #[doc = $doc:literal] $key:ident: $kind:ty = $default:literal, )*
        }
    )*) => {
        /// What a node was told, in full.
        #[derive(Clone, Debug)]
        pub(crate) struct Config {
            $( pub(crate) $field: $section, )*
        }

        $(
            #[derive(Clone, Debug)]
            pub(crate) struct $section {
                $( #[doc = $doc] pub(crate) $key: $kind, )*
            }
        )*

        pub(crate) const KEYS: &[Key] = &[
            $( $( Key {
                name: concat!($prefix, ".", stringify!($key)),
                default: $default,
                doc: $doc.trim_ascii(),
                accepts: <$kind as Value>::ACCEPTS,
                show: |text| <$kind as Value>::parse(text).map(|value| value.show()),
                path: <$kind as Value>::PATH,
                words: |text| <$kind as Value>::WORD == Some(text),
            }, )* )*
        ];

        impl Config {
            pub(super) fn build(layers: &Layers) -> Result<Config> {
                Ok(Config {
                    $( $field: $section {
                        $( $key: layers.read(concat!($prefix, ".", stringify!($key)))?, )*
                    }, )*
                })
            }
        }
    };
}

keys! {
    node: Node = "node" {
        /// Folder for all that the node keeps: `/var/lib/conclave` for root, else `conclave` in `$XDG_DATA_HOME` or `~/.local/share`.
        data: DataFolder = "auto",
        /// In a cluster: what the node is called, unlike any other; `auto` is the host name.
        name: NodeName = "auto",
        /// In a cluster: where the other nodes reach this one; with `etcd.discover` the machine's only address, unless set.
        address: Host = "127.0.0.1",
        /// What is logged, to stderr: a level, or levels for parts like `info,judicator=debug`; with `json` in the list each line is a JSON object.
        log: Log = "info",
        /// Allows addresses that other machines reach without a secret or tokens.
        insecure: bool = "false",
    }
    boot: Boot = "boot" {
        /// How long a service may take to stop before it is killed.
        stop_grace: Duration = "15s",
        /// The longest pause before a service that keeps dying is started again.
        restart_most: Duration = "10s",
        /// Size at which a service's log is put aside and a new one begun.
        log_size: Size = "16MiB",
        /// How many logs that were put aside are kept for each service.
        log_keep: NonZeroU32 = "4",
    }
    etcd: Etcd = "etcd" {
        /// The etcd server, 3.4 or newer.
        program: Program = "etcd",
        /// Port for etcd's clients; on executors and gateways the port of the proxy, on loopback.
        client_port: Port = "2379",
        /// Port for etcd's other members.
        peer_port: Port = "2380",
        /// How this node comes to its etcd: it is the first of a new cluster.
        first: bool = "false",
        /// Or: it is one of these first members, named by node and peer address.
        members: Option<Vec<Founder>> = "none",
        /// Or: it joins through any of these members, named by client address.
        join: Option<Vec<Address>> = "none",
        /// Or: it finds the others behind this DNS name (and behind `tasks.` and the name).
        discover: Option<Host> = "none",
        /// With `discover`: so many found the cluster together, the others join; `none` joins only.
        expect: Option<NonZeroU32> = "none",
        /// How many seconds etcd may take until it serves before it is killed and started again.
        tries: NonZeroU32 = "60",
        /// Size that etcd's data may reach.
        quota: Size = "2GiB",
        /// How long a judicator that has gone silent stays registered, and leads.
        lease: Duration = "5s",
    }
    mongodb: Mongodb = "mongodb" {
        /// The MongoDB server, 6.0 or newer.
        program: Program = "mongod",
        /// Its port.
        port: Port = "27017",
        /// Name of the replica set.
        set: SetName = "conclave",
        /// How many seconds mongod may take until it serves before it is killed and started again.
        tries: NonZeroU32 = "60",
        /// Memory for mongod's cache; `none` leaves it to mongod, which takes half of the machine's.
        cache: Option<Size> = "none",
    }
    judicator: Judicator = "judicator" {
        /// Address for the calls of executors and gateways; `conclave up` opens it only if it is set.
        listen: Address = "127.0.0.1:7010",
        /// What it is called on lists; `auto` is the host name.
        name: NodeName = "auto",
        /// How long an executor may be silent before its tasks are given to others.
        lease: Duration = "10s",
        /// How much longer than the lease the judicator waits before it believes a silence.
        grace: Duration = "1s",
        /// How often a task may be lost with its executor before it ends as `system_error`.
        attempts: NonZeroU32 = "3",
        /// How long a done task is kept; `none` is for ever.
        keep_done: Option<Duration> = "7d",
        /// How long a blob that no task uses is kept.
        keep_blobs: Duration = "1d",
        /// How long one scan of all blobs for damage takes, at least; then it begins again.
        scan_blobs: Duration = "1d",
        /// How long an executor that is gone stays on the list.
        forget_executors: Duration = "1d",
        /// Size of the largest blob.
        max_blob: Size = "1GiB",
        /// Files in one task, source and data together.
        max_files: NonZeroU32 = "1000",
        /// Size of a task's inline files, input, words and environment together; larger files go as blobs.
        max_inline: Size = "8MiB",
        /// Size of a command, or of one variable of its environment.
        max_command: Size = "64KiB",
        /// Arguments of a command.
        max_args: NonZeroU32 = "1000",
        /// Variables in a task's environment.
        max_env: NonZeroU32 = "1000",
    }
    executor: Executor = "executor" {
        /// Its name, the same over restarts; `auto` is the host name with an id kept in the data folder.
        name: Option<ExecutorName> = "auto",
        /// Tasks that run at the same time; `auto` is one for each core; 0 starts no executor in `conclave up`.
        slots: Slots = "auto",
        /// Addresses of judicators, for an executor on its own.
        judicators: Vec<Address> = "127.0.0.1:7010",
        /// How often it reports when there is nothing new.
        heartbeat: Duration = "2s",
        /// How long it may fail to report before it stops its own tasks; less than the judicator's lease.
        self_kill: Duration = "7s",
        /// How long a blob may bring no byte, or a slot take beyond the limits of its task, before the attempt is lost.
        stall: Duration = "30s",
        /// How long running tasks may go on when the executor is told to stop; then they are given back.
        stop_grace: Duration = "5s",
        /// Size of the cache of blobs.
        cache: Size = "4GiB",
        /// Bytes of stdout and of stderr that are kept for each step.
        keep_output: Size = "1MiB",
        /// Memory that tasks leave to everyone else: below it the executor takes nothing new and gives back or ends its newest tasks; `auto` is a twentieth of the machine's, between 256MiB and 2GiB, but at most an eighth.
        reserve: Auto<Size> = "auto",
        /// Memory and space together that one task may ask for; `auto` is an equal share, for each slot, of what the reserve leaves, or what a task has by default where that is more.
        slot_memory: Auto<Size> = "auto",
        /// How tasks are kept apart: each step in a cell, or `none` for trusted work.
        isolation: Isolation = "cell",
    }
    sandbox: Sandbox = "sandbox" {
        /// Folder with the root file system of the cells; `none` is this machine's own programs.
        root: Option<PathBuf> = "none",
        /// Further files and folders of this machine that cells see, read-only, as PATH or PATH:PATH-IN-THE-CELL.
        binds: Option<Vec<Bind>> = "none",
        /// First of the ids of users and groups that tasks run as, two for each slot; for an ordinary user only where it is one of its subordinate ids.
        first_user: UserNumber = "1900000000",
        /// Control group in which the tasks' groups are made; `none` is the executor's own.
        cgroup: Option<GroupPath> = "none",
        /// Memory of a step that asks for no limit, over all its processes; `none` is all that there is.
        memory: Option<Size> = "1GiB",
        /// Processes and threads at one time of a step that asks for no limit; `none` is as many as can be.
        processes: Option<NonZeroU32> = "512",
        /// Files that each process of a step may have open that asks for no limit, and the most that it may ask for where `limits.max.open_files` says nothing; `auto` is 1024, or fewer where the processes of all slots together could take more than a quarter of the machine's open files.
        open_files: OpenFiles = "auto",
        /// Size of all files of a task together, where it asks for no more; they are in memory.
        space: Size = "256MiB",
        /// Number of files and folders of a task.
        files: NonZeroU32 = "65536",
        /// Networks that tasks may ask for, each a network namespace on this machine, as NAME=FILE.
        networks: Option<Vec<Network>> = "none",
        /// Limits that need not be kept for all processes of a task together: memory, processes, cpu.
        allow_weaker: Option<Vec<Wall>> = "none",
    }
    gateway: Gateway = "gateway" {
        /// Address of the HTTP API and the pages.
        listen: Address = "127.0.0.1:7000",
        /// Threads that serve requests; `auto` is one for each core.
        threads: Threads = "auto",
        /// Addresses of judicators, for a gateway on its own.
        judicators: Vec<Address> = "127.0.0.1:7010",
        /// Size of the largest request, blobs apart.
        max_body: Size = "64MiB",
        /// Tasks in one batch.
        max_batch: NonZeroU32 = "10000",
        /// The longest that a request may wait for a task; a longer wait is cut to this.
        max_wait: Duration = "60s",
        /// Connections at one time; fewer where the hard limit on open files leaves no room for as many.
        max_connections: NonZeroU32 = "10000",
        /// Requests that wait for a task, and event streams, at one time.
        max_waiting: NonZeroU32 = "8192",
        /// Uploads at one time: blobs, and requests with a body of more than 16 KiB until the body is there.
        max_uploads: NonZeroU32 = "512",
        /// Searches for a text at one time; they count among the other requests too.
        max_text_searches: NonZeroU32 = "32",
        /// All other requests at one time.
        max_requests: NonZeroU32 = "512",
        /// Percent of the connections, uploads, text searches, requests, waits, bytes and unpackers that one caller may have: a token's user or, without tokens, an IP address.
        share: NonZeroU32 = "50",
        /// Bytes of requests, unpacked zips and answers in memory at one time.
        max_bytes: Size = "256MiB",
        /// Bytes per second that a client has to send of a body, or take of an answer, at least.
        min_rate: Size = "1KiB",
        /// How long a body may come more slowly than `gateway.min_rate` before it is refused.
        body_stall: Duration = "10s",
        /// How long a client may take an answer more slowly than `gateway.min_rate` before its connection is closed.
        answer_stall: Duration = "30s",
        /// Zips that are unpacked at one time, each on a thread of its own.
        unpackers: NonZeroU32 = "2",
        /// What the zips of one request may hold, all of their files together.
        max_unpacked: Size = "256MiB",
        /// Larger files and inputs are kept as blobs beside their task, not in it.
        inline: Size = "32KiB",
        /// Who may read `/metrics`: `open` is everyone, `token` everyone with a token, `off` nobody; `auto` is `token` where there are tokens, else `open`.
        metrics: Metrics = "auto",
    }
    limits_default: LimitsDefault = "limits.default" {
        /// Time on the clock for a step that asks for none.
        wall: Option<Duration> = "60s",
        /// CPU time, over all processes of the step.
        cpu: Option<Duration> = "none",
        /// Memory, over all processes of the step; `none` is the maximum or, without one and with cells, `sandbox.memory`.
        memory: Option<Size> = "none",
        /// Bytes on each of stdout and stderr.
        output: Option<Size> = "none",
        /// Processes and threads at one time; `none` is the maximum or, without one and with cells, `sandbox.processes`.
        processes: Option<NonZeroU32> = "none",
        /// Size of the largest file that the step may write.
        file_size: Option<Size> = "none",
        /// Files that a process may have open at one time; `none` is the maximum or, without one and with cells, `sandbox.open_files`.
        open_files: Option<NonZeroU32> = "none",
        /// Size of each process's stack; `none` is as large as the executor's.
        stack: Option<Size> = "none",
        /// Size of all files of the task together, where it runs in a cell; `none` is the maximum or, without one, `sandbox.space`.
        space: Option<Size> = "none",
    }
    limits_max: LimitsMax = "limits.max" {
        /// The most time on the clock that a step may ask for.
        wall: Option<Duration> = "1d",
        /// The most CPU time.
        cpu: Option<Duration> = "none",
        /// The most memory; `auto` is what an executor can give to a task (`executor.slot_memory`), its space included.
        memory: Most<Size> = "auto",
        /// The most output.
        output: Option<Size> = "16MiB",
        /// The most processes and threads; `auto` is a slot's share of half of what the executor's kernel and control groups allow, fewer where they could not have 16 open files each.
        processes: Most<NonZeroU32> = "auto",
        /// The largest file.
        file_size: Option<Size> = "none",
        /// The most open files of each process; `auto` is, with cells, `sandbox.open_files`.
        open_files: Most<NonZeroU32> = "auto",
        /// The largest stack.
        stack: Option<Size> = "none",
        /// The most for all files of the task together; `auto` is what an executor can give to a task (`executor.slot_memory`), its memory included.
        space: Most<Size> = "auto",
    }
    secrets: Secrets = "secrets" {
        /// File with the secret that nodes show each other.
        cluster_file: Option<PathBuf> = "none",
        /// File with the certificate of the authority that signs etcd's certificates.
        etcd_ca_file: Option<PathBuf> = "none",
        /// File with this node's certificate, shown by etcd and to etcd.
        etcd_cert_file: Option<PathBuf> = "none",
        /// File with the certificate's private key.
        etcd_key_file: Option<PathBuf> = "none",
        /// File with the tokens of the HTTP API: on each line a token and its user.
        tokens_file: Option<PathBuf> = "none",
    }
}

impl Key {
    /// `CONCLAVE_EXECUTOR_SELF_KILL` for `executor.self_kill`.
    pub(crate) fn variable(&self) -> String {
        format!("CONCLAVE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    pub(super) fn last_part(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Whether `name` is this key's section or an outer one.
    pub(super) fn section_starts_with(&self, name: &str) -> bool {
        self.name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_accepted() {
        for key in KEYS {
            assert!((key.show)(key.default).is_ok(), "{}", key.name);
            assert!(!key.doc.is_empty() && !key.accepts.is_empty(), "{}", key.name);
        }
    }

    /// The page is written from the table: a key that is added, renamed or given another default shows here.
    #[test]
    fn the_page_lists_every_key_with_its_default() {
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
