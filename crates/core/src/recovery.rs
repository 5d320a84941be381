//! Rules of recovery: effect classes, outcome codes, keys of effects and of child runs.

mod effect;
mod key;
mod outcome;

pub use effect::{EffectClass, OnUnknown, Recovery};
pub use key::{
    ChildIds, EffectKey, child_ids_of_call, child_run_id, child_task_id, heir_run_id, send_key,
};
pub use outcome::{FailureSource, OutcomeCode, RetryClass, Vote};
