//! Execution of request envelopes in process, through the same guard as any other call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use provost_core::contract::{
    OPERATION_INVOKE, ToolContractError, ToolErrorCode, ToolRequest, ToolResponse,
};
use provost_core::hash::sha256_hex;
use provost_core::recovery::EffectKey;
use provost_core::{Env, RunId, ToolCall};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    CallOrigin, Deps, Guard, GuardDecision, NoCallbacks, State, Tool, ToolContext,
    ToolContextParts, ToolError, ToolOutput,
};

/// Executes request envelopes with tools of this process.
pub struct EnvelopeExecutor {
    guard: Guard,
    tools: HashMap<String, Arc<dyn Tool>>,
    deps: Deps,
    env: Env,
}

impl EnvelopeExecutor {
    /// Creates an executor of tools behind a guard. If several tools have the same name, the executor uses the last.
    pub fn new(guard: Guard, tools: impl IntoIterator<Item = Arc<dyn Tool>>, env: Env) -> Self {
        let named = |tool: Arc<dyn Tool>| (tool.spec().name().to_owned(), tool);
        let tools = tools.into_iter().map(named).collect();
        Self { guard, tools, deps: Deps::default(), env }
    }

    /// Sets the dependencies of the tools.
    #[must_use]
    pub fn deps(mut self, deps: Deps) -> Self {
        self.deps = deps;
        self
    }

    /// Executes one request. Every error becomes a response envelope with the error.
    pub async fn execute(&self, request: ToolRequest, cancel: CancellationToken) -> ToolResponse {
        let started = Instant::now();
        let original = request.clone();
        let (request, result) = match request.normalized() {
            Err(fault) => (original, Err(fault)),
            Ok(request) => {
                let result = Box::pin(self.execute_request(&request, cancel)).await;
                (request, result)
            }
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        ToolResponse::of(&request, result, duration_ms)
    }

    /// Executes a valid request, and returns the text of the output. Returns an error if the tool is unknown or the
    /// guard does not allow the call.
    async fn execute_request(
        &self,
        request: &ToolRequest,
        cancel: CancellationToken,
    ) -> Result<String, ToolContractError> {
        let tool = self.tools.get(&request.tool.name).ok_or_else(|| {
            let message = format!("there is no tool `{}`", request.tool.name);
            ToolContractError::new(ToolErrorCode::UnsupportedTool, message)
        })?;
        // Rules apply to invocations, so another operation must not bypass them.
        if request.tool.operation != OPERATION_INVOKE {
            let name = &request.tool.name;
            let message = format!("tool `{name}` only supports the operation `invoke`");
            return Err(ToolContractError::new(ToolErrorCode::InvalidInput, message));
        }
        let run: RunId = self.env.id();
        let guard = self.guard.for_run(request_origin(request, run)).await;
        let call = ToolCall {
            arguments: request.encoded_input(),
            ..ToolCall::new(&request.request_id, &request.tool.name, &Value::Null)
        };
        let operation = &request.tool.operation;
        let decision = guard.check_action(tool, &call, operation, /*approved*/ false);
        guard.record_decision(&decision, &call).await;
        let permit = match decision {
            GuardDecision::Allow(permit) => permit,
            GuardDecision::Deny(fault) => return Err(fault),
            GuardDecision::Invalid(problem) => {
                return Err(ToolContractError::new(ToolErrorCode::InvalidInput, problem));
            }
            GuardDecision::Ask(requirement) => {
                let reason = requirement.reason;
                let message = reason.unwrap_or_else(|| "the call needs approval".to_owned());
                return Err(ToolContractError::new(ToolErrorCode::ApprovalPending, message));
            }
        };
        let parts = ToolContextParts {
            run_id: run,
            agent: request.agent.as_str().into(),
            depth: 0,
            depth_max: None,
            call_id: request.request_id.clone(),
            tool: request.tool.name.clone(),
            effect_key: effect_key(request, run),
            retries_left: 0,
            cancel: cancel.clone(),
            deps: self.deps.clone(),
            state: State::default(),
            callbacks: Arc::new(NoCallbacks),
            redact: guard.redactor().cloned(),
        };
        let timeout = match request.runtime.timeout_ms {
            0 => Duration::MAX,
            timeout_ms => Duration::from_millis(timeout_ms),
        };
        tokio::select! {
            biased;
            result = guard.run(permit, ToolContext::new(parts)) => output_text(result),
            () = cancel.cancelled() => {
                Err(ToolContractError::new(ToolErrorCode::Canceled, "the call was cancelled"))
            }
            () = tokio::time::sleep(timeout) => {
                let message = format!("no result within {} ms", timeout.as_millis());
                Err(ToolContractError::new(ToolErrorCode::Timeout, message))
            }
        }
    }
}

/// Returns the origin of a request for policies and records.
fn request_origin(request: &ToolRequest, run: RunId) -> CallOrigin {
    CallOrigin {
        namespace: request.namespace.trim().to_owned(),
        agent: request.agent.trim().to_owned(),
        run: Some(run),
        task: request.task_id.clone(),
        ..CallOrigin::default()
    }
}

/// Returns the effect key of a request. The same request always has the same key.
fn effect_key(request: &ToolRequest, run: RunId) -> EffectKey {
    let ToolRequest { namespace, task_id, request_id, .. } = request;
    let hash = sha256_hex(format!("{namespace}\0{task_id}\0{request_id}").as_bytes());
    format!("eff_{}", &hash[..32]).parse().unwrap_or_else(|_| EffectKey::new(run, 0, 0))
}

/// Returns the text of an output. An output that reports a failure becomes an error.
fn output_text(result: Result<ToolOutput, ToolError>) -> Result<String, ToolContractError> {
    match result {
        Ok(output) if output.is_error => Err(ToolContractError::final_failure(output.to_text())),
        Ok(output) => Ok(output.to_text()),
        Err(error) => Err(error.to_contract_error()),
    }
}
