//! Computes a member's uptime from its metrics.

use std::io;
use std::time::Duration;

use registry::etcd::EtcdAccess;

use super::client::REQUEST_TIMEOUT;
use super::peer::{PeerHttpResponse, PeerTlsConnector, get};

const START_TIME_METRIC: &str = "process_start_time_seconds ";

/// Returns `None` if the member does not report its start time.
pub(crate) async fn query_uptime(access: &EtcdAccess, at: &str) -> Option<Duration> {
    let query = async {
        let tls = access.tls.as_ref().map(PeerTlsConnector::new).transpose()?;
        io::Result::Ok(parse_uptime(&get("/metrics", at, tls.as_ref()).await?))
    };
    tokio::time::timeout(REQUEST_TIMEOUT, query).await.ok()?.ok()?
}

/// The time from the start of the process to the response. Both are read from the member's own clock, so that clocks of
/// different machines are never compared.
fn parse_uptime(response: &PeerHttpResponse) -> Option<Duration> {
    let answered = jiff::fmt::rfc2822::parse(response.header("date")?).ok()?;
    let metrics = std::str::from_utf8(&response.body).ok()?;
    let started: f64 = metrics
        .lines()
        .find_map(|line| line.strip_prefix(START_TIME_METRIC))?
        .parse()
        .ok()?;
    let started = Duration::try_from_secs_f64(started).ok()?;
    let answered = Duration::from_secs(answered.timestamp().as_second().try_into().ok()?);
    // Both are rounded, so the start of a new process may seem to lie after the response.
    Some(answered.saturating_sub(started))
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::{DATE, HeaderValue};

    use super::*;

    #[test]
    fn the_uptime_is_the_response_time_minus_the_start_time() {
        let check = |date: &'static str, body: &str, expected: Option<u64>| {
            let response = PeerHttpResponse {
                headers: HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))]),
                body: body.to_string().into(),
            };
            let seconds = parse_uptime(&response).map(|uptime| uptime.as_secs());
            assert_eq!(seconds, expected, "{date} {body}");
        };
        let date = "Fri, 13 Feb 2009 23:31:30 GMT";
        let metrics = |started: &str| {
            format!("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {started}\nx 1\n")
        };
        check(date, &metrics("1.23456779e+09"), Some(100));
        check(date, &metrics("1.23456788925e+09"), Some(0));
        check(date, &metrics("1.23456789075e+09"), Some(0));
        check(date, &metrics("early"), None);
        check(date, "x 1\n", None);
        check("yesterday", &metrics("1.23456779e+09"), None);
    }
}
