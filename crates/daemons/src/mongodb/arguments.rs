//! The command line of mongod.

use std::ffi::OsString;
use std::path::PathBuf;

use super::MongodDaemonOptions;

/// The smallest cache that mongod accepts.
const MIN_CACHE_GIB: f64 = 0.25;
const GIB: f64 = (1_u64 << 30) as f64;

pub(crate) fn of(options: &MongodDaemonOptions, key_file: Option<PathBuf>) -> Vec<OsString> {
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
    // After SIGTERM mongod would wait 15 s for its connections to close; the daemon makes it step down before.
    parameter("shutdownTimeoutMillisForSignaledShutdown=100");
    // A client that is killed within a transaction leaves its documents locked until the server aborts the transaction.
    // The default is a minute, during which an executor could not report.
    parameter("transactionLifetimeLimitSeconds=4");
    // With these, a secondary gives up a sync source that hangs after four seconds (one for the request, plus these
    // three) and chooses another. By default it takes thirteen, because it tries the same source again. Much less than
    // four would be too short: the secondary would still consider the hanging source healthy, and choose it again.
    parameter("oplogNetworkTimeoutBufferSeconds=3");
    parameter("oplogFetcherSteadyStateMaxFetcherRestarts=0");
    // The daemon authenticates with the key file, so no client needs access without a login, even before there is a
    // user.
    if key_file.is_some() {
        parameter("enableLocalhostAuthBypass=false");
    }
    if host.contains(':') {
        args.push("--ipv6".into());
    }
    if let Some(key_file) = key_file {
        args.extend(["--keyFile".into(), key_file.into()]);
    }
    if let Some(bytes) = options.cache {
        let gib = (bytes as f64 / GIB).max(MIN_CACHE_GIB);
        args.extend(["--wiredTigerCacheSizeGB".into(), format!("{gib:.3}").into()]);
    }
    args
}
