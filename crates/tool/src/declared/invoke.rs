//! Attempts and retries of one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use provost_core::contract::{ToolContractError, ToolErrorCode, ToolRequest};
use provost_core::recovery::EffectClass;
use provost_core::resource::ToolResource;
use serde_json::Value;
use tokio::time::Instant;

use super::backoff::delay;
use super::{
    ATTEMPTS_DETAIL, OUTCOME_DETAIL, OUTCOME_UNKNOWN, RETRY_AFTER_DETAIL, RuntimeServices,
};
use crate::task::{TaskFailure, run_in_task};
use crate::{Credentials, ToolContext, ToolInvocation, ToolOutput, ToolRuntime};

/// One call of a declared tool, with its attempts.
pub(super) struct DeclaredToolCall {
    pub(super) resource: Arc<ToolResource>,
    pub(super) namespace: Arc<str>,
    pub(super) services: RuntimeServices,
    pub(super) runtime: Arc<dyn ToolRuntime>,
    pub(super) arguments: Arc<Value>,
    pub(super) request: Arc<ToolRequest>,
    pub(super) cx: ToolContext,
    pub(super) attempts: Arc<AtomicU32>,
}

/// Whether and when another attempt follows a failed one.
enum RetryDecision {
    Retry(Duration),
    Stop,
}

impl DeclaredToolCall {
    /// Makes attempts until one succeeds or the error must not be retried. The error has the number of attempts.
    pub(super) async fn run(mut self) -> Result<ToolOutput, ToolContractError> {
        let (mut attempt, mut invalidated) = (0, false);
        loop {
            attempt += 1;
            self.attempts.store(attempt, Ordering::Relaxed);
            if attempt > 1 {
                Arc::make_mut(&mut self.request).attempt = attempt;
            }
            let fault = match self.attempt().await {
                Ok(output) => return Ok(output),
                Err(fault) => fault,
            };
            match self.decide_retry(&fault, attempt, &mut invalidated).await {
                RetryDecision::Retry(pause) if self.wait_before_retry(pause).await => {}
                RetryDecision::Retry(_) => return Err(with_attempts(cancelled_error(), attempt)),
                RetryDecision::Stop => return Err(with_attempts(fault, attempt)),
            }
        }
    }

    /// Decides about another attempt by the error, the effect class and the retry policy. Rejected credentials are
    /// invalidated once; if there were cached ones, another attempt follows.
    async fn decide_retry(
        &self,
        fault: &ToolContractError,
        attempt: u32,
        invalidated: &mut bool,
    ) -> RetryDecision {
        let is_rejected =
            matches!(fault.code, ToolErrorCode::AuthInvalid | ToolErrorCode::AuthExpired);
        let is_unknown =
            fault.details.get(OUTCOME_DETAIL).is_some_and(|outcome| outcome == OUTCOME_UNKNOWN);
        let is_repeatable = matches!(
            self.resource.effect,
            EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed
        );
        if let (true, false, Some(auth)) = (is_rejected, *invalidated, &self.resource.auth) {
            *invalidated = self.services.credentials.invalidate(&self.namespace, auth).await;
            // A server that rejected the credentials has not executed the call. If it may have, only a repeatable call
            // is retried.
            let can_retry = *invalidated && (!is_unknown || is_repeatable);
            return if can_retry {
                RetryDecision::Retry(Duration::ZERO)
            } else {
                RetryDecision::Stop
            };
        }
        let retry = &self.resource.runtime.retry;
        let attempts_max = retry.max_attempts.saturating_add(u32::from(*invalidated));
        if !fault.retryable || attempt >= attempts_max || (is_unknown && !is_repeatable) {
            return RetryDecision::Stop;
        }
        let retry_after = retry_after(fault);
        // An earlier attempt would be rejected again, and the policy does not allow a longer pause.
        if retry_after > retry.max_backoff.0 {
            return RetryDecision::Stop;
        }
        RetryDecision::Retry(delay(retry, attempt, &self.services.env).max(retry_after))
    }

    /// Waits before the next attempt. Returns false if the run was stopped meanwhile.
    async fn wait_before_retry(&self, pause: Duration) -> bool {
        if pause.is_zero() {
            return !self.cx.cancelled().is_cancelled();
        }
        tokio::select! {
            biased;
            () = self.cx.cancelled().cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }

    /// Makes one attempt in its own task, so that a blocked thread or an ignored deadline cannot delay the caller.
    async fn attempt(&self) -> Result<ToolOutput, ToolContractError> {
        if self.cx.cancelled().is_cancelled() {
            return Err(cancelled_error());
        }
        let timeout = self.resource.runtime.timeout.0;
        let deadline = Instant::now() + timeout;
        let cancel = self.cx.cancelled().child_token();
        // Cancels the attempt in every case, also when this future is dropped.
        let _cancel_guard = cancel.clone().drop_guard();
        let was_invoked = Arc::new(AtomicBool::new(false));
        let (runtime, invoked) = (Arc::clone(&self.runtime), Arc::clone(&was_invoked));
        let mut invocation = self.invocation(deadline);
        invocation.cancel = cancel;
        let (services, namespace) = (self.services.clone(), Arc::clone(&self.namespace));
        let body = async move {
            if let Some(auth) = invocation.tool.auth.clone() {
                invocation.credentials =
                    services.credentials.credentials(&namespace, &auth).await?;
            }
            invoked.store(true, Ordering::Relaxed);
            runtime.invoke(invocation).await
        };
        let result = tokio::select! {
            biased;
            result = run_in_task(body) => match result {
                Ok(result) => result,
                Err(TaskFailure::Panicked(panic)) => {
                    Err(ToolContractError::final_failure(format!("the runtime panicked: {panic}")))
                }
                Err(TaskFailure::Aborted) => Err(cancelled_error()),
            },
            () = self.cx.cancelled().cancelled() => Err(cancelled_error()),
            () = tokio::time::sleep_until(deadline) => {
                let message = format!("no answer within {} s", timeout.as_secs_f64());
                Err(ToolContractError::new(ToolErrorCode::Timeout, message))
            }
        };
        result.map_err(|fault| {
            if was_invoked.load(Ordering::Relaxed) { mark_outcome_unknown(fault) } else { fault }
        })
    }

    /// Creates the attempt with the request and its deadline.
    fn invocation(&self, deadline: Instant) -> ToolInvocation {
        let cx = self.cx.clone();
        ToolInvocation {
            tool: Arc::clone(&self.resource),
            arguments: Arc::clone(&self.arguments),
            request: Arc::clone(&self.request),
            effect_key: self.cx.effect_key().to_string(),
            conversation: self.cx.conversation(),
            credentials: Credentials::default(),
            deadline: deadline.into_std(),
            cancel: self.cx.cancelled().clone(),
            progress: Arc::new(move |message| cx.progress(message)),
            redact: self.cx.redactor().cloned(),
        }
    }
}

/// Marks the error of a timeout or a cancellation as having an unknown outcome, because the request was sent. Returns
/// other errors unchanged.
fn mark_outcome_unknown(fault: ToolContractError) -> ToolContractError {
    match fault.code {
        ToolErrorCode::Timeout | ToolErrorCode::Canceled => {
            fault.detail(OUTCOME_DETAIL, OUTCOME_UNKNOWN)
        }
        _ => fault,
    }
}

/// Returns the delay that the server requests before a retry. Zero if it requests none.
fn retry_after(fault: &ToolContractError) -> Duration {
    let millis = fault.details.get(RETRY_AFTER_DETAIL).and_then(|text| text.parse().ok());
    Duration::from_millis(millis.unwrap_or_default())
}

/// Adds the number of attempts to an error.
fn with_attempts(fault: ToolContractError, attempts: u32) -> ToolContractError {
    fault.detail(ATTEMPTS_DETAIL, attempts.to_string())
}

/// Creates the error of a call whose run was stopped.
fn cancelled_error() -> ToolContractError {
    ToolContractError::new(ToolErrorCode::Canceled, "the run was stopped")
}
