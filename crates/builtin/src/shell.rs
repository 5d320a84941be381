//! `shell`: command lines in a sandbox, as far as a policy lets them run.
//!
//! A line is read first ([`parse`]), then decided about ([`ExecPolicy`]), then run in the profile of the tool, of which nothing
//! that the model sends changes anything. What a rule allows is run as it was understood and not as it was written.
//!
//! Invariant: whatever a line says, it runs inside of the profile; the policy is a second wall and not the only one.

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
use provost_sandbox::{Backends, Cause, Channel, Ended, Job, Profile};
use provost_tool::{
    Approval, EffectClass, Facts, FnTool, OutputCollector, Permit, SpecError, Spill, Tool, ToolCx,
    ToolError, ToolFuture, ToolOutput, ToolSpec, tool_fn,
};
use provost_workspace::conversation::Workspaces;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::command_workspace::Room;
use self::jobs::{ConversationKey, Jobs};
pub use self::policy::{Args, Ask, Decision, ExecPolicy, Rule, Security};
use crate::limits::{SHELL_JOBS_MAX, SHELL_LINE_SHOWN_MAX, SHELL_TIMEOUT_MAX};

const DESCRIPTION: &str = "Runs a command line with sh, in a sandbox, in the workspace. Gives its output and the code with \
     which it ended. With background=true it gives a job at once; shell_output reads what it wrote, shell_stop ends it.";

/// What the shell tools need.
#[derive(Clone)]
pub struct ShellOptions {
    /// Where commands run.
    pub backends: Backends,
    /// What they may have there.
    pub profile: Profile,
    /// Where the files of conversations are. With it the workspace of the profile is that of the conversation, to read and to
    /// change; without it all conversations have the one that the profile names.
    pub workspaces: Option<Workspaces>,
    /// Which of them run.
    pub policy: ExecPolicy,
    /// Where long outputs are kept.
    pub spill: Option<Arc<dyn Spill>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command line.
    command: String,
    /// Go on without waiting for it.
    #[serde(default)]
    background: bool,
    /// Seconds that it may take, up to what the tool allows.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobArguments {
    /// The job, as `shell` named it.
    job: String,
}

/// The tools `shell`, `shell_output` and `shell_stop`. The jobs of one set are known to that set alone, and
/// there to the conversation that started them; they end with the set.
pub fn shell_tools(options: ShellOptions) -> Result<Vec<Arc<dyn Tool>>, SpecError> {
    let jobs = Jobs::default();
    let output = {
        let jobs = jobs.clone();
        let about = "Reads what a job in the background has written since it was last read.";
        tool_fn("shell_output", about, move |cx: ToolCx, arguments: JobArguments| {
            let jobs = jobs.clone();
            async move { jobs.read(&arguments.job, &cx) }
        })?
    };
    let stop = {
        let jobs = jobs.clone();
        let about = "Ends a job in the background, with everything that it has started.";
        tool_fn("shell_stop", about, move |cx: ToolCx, arguments: JobArguments| {
            let jobs = jobs.clone();
            async move { jobs.stop(&arguments.job, &cx).await }
        })?
    };
    let output = output.with_spec(|spec| spec.effect(EffectClass::Opaque));
    let stop = stop.with_spec(|spec| spec.effect(EffectClass::Idempotent));
    Ok(vec![Arc::new(shell(options, jobs)?), Arc::new(output), Arc::new(stop)])
}

fn shell(options: ShellOptions, jobs: Jobs) -> Result<FnTool, SpecError> {
    let asks = {
        let policy = options.policy.clone();
        Approval::when(move |arguments: &Value| {
            matches!(policy.decide(line_of(arguments)), Decision::Ask { .. })
        })
    };
    let policy = options.policy.clone();
    let effect_of = move |arguments: &Value| policy.effect_for(line_of(arguments));
    let effect = options.policy.effect();
    let operation = match effect {
        EffectClass::Pure => OperationClass::Read,
        _ => OperationClass::Write,
    };
    let facts = Facts {
        capabilities: vec!["shell".to_owned()],
        operations: vec![operation],
        risk: RiskLevel::High,
        is_isolated: options.profile.mode != IsolationMode::None,
        ..Facts::default()
    };
    let spec = ToolSpec::typed::<Arguments>("shell", DESCRIPTION)?
        .approval(asks)
        .effect(effect)
        .effect_of(effect_of)
        .timeout(options.profile.limits.time.min(SHELL_TIMEOUT_MAX) + Duration::from_secs(5))
        .facts(facts);
    let options = Arc::new(options);
    Ok(FnTool::new(spec, move |permit, cx| call(&options, &jobs, permit, cx)))
}

/// The command line of a call.
fn line_of(arguments: &Value) -> &str {
    arguments.get("command").and_then(Value::as_str).unwrap_or_default()
}

fn call(options: &Arc<ShellOptions>, jobs: &Jobs, permit: Permit, cx: ToolCx) -> ToolFuture {
    let (options, jobs) = (Arc::clone(options), jobs.clone());
    let arguments = match permit.parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(error) => return std::future::ready(Err(error)).boxed(),
    };
    async move {
        let line = match options.policy.decide(&arguments.command) {
            Decision::Run { line, .. } => line,
            // The guard has asked: without a yes nobody comes here.
            Decision::Ask { .. } => arguments.command.clone(),
            Decision::Deny { why } => {
                return Err(ToolError::Fault(ToolContractError::new(
                    ToolErrorCode::PermissionDenied,
                    why,
                )));
            }
        };
        let mut profile = options.profile.clone();
        if let Some(seconds) = arguments.timeout_seconds {
            profile.limits.time = profile.limits.time.min(Duration::from_secs(seconds));
        }
        let room = Room::enter(options.workspaces.as_ref(), &cx).await?;
        profile.workspace = room.workspace(profile.workspace);
        let job = Job::new("sh", ["-c", &line], profile);
        match arguments.background {
            true => {
                background(
                    &options,
                    &jobs,
                    Ready { job, room, owner: ConversationKey::of(&cx) },
                    &arguments.command,
                )
                .await
            }
            false => {
                let ran = foreground(&options, job, &cx).await;
                room.leave(ran).await
            }
        }
    }
    .boxed()
}

/// A job that can be started.
struct Ready {
    job: Job,
    room: Room,
    owner: Option<ConversationKey>,
}

async fn background(
    options: &ShellOptions,
    jobs: &Jobs,
    Ready { job, room, owner }: Ready,
    command: &str,
) -> Result<ToolOutput, ToolError> {
    let Some(place) = jobs.place() else {
        return Err(ToolError::Failed(format!(
            "{SHELL_JOBS_MAX} jobs are under way: end one with shell_stop first"
        )));
    };
    let input = job.input.clone();
    let running =
        options.backends.start(job).await.map_err(|error| ToolError::Fault(error.fault()))?;
    let shown = first_chars(command, SHELL_LINE_SHOWN_MAX);
    let note = room.note();
    let name = place.take(owner, running, input, room);
    Ok(ToolOutput::text(format!("{note}Started job {name}: {shown}"))
        .with_metadata(json!({ "job": name })))
}

async fn foreground(
    options: &ShellOptions,
    job: Job,
    cx: &ToolCx,
) -> Result<ToolOutput, ToolError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = format!("shell-{}", cx.effect_key().as_str().replace(|c| !legal(c), "_"));
    let redact = cx.redactor().map(AsRef::as_ref);
    let mut collector = OutputCollector::new(name, options.spill.clone(), redact);
    // It holds no more than the profile lets a program write.
    let (pieces, mut taken) = mpsc::unbounded_channel::<Vec<u8>>();
    let running = options.backends.run(job, cx.cancelled(), move |_: Channel, bytes| {
        // Whoever collects lives as long as this does.
        pieces.send(bytes.to_vec()).unwrap_or_default();
    });
    let collecting = async {
        while let Some(piece) = taken.recv().await {
            cx.progress(String::from_utf8_lossy(&piece));
            collector.push(&piece).await;
        }
        collector.finish().await
    };
    let (ended, output) = tokio::join!(running, collecting);
    let ended = ended.map_err(|error| ToolError::Fault(error.fault()))?;
    told(&ended, output.to_text())
}

/// What the model hears of a command that has ended.
fn told(ended: &Ended, mut text: String) -> Result<ToolOutput, ToolError> {
    let facts = json!({ "exit_code": ended.code, "output_bytes": ended.output_bytes,
        "took_ms": u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX) });
    let note = match ended.cause {
        Cause::Exited if ended.code == 0 => String::new(),
        Cause::Exited => format!("[it ended with code {}]", ended.code),
        Cause::TimedOut => "[its time was over and it was ended]".to_owned(),
        Cause::Flooded => "[it wrote more than it may and was ended]".to_owned(),
        Cause::Stopped => {
            return Err(ToolError::Fault(ToolContractError::new(
                ToolErrorCode::Canceled,
                "the call was stopped",
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
        text.push_str("[it wrote nothing and ended with code 0]");
    }
    let mut output = ToolOutput::text(text).with_metadata(facts);
    output.is_error = ended.cause != Cause::Exited || ended.code != 0;
    Ok(output)
}

#[cfg(test)]
mod tests;
