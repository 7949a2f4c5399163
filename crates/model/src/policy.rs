//! The operator's word on limits: what a step gets when it asks for nothing, and the most it may ask for.

use std::time::Duration;

use crate::{Invalid, Limits, TaskSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    pub default: Limits,
    pub max: Limits,
}

impl Default for LimitPolicy {
    fn default() -> LimitPolicy {
        LimitPolicy {
            default: Limits {
                wall: Some(Duration::from_secs(60)),
                ..Limits::default()
            },
            max: Limits {
                wall: Some(Duration::from_secs(24 * 3600)),
                output: Some(16 << 20),
                ..Limits::default()
            },
        }
    }
}

impl LimitPolicy {
    /// Fills in what the task left open; complains about what it may not ask for.
    pub fn apply(&self, spec: &mut TaskSpec) -> Result<(), Invalid> {
        if let Some(compile) = &mut spec.compile {
            compile.limits = self
                .resolve(compile.limits)
                .map_err(|invalid| invalid.within("compile.limits"))?;
        }
        spec.execute.limits = self
            .resolve(spec.execute.limits)
            .map_err(|invalid| invalid.within("execute.limits"))?;
        Ok(())
    }

    fn resolve(&self, asked: Limits) -> Result<Limits, Invalid> {
        let Limits {
            wall,
            cpu,
            memory,
            output,
            processes,
        } = asked;
        let LimitPolicy { default, max } = self;
        let show = |span: Duration| format!("{}s", span.as_secs_f64());
        Ok(Limits {
            wall: bound("wall", wall, default.wall, max.wall, show)?,
            cpu: bound("cpu", cpu, default.cpu, max.cpu, show)?,
            memory: bound("memory", memory, default.memory, max.memory, |bytes| {
                format!("{bytes} bytes")
            })?,
            output: bound("output", output, default.output, max.output, |bytes| {
                format!("{bytes} bytes")
            })?
            // Without a limit, output beyond the operator's cap is cut off and the step goes on: that is bound enough.
            .filter(|_| output.or(default.output).is_some()),
            processes: bound("processes", processes, default.processes, max.processes, |n| {
                n.to_string()
            })?,
        })
    }
}

fn bound<T: Ord + Copy + Default>(
    field: &str,
    asked: Option<T>,
    default: Option<T>,
    max: Option<T>,
    show: impl Fn(T) -> String,
) -> Result<Option<T>, Invalid> {
    match (asked, max) {
        (Some(asked), _) if asked == T::default() => Err(Invalid::new(
            field,
            "must be more than zero; leave it out for the default",
        )),
        (Some(asked), Some(max)) if asked > max => Err(Invalid::beyond(
            field,
            "is more than the operator allows",
            show(max),
            show(asked),
        )),
        (Some(asked), _) => Ok(Some(asked)),
        // The maximum holds for those who ask for nothing, too; and a default above it is the operator's slip.
        (None, Some(max)) => Ok(Some(default.map_or(max, |default| default.min(max)))),
        (None, None) => Ok(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fill_and_maxima_hold() {
        let policy = LimitPolicy {
            default: Limits {
                wall: Some(Duration::from_secs(5)),
                processes: Some(9),
                ..Limits::default()
            },
            max: Limits {
                wall: Some(Duration::from_secs(10)),
                cpu: Some(Duration::from_secs(8)),
                output: Some(1000),
                processes: Some(4),
                ..Limits::default()
            },
        };
        let check = |asked: Limits, expected: Result<Limits, &str>| {
            assert_eq!(
                policy.resolve(asked).map_err(|invalid| invalid.field),
                expected.map_err(String::from)
            );
        };
        let wall = |seconds| Some(Duration::from_secs(seconds));
        check(
            Limits::default(),
            Ok(Limits {
                wall: wall(5),
                cpu: wall(8),
                processes: Some(4),
                ..Limits::default()
            }),
        );
        check(
            Limits {
                wall: wall(10),
                memory: Some(1),
                output: Some(9),
                ..Limits::default()
            },
            Ok(Limits {
                wall: wall(10),
                cpu: wall(8),
                memory: Some(1),
                output: Some(9),
                processes: Some(4),
            }),
        );
        check(
            Limits {
                wall: wall(11),
                ..Limits::default()
            },
            Err("wall"),
        );
        check(
            Limits {
                wall: wall(0),
                ..Limits::default()
            },
            Err("wall"),
        );
        check(
            Limits {
                processes: Some(5),
                ..Limits::default()
            },
            Err("processes"),
        );
    }
}
