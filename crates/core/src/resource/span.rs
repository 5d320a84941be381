//! Durations in human notation: `250ms`, `30s`, `10m`, `2h`, `1d`, `1m30s`.

use crate::text::first_chars;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum duration: one year.
const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// A duration in human notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HumanDuration(pub Duration);

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl HumanDuration {
    /// Parses a duration such as `1m30s`, without an upper limit.
    pub fn parse_duration(text: &str) -> Result<Duration, String> {
        let invalid = || {
            let excerpt = first_chars(text, 40);
            format!("`{excerpt}` is not a duration: use `500ms`, `30s`, `10m`, `2h` or `1m30s`")
        };
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Duration::ZERO);
        }
        let mut total_ms: u64 = 0;
        if rest.is_empty() {
            return Err(invalid());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(invalid)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let number: u64 = number.parse().ok().ok_or_else(invalid)?;
            let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?;
            total_ms = number
                .checked_mul(*factor)
                .and_then(|ms| total_ms.checked_add(ms))
                .ok_or_else(invalid)?;
            rest = tail;
        }
        Ok(Duration::from_millis(total_ms))
    }
}

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Self::parse_duration(text)? {
            duration if duration > DURATION_MAX => {
                Err(format!("`{}` is more than a year", text.trim()))
            }
            duration => Ok(Self(duration)),
        }
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if left == 0 {
            return f.write_str("0s");
        }
        for (name, factor) in UNITS.iter().rev() {
            if left >= *factor {
                write!(f, "{}{name}", left / factor)?;
                left %= factor;
            }
        }
        Ok(())
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^(0|([0-9]+(ms|s|m|h|d))+)$",
            "description": "A duration such as 250ms, 30s, 10m, 2h, 1d or 1m30s"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_written_alike() {
        for (text, ms, excerpt) in [
            ("250ms", 250, "250ms"),
            ("30s", 30_000, "30s"),
            ("1m30s", 90_000, "1m30s"),
            ("90s", 90_000, "1m30s"),
            ("2h", 7_200_000, "2h"),
            (" 1d ", 86_400_000, "1d"),
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
        ] {
            let duration: HumanDuration = text.parse().unwrap();
            assert_eq!(duration.0, Duration::from_millis(ms), "{text}");
            assert_eq!(duration.to_string(), excerpt);
            assert_eq!(excerpt.parse::<HumanDuration>().unwrap(), duration);
        }
        for wrong in ["", "5", "s", "-1s", "1.5s", "1 s", "1y", "9999999999999999999s", "400d"] {
            assert!(wrong.parse::<HumanDuration>().is_err(), "{wrong}");
        }
    }
}
