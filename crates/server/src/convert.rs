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

use std::str::FromStr;

use provost_api::Problem;
use serde::de::DeserializeOwned;

use crate::error;

/// Parses an enum column. An unknown value is an internal error.
pub(crate) fn parse_column<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: T::Err| error::internal(&error))
}

/// Parses an optional enum column. An unknown value is an internal error.
pub(crate) fn parse_optional_column<T: FromStr<Err: std::fmt::Display>>(
    text: Option<&String>,
) -> Result<Option<T>, Problem> {
    text.map(|text| parse_column(text)).transpose()
}

/// Parses stored JSON. Invalid JSON is an internal error.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| error::internal(&error))
}
