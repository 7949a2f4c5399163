//! How many files a node's process may have open, and how many connections that allows.

/// The limit that applies from now on. The usual soft limit, 1024, is for programs that use `select`.
pub(super) fn raise() -> Option<u64> {
    let raised = sandbox::raise_open_files();
    raised
        .inspect_err(|error| tracing::warn!(%error, "could not raise the limit on open files"))
        .ok()
}

/// As many connections as were asked for, or as the limit on open files allows: beyond it, no connection would be
/// accepted from anyone, and the store could open no file.
pub(super) fn connections(options: &gateway::Options) -> usize {
    let asked = options.max_connections;
    let Some(limit) = raise() else { return asked };
    let possible = connections_within(limit, options.max_uploads + options.requests_in_flight);
    if possible < asked {
        tracing::warn!(
            open_files = limit,
            connections = possible,
            "gateway.max_connections is {asked}, but the hard limit on open files (ulimit -Hn) allows fewer; raise it"
        );
    }
    possible.min(asked)
}

/// A quarter is left for everything else. A request may need a file beside its connection, for the blob that it sends
/// or gets: so the rest is for `requests` and for connections, or for as many of the one as of the other.
fn connections_within(limit: u64, requests: usize) -> usize {
    let rest = usize::try_from(limit - limit / 4).unwrap_or(usize::MAX);
    rest.saturating_sub(requests).max(rest / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_other_files() {
        let check = |limit: u64, expected: usize| {
            assert_eq!(connections_within(limit, 1024), expected, "{limit}");
        };
        check(0, 1);
        check(256, 96);
        check(1024, 384);
        check(4096, 2048);
        check(20_000, 13_976);
        check(1 << 20, 785_408);
    }
}
