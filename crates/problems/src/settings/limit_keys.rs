//! `limits` in `problem.yaml`.

use std::time::Duration;

use crate::error::PackageError;
use crate::limits::{PackageLimits, TimeLimitRule};
use crate::package::PackageFormat;
use crate::yaml::YamlView;

const KNOWN: &[&str] = &[
    "code",
    "compilation_memory",
    "compilation_time",
    "memory",
    "output",
    "time_limit",
    "time_multiplier",
    "time_multipliers",
    "time_resolution",
    "time_safety_margin",
    "validation_memory",
    "validation_output",
    "validation_passes",
    "validation_time",
];

pub(super) fn read(
    view: &YamlView<'_>,
    format: PackageFormat,
    warnings: &mut Vec<String>,
) -> Result<PackageLimits, PackageError> {
    let rule = match format {
        PackageFormat::Legacy => TimeLimitRule::LEGACY,
        PackageFormat::Draft2023 | PackageFormat::V2025 => TimeLimitRule::MULTIPLE,
    };
    let mut limits = PackageLimits::new(rule);
    let Some(view) = view.get("limits") else {
        return Ok(limits);
    };
    let view = view.mapping()?;
    view.warn_of_unknown(KNOWN, warnings);
    limits.time = seconds(&view, "time_limit")?;
    limits.time_rule = time_rule(&view, rule)?;
    const MIB: u64 = 1 << 20;
    limits.memory = bytes(&view, "memory", MIB)?;
    limits.output = bytes(&view, "output", MIB)?;
    limits.compilation_time = seconds(&view, "compilation_time")?;
    limits.compilation_memory = bytes(&view, "compilation_memory", MIB)?;
    limits.validation_time = seconds(&view, "validation_time")?;
    limits.validation_memory = bytes(&view, "validation_memory", MIB)?;
    limits.validation_output = bytes(&view, "validation_output", MIB)?;
    Ok(limits)
}

fn time_rule(view: &YamlView<'_>, rule: TimeLimitRule) -> Result<TimeLimitRule, PackageError> {
    match rule {
        TimeLimitRule::Legacy {
            multiplier,
            safety_margin,
        } => Ok(TimeLimitRule::Legacy {
            multiplier: factor(view, "time_multiplier")?.unwrap_or(multiplier),
            safety_margin: factor(view, "time_safety_margin")?.unwrap_or(safety_margin),
        }),
        TimeLimitRule::Multiple {
            ac_to_limit,
            limit_to_tle,
            resolution,
        } => {
            let multipliers = view.get("time_multipliers").map(YamlView::mapping).transpose()?;
            let of = |name| match &multipliers {
                Some(multipliers) => factor(multipliers, name),
                None => Ok(None),
            };
            Ok(TimeLimitRule::Multiple {
                ac_to_limit: of("ac_to_time_limit")?.unwrap_or(ac_to_limit),
                limit_to_tle: of("time_limit_to_tle")?.unwrap_or(limit_to_tle),
                resolution: seconds(view, "time_resolution")?.unwrap_or(resolution),
            })
        }
    }
}

fn factor(view: &YamlView<'_>, key: &str) -> Result<Option<f64>, PackageError> {
    let Some(value) = view.get(key) else {
        return Ok(None);
    };
    match value.number()? {
        number if number >= 1.0 && number.is_finite() => Ok(Some(number)),
        number => Err(value.error(format!("must be 1 or more, not {number}"))),
    }
}

/// The number of seconds in a text: more than none.
pub(super) fn positive_seconds(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse::<f64>().ok()?;
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (duration > Duration::ZERO).then_some(duration)
}

fn seconds(view: &YamlView<'_>, key: &str) -> Result<Option<Duration>, PackageError> {
    let Some(value) = view.get(key) else {
        return Ok(None);
    };
    let text = value.text()?;
    match positive_seconds(text) {
        Some(duration) => Ok(Some(duration)),
        None => Err(value.error(format!("must be a number of seconds above 0, not '{text}'"))),
    }
}

fn bytes(view: &YamlView<'_>, key: &str, unit: u64) -> Result<Option<u64>, PackageError> {
    let Some(value) = view.get(key) else {
        return Ok(None);
    };
    let number = value.number()?;
    let bytes = number * unit as f64;
    // 2^53 is the last number up to which the conversion is exact.
    match (1.0..9e15).contains(&bytes) {
        true => Ok(Some(bytes as u64)),
        false => Err(value.error(format!("must be a number above 0, not {number}"))),
    }
}
