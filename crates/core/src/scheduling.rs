//! Rules of scheduling: execution classes, input modes, retries, epochs.

pub(crate) mod backoff;
mod epoch;
mod execution_class;
mod input_mode;
pub(crate) mod retry;

pub use epoch::Epoch;
pub use execution_class::{Admission, Breaker, CLASS_DESIRED_DEFAULT, ClassKey, Health};
pub use input_mode::{
    DropPolicy, InputAction, Overflow, QueueMode, QueueOverride, QueueSettings, Situation,
};
pub use retry::{Jitter, RetryPolicy};
