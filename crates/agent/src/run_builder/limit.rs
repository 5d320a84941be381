//! The program's decision at a limit.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hook::HookError;
use crate::run::{LimitContext, LimitDecision};

/// A function that decides how a run continues at a limit. If it fails, the run ends with its error.
pub(crate) type AskLimit =
    Arc<dyn Fn(LimitContext) -> BoxFuture<'static, Result<LimitDecision, HookError>> + Send + Sync>;
