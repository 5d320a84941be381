//! Conversions between stored rows and API types.

pub(crate) mod agent;
pub(crate) mod approval;
pub(crate) mod budget;
pub(crate) mod class;
pub(crate) mod delivery;
pub(crate) mod event;
pub(crate) mod input;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod task;
pub(crate) mod webhook;

use provost_api::Problem;
use serde::de::DeserializeOwned;

use crate::error;

/// Parses stored JSON. Invalid JSON is an internal error.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| error::internal(&error))
}
