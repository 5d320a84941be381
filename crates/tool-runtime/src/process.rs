//! Tools that are programs. A program runs in a sandbox without a shell. Its arguments are built from templates.
//!
//! A program receives its arguments, its declared environment variables and an isolation profile. Its output is the
//! result. An exit code other than 0 is an error with an unknown outcome. With `envelope`, the program reads a request
//! envelope from its standard input and writes a response envelope.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{ToolContractError, ToolErrorCode, ToolRequest, ToolResponse};
use provost_core::resource::{
    CliOutput, CliSpec, CliWorkspace, IsolationMode, ToolResource, ToolType,
};
use provost_sandbox::{
    ExitInfo, ExitReason, IsolationProfile, SandboxCommand, StdStream, Stdin, WorkspaceMount,
};
use provost_tool::{ToolInvocation, ToolOutput, ToolRuntime};
use provost_workspace::conversation::{
    ConversationWorkspaces, SnapshotLabel, WorkspaceHandle, WorkspaceKey,
};

use crate::http::envelope::response_output;
use crate::http::template::{self, Escape};
use crate::limits::{ANSWER_BYTES_MAX, FAILURE_BYTES_MAX};
use crate::mcp::CommandAllowList;
use crate::sandbox::{SandboxConfig, SandboxRequest};
use crate::transport::client::AttemptContext;
use crate::transport::error;

/// Options of the process runtime.
#[derive(Clone)]
pub struct ProcessOptions {
    /// Sandbox of the programs. The mode of its profile is the isolation of the runtime.
    pub sandbox: SandboxConfig,
    /// Programs that may be started. Declaring a tool must not permit running arbitrary programs.
    pub commands: CommandAllowList,
    /// Workspaces of conversations, for tools that use them. `None` disables such tools.
    pub workspaces: Option<ConversationWorkspaces>,
}

/// Tool runtime for tools of type `cli`.
#[derive(Clone)]
pub struct ProcessRuntime {
    options: Arc<ProcessOptions>,
}

impl ProcessRuntime {
    /// Creates a runtime.
    pub fn new(options: ProcessOptions) -> Self {
        Self { options: Arc::new(options) }
    }
}

impl ToolRuntime for ProcessRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Cli
    }

    fn isolation(&self) -> IsolationMode {
        self.options.sandbox.profile.mode
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        let spec = cli_spec(tool)?;
        if !tool.endpoint.is_empty() {
            return Err(error::invalid_definition("a `cli` tool has no endpoint: remove it")
                .detail("field", "endpoint"));
        }
        // A secret is bound to one host, so the program cannot choose where it is sent.
        let has_single_host =
            spec.hosts.len() == 1 && spec.hosts.iter().all(|host| !host.contains('*'));
        if tool.auth.is_some() && !has_single_host {
            let message =
                "a `cli` tool with `auth` must name exactly one host, which receives the secret";
            return Err(error::invalid_definition(message).detail("field", "auth"));
        }
        self.options.commands.check(&spec.command)?;
        for (at, text) in spec.args.iter().enumerate() {
            template::check(Escape::None, &format!("cli.args[{at}]"), text)?;
        }
        let profile = self.profile(tool, spec, SandboxRequest::default())?;
        if spec.workspace == CliWorkspace::Conversation && self.options.workspaces.is_none() {
            let message = "workspaces of conversations are not available";
            return Err(error::invalid_definition(message).detail("field", "cli.workspace"));
        }
        let sandbox = &self.options.sandbox;
        sandbox.backends.select(&profile).map(drop).map_err(|error| error.to_contract_error())
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        async move {
            let call = AttemptContext::from_invocation(&attempt);
            call.with_deadline(runtime.run(&attempt, &call)).await
        }
        .boxed()
    }
}

impl ProcessRuntime {
    /// Returns the isolation profile of a tool's program. Its output is limited to the size of a response.
    fn profile(
        &self,
        tool: &ToolResource,
        spec: &CliSpec,
        request: SandboxRequest<'_>,
    ) -> Result<IsolationProfile, ToolContractError> {
        let (image, limits) = (spec.image.as_deref(), spec.resources);
        let request = SandboxRequest { hosts: &spec.hosts, image, limits, ..request };
        let mut profile = self.options.sandbox.profile(&tool.name, request)?;
        let bytes_max = ANSWER_BYTES_MAX as u64;
        profile.limits.output_bytes = profile.limits.output_bytes.min(bytes_max);
        Ok(profile)
    }

    /// Acquires the workspace of the conversation, if the tool uses it, and reports lost files to the run. Other calls
    /// can use the workspace at the same time.
    async fn acquire_workspace(
        &self,
        attempt: &ToolInvocation,
        spec: &CliSpec,
    ) -> Result<Option<WorkspaceHandle>, ToolContractError> {
        let workspaces = match spec.workspace {
            CliWorkspace::None => return Ok(None),
            CliWorkspace::Conversation => self.options.workspaces.as_ref(),
        };
        let (Some(workspaces), Some(conversation)) = (workspaces, &attempt.conversation) else {
            let message = "the call belongs to no conversation with a workspace";
            return Err(error::invalid_definition(message).detail("field", "cli.workspace"));
        };
        let key = WorkspaceKey {
            namespace: conversation.namespace.clone(),
            conversation: conversation.id.clone(),
            principal: conversation.principal.clone(),
        };
        let workspace_guard =
            workspaces.acquire(&key).await.map_err(|error| error.to_contract_error())?;
        if let Some(reason) = workspace_guard.data_loss() {
            let result = conversation.report_workspace_reset(reason).await;
            result
                .map_err(|reason| ToolContractError::new(ToolErrorCode::ExecutionFailed, reason))?;
        }
        Ok(Some(workspace_guard))
    }

    /// Runs the program, and saves its workspace before the result is returned.
    async fn run(
        &self,
        attempt: &ToolInvocation,
        call: &AttemptContext,
    ) -> Result<ToolOutput, ToolContractError> {
        let spec = cli_spec(&attempt.tool)?;
        self.options.commands.check(&spec.command)?;
        let (labels, secrets) = (attempt.labels(), &attempt.credentials.headers);
        let request = SandboxRequest { labels: &labels, secrets, ..SandboxRequest::default() };
        let mut profile = self.profile(&attempt.tool, spec, request)?;
        let left = attempt.deadline.saturating_duration_since(Instant::now());
        profile.limits.time = profile.limits.time.min(left);
        let workspace_guard = self.acquire_workspace(attempt, spec).await?;
        if let Some(workspace_guard) = &workspace_guard {
            profile.workspace = WorkspaceMount::ReadWrite(workspace_guard.dir().to_owned());
        }
        let mut job = SandboxCommand::new(&spec.command, render_arguments(spec, attempt)?, profile);
        job.env = spec.env.clone();
        job.dir = spec.working_dir.as_ref().map(Into::into);
        job.input = build_input(spec, attempt)?;
        let (mut output, mut stderr) = (Vec::new(), Vec::new());
        let each = |channel: StdStream, bytes: &[u8]| {
            let is_answer = match spec.output {
                CliOutput::Stdout => channel == StdStream::Out,
                CliOutput::Stderr => channel == StdStream::Err,
                CliOutput::Both => true,
            };
            if is_answer {
                output.extend_from_slice(bytes);
            }
            if channel == StdStream::Err && stderr.len() < FAILURE_BYTES_MAX {
                stderr.extend_from_slice(bytes);
            }
        };
        let exit = self.options.sandbox.backends.run(job, &attempt.cancel, each).await;
        if let Some(workspace_guard) = workspace_guard {
            // The workspace is saved before the result is returned.
            let turn = attempt.conversation.as_ref().map(|of| of.turn.clone()).unwrap_or_default();
            let mark = SnapshotLabel { label: attempt.effect_key.clone(), turn };
            workspace_guard.release(mark).await.map_err(|error| error.to_contract_error())?;
        }
        let exit = exit.map_err(|error| error.to_contract_error())?;
        interpret_exit(spec, call, &exit, &output, &stderr)
    }
}

/// Returns the `cli` section of a tool. Returns an error if it is missing or has no command.
fn cli_spec(tool: &ToolResource) -> Result<&CliSpec, ToolContractError> {
    let missing =
        || error::invalid_definition("a `cli` tool needs `cli.command`").detail("field", "cli");
    tool.cli.as_ref().filter(|spec| !spec.command.is_empty()).ok_or_else(missing)
}

/// Builds the standard input: the request envelope, the arguments as JSON, or nothing.
fn build_input(spec: &CliSpec, attempt: &ToolInvocation) -> Result<Stdin, ToolContractError> {
    if spec.envelope {
        let mut envelope = ToolRequest::clone(&attempt.request);
        ToolType::Cli.as_str().clone_into(&mut envelope.runtime.mode);
        let bytes = serde_json::to_vec(&envelope);
        let result = |error| error::invalid_input(format!("the request has no JSON form: {error}"));
        return bytes.map(Stdin::Bytes).map_err(result);
    }
    Ok(match spec.stdin_from_input {
        true => Stdin::Bytes(attempt.arguments.to_string().into_bytes()),
        false => Stdin::Empty,
    })
}

/// Renders the arguments of the program, each from one template. Returns an error if an argument of the call would be
/// read as an option of the program.
fn render_arguments(
    spec: &CliSpec,
    attempt: &ToolInvocation,
) -> Result<Vec<String>, ToolContractError> {
    let mut filled: Vec<String> = Vec::with_capacity(spec.args.len());
    for (at, text) in spec.args.iter().enumerate() {
        let field = format!("cli.args[{at}]");
        let value = template::render(Escape::None, &field, text, &attempt.arguments)?;
        let is_past_options = spec.args[..at].iter().any(|arg| arg == "--");
        let is_open = text.trim_start().starts_with("{{") && !is_past_options;
        if is_open && value.starts_with('-') {
            let message =
                format!("`{field}` begins with `-`, so the program would treat it as an option");
            return Err(error::invalid_input(message).detail("field", field));
        }
        filled.push(value);
    }
    Ok(filled)
}

/// Converts the output of the program to a result. Returns an error for a limit that stopped the program, or for an
/// exit code other than 0.
fn interpret_exit(
    spec: &CliSpec,
    call: &AttemptContext,
    exit: &ExitInfo,
    output: &[u8],
    stderr: &[u8],
) -> Result<ToolOutput, ToolContractError> {
    match exit.reason {
        ExitReason::Exited => {}
        ExitReason::TimedOut => return Err(error::timeout()),
        ExitReason::Cancelled => return Err(error::cancelled()),
        ExitReason::OutputLimit => {
            let message = format!("the program wrote more than {ANSWER_BYTES_MAX} bytes");
            return Err(ToolContractError::final_failure(message));
        }
    }
    if spec.envelope && exit.code == 0 {
        let response: ToolResponse = serde_json::from_slice(output).map_err(|error| {
            ToolContractError::final_failure(format!(
                "the output is not a valid response envelope: {}",
                call.excerpt.text(&error.to_string())
            ))
        })?;
        return response_output(call, response);
    }
    if exit.code == 0 {
        return Ok(ToolOutput::text(String::from_utf8_lossy(output)));
    }
    let stderr = call.excerpt.bytes(stderr, /*is_cut*/ false);
    let stderr = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
    let message = format!("the program exited with code {}{stderr}", exit.code);
    let failed = ToolContractError::new(ToolErrorCode::ExecutionFailed, message);
    Err(call.outcome_unknown(failed.detail("exit_code", exit.code.to_string())))
}
