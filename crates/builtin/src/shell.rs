//! The `shell` tools: command lines in a sandbox, if a policy permits them.
//!
//! A command line is parsed ([`parse`]), then checked ([`ExecPolicy`]), then executed with the isolation profile of the
//! tool, which the model cannot change. A line that a rule allows is executed in its canonical form and not as written.
//!
//! Invariant: every command line runs inside the profile. The policy is a second barrier and not the only one.

mod command_workspace;
mod indirect_exec;
mod jobs;
pub mod parse;
mod policy;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{IsolationMode, OperationClass, RiskLevel};
use provost_core::text::first_chars;
use provost_sandbox::{
    ExitInfo, ExitReason, IsolationProfile, SandboxCommand, SandboxRegistry, StdStream,
};
use provost_tool::{
    ArtifactStore, EffectClass, FnTool, OutputCollector, Permit, PolicyAttributes,
    RequiresApproval, Tool, ToolContext, ToolError, ToolFuture, ToolOutput, ToolSpec,
    ToolSpecError, tool_fn,
};
use provost_workspace::conversation::ConversationWorkspaces;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::command_workspace::CommandWorkspace;
use self::jobs::{BackgroundJobs, ConversationKey};
pub use self::policy::{ArgMatcher, AskPolicy, CommandRule, ExecDecision, ExecMode, ExecPolicy};
use crate::limits::{SHELL_JOBS_MAX, SHELL_LINE_SHOWN_MAX, SHELL_TIMEOUT_MAX};

const DESCRIPTION: &str = "Runs a command line with sh, in a sandbox, in the workspace. Returns its output and its \
     exit code. With background=true, it returns a job immediately; shell_output reads its output, shell_stop ends it.";

/// Policy, sandbox and storage of the shell tools.
#[derive(Clone)]
pub struct ShellOptions {
    /// Sandboxes that run the commands.
    pub backends: SandboxRegistry,
    /// Isolation profile of the commands.
    pub profile: IsolationProfile,
    /// Workspaces of conversations. If set, a command gets the writable workspace of its conversation. `None`: all
    /// conversations share the workspace of the profile.
    pub workspaces: Option<ConversationWorkspaces>,
    /// Policy that decides which commands run.
    pub policy: ExecPolicy,
    /// Store of the complete text of long outputs. `None`: they are only truncated.
    pub spill: Option<Arc<dyn ArtifactStore>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellArguments {
    /// The command line.
    command: String,
    /// Return immediately instead of waiting for the command.
    #[serde(default)]
    background: bool,
    /// Time limit in seconds, up to the limit of the tool.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobArguments {
    /// The name of the job, as returned by `shell`.
    job: String,
}

/// Creates the `shell`, `shell_output` and `shell_stop` tools. A job is visible only to its own set of tools and its
/// own conversation. The jobs end when the tools are dropped.
pub fn shell_tools(options: ShellOptions) -> Result<Vec<Arc<dyn Tool>>, ToolSpecError> {
    let jobs = BackgroundJobs::default();
    let output = {
        let jobs = jobs.clone();
        let description = "Reads the output that a background job has written since the last read.";
        tool_fn("shell_output", description, move |cx: ToolContext, arguments: JobArguments| {
            let jobs = jobs.clone();
            async move { jobs.read(&arguments.job, &cx) }
        })?
    };
    let stop = {
        let jobs = jobs.clone();
        let description = "Ends a background job and all processes that it has started.";
        tool_fn("shell_stop", description, move |cx: ToolContext, arguments: JobArguments| {
            let jobs = jobs.clone();
            async move { jobs.stop(&arguments.job, &cx).await }
        })?
    };
    let output = output.with_spec(|spec| spec.effect(EffectClass::Opaque));
    let stop = stop.with_spec(|spec| spec.effect(EffectClass::Idempotent));
    Ok(vec![Arc::new(create_shell_tool(options, jobs)?), Arc::new(output), Arc::new(stop)])
}

/// Creates the `shell` tool. Its approval and its effect class depend on the command line and the policy.
fn create_shell_tool(options: ShellOptions, jobs: BackgroundJobs) -> Result<FnTool, ToolSpecError> {
    let approval = {
        let policy = options.policy.clone();
        RequiresApproval::when(move |arguments: &Value| {
            matches!(policy.decide(command_line(arguments)), ExecDecision::Ask { .. })
        })
    };
    let policy = options.policy.clone();
    let effect_of = move |arguments: &Value| policy.effect_for(command_line(arguments));
    let effect = options.policy.effect();
    let operation = match effect {
        EffectClass::Pure => OperationClass::Read,
        _ => OperationClass::Write,
    };
    let attributes = PolicyAttributes {
        capabilities: vec!["shell".to_owned()],
        operations: vec![operation],
        risk: RiskLevel::High,
        is_isolated: options.profile.mode != IsolationMode::None,
        ..PolicyAttributes::default()
    };
    let spec = ToolSpec::typed::<ShellArguments>("shell", DESCRIPTION)?
        .approval(approval)
        .effect(effect)
        .effect_by_arguments(effect_of)
        .timeout(options.profile.limits.time.min(SHELL_TIMEOUT_MAX) + Duration::from_secs(5))
        .policy_attributes(attributes);
    let options = Arc::new(options);
    Ok(FnTool::new(spec, move |permit, cx| run_call(&options, &jobs, permit, cx)))
}

/// Returns the command line in the arguments. Empty if it is missing.
fn command_line(arguments: &Value) -> &str {
    arguments.get("command").and_then(Value::as_str).unwrap_or_default()
}

/// Executes a call: applies the policy, acquires the workspace, and runs the command.
fn run_call(
    options: &Arc<ShellOptions>,
    jobs: &BackgroundJobs,
    permit: Permit,
    cx: ToolContext,
) -> ToolFuture {
    let (options, jobs) = (Arc::clone(options), jobs.clone());
    let arguments = match permit.parse::<ShellArguments>() {
        Ok(arguments) => arguments,
        Err(error) => return std::future::ready(Err(error)).boxed(),
    };
    async move {
        let line = match options.policy.decide(&arguments.command) {
            ExecDecision::Run { line, .. } => line,
            // The guard has already obtained the approval.
            ExecDecision::Ask { .. } => arguments.command.clone(),
            ExecDecision::Deny { reason } => {
                return Err(ToolError::Fault(ToolContractError::new(
                    ToolErrorCode::PermissionDenied,
                    reason,
                )));
            }
        };
        let mut profile = options.profile.clone();
        if let Some(seconds) = arguments.timeout_seconds {
            profile.limits.time = profile.limits.time.min(Duration::from_secs(seconds));
        }
        let workspace = CommandWorkspace::acquire(options.workspaces.as_ref(), &cx).await?;
        profile.workspace = workspace.mount(profile.workspace);
        let job = SandboxCommand::new("sh", ["-c", &line], profile);
        match arguments.background {
            true => {
                start_background(
                    &options,
                    &jobs,
                    PreparedCommand { job, workspace, owner: ConversationKey::of(&cx) },
                    &arguments.command,
                )
                .await
            }
            false => {
                let result = run_foreground(&options, job, &cx).await;
                workspace.save_and_return(result).await
            }
        }
    }
    .boxed()
}

/// A command with its workspace that is ready to start.
struct PreparedCommand {
    job: SandboxCommand,
    workspace: CommandWorkspace,
    owner: Option<ConversationKey>,
}

/// Starts a command as a background job. Returns an error if too many jobs run.
async fn start_background(
    options: &ShellOptions,
    jobs: &BackgroundJobs,
    PreparedCommand { job, workspace, owner }: PreparedCommand,
    command: &str,
) -> Result<ToolOutput, ToolError> {
    let Some(slot) = jobs.reserve_slot() else {
        return Err(ToolError::Failed(format!(
            "{SHELL_JOBS_MAX} jobs are running: end one with shell_stop first"
        )));
    };
    let input = job.input.clone();
    let running = options
        .backends
        .start(job)
        .await
        .map_err(|error| ToolError::Fault(error.to_contract_error()))?;
    let shown = first_chars(command, SHELL_LINE_SHOWN_MAX);
    let note = workspace.note();
    let name = slot.start_job(owner, running, input, workspace);
    Ok(ToolOutput::text(format!("{note}Started job {name}: {shown}"))
        .with_metadata(json!({ "job": name })))
}

/// Runs a command until it ends. Reports its output as progress and returns the output.
async fn run_foreground(
    options: &ShellOptions,
    job: SandboxCommand,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = format!("shell-{}", cx.effect_key().as_str().replace(|c| !is_allowed(c), "_"));
    let redact = cx.redactor().map(AsRef::as_ref);
    let mut collector = OutputCollector::new(name, options.spill.clone(), redact);
    // Unbounded, because the profile limits the output of the program.
    let (chunks, mut received) = mpsc::unbounded_channel::<Vec<u8>>();
    let running = options.backends.run(job, cx.cancelled(), move |_: StdStream, bytes| {
        // The receiver lives as long as this closure.
        chunks.send(bytes.to_vec()).unwrap_or_default();
    });
    let collected = async {
        while let Some(chunk) = received.recv().await {
            cx.progress(String::from_utf8_lossy(&chunk));
            collector.push(&chunk).await;
        }
        collector.finish().await
    };
    let (ended, output) = tokio::join!(running, collected);
    let ended = ended.map_err(|error| ToolError::Fault(error.to_contract_error()))?;
    format_result(&ended, output.to_text())
}

/// Adds a note about the end of the command to its output. An exit code other than 0 is not an error.
fn format_result(ended: &ExitInfo, mut text: String) -> Result<ToolOutput, ToolError> {
    let metadata = json!({ "exit_code": ended.code, "output_bytes": ended.output_bytes,
        "took_ms": u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX) });
    let note = match ended.reason {
        ExitReason::Exited if ended.code == 0 => String::new(),
        ExitReason::Exited => format!("[exited with code {}]", ended.code),
        ExitReason::TimedOut => "[timed out and was killed]".to_owned(),
        ExitReason::OutputLimit => "[output limit exceeded; killed]".to_owned(),
        ExitReason::Cancelled => {
            return Err(ToolError::Fault(ToolContractError::new(
                ToolErrorCode::Canceled,
                "the call was cancelled",
            )));
        }
    };
    if !note.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
    }
    if text.is_empty() {
        text.push_str("[no output; exited with code 0]");
    }
    let mut output = ToolOutput::text(text).with_metadata(metadata);
    output.is_error = ended.reason != ExitReason::Exited || ended.code != 0;
    Ok(output)
}

#[cfg(test)]
mod tests;
