//! The tools by which a lead makes and stops members, and everybody sees who is there.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectClass;
use provost_core::text::first_chars;
use provost_tool::{FnTool, SpecError, Tool, ToolCx, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::member::{Member, MemberOutcome};
use super::{LIST_BYTES_MAX, Team};
use crate::error::BuildError;
use crate::subagent::{
    AgentPathSegment, ChildLifetime, ChildStatus, NoArgs, SpawnRequest, erase_tool, host,
};
use crate::team::command::{TeamCommand, TeamError, TeamResponse};
use crate::team::membership::TeamMembership;
use crate::team::state::shortened;

/// Makes a member.
pub(crate) const SPAWN: &str = "spawn_teammate";
/// Stops a member.
pub(crate) const STOP: &str = "stop_teammate";
/// Says who is there.
const LIST: &str = "list_teammates";
/// All names of this file.
pub(super) const NAMES: [&str; 3] = [SPAWN, STOP, LIST];

/// The lead's own.
pub(super) fn tools(team: &Team) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![erase_tool(spawn(team))?, erase_tool(stop())?])
}

/// Everybody's.
pub(super) fn shared() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![erase_tool(list())?])
}

/// Whom to make.
#[derive(Debug, Deserialize, JsonSchema)]
struct SpawnArgs {
    /// What the new member is called; no active member may have the name.
    name: String,
    /// What it is to do. It sees nothing else: say everything it needs to know.
    task: String,
    /// The template it is made after; if it is left out and the name is that of a template, that one is taken.
    #[serde(default)]
    template: Option<String>,
    /// The instructions of a member that is made after no template.
    #[serde(default)]
    system_prompt: Option<String>,
    /// Rounds of tool calls it may take; 0 for its own limit.
    #[serde(default)]
    max_turns: u32,
    /// Seconds it may take; 0 for the team's own limit.
    #[serde(default)]
    timeout: u64,
}

/// Whom to stop.
#[derive(Debug, Deserialize, JsonSchema)]
struct MemberNameArgs {
    /// The member's name.
    name: String,
}

fn spawn(team: &Team) -> Result<FnTool, SpecError> {
    let mut description =
        "Makes a member of your team, which begins to work at once and beside you. \
        What it answers in the end comes to you as a message."
            .to_owned();
    if !team.templates.is_empty() {
        let line =
            |(agent, text): &(crate::AgentRef, String)| format!("- {}: {text}", agent.name());
        let lines: Vec<String> = team.templates.iter().map(line).collect();
        description.push_str(" Templates:\n");
        description.push_str(&lines.join("\n"));
    }
    let team = Arc::new(team.clone());
    let tool = tool_fn(SPAWN, description, move |cx: ToolCx, args: SpawnArgs| {
        let team = Arc::clone(&team);
        async move { team.spawn(&cx, args).await }
    })?;
    // Asking again finds the member that was made.
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

impl Team {
    async fn spawn(&self, cx: &ToolCx, args: SpawnArgs) -> Result<String, ToolError> {
        let seat = lead(cx)?;
        for (what, text) in [("name", &args.name), ("task", &args.task)] {
            if text.trim().is_empty() {
                return Err(ToolError::retry(TeamError::Empty(what)));
            }
        }
        let hop = self.hop(&args)?;
        let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
        let ask = SpawnRequest {
            path: [hop].into(),
            index: 0,
            task: args.task.clone(),
            max_turns: (args.max_turns > 0).then_some(args.max_turns),
            timeout: timeout.or(self.default_timeout),
            lifetime: ChildLifetime::Run,
        };
        let join = TeamCommand::Join { name: args.name.clone(), task: args.task };
        let TeamResponse::Member { member, .. } = seat.apply(cx, join).await? else {
            return Err(ToolError::failed("the team did not say who joined"));
        };
        // Before it begins, so that it is told before anything that it does.
        if let Some(run) = seat.context() {
            run.tell_member(&seat, &member, Duration::ZERO).await;
        }
        let begun = match host(cx) {
            Ok(host) => host.start(cx, vec![ask], None).await,
            Err(error) => Err(error),
        };
        let name = args.name;
        let child = match begun.map(|started| started.into_iter().next()) {
            Ok(Some(child)) => child,
            Ok(None) => return Err(self.not_begun(&seat, &name, "it was not started").await),
            // It is asked again once the wait is over.
            Err(error @ (ToolError::NeedsApproval { .. } | ToolError::WaitsForRuns { .. })) => {
                return Err(error);
            }
            Err(error) => return Err(self.not_begun(&seat, &name, &error.to_string()).await),
        };
        seat.apply(cx, TeamCommand::MemberStarted { name, run: child.run }).await?;
        let shown = json!({ "member_id": member.id, "name": member.name, "status": member.status });
        Ok(shown.to_string())
    }

    /// A member that joined and could not begin has failed.
    async fn not_begun(&self, seat: &TeamMembership, name: &str, error: &str) -> ToolError {
        if let Some(run) = seat.context() {
            run.member_over(name, MemberOutcome::Failed(error.to_owned()), Duration::ZERO).await;
        }
        ToolError::Failed(format!("`{name}` could not begin: {error}"))
    }

    /// Where the new member's definition is.
    fn hop(&self, args: &SpawnArgs) -> Result<AgentPathSegment, ToolError> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (named, instructions) = (given(&args.template), given(&args.system_prompt));
        let template = named.clone().or_else(|| Some(args.name.clone()));
        let template = template.filter(|name| self.find_template(name).is_some());
        if let (Some(name), None) = (&named, &template) {
            let known: Vec<&str> =
                self.templates.iter().map(|(agent, _)| &**agent.name()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = first_chars(name, 64);
            let text = format!("there is no template `{name}`; the templates are: {known}");
            return Err(ToolError::Retry(text));
        }
        if let (Some(name), Some(_)) = (&template, &instructions) {
            let text = format!(
                "template `{name}` has instructions of its own: leave out `system_prompt` or give the member another name"
            );
            return Err(ToolError::Retry(text));
        }
        Ok(AgentPathSegment::Member { name: args.name.clone(), template, instructions })
    }
}

fn stop() -> Result<FnTool, SpecError> {
    let description = "Stops a member of your team. What it was doing is lost.";
    let tool = tool_fn(STOP, description, |cx: ToolCx, args: MemberNameArgs| async move {
        let seat = lead(&cx)?;
        if args.name.trim().is_empty() {
            return Err(ToolError::retry(TeamError::Empty("name")));
        }
        let TeamResponse::Members { members, .. } = seat.apply(&cx, TeamCommand::Members).await?
        else {
            return Err(ToolError::failed("the team did not say who is there"));
        };
        let known = members.iter().rev().find(|member| member.name == args.name);
        let Some(member) = known else {
            let name = first_chars(&args.name, 64).to_owned();
            let known = members.iter().filter(|member| member.is_active());
            let known: Vec<&str> = known.map(|member| member.name.as_str()).collect();
            let known = if known.is_empty() { "nobody".to_owned() } else { known.join(", ") };
            return Err(ToolError::from(TeamError::Unknown { name, known }));
        };
        let over = format!("{} was over before it could be stopped.", member.name);
        if !member.is_active() {
            return Ok(over);
        }
        let Some(run) = member.run else {
            return Err(ToolError::failed("it has not begun yet: try again"));
        };
        let stopped = host(&cx)?.stop(&cx, run).await?;
        Ok(match stopped.status {
            ChildStatus::Cancelled => format!("{} was stopped.", member.name),
            _ => over,
        })
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn list() -> Result<FnTool, SpecError> {
    let description = "Lists the members of the team with what they do and where they stand.";
    let tool = tool_fn(LIST, description, |cx: ToolCx, _args: NoArgs| async move {
        let reply = TeamMembership::of(&cx)?.apply(&cx, TeamCommand::Members).await?;
        let TeamResponse::Members { members, .. } = reply else {
            return Err(ToolError::failed("the team did not say who is there"));
        };
        let room = LIST_BYTES_MAX / members.len().max(1);
        let one = |member: &Member| {
            json!({
                "name": member.name,
                "status": member.status,
                "task": shortened(member.task.clone(), room),
            })
        };
        let all: Vec<Value> = members.iter().map(one).collect();
        Ok::<_, ToolError>(Value::from(all).to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// The place of the call's run, which must be the lead's.
fn lead(cx: &ToolCx) -> Result<TeamMembership, ToolError> {
    let seat = TeamMembership::of(cx)?;
    if seat.is_lead() { Ok(seat) } else { Err(ToolError::failed("only the lead can do that")) }
}
