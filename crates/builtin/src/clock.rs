//! The `clock` tool: the current time in a time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use provost_core::Env;
use provost_tool::{EffectClass, FnTool, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use provost_workspace::excerpt;

const DESCRIPTION: &str = "Returns the current date, time and day of the week in a time zone.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClockArguments {
    /// Name of the time zone, such as Europe/Berlin or America/New_York.
    #[serde(default = "utc")]
    time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Creates the `clock` tool with the time of the system.
pub fn clock() -> Result<FnTool, ToolSpecError> {
    clock_with_env(Env::system())
}

/// Creates the `clock` tool with the time of an environment.
pub fn clock_with_env(env: Env) -> Result<FnTool, ToolSpecError> {
    let tool = tool_fn("clock", DESCRIPTION, move |_cx, arguments: ClockArguments| {
        let text = current_time(env.now().as_millis(), &arguments.time_zone);
        async move { text }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// Formats a time in a time zone. Returns an error for an unknown zone.
fn current_time(millis: i64, zone: &str) -> Result<String, ToolError> {
    let now = Timestamp::from_millisecond(millis)?;
    let time_zone = TimeZone::get(zone).map_err(|_unknown| {
        ToolError::Retry(format!(
            "`{}` is not a time zone: use a name such as Europe/Berlin or UTC",
            excerpt(zone)
        ))
    })?;
    let now = now.to_zoned(time_zone);
    let abbreviation = now.strftime("%Z").to_string();
    Ok(format!(
        "{} ({zone}, {abbreviation}), {}",
        now.strftime("%Y-%m-%dT%H:%M:%S%:z"),
        now.strftime("%A")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_told_in_the_zone_with_its_summer_time() {
        let winter = 1_767_225_600_000; // 2026-01-01T00:00:00Z
        let summer = 1_782_864_000_000; // 2026-07-01T00:00:00Z
        for (millis, zone, text) in [
            (winter, "UTC", "2026-01-01T00:00:00+00:00 (UTC, UTC), Thursday"),
            (winter, "Europe/Berlin", "2026-01-01T01:00:00+01:00 (Europe/Berlin, CET), Thursday"),
            (summer, "Europe/Berlin", "2026-07-01T02:00:00+02:00 (Europe/Berlin, CEST), Wednesday"),
            (winter, "Asia/Kolkata", "2026-01-01T05:30:00+05:30 (Asia/Kolkata, IST), Thursday"),
            (
                winter,
                "America/New_York",
                "2025-12-31T19:00:00-05:00 (America/New_York, EST), Wednesday",
            ),
        ] {
            assert_eq!(current_time(millis, zone).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_zone_is_refused_with_an_example() {
        for zone in
            ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "a\0b", &"x".repeat(10_000)]
        {
            let error = current_time(0, zone).unwrap_err();
            assert!(
                matches!(&error, ToolError::Retry(text) if text.contains("Europe/Berlin")),
                "{zone}: {error}"
            );
            assert!(error.to_string().len() < 400);
        }
    }
}
