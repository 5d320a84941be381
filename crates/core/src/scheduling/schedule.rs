//! Rules of schedules for times that cannot be served as planned.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lifecycle::RequestError;
use crate::text::string_enum::string_enum;

string_enum! {
    /// Treatment of a time whose predecessor's task has not ended.
    #[derive(Default)]
    OverlapPolicy, "an overlap policy" {
        /// Both tasks run.
        Allow = "allow",
        /// Skips the new time.
        #[default]
        Skip = "skip",
        /// Queues the new task in the session of the request, or in a session of the schedule if the request names
        /// none.
        Queue = "queue",
        /// Cancels the previous task.
        CancelPrevious = "cancel_previous",
    }
}

/// Treatment of times that were missed because no scheduler ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedRunPolicy {
    /// Skips times that are more than one minute late.
    Skip,
    /// Fires once for all missed times.
    #[default]
    One,
    /// Fires the latest missed times, oldest first.
    All {
        /// Maximum number of times.
        max: u32,
    },
}

impl fmt::Display for MissedRunPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::One => f.write_str("one"),
            Self::All { max } => write!(f, "all:{max}"),
        }
    }
}

impl FromStr for MissedRunPolicy {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let max = text.strip_prefix("all:").and_then(|max| max.parse().ok());
        match (text, max) {
            ("skip", _) => Ok(Self::Skip),
            ("one", _) => Ok(Self::One),
            (_, Some(max)) => Ok(Self::All { max }),
            _ => {
                let fix = "use `skip`, `one` or `all:<number>`";
                Err(RequestError::invalid("schedule.catch_up", "not a rule", fix))
            }
        }
    }
}

impl Serialize for MissedRunPolicy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MissedRunPolicy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
