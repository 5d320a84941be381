//! The attempts of one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use provost_core::contract::{ToolContractError, ToolErrorCode, ToolRequest};
use provost_core::recovery::EffectClass;
use provost_core::resource::ToolResource;
use serde_json::Value;
use tokio::time::Instant;

use super::backoff::delay;
use super::{ATTEMPTS_DETAIL, OUTCOME_DETAIL, OUTCOME_UNKNOWN, RETRY_AFTER_DETAIL, ToolHost};
use crate::task::{TaskFailure, run_in_task};
use crate::{Attempt, Credentials, ToolCx, ToolOutput, ToolRuntime};

/// One call of a declared tool.
pub(super) struct GovernedCall {
    pub(super) resource: Arc<ToolResource>,
    pub(super) namespace: Arc<str>,
    pub(super) host: ToolHost,
    pub(super) runtime: Arc<dyn ToolRuntime>,
    pub(super) arguments: Arc<Value>,
    pub(super) request: Arc<ToolRequest>,
    pub(super) cx: ToolCx,
    pub(super) attempts: Arc<AtomicU32>,
}

/// What is done after a failed attempt.
enum Next {
    Again(Duration),
    Stop,
}

impl GovernedCall {
    /// Tries until it works or must not be tried again.
    pub(super) async fn run(mut self) -> Result<ToolOutput, ToolContractError> {
        let (mut attempt, mut evicted) = (0, false);
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
            match self.after(&fault, attempt, &mut evicted).await {
                Next::Again(pause) if self.pause(pause).await => {}
                Next::Again(_) => return Err(counted(canceled(), attempt)),
                Next::Stop => return Err(counted(fault, attempt)),
            }
        }
    }

    async fn after(&self, fault: &ToolContractError, attempt: u32, evicted: &mut bool) -> Next {
        let refused = matches!(fault.code, ToolErrorCode::AuthInvalid | ToolErrorCode::AuthExpired);
        let unknown = fault.details.get(OUTCOME_DETAIL).is_some_and(|word| word == OUTCOME_UNKNOWN);
        let repeatable = matches!(
            self.resource.effect,
            EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed
        );
        if let (true, false, Some(auth)) = (refused, *evicted, &self.resource.auth) {
            *evicted = self.host.authenticator.evict(&self.namespace, auth).await;
            // Who looked at the credential and did nothing can be asked again. Who had begun cannot, unless repeating is harmless.
            let again = *evicted && (!unknown || repeatable);
            return if again { Next::Again(Duration::ZERO) } else { Next::Stop };
        }
        let retry = &self.resource.runtime.retry;
        let attempts_max = retry.max_attempts.saturating_add(u32::from(*evicted));
        if !fault.retryable || attempt >= attempts_max || (unknown && !repeatable) {
            return Next::Stop;
        }
        let asked = asked(fault);
        // Coming back sooner than was asked for would be refused again; so long nobody waits here.
        if asked > retry.max_backoff.0 {
            return Next::Stop;
        }
        Next::Again(delay(retry, attempt, &self.host.env).max(asked))
    }

    /// Waits; false if the run is stopped meanwhile.
    async fn pause(&self, pause: Duration) -> bool {
        if pause.is_zero() {
            return !self.cx.cancelled().is_cancelled();
        }
        tokio::select! {
            biased;
            () = self.cx.cancelled().cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }

    /// Makes one attempt in a task of its own, so that neither a blocked thread nor an ignored deadline can hold the caller.
    async fn attempt(&self) -> Result<ToolOutput, ToolContractError> {
        if self.cx.cancelled().is_cancelled() {
            return Err(canceled());
        }
        let timeout = self.resource.runtime.timeout.0;
        let deadline = Instant::now() + timeout;
        let cancel = self.cx.cancelled().child_token();
        // Set when the attempt ends, however it does.
        let _ends_with_it = cancel.clone().drop_guard();
        let reached = Arc::new(AtomicBool::new(false));
        let (runtime, sending) = (Arc::clone(&self.runtime), Arc::clone(&reached));
        let mut ready = self.prepared(deadline);
        ready.cancel = cancel;
        let (host, namespace) = (self.host.clone(), Arc::clone(&self.namespace));
        let body = async move {
            if let Some(auth) = ready.tool.auth.clone() {
                ready.credentials = host.authenticator.credentials(&namespace, &auth).await?;
            }
            sending.store(true, Ordering::Relaxed);
            runtime.invoke(ready).await
        };
        let result = tokio::select! {
            biased;
            ended = run_in_task(body) => match ended {
                Ok(result) => result,
                Err(TaskFailure::Panicked(panic)) => {
                    Err(ToolContractError::final_failure(format!("the runtime panicked: {panic}")))
                }
                Err(TaskFailure::Aborted) => Err(canceled()),
            },
            () = self.cx.cancelled().cancelled() => Err(canceled()),
            () = tokio::time::sleep_until(deadline) => {
                let message = format!("no answer within {} s", timeout.as_secs_f64());
                Err(ToolContractError::new(ToolErrorCode::Timeout, message))
            }
        };
        result
            .map_err(|fault| if reached.load(Ordering::Relaxed) { in_doubt(fault) } else { fault })
    }

    fn prepared(&self, deadline: Instant) -> Attempt {
        let cx = self.cx.clone();
        Attempt {
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

/// A call that was cut off after it was sent may have happened all the same.
fn in_doubt(fault: ToolContractError) -> ToolContractError {
    match fault.code {
        ToolErrorCode::Timeout | ToolErrorCode::Canceled => {
            fault.detail(OUTCOME_DETAIL, OUTCOME_UNKNOWN)
        }
        _ => fault,
    }
}

/// How long the other side asks to wait.
fn asked(fault: &ToolContractError) -> Duration {
    let millis = fault.details.get(RETRY_AFTER_DETAIL).and_then(|text| text.parse().ok());
    Duration::from_millis(millis.unwrap_or_default())
}

fn counted(fault: ToolContractError, attempts: u32) -> ToolContractError {
    fault.detail(ATTEMPTS_DETAIL, attempts.to_string())
}

fn canceled() -> ToolContractError {
    ToolContractError::new(ToolErrorCode::Canceled, "the run was stopped")
}
