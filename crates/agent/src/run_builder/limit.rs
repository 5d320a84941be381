//! Asking the program what to do at a limit.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hook::HookError;
use crate::run::{LimitDecision, LimitQuestion};

/// A function that decides at a limit. If it fails, the run ends with its error.
pub(crate) type AskLimit = Arc<
    dyn Fn(LimitQuestion) -> BoxFuture<'static, Result<LimitDecision, HookError>> + Send + Sync,
>;
