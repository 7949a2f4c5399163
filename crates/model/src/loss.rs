//! Attempts that came to nothing: how many of them a task may have, and how long it pauses before the next.

use std::time::Duration;

use crate::End;

/// After so many platform failures a task ends, so that nothing is tried for ever.
pub const MAX_PLATFORM_LOSSES: u32 = 10;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How many attempts of a task came to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Those that used up one of its attempts.
    pub lost: u32,
    /// Those that failed because of the platform alone.
    pub platform: u32,
}

/// Why an attempt is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release<'a> {
    /// The executor gave it back before it came to anything. That is not counted.
    GivenBack,
    /// The executor died, went silent, or its slot hung. The task itself may be the cause, so this uses up one of
    /// its attempts.
    Lost(&'a str),
    /// The executor could not run it, by no fault of the task.
    PlatformFailure(&'a str),
}

/// What becomes of a task whose attempt was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// It waits for its next attempt. Without a new trouble it keeps the one that it had.
    Retry { losses: Losses, trouble: Option<String> },
    /// It ends as `system_error`.
    GiveUp { losses: Losses, trouble: String },
}

impl Losses {
    pub fn after(self, why: Release<'_>, max_attempts: u32) -> Released {
        let mut losses = self;
        let (trouble, last) = match why {
            Release::GivenBack => {
                let trouble = None;
                return Released::Retry { losses, trouble };
            }
            Release::Lost(trouble) => {
                losses.lost = losses.lost.saturating_add(1);
                let last = format!("lost {} times", losses.lost);
                (trouble, (losses.lost >= max_attempts).then_some(last))
            }
            Release::PlatformFailure(trouble) => {
                losses.platform = losses.platform.saturating_add(1);
                let last = format!("the platform failed to run it {} times", losses.platform);
                (trouble, (losses.platform >= MAX_PLATFORM_LOSSES).then_some(last))
            }
        };
        match last {
            Some(last) => Released::GiveUp {
                losses,
                trouble: format!("{last}: {trouble}"),
            },
            None => Released::Retry {
                losses,
                trouble: Some(trouble.to_string()),
            },
        }
    }
}

/// How long an executor keeps the end of an attempt to itself, so that a task that the platform failed to run is not
/// tried again at once. It grows with the number of such failures that the task has had before. The last one ends the
/// task, which has nothing to wait for.
pub fn pause_after(end: &End, earlier_platform_losses: u32) -> Duration {
    let last = earlier_platform_losses.saturating_add(1) >= MAX_PLATFORM_LOSSES;
    match end {
        End::PlatformFailure(_) if !last => {
            let doubled = FIRST_PAUSE.saturating_mul(1 << earlier_platform_losses);
            doubled.min(LONGEST_PAUSE)
        }
        End::PlatformFailure(_) | End::Broken(_) | End::Result(_) => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskResult;

    #[test]
    fn a_task_ends_by_too_many_losses_of_one_kind() {
        let losses = |(lost, platform): (u32, u32)| Losses { lost, platform };
        let retries = |before, why, after, trouble: Option<&str>| {
            let expected = Released::Retry {
                losses: losses(after),
                trouble: trouble.map(String::from),
            };
            assert_eq!(losses(before).after(why, 3), expected);
        };
        let ends = |before, why, after, trouble: &str| {
            let expected = Released::GiveUp {
                losses: losses(after),
                trouble: trouble.into(),
            };
            assert_eq!(losses(before).after(why, 3), expected);
        };
        let lost = Release::Lost("silent");
        let failed = Release::PlatformFailure("no warden");
        retries((0, 0), Release::GivenBack, (0, 0), None);
        retries((2, 9), Release::GivenBack, (2, 9), None);
        retries((0, 0), lost, (1, 0), Some("silent"));
        retries((1, 9), lost, (2, 9), Some("silent"));
        ends((2, 0), lost, (3, 0), "lost 3 times: silent");
        retries((0, 0), failed, (0, 1), Some("no warden"));
        retries((2, 8), failed, (2, 9), Some("no warden"));
        let ten = "the platform failed to run it 10 times: no warden";
        ends((0, 9), failed, (0, 10), ten);
        // A count that is as large as can be does not begin anew.
        let most = u32::MAX;
        ends((most, 0), lost, (most, 0), "lost 4294967295 times: silent");
        let many = "the platform failed to run it 4294967295 times: no warden";
        ends((0, most), failed, (0, most), many);
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_the_last_failure_has_none() {
        let failure = End::PlatformFailure("no warden".into());
        let check = |end: &End, earlier, millis| {
            assert_eq!(
                pause_after(end, earlier),
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
        check(&End::Broken("its slot hung".into()), 1, 0);
        check(&End::Result(TaskResult::default()), 1, 0);
    }
}
