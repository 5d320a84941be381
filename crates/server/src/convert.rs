//! From what is stored to what is said on the wire, and back.

mod agent;
mod approval;
mod class;
mod delivery;
mod event;
mod explanation;
mod input;
mod page;
mod run;
mod schedule;
mod session;
mod task;
mod webhook;

use std::str::FromStr;

use provost_api::Problem;
use serde::de::DeserializeOwned;

pub(crate) use self::agent::{agent, agent_config, config};
pub(crate) use self::approval::{approval, grant};
pub(crate) use self::class::{budget, budget_period, class};
pub(crate) use self::delivery::delivery;
pub(crate) use self::event::event;
pub(crate) use self::explanation::explanation;
pub(crate) use self::input::{input, interaction, pending, receipt};
pub(crate) use self::page::{cursor, cut, page, page_of};
pub(crate) use self::run::{attempt, cancelled, fork_edits, forked, replay, run, snapshot, step};
pub(crate) use self::schedule::{schedule, schedule_change};
pub(crate) use self::session::{place, place_text, session, session_message};
pub(crate) use self::task::{accepted, command, task};
pub(crate) use self::webhook::{webhook, webhook_post};
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
