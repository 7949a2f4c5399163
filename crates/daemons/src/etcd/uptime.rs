//! For how long a member has been running.

use std::io;
use std::time::Duration;

use registry::etcd::Access;

use super::dial::ANSWER;
use super::peer::{Connector, Response, get};

const STARTED: &str = "process_start_time_seconds ";

/// `None` where it does not say.
pub(crate) async fn uptime(access: &Access, at: &str) -> Option<Duration> {
    let asked = async {
        let tls = access.tls.as_ref().map(Connector::new).transpose()?;
        io::Result::Ok(understand(&get("/metrics", at, tls.as_ref()).await?))
    };
    tokio::time::timeout(ANSWER, asked).await.ok()?.ok()?
}

/// From when it started to when it answered: both by its own clock, so that nobody else's matters.
fn understand(response: &Response) -> Option<Duration> {
    let answered = jiff::fmt::rfc2822::parse(response.header("date")?).ok()?;
    let figures = std::str::from_utf8(&response.body).ok()?;
    let started: f64 = figures
        .lines()
        .find_map(|line| line.strip_prefix(STARTED))?
        .parse()
        .ok()?;
    let started = Duration::try_from_secs_f64(started).ok()?;
    let answered = Duration::from_secs(answered.timestamp().as_second().try_into().ok()?);
    // Neither is exact to the second: at first it may seem to have started later.
    Some(answered.saturating_sub(started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_says_about_its_start_is_understood() {
        let check = |date: &str, body: &str, expected: Option<u64>| {
            let response = Response {
                headers: vec![("Date".to_string(), date.to_string())],
                body: body.as_bytes().to_vec(),
            };
            let seconds = understand(&response).map(|uptime| uptime.as_secs());
            assert_eq!(seconds, expected, "{date} {body}");
        };
        let date = "Fri, 13 Feb 2009 23:31:30 GMT";
        let figures = |started: &str| {
            format!("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {started}\nx 1\n")
        };
        check(date, &figures("1.23456779e+09"), Some(100));
        check(date, &figures("1.23456788925e+09"), Some(0));
        check(date, &figures("1.23456789075e+09"), Some(0));
        check(date, &figures("early"), None);
        check(date, "x 1\n", None);
        check("yesterday", &figures("1.23456779e+09"), None);
    }
}
