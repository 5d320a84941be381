//! Recovery rules: effect classes, outcome codes, and the ids of effects and child runs.

mod effect;
mod key;
mod outcome;

pub use effect::{EffectClass, EffectRecovery, UnknownEffectPolicy};
pub use key::{
    ChildIds, EffectKey, child_ids_of_call, child_run_id, child_task_id, delivery_key,
    follow_up_run_id,
};
pub use outcome::{BreakerSignal, FailureSource, OutcomeCode, RetryClass};
