//! Rules of recovery: effect classes, outcome codes, keys of effects and of child runs.

mod effect;
mod key;
mod outcome;

pub use effect::{EffectClass, EffectRecovery, UnknownEffectPolicy};
pub use key::{
    ChildIds, EffectKey, child_ids_of_call, child_run_id, child_task_id, delivery_key,
    follow_up_run_id,
};
pub use outcome::{BreakerSignal, FailureSource, OutcomeCode, RetryClass};
