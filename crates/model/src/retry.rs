//! When a task is tried again: how many failed attempts it may have, and how long the delay before the next one is.

use std::time::Duration;

use crate::AttemptEnd;

/// After this many platform failures a task ends, so that no task is retried for ever.
pub const MAX_PLATFORM_FAILURES: u32 = 10;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The number of attempts to run a task that ended without a result, by whether the platform alone failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedAttempts {
    /// Attempts that count against the bound on attempts.
    pub lost: u32,
    /// Attempts that failed because of the platform alone.
    pub platform: u32,
}

/// Why the store takes an attempt of a task away from its executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason<'a> {
    /// The executor returned the attempt before it had a result. This does not count as a failure.
    GivenBack,
    /// The executor died or was silent for too long, or the slot hung. The task itself may be the cause, so this uses up
    /// one of its attempts.
    Lost(&'a str),
    /// The executor could not run the attempt, through no fault of the task.
    PlatformFailure(&'a str),
}

/// What happens to a task after an attempt was taken away from its executor: the task is retried or given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseDecision {
    /// The task waits for its next attempt. If `trouble` is `None`, the task keeps its earlier one.
    Retry {
        losses: FailedAttempts,
        trouble: Option<String>,
    },
    /// The task ends as `system_error`.
    GiveUp { losses: FailedAttempts, trouble: String },
}

impl FailedAttempts {
    /// Counts the release, and decides whether the task is tried again.
    pub fn after(self, why: ReleaseReason<'_>, max_attempts: u32) -> ReleaseDecision {
        let mut losses = self;
        let (trouble, last) = match why {
            ReleaseReason::GivenBack => {
                let trouble = None;
                return ReleaseDecision::Retry { losses, trouble };
            }
            ReleaseReason::Lost(trouble) => {
                losses.lost = losses.lost.saturating_add(1);
                let last = format!("lost {} times", losses.lost);
                (trouble, (losses.lost >= max_attempts).then_some(last))
            }
            ReleaseReason::PlatformFailure(trouble) => {
                losses.platform = losses.platform.saturating_add(1);
                let last = format!("the platform failed to run it {} times", losses.platform);
                (
                    trouble,
                    (losses.platform >= MAX_PLATFORM_FAILURES).then_some(last),
                )
            }
        };
        match last {
            Some(last) => ReleaseDecision::GiveUp {
                losses,
                trouble: format!("{last}: {trouble}"),
            },
            None => ReleaseDecision::Retry {
                losses,
                trouble: Some(trouble.to_string()),
            },
        }
    }
}

/// How long an executor delays reporting the end of an attempt, so that a task that the platform failed to run is not
/// tried again at once. The delay doubles with each earlier platform failure of the task. The last failure ends the task,
/// so it has no delay.
pub fn retry_delay(end: &AttemptEnd, earlier_platform_failures: u32) -> Duration {
    let last = earlier_platform_failures.saturating_add(1) >= MAX_PLATFORM_FAILURES;
    match end {
        AttemptEnd::PlatformFailure(_) if !last => {
            let doubled = FIRST_DELAY.saturating_mul(1 << earlier_platform_failures);
            doubled.min(MAX_DELAY)
        }
        AttemptEnd::PlatformFailure(_) | AttemptEnd::Broken(_) | AttemptEnd::Result(_) => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskResult;

    #[test]
    fn a_task_ends_after_too_many_failed_attempts_of_one_kind() {
        let losses = |(lost, platform): (u32, u32)| FailedAttempts { lost, platform };
        let retries = |before, why, after, trouble: Option<&str>| {
            let expected = ReleaseDecision::Retry {
                losses: losses(after),
                trouble: trouble.map(String::from),
            };
            assert_eq!(losses(before).after(why, 3), expected);
        };
        let ends = |before, why, after, trouble: &str| {
            let expected = ReleaseDecision::GiveUp {
                losses: losses(after),
                trouble: trouble.into(),
            };
            assert_eq!(losses(before).after(why, 3), expected);
        };
        let lost = ReleaseReason::Lost("silent");
        let failed = ReleaseReason::PlatformFailure("no warden");
        retries((0, 0), ReleaseReason::GivenBack, (0, 0), None);
        retries((2, 9), ReleaseReason::GivenBack, (2, 9), None);
        retries((0, 0), lost, (1, 0), Some("silent"));
        retries((1, 9), lost, (2, 9), Some("silent"));
        ends((2, 0), lost, (3, 0), "lost 3 times: silent");
        retries((0, 0), failed, (0, 1), Some("no warden"));
        retries((2, 8), failed, (2, 9), Some("no warden"));
        let ten = "the platform failed to run it 10 times: no warden";
        ends((0, 9), failed, (0, 10), ten);
        // A count at its maximum does not overflow.
        let most = u32::MAX;
        ends((most, 0), lost, (most, 0), "lost 4294967295 times: silent");
        let many = "the platform failed to run it 4294967295 times: no warden";
        ends((0, most), failed, (0, most), many);
    }

    #[test]
    fn retry_delays_double_and_the_last_failure_has_none() {
        let failure = AttemptEnd::PlatformFailure("no warden".into());
        let check = |end: &AttemptEnd, earlier, millis| {
            assert_eq!(
                retry_delay(end, earlier),
                Duration::from_millis(millis),
                "{end:?} {earlier}"
            );
        };
        check(&failure, 0, 100);
        check(&failure, 1, 200);
        check(&failure, 2, 400);
        check(&failure, 7, 12_800);
        check(&failure, 8, 25_600);
        check(&failure, 9, 0);
        check(&failure, 10, 0);
        check(&failure, u32::MAX, 0);
        check(&AttemptEnd::Broken("its slot hung".into()), 1, 0);
        check(&AttemptEnd::Result(TaskResult::default()), 1, 0);
    }
}
