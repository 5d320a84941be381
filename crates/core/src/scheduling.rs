//! Rules of scheduling: execution classes, input modes, retries, epochs.

pub(crate) mod backoff;
mod epoch;
mod execution_class;
mod input_mode;
pub(crate) mod retry;
mod schedule;
mod timer;

pub use epoch::Epoch;
pub use execution_class::{
    Admission, CLASS_CONCURRENCY_DEFAULT, ClassBreaker, ClassHealth, ExecutionClassKey,
};
pub use input_mode::{
    InputAction, InputMode, InputQueueOverride, InputQueueSettings, InputTargetState,
    OverflowDecision, OverflowPolicy,
};
pub use retry::{Jitter, RetryPolicy};
pub use schedule::{MissedRunPolicy, OverlapPolicy};
pub use timer::TimerKind;
