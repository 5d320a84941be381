//! Tools that are programs: a list of arguments made of templates, no shell, a sandbox around it.
//!
//! A program is given its arguments, its declared variables and a profile, and nothing of ours. What it writes is its answer;
//! a code other than 0 is a failure, and nobody knows what it had done before. With `envelope` it reads a request of the
//! contract from its standard input and writes a response, so it can say itself what went wrong.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{ToolContractError, ToolErrorCode, ToolRequest, ToolResponse};
use provost_core::resource::{
    CliOutput, CliSpec, CliWorkspace, IsolationMode, ToolResource, ToolType,
};
use provost_sandbox::{Cause, Channel, Ended, Input, Job, Profile, Workspace};
use provost_tool::{Attempt, ToolOutput, ToolRuntime};
use provost_workspace::conversation::{Mark, Seat, Tenant, Workspaces};

use crate::http::envelope::said;
use crate::http::template::{self, Place};
use crate::limits::{ANSWER_BYTES_MAX, FAILURE_BYTES_MAX};
use crate::mcp::CommandAllowList;
use crate::sandbox::{Sandbox, Wanted};
use crate::transport::client::Call;
use crate::transport::fault;

/// How programs are run.
#[derive(Clone)]
pub struct CliOptions {
    /// Where. The mode of its profile is the isolation that the runtime gives.
    pub sandbox: Sandbox,
    /// The programs that may be started. Declaring a tool must not be a way to run anything at all.
    pub commands: CommandAllowList,
    /// Where the files of conversations are, for tools that work on them.
    pub workspaces: Option<Workspaces>,
}

/// Tools of type `cli`.
#[derive(Clone)]
pub struct CliRuntime {
    options: Arc<CliOptions>,
}

impl CliRuntime {
    /// With these sandboxes.
    pub fn new(options: CliOptions) -> Self {
        Self { options: Arc::new(options) }
    }
}

impl ToolRuntime for CliRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Cli
    }

    fn isolation(&self) -> IsolationMode {
        self.options.sandbox.profile.mode
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        let spec = spec(tool)?;
        if !tool.endpoint.is_empty() {
            return Err(fault::definition("a `cli` tool has no endpoint: remove it")
                .detail("field", "endpoint"));
        }
        // A secret goes to the one host that it is for, and never to whichever the program would choose.
        let is_sure = spec.hosts.len() == 1 && spec.hosts.iter().all(|host| !host.contains('*'));
        if tool.auth.is_some() && !is_sure {
            let message =
                "a `cli` tool with `auth` names exactly one host, to which the secret goes";
            return Err(fault::definition(message).detail("field", "auth"));
        }
        self.options.commands.check(&spec.command)?;
        for (at, text) in spec.args.iter().enumerate() {
            template::check(Place::Text, &format!("cli.args[{at}]"), text)?;
        }
        let profile = self.profile(tool, spec, Wanted::default())?;
        if spec.workspace == CliWorkspace::Conversation && self.options.workspaces.is_none() {
            let message = "there is no place here for the files of conversations";
            return Err(fault::definition(message).detail("field", "cli.workspace"));
        }
        let sandbox = &self.options.sandbox;
        sandbox.backends.select(&profile).map(drop).map_err(|error| error.fault())
    }

    fn invoke(
        &self,
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        async move {
            let call = Call::of(&attempt);
            call.within(runtime.run(&attempt, &call)).await
        }
        .boxed()
    }
}

impl CliRuntime {
    /// What the program of a tool may have.
    fn profile(
        &self,
        tool: &ToolResource,
        spec: &CliSpec,
        of_the_call: Wanted<'_>,
    ) -> Result<Profile, ToolContractError> {
        let (image, bounds) = (spec.image.as_deref(), spec.resources);
        let wanted = Wanted { hosts: &spec.hosts, image, bounds, ..of_the_call };
        let mut profile = self.options.sandbox.profile(&tool.name, wanted)?;
        let bytes_max = ANSWER_BYTES_MAX as u64;
        profile.limits.output_bytes = profile.limits.output_bytes.min(bytes_max);
        Ok(profile)
    }

    /// A place among the files of the conversation, for a tool that works on them.
    async fn seat(
        &self,
        attempt: &Attempt,
        spec: &CliSpec,
    ) -> Result<Option<Seat>, ToolContractError> {
        let workspaces = match spec.workspace {
            CliWorkspace::None => return Ok(None),
            CliWorkspace::Conversation => self.options.workspaces.as_ref(),
        };
        let (Some(workspaces), Some(conversation)) = (workspaces, &attempt.conversation) else {
            let message = "the call belongs to no conversation whose files could be worked on";
            return Err(fault::definition(message).detail("field", "cli.workspace"));
        };
        let tenant = Tenant {
            namespace: conversation.namespace.clone(),
            conversation: conversation.id.clone(),
            principal: conversation.principal.clone(),
        };
        let seat = workspaces.enter(&tenant).await.map_err(|error| error.fault())?;
        if let Some(reason) = seat.loss() {
            let told = conversation.workspace_reset(reason).await;
            told.map_err(|why| ToolContractError::new(ToolErrorCode::ExecutionFailed, why))?;
        }
        Ok(Some(seat))
    }

    async fn run(&self, attempt: &Attempt, call: &Call) -> Result<ToolOutput, ToolContractError> {
        let spec = spec(&attempt.tool)?;
        self.options.commands.check(&spec.command)?;
        let (labels, secrets) = (attempt.labels(), &attempt.credentials.headers);
        let of_the_call = Wanted { labels: &labels, secrets, ..Wanted::default() };
        let mut profile = self.profile(&attempt.tool, spec, of_the_call)?;
        let left = attempt.deadline.saturating_duration_since(Instant::now());
        profile.limits.time = profile.limits.time.min(left);
        let seat = self.seat(attempt, spec).await?;
        if let Some(seat) = &seat {
            profile.workspace = Workspace::ReadWrite(seat.dir().to_owned());
        }
        let mut job = Job::new(&spec.command, arguments(spec, attempt)?, profile);
        job.env = spec.env.clone();
        job.dir = spec.working_dir.as_ref().map(Into::into);
        job.input = input(spec, attempt)?;
        let (mut answer, mut words) = (Vec::new(), Vec::new());
        let each = |channel: Channel, bytes: &[u8]| {
            let is_answer = match spec.output {
                CliOutput::Stdout => channel == Channel::Out,
                CliOutput::Stderr => channel == Channel::Err,
                CliOutput::Both => true,
            };
            if is_answer {
                answer.extend_from_slice(bytes);
            }
            if channel == Channel::Err && words.len() < FAILURE_BYTES_MAX {
                words.extend_from_slice(bytes);
            }
        };
        let ended = self.options.sandbox.backends.run(job, &attempt.cancel, each).await;
        if let Some(seat) = seat {
            // The files are kept before anybody hears how the program ended.
            let turn = attempt.conversation.as_ref().map(|of| of.turn.clone()).unwrap_or_default();
            let mark = Mark { label: attempt.effect_key.clone(), turn };
            seat.leave(mark).await.map_err(|error| error.fault())?;
        }
        let ended = ended.map_err(|error| error.fault())?;
        judged(spec, call, &ended, &answer, &words)
    }
}

fn spec(tool: &ToolResource) -> Result<&CliSpec, ToolContractError> {
    let missing = || fault::definition("a `cli` tool needs `cli.command`").detail("field", "cli");
    tool.cli.as_ref().filter(|spec| !spec.command.is_empty()).ok_or_else(missing)
}

fn input(spec: &CliSpec, attempt: &Attempt) -> Result<Input, ToolContractError> {
    if spec.envelope {
        let mut envelope = ToolRequest::clone(&attempt.request);
        ToolType::Cli.as_str().clone_into(&mut envelope.runtime.mode);
        let bytes = serde_json::to_vec(&envelope);
        let told = |error| fault::input(format!("the request has no JSON form: {error}"));
        return bytes.map(Input::Bytes).map_err(told);
    }
    Ok(match spec.stdin_from_input {
        true => Input::Bytes(attempt.arguments.to_string().into_bytes()),
        false => Input::Empty,
    })
}

/// The arguments of the program, each filled in by itself.
fn arguments(spec: &CliSpec, attempt: &Attempt) -> Result<Vec<String>, ToolContractError> {
    let mut filled: Vec<String> = Vec::with_capacity(spec.args.len());
    for (at, text) in spec.args.iter().enumerate() {
        let field = format!("cli.args[{at}]");
        let value = template::fill(Place::Text, &field, text, &attempt.arguments)?;
        let is_past_options = spec.args[..at].iter().any(|arg| arg == "--");
        let is_open = text.trim_start().starts_with("{{") && !is_past_options;
        if is_open && value.starts_with('-') {
            let message =
                format!("`{field}` begins with `-` and would be an option of the program");
            return Err(fault::input(message).detail("field", field));
        }
        filled.push(value);
    }
    Ok(filled)
}

fn judged(
    spec: &CliSpec,
    call: &Call,
    ended: &Ended,
    answer: &[u8],
    words: &[u8],
) -> Result<ToolOutput, ToolContractError> {
    match ended.cause {
        Cause::Exited => {}
        Cause::TimedOut => return Err(fault::timeout()),
        Cause::Stopped => return Err(fault::canceled()),
        Cause::Flooded => {
            let message = format!("the program wrote more than {ANSWER_BYTES_MAX} bytes");
            return Err(ToolContractError::final_failure(message));
        }
    }
    if spec.envelope && ended.code == 0 {
        let response: ToolResponse = serde_json::from_slice(answer).map_err(|error| {
            ToolContractError::final_failure(format!(
                "the answer is no response envelope of the contract: {}",
                call.clip.text(&error.to_string())
            ))
        })?;
        return said(call, response);
    }
    if ended.code == 0 {
        return Ok(ToolOutput::text(String::from_utf8_lossy(answer)));
    }
    let words = call.clip.part(words, /*is_cut*/ false);
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    let message = format!("the program ended with code {}{words}", ended.code);
    let failed = ToolContractError::new(ToolErrorCode::ExecutionFailed, message);
    Err(call.doubtful(failed.detail("exit_code", ended.code.to_string())))
}
