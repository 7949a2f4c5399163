//! The limits of a package, and how a time limit follows from the times of its submissions.

use std::time::Duration;

use model::Limits;

/// The limits of a package. `None` leaves a limit to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackageLimits {
    /// CPU time of one run. `None` if it follows from the times of the submissions by `time_rule`.
    pub time: Option<Duration>,
    pub time_rule: TimeLimitRule,
    /// Bytes.
    pub memory: Option<u64>,
    /// Bytes.
    pub output: Option<u64>,
    pub compilation_time: Option<Duration>,
    pub compilation_memory: Option<u64>,
    pub validation_time: Option<Duration>,
    pub validation_memory: Option<u64>,
    pub validation_output: Option<u64>,
}

/// How the time limit follows from the slowest run of the submissions that must be fast enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeLimitRule {
    /// The slowest time times `multiplier`, to the nearest second, at least one.
    Legacy { multiplier: f64, safety_margin: f64 },
    /// The least multiple of `resolution` that is not below the slowest time times `ac_to_limit`.
    Multiple {
        ac_to_limit: f64,
        limit_to_tle: f64,
        resolution: Duration,
    },
}

/// The wall limit of a step with this CPU limit. It only stops programs that wait: a busy machine must not decide a verdict.
///
/// The server has the same rule for programs that are judged. Compile steps and validators have a fixed wall limit there,
/// which can be below the CPU time that a package gives them.
fn wall_backstop(cpu: Duration) -> Duration {
    cpu.saturating_mul(3).saturating_add(Duration::from_secs(10))
}

impl TimeLimitRule {
    pub const LEGACY: TimeLimitRule = TimeLimitRule::Legacy {
        multiplier: 5.0,
        safety_margin: 2.0,
    };
    pub const MULTIPLE: TimeLimitRule = TimeLimitRule::Multiple {
        ac_to_limit: 2.0,
        limit_to_tle: 1.5,
        resolution: Duration::from_secs(1),
    };

    /// The time limit, from the slowest CPU time of the submissions that must be fast enough.
    pub fn limit(self, slowest: Duration) -> Duration {
        match self {
            TimeLimitRule::Legacy { multiplier, .. } => {
                let seconds = (slowest.as_secs_f64() * multiplier).round().max(1.0);
                seconds_or_max(seconds)
            }
            TimeLimitRule::Multiple {
                ac_to_limit,
                resolution,
                ..
            } => {
                let exact = slowest.as_secs_f64() * ac_to_limit / resolution.as_secs_f64();
                // 0.3 / 0.1 is a little more than 3 in binary numbers, and must not count as 4.
                let steps = (exact - 1e-9).ceil().max(1.0);
                seconds_or_max(steps * resolution.as_secs_f64())
            }
        }
    }

    /// The CPU time that a submission that must be too slow should need at least, so that the limit is no close call.
    pub fn least_time_of_too_slow(self, limit: Duration) -> Duration {
        let factor = match self {
            TimeLimitRule::Legacy { safety_margin, .. } => safety_margin,
            TimeLimitRule::Multiple { limit_to_tle, .. } => limit_to_tle,
        };
        seconds_or_max(limit.as_secs_f64() * factor)
    }

    /// The CPU time that a submission that must be fast enough should need at most under this limit.
    pub fn most_time_of_fast_enough(self, limit: Duration) -> Duration {
        let factor = match self {
            // The multiplier is for slower languages of contestants, the margin for differences of one run to the next.
            TimeLimitRule::Legacy { safety_margin, .. } => safety_margin,
            TimeLimitRule::Multiple { ac_to_limit, .. } => ac_to_limit,
        };
        seconds_or_max(limit.as_secs_f64() / factor)
    }
}

fn seconds_or_max(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

impl PackageLimits {
    /// No limits of its own: time follows from the rule.
    pub fn new(time_rule: TimeLimitRule) -> PackageLimits {
        PackageLimits {
            time: None,
            time_rule,
            memory: None,
            output: None,
            compilation_time: None,
            compilation_memory: None,
            validation_time: None,
            validation_memory: None,
            validation_output: None,
        }
    }

    /// Limits of each run of a submission. `time` is that of the package, or the one that follows from its submissions.
    /// The wall limit is left to the server, which derives it from the CPU limit.
    pub fn execute(&self, time: Duration) -> Limits {
        Limits {
            cpu: Some(time),
            memory: self.memory,
            output: self.output,
            ..Limits::default()
        }
    }

    /// Limits of the compile step of a submission or validator.
    pub fn compile(&self) -> Limits {
        Limits {
            cpu: self.compilation_time,
            wall: self.compilation_time.map(wall_backstop),
            memory: self.compilation_memory,
            ..Limits::default()
        }
    }

    /// Limits of each run of a validator.
    pub fn validation(&self) -> Limits {
        Limits {
            cpu: self.validation_time,
            wall: self.validation_time.map(wall_backstop),
            memory: self.validation_memory,
            output: self.validation_output,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_from_the_slowest_run() {
        let multiple = |resolution| TimeLimitRule::Multiple {
            ac_to_limit: 2.0,
            limit_to_tle: 1.5,
            resolution: Duration::from_millis(resolution),
        };
        for (rule, slowest, expected) in [
            (TimeLimitRule::LEGACY, 0, 1000),
            (TimeLimitRule::LEGACY, 50, 1000),
            (TimeLimitRule::LEGACY, 299, 1000),
            (TimeLimitRule::LEGACY, 300, 2000),
            (TimeLimitRule::LEGACY, 1000, 5000),
            (multiple(1000), 0, 1000),
            (multiple(1000), 500, 1000),
            (multiple(1000), 501, 2000),
            (multiple(100), 150, 300),
            (multiple(100), 151, 400),
            (multiple(500), 1700, 3500),
        ] {
            let found = rule.limit(Duration::from_millis(slowest));
            assert_eq!(found, Duration::from_millis(expected), "{rule:?} {slowest}");
        }
        assert_eq!(TimeLimitRule::LEGACY.limit(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn margins_lie_on_both_sides_of_the_limit() {
        let limit = Duration::from_secs(6);
        for (rule, most, least) in [(TimeLimitRule::LEGACY, 3, 12), (TimeLimitRule::MULTIPLE, 3, 9)] {
            assert_eq!(rule.most_time_of_fast_enough(limit), Duration::from_secs(most));
            assert_eq!(rule.least_time_of_too_slow(limit), Duration::from_secs(least));
        }
    }

    #[test]
    fn the_server_decides_the_wall_limit_of_submissions() {
        let limits = PackageLimits::new(TimeLimitRule::LEGACY).execute(Duration::from_secs(2));
        assert_eq!((limits.cpu, limits.wall), (Some(Duration::from_secs(2)), None));
    }

    #[test]
    fn steps_with_a_cpu_limit_of_the_package_have_a_longer_wall_limit() {
        let mut limits = PackageLimits::new(TimeLimitRule::LEGACY);
        assert_eq!((limits.compile().wall, limits.validation().wall), (None, None));
        limits.compilation_time = Some(Duration::from_secs(60));
        limits.validation_time = Some(Duration::MAX);
        assert_eq!(limits.compile().wall, Some(Duration::from_secs(190)));
        assert_eq!(limits.validation().wall, Some(Duration::MAX));
    }
}
