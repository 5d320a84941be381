//! The contract in process: a request envelope goes the same guarded way as any other call, and an answer always comes back.

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
    Deps, Guard, Nobody, Origin, State, Tool, ToolCx, ToolCxParts, ToolError, ToolOutput, Verdict,
};

/// Executes request envelopes in process.
pub struct ContractExecutor {
    guard: Guard,
    tools: HashMap<String, Arc<dyn Tool>>,
    deps: Deps,
    env: Env,
}

impl ContractExecutor {
    /// An executor of tools behind a guard. Of two tools with one name the last counts.
    pub fn new(guard: Guard, tools: impl IntoIterator<Item = Arc<dyn Tool>>, env: Env) -> Self {
        let named = |tool: Arc<dyn Tool>| (tool.spec().name().to_owned(), tool);
        let tools = tools.into_iter().map(named).collect();
        Self { guard, tools, deps: Deps::default(), env }
    }

    /// Sets what the tools need from the program.
    #[must_use]
    pub fn deps(mut self, deps: Deps) -> Self {
        self.deps = deps;
        self
    }

    /// Executes one request. Whatever happens, the answer is an envelope.
    pub async fn execute(&self, request: ToolRequest, cancel: CancellationToken) -> ToolResponse {
        let started = Instant::now();
        let as_sent = request.clone();
        let (request, came) = match request.normalized() {
            Err(fault) => (as_sent, Err(fault)),
            Ok(request) => {
                let came = Box::pin(self.run(&request, cancel)).await;
                (request, came)
            }
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        ToolResponse::of(&request, came, duration_ms)
    }

    async fn run(
        &self,
        request: &ToolRequest,
        cancel: CancellationToken,
    ) -> Result<String, ToolContractError> {
        let tool = self.tools.get(&request.tool.name).ok_or_else(|| {
            let message = format!("there is no tool `{}`", request.tool.name);
            ToolContractError::new(ToolErrorCode::UnsupportedTool, message)
        })?;
        // Rules are about what a tool does when it is invoked; another word must not lead around them.
        if request.tool.operation != OPERATION_INVOKE {
            let message = format!("tool `{}` has no operation but `invoke`", request.tool.name);
            return Err(ToolContractError::new(ToolErrorCode::InvalidInput, message));
        }
        let run: RunId = self.env.id();
        let guard = self.guard.for_run(origin(request, run)).await;
        let call = ToolCall {
            arguments: request.encoded_input(),
            ..ToolCall::new(&request.request_id, &request.tool.name, &Value::Null)
        };
        let operation = &request.tool.operation;
        let verdict = guard.check_action(tool, &call, operation, /*approved*/ false);
        guard.record_verdict(&verdict, &call).await;
        let permit = match verdict {
            Verdict::Allow(permit) => permit,
            Verdict::Deny(fault) => return Err(fault),
            Verdict::Invalid(problem) => {
                return Err(ToolContractError::new(ToolErrorCode::InvalidInput, problem));
            }
            Verdict::Ask(asked) => {
                let message = asked.why.unwrap_or_else(|| "a person must approve it".to_owned());
                return Err(ToolContractError::new(ToolErrorCode::ApprovalPending, message));
            }
        };
        let parts = ToolCxParts {
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
            outside: Arc::new(Nobody),
        };
        let timeout = match request.runtime.timeout_ms {
            0 => Duration::MAX,
            timeout_ms => Duration::from_millis(timeout_ms),
        };
        tokio::select! {
            biased;
            ran = guard.run(permit, ToolCx::new(parts)) => outcome(ran),
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

fn origin(request: &ToolRequest, run: RunId) -> Origin {
    Origin {
        namespace: request.namespace.trim().to_owned(),
        agent: request.agent.trim().to_owned(),
        run: Some(run),
        task: request.task_id.clone(),
        ..Origin::default()
    }
}

/// The same for the same request, whoever sends it again.
fn effect_key(request: &ToolRequest, run: RunId) -> EffectKey {
    let ToolRequest { namespace, task_id, request_id, .. } = request;
    let hash = sha256_hex(format!("{namespace}\0{task_id}\0{request_id}").as_bytes());
    format!("eff_{}", &hash[..32]).parse().unwrap_or_else(|_| EffectKey::new(run, 0, 0))
}

/// A result that reports its own failure is a failure in the words of the wire.
fn outcome(ran: Result<ToolOutput, ToolError>) -> Result<String, ToolContractError> {
    match ran {
        Ok(output) if output.is_error => Err(ToolContractError::final_failure(output.to_text())),
        Ok(output) => Ok(output.to_text()),
        Err(error) => Err(error.fault()),
    }
}
