//! `provost tool call`: executes one call through the guard, like a call of an agent.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use provost_core::contract::{
    RequestTool, ToolContractError, ToolErrorCode, ToolRequest, ToolResponse,
};
use provost_core::policy::PolicyDecision;
use provost_core::recovery::EffectKey;
use provost_core::{Env, ErrorKind, RunId, ToolCall};
use provost_tool::{
    CallOrigin, Deps, Grants, Guard, GuardDecision, RunCallbacks, State, Tool, ToolContext,
    ToolContextParts,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::ToolCommand;
use crate::error::CliError;
use crate::render::output::{Output, printable};
use crate::render::printer::Format;
use crate::signal::Signals;
use crate::stdin;

/// Arguments of `provost tool call`.
#[derive(Debug, clap::Args)]
pub(crate) struct CallArgs {
    /// Name of the tool
    name: String,
    /// Arguments as a JSON object; default: standard input
    arguments: Option<String>,
    /// Approve the call if it requires approval
    #[arg(long, short)]
    yes: bool,
}

/// Result of a call.
pub(super) struct CallResult {
    /// Output of the tool as text, or the error.
    pub(super) outcome: Result<String, ToolContractError>,
    /// Response of the tool contract.
    pub(super) response: ToolResponse,
}

impl ToolCommand<'_> {
    /// Calls a tool and prints its output.
    pub(super) async fn call(&self, args: &CallArgs) -> Result<u8, CliError> {
        let tool = self.find(&args.name)?;
        let text = match &args.arguments {
            Some(text) => text.clone(),
            None => stdin::read_piped()?.unwrap_or_else(|| "{}".to_owned()),
        };
        let arguments: Value = serde_json::from_str(text.trim()).map_err(|error| {
            CliError::invalid(format!("the arguments are not JSON: {error}"))
                .hint("use a JSON object such as '{\"q\": \"pears\"}'")
        })?;
        let result = self.call_tool(&tool, &arguments, args.yes).await?;
        match (self.printer.format, &result.outcome) {
            (Format::Table, Ok(text)) => self.printer.write(&format!("{}\n", printable(text)))?,
            (Format::Table, Err(fault)) => {
                let message = format!("{}: {}", fault.code, fault.message);
                return Err(CliError::new(fault.code.kind(), message));
            }
            _ => self.printer.print_details(&result.response, &args.name)?,
        }
        Ok(result.outcome.map_or_else(|fault| fault.code.kind().exit_code(), |_| 0))
    }

    /// Returns the decision of the rules about a call. `None` without manifests.
    pub(super) fn decision(&self, tool: &dyn Tool) -> Result<Option<PolicyDecision>, CliError> {
        let Some(policy) = self.tools.policy().current() else { return Ok(None) };
        let governance = policy.policy_for(&self.origin(None));
        let governance =
            governance.map_err(|error| CliError::new(ErrorKind::Unavailable, error.to_string()))?;
        Ok(Some(governance.decide(&tool.spec().tool_attributes(), "invoke")))
    }

    /// Returns the origin of the call for policies and records.
    fn origin(&self, run: Option<RunId>) -> CallOrigin {
        CallOrigin {
            namespace: self.namespace().to_owned(),
            agent: self.options.agent.clone(),
            run,
            grants: Grants { roles: self.options.role.clone(), ..Grants::default() },
            ..CallOrigin::default()
        }
    }

    /// Executes one call. Asks the user if the rules require approval.
    pub(super) async fn call_tool(
        &self,
        tool: &Arc<dyn Tool>,
        arguments: &Value,
        yes: bool,
    ) -> Result<CallResult, CliError> {
        let env = Env::system();
        let run: RunId = env.id();
        let guard = Guard::default().with_services(self.tools.guard_services());
        let guard = guard.for_run(self.origin(Some(run))).await;
        let name = tool.spec().name().to_owned();
        let call = ToolCall::new("call_1", &name, arguments);
        let started = Instant::now();
        let outcome = self.call_through_guard(&guard, tool, run, &call, yes).await?;
        let request = ToolRequest {
            request_id: EffectKey::new(run, 0, 0).to_string(),
            tool: RequestTool { name, ..RequestTool::default() },
            ..ToolRequest::default()
        };
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(CallResult { response: ToolResponse::of(&request, outcome.clone(), millis), outcome })
    }

    /// Calls a tool through the guard, and asks the user if it requires approval.
    async fn call_through_guard(
        &self,
        guard: &Guard,
        tool: &Arc<dyn Tool>,
        run: RunId,
        call: &ToolCall,
        yes: bool,
    ) -> Result<Result<String, ToolContractError>, CliError> {
        let mut decision = guard.check_and_record(tool, call, /*approved*/ false).await;
        if let GuardDecision::Ask(approval) = &decision {
            let reason =
                approval.reason.clone().unwrap_or_else(|| "the tool requires approval".to_owned());
            if !yes && !confirm(&self.printer.output, &call.name, &reason)? {
                return Ok(Err(ToolContractError::new(
                    ToolErrorCode::ApprovalDenied,
                    "the call was not approved",
                )));
            }
            decision = guard.check_and_record(tool, call, /*approved*/ true).await;
        }
        let permit = match decision {
            GuardDecision::Allow(permit) => permit,
            GuardDecision::Deny(fault) => return Ok(Err(fault)),
            GuardDecision::Invalid(problem) => {
                return Ok(Err(ToolContractError::new(ToolErrorCode::InvalidInput, problem)));
            }
            GuardDecision::Ask(_) => {
                let message = "the call needs more than one approver";
                return Ok(Err(ToolContractError::new(ToolErrorCode::ApprovalPending, message)));
            }
        };
        let cancel = CancellationToken::new();
        let parts = ToolContextParts {
            run_id: run,
            agent: self.options.agent.as_str().into(),
            depth: 0,
            depth_max: None,
            call_id: call.id.clone(),
            tool: call.name.clone(),
            effect_key: EffectKey::new(run, 0, 0),
            retries_left: 0,
            cancel: cancel.clone(),
            deps: Deps::default(),
            state: State::default(),
            callbacks: Arc::new(ProgressReporter(self.printer.output)),
            redact: guard.redactor().cloned(),
        };
        let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
        let running = guard.run(permit, ToolContext::new(parts));
        tokio::pin!(running);
        let finished = tokio::select! {
            finished = &mut running => finished,
            _signal = signals.next() => {
                cancel.cancel();
                running.await
            }
        };
        Ok(match finished {
            Ok(output) if output.is_error => {
                Err(ToolContractError::final_failure(output.to_text()))
            }
            Ok(output) => Ok(output.to_text()),
            Err(error) => Err(error.to_contract_error()),
        })
    }
}

/// Asks the user at the terminal. Returns false without a terminal.
fn confirm(output: &Output, tool: &str, reason: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || !output.stderr_tty {
        return Ok(false);
    }
    let terminal = |error: io::Error| CliError::io("the terminal", &error);
    let reason = printable(reason);
    write!(io::stderr(), "call `{}`? {reason} [y/N] ", printable(tool)).map_err(terminal)?;
    io::stderr().flush().map_err(terminal)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(terminal)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Prints the progress of a call.
struct ProgressReporter(Output);

impl RunCallbacks for ProgressReporter {
    fn progress(&self, _cx: &ToolContext, message: String) {
        self.0.note(&message);
    }
}
