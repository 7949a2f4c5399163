//! How mongod is called.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Options;

/// The least that mongod takes.
const LEAST_CACHE_GIB: f64 = 0.25;
const GIB: f64 = (1_u64 << 30) as f64;

pub(crate) fn of(options: &Options, key: Option<PathBuf>) -> Vec<OsString> {
    let host = options.host.trim_start_matches('[').trim_end_matches(']');
    let mut args: Vec<OsString> = vec![
        "--replSet".into(),
        (&options.set).into(),
        "--bind_ip".into(),
        host.into(),
        "--port".into(),
        options.port.to_string().into(),
        "--dbpath".into(),
        options.dbpath().into(),
        "--nounixsocket".into(),
        "--quiet".into(),
    ];
    let mut parameter = |text: &str| args.extend(["--setParameter".into(), text.into()]);
    // On a signal mongod would wait 15 s for its connections to go away; we have stepped down before we send one.
    parameter("shutdownTimeoutMillisForSignaledShutdown=100");
    // A client that is killed within a transaction leaves what it touched locked until the server gives the
    // transaction up. By itself that takes a minute, in which an executor could not report.
    parameter("transactionLifetimeLimitSeconds=4");
    // Whoever copies from a member that hangs gives it up after four seconds, one for the answer and these, and looks
    // for another; by itself only after thirteen, for it tries the same one again. Much sooner it would still take the
    // one that hangs for well, and choose it once more.
    parameter("oplogNetworkTimeoutBufferSeconds=3");
    parameter("oplogFetcherSteadyStateMaxFetcherRestarts=0");
    // Nobody needs to be let in without a login because there is no user yet: we come in by the key.
    if key.is_some() {
        parameter("enableLocalhostAuthBypass=false");
    }
    if host.contains(':') {
        args.push("--ipv6".into());
    }
    if let Some(key) = key {
        args.extend(["--keyFile".into(), key.into()]);
    }
    if let Some(bytes) = options.cache {
        let gib = (bytes as f64 / GIB).max(LEAST_CACHE_GIB);
        args.extend(["--wiredTigerCacheSizeGB".into(), format!("{gib:.3}").into()]);
    }
    args
}
