//! From what is stored to what is said on the wire, and back.

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

/// A stored word as its type; one that this version does not know is a defect.
pub(crate) fn word<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: T::Err| error::bug(&error))
}

/// A stored word that need not be there.
pub(crate) fn maybe_word<T: FromStr<Err: std::fmt::Display>>(
    text: Option<&String>,
) -> Result<Option<T>, Problem> {
    text.map(|text| word(text)).transpose()
}

/// Stored JSON as its type; what cannot be read is a defect.
pub(crate) fn stored<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| error::bug(&error))
}
