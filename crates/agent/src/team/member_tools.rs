//! Tools that start, stop and list the members of a team.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectClass;
use provost_core::text::first_chars;
use provost_tool::{FnTool, Tool, ToolContext, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::member::{Member, MemberOutcome};
use super::{LIST_BYTES_MAX, Team};
use crate::error::BuildError;
use crate::subagent::{
    AgentPathSegment, ChildLifetime, ChildStatus, NoArgs, SpawnRequest, erase_tool, spawner_of,
};
use crate::team::command::{TeamCommand, TeamError, TeamResponse};
use crate::team::membership::TeamMembership;
use crate::team::state::cut_to_json_size;

/// Starts a member.
pub(crate) const SPAWN: &str = "spawn_teammate";
/// Stops a member.
pub(crate) const STOP: &str = "stop_teammate";
/// Lists the members.
const LIST: &str = "list_teammates";
/// All tool names of this file.
pub(super) const NAMES: [&str; 3] = [SPAWN, STOP, LIST];

/// Creates the tools that only the lead has.
pub(super) fn tools(team: &Team) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![erase_tool(spawn(team))?, erase_tool(stop())?])
}

/// Creates the tools that all participants have.
pub(super) fn shared() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![erase_tool(list())?])
}

/// The arguments of the tool that starts a member.
#[derive(Debug, Deserialize, JsonSchema)]
struct SpawnArgs {
    /// The name of the new member. No active member may have it.
    name: String,
    /// The task. The member sees nothing else, so include everything it needs to know.
    task: String,
    /// The template of the member. If omitted, the template with the member's name is used, if there is one.
    #[serde(default)]
    template: Option<String>,
    /// The instructions of a member without a template.
    #[serde(default)]
    system_prompt: Option<String>,
    /// Maximum rounds of tool calls. 0 uses the member's own limit.
    #[serde(default)]
    max_turns: u32,
    /// Timeout in seconds. 0 uses the team's default.
    #[serde(default)]
    timeout: u64,
}

/// The arguments of the tool that stops a member.
#[derive(Debug, Deserialize, JsonSchema)]
struct MemberNameArgs {
    /// The name of the member.
    name: String,
}

fn spawn(team: &Team) -> Result<FnTool, ToolSpecError> {
    let mut description = "Starts a member of your team, which works in parallel with you. \
        You receive its final response as a message."
        .to_owned();
    if !team.templates.is_empty() {
        let line =
            |(agent, text): &(crate::AgentRef, String)| format!("- {}: {text}", agent.name());
        let lines: Vec<String> = team.templates.iter().map(line).collect();
        description.push_str(" Templates:\n");
        description.push_str(&lines.join("\n"));
    }
    let team = Arc::new(team.clone());
    let tool = tool_fn(SPAWN, description, move |cx: ToolContext, args: SpawnArgs| {
        let team = Arc::clone(&team);
        async move { team.spawn(&cx, args).await }
    })?;
    // A repeated call finds the member that the first one started.
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

impl Team {
    /// Adds a member to the team and starts it. Returns an error for the model if the arguments are invalid or the team
    /// is full.
    async fn spawn(&self, cx: &ToolContext, args: SpawnArgs) -> Result<String, ToolError> {
        let membership = lead(cx)?;
        for (what, text) in [("name", &args.name), ("task", &args.task)] {
            if text.trim().is_empty() {
                return Err(ToolError::retry(TeamError::Empty(what)));
            }
        }
        let segment = self.segment(&args)?;
        let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
        let request = SpawnRequest {
            path: [segment].into(),
            index: 0,
            task: args.task.clone(),
            max_turns: (args.max_turns > 0).then_some(args.max_turns),
            timeout: timeout.or(self.default_timeout),
            lifetime: ChildLifetime::Run,
        };
        let join = TeamCommand::Join { name: args.name.clone(), task: args.task };
        let TeamResponse::Member { member, .. } = membership.apply(cx, join).await? else {
            return Err(ToolError::failed("the team returned an unexpected response"));
        };
        // The event of the member must precede all events of its run.
        if let Some(run) = membership.context() {
            run.notify_member(&membership, &member, Duration::ZERO).await;
        }
        let started = match spawner_of(cx) {
            Ok(host) => host.start(cx, vec![request], None).await,
            Err(error) => Err(error),
        };
        let name = args.name;
        let child = match started.map(|children| children.into_iter().next()) {
            Ok(Some(child)) => child,
            Ok(None) => {
                return Err(self.fail_unstarted(&membership, &name, "it was not started").await);
            }
            // The call is repeated after the wait.
            Err(error @ (ToolError::NeedsApproval { .. } | ToolError::WaitsForRuns { .. })) => {
                return Err(error);
            }
            Err(error) => {
                return Err(self.fail_unstarted(&membership, &name, &error.to_string()).await);
            }
        };
        membership.apply(cx, TeamCommand::MemberStarted { name, run: child.run }).await?;
        let report =
            json!({ "member_id": member.id, "name": member.name, "status": member.status });
        Ok(report.to_string())
    }

    /// Marks a member as failed that joined but could not start. Returns the error of the call.
    async fn fail_unstarted(
        &self,
        membership: &TeamMembership,
        name: &str,
        error: &str,
    ) -> ToolError {
        if let Some(run) = membership.context() {
            run.end_member(name, MemberOutcome::Failed(error.to_owned()), Duration::ZERO).await;
        }
        ToolError::Failed(format!("`{name}` could not start: {error}"))
    }

    /// Returns the path segment of the new member's definition. Returns an error for the model if the template is
    /// unknown or the arguments contradict each other.
    fn segment(&self, args: &SpawnArgs) -> Result<AgentPathSegment, ToolError> {
        let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (named, instructions) = (non_empty(&args.template), non_empty(&args.system_prompt));
        let template = named.clone().or_else(|| Some(args.name.clone()));
        let template = template.filter(|name| self.find_template(name).is_some());
        if let (Some(name), None) = (&named, &template) {
            let known: Vec<&str> =
                self.templates.iter().map(|(agent, _)| &**agent.name()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = first_chars(name, 64);
            let text = format!("no template is named `{name}`; known templates: {known}");
            return Err(ToolError::Retry(text));
        }
        if let (Some(name), Some(_)) = (&template, &instructions) {
            let text = format!(
                "template `{name}` has its own instructions: omit `system_prompt` or choose another member name"
            );
            return Err(ToolError::Retry(text));
        }
        Ok(AgentPathSegment::Member { name: args.name.clone(), template, instructions })
    }
}

fn stop() -> Result<FnTool, ToolSpecError> {
    let description = "Stops a member of your team. Its unfinished work is lost.";
    let tool = tool_fn(STOP, description, |cx: ToolContext, args: MemberNameArgs| async move {
        let membership = lead(&cx)?;
        if args.name.trim().is_empty() {
            return Err(ToolError::retry(TeamError::Empty("name")));
        }
        let TeamResponse::Members { members, .. } =
            membership.apply(&cx, TeamCommand::Members).await?
        else {
            return Err(ToolError::failed("the team returned an unexpected response"));
        };
        let known = members.iter().rev().find(|member| member.name == args.name);
        let Some(member) = known else {
            let name = first_chars(&args.name, 64).to_owned();
            let known = members.iter().filter(|member| member.is_active());
            let known: Vec<&str> = known.map(|member| member.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(ToolError::from(TeamError::Unknown { name, known }));
        };
        let ended = format!("{} had already ended.", member.name);
        if !member.is_active() {
            return Ok(ended);
        }
        let Some(run) = member.run else {
            return Err(ToolError::failed("the member has not started yet: try again"));
        };
        let stopped = spawner_of(&cx)?.stop(&cx, run).await?;
        Ok(match stopped.status {
            ChildStatus::Cancelled => format!("{} was stopped.", member.name),
            _ => ended,
        })
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn list() -> Result<FnTool, ToolSpecError> {
    let description = "Lists the members of the team with their tasks and status.";
    let tool = tool_fn(LIST, description, |cx: ToolContext, _args: NoArgs| async move {
        let reply = TeamMembership::of(&cx)?.apply(&cx, TeamCommand::Members).await?;
        let TeamResponse::Members { members, .. } = reply else {
            return Err(ToolError::failed("the team returned an unexpected response"));
        };
        let bytes_max = LIST_BYTES_MAX / members.len().max(1);
        let row = |member: &Member| {
            json!({
                "name": member.name,
                "status": member.status,
                "task": cut_to_json_size(member.task.clone(), bytes_max),
            })
        };
        let all: Vec<Value> = members.iter().map(row).collect();
        Ok::<_, ToolError>(Value::from(all).to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// Returns the membership of the calling run. Returns an error unless it is the lead.
fn lead(cx: &ToolContext) -> Result<TeamMembership, ToolError> {
    let membership = TeamMembership::of(cx)?;
    if membership.is_lead() {
        Ok(membership)
    } else {
        Err(ToolError::failed("only the lead can do that"))
    }
}
