//! The limit on open files of a node's process, and the number of connections that it allows.

/// Raises the soft limit to the hard limit and returns it. The usual soft limit, 1024, is for programs that use `select`.
pub(super) fn raise_limit() -> Option<u64> {
    let raised = sandbox::raise_open_file_limit();
    raised
        .inspect_err(|error| tracing::warn!(%error, "could not raise the limit on open files"))
        .ok()
}

/// The configured number of connections, or fewer if the limit on open files does not allow as many. At the limit the gateway
/// could accept no connection, and the store could open no file.
pub(super) fn max_connections(options: &gateway::GatewayOptions) -> usize {
    let configured = options.max_connections;
    let Some(limit) = raise_limit() else {
        return configured;
    };
    let possible = connections_within(limit, options.max_uploads + options.max_requests);
    if possible < configured {
        tracing::warn!(
            open_files = limit,
            connections = possible,
            "gateway.max_connections is {configured}, but the hard limit on open files (ulimit -Hn) allows fewer; raise the limit"
        );
    }
    possible.min(configured)
}

/// Leaves a quarter of the limit for everything else. A request may need a file besides its connection, for a blob. So the rest
/// is for `requests` files and the connections, but at least half of it is for connections.
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
