//! What every request passes on its way to a handler.

mod body_budget;
mod rate_limit;

pub(crate) use self::body_budget::{BodyBudget, read};
pub(crate) use self::rate_limit::{Caller, Rates, Standing};
