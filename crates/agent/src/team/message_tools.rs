//! Tools that exchange messages in a team.

use std::sync::Arc;
use std::time::Duration;

use provost_core::TeamMessage;
use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, Tool, ToolContext, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::LIST_BYTES_MAX;
use crate::error::BuildError;
use crate::subagent::{NoArgs, erase_tool};
use crate::team::command::{TeamCommand, TeamError, TeamResponse};
use crate::team::inbox::json_bytes;
use crate::team::membership::TeamMembership;
use crate::team::state::cut_to_json_size;
use crate::team::store::TeamWait;

const SEND: &str = "send_message";
const READ: &str = "read_messages";
const WAIT: &str = "wait_for_messages";
/// All tool names of this file.
pub(super) const NAMES: [&str; 3] = [SEND, READ, WAIT];

/// Default duration for which a call waits for messages.
const WAIT_DEFAULT: Duration = Duration::from_secs(60);
/// Maximum duration for which a call waits for messages.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Additional time of the tool call beyond its wait.
const WAIT_SLACK: Duration = Duration::from_secs(30);

/// Result without messages.
const NO_MESSAGES: &str = "There are no messages.";

/// Creates the tools for messages.
pub(super) fn tools() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![erase_tool(send())?, erase_tool(read())?, erase_tool(wait())?])
}

/// The arguments of the tool that sends a message.
#[derive(Debug, Deserialize, JsonSchema)]
struct SendMessageArgs {
    /// The recipient: a member's name, `__lead__` for the lead, or `*` for all other participants.
    to: String,
    /// The text of the message.
    content: String,
}

/// The arguments of the tool that waits for messages.
#[derive(Debug, Deserialize, JsonSchema)]
struct WaitArgs {
    /// Maximum seconds to wait. 0 waits for one minute.
    #[serde(default)]
    timeout: u64,
}

fn send() -> Result<FnTool, ToolSpecError> {
    let description = "Sends a message to a participant of the team.";
    let tool = tool_fn(SEND, description, |cx: ToolContext, args: SendMessageArgs| async move {
        let membership = TeamMembership::of(&cx)?;
        for (what, text) in [("to", &args.to), ("content", &args.content)] {
            if text.trim().is_empty() {
                return Err(ToolError::retry(TeamError::Empty(what)));
            }
        }
        let from = membership.name().to_owned();
        let send = TeamCommand::Send { from, to: args.to, content: args.content };
        let TeamResponse::Sent { message, recipients } = membership.apply(&cx, send).await? else {
            return Err(ToolError::failed("the team returned an unexpected response"));
        };
        if let Some(run) = membership.context() {
            run.notify_message(&membership, &message).await;
        }
        Ok(match recipients.as_slice() {
            [] => "The team has no other active participant.".to_owned(),
            names => format!("Sent to {}.", names.join(", ")),
        })
    })?;
    // A repeated call has the same key, so the message is not sent again.
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn read() -> Result<FnTool, ToolSpecError> {
    let description = "Returns your unread messages.";
    let tool = tool_fn(READ, description, |cx: ToolContext, _args: NoArgs| async move {
        Ok::<_, ToolError>(
            take_messages(&cx, &TeamMembership::of(&cx)?).await?.unwrap_or_else(no_messages),
        )
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn wait() -> Result<FnTool, ToolSpecError> {
    let description = "Waits for messages to you and returns them.";
    let tool = tool_fn(WAIT, description, |cx: ToolContext, args: WaitArgs| async move {
        let membership = TeamMembership::of(&cx)?;
        let timeout = match args.timeout {
            0 => WAIT_DEFAULT,
            seconds => Duration::from_secs(seconds).min(WAIT_MAX),
        };
        let deadline = Instant::now() + timeout;
        let mut is_expired = false;
        loop {
            // The status is read before the messages, because a member's last message precedes its end.
            let is_last = others_have_ended(&cx, &membership).await?;
            if let Some(messages) = take_messages(&cx, &membership).await? {
                return Ok::<_, ToolError>(messages);
            }
            if is_last {
                return Ok(format!(
                    "{NO_MESSAGES} No active participant is left who could send one."
                ));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if is_expired || left.is_zero() {
                return Ok(format!("No message arrived within {} seconds.", timeout.as_secs()));
            }
            let until = TeamWait::Message(membership.name().to_owned());
            is_expired = membership.store().wait_in_call(&cx, until, timeout, left).await?;
        }
    })?;
    let tool = tool.with_spec(|spec| spec.effect(EffectClass::Idempotent));
    Ok(tool.with_spec(|spec| spec.timeout(WAIT_MAX + WAIT_SLACK)))
}

fn no_messages() -> String {
    NO_MESSAGES.to_owned()
}

/// Returns true if all other participants have ended, so all their messages have arrived.
async fn others_have_ended(
    cx: &ToolContext,
    membership: &TeamMembership,
) -> Result<bool, ToolError> {
    let TeamResponse::Members { members, lead_done } =
        membership.apply(cx, TeamCommand::Members).await?
    else {
        return Err(ToolError::failed("the team returned an unexpected response"));
    };
    let mut others = members.iter().filter(|member| member.name != membership.name());
    let lead = !membership.is_lead() && !lead_done;
    Ok(!lead && !others.any(|member| member.is_active()))
}

/// Removes the unread messages of a participant, and returns them as a JSON array. `None` if there are none.
async fn take_messages(
    cx: &ToolContext,
    membership: &TeamMembership,
) -> Result<Option<String>, ToolError> {
    let by = membership.name().to_owned();
    let reply = membership.apply(cx, TeamCommand::Read { by }).await?;
    let TeamResponse::Messages { messages, left } = reply else {
        return Err(ToolError::failed("the team returned an unexpected response"));
    };
    if messages.is_empty() {
        return Ok(None);
    }
    let mut text = Value::from(messages_json(messages)).to_string();
    if left > 0 {
        text.push_str(&format!("\n{left} more unread: read again."));
    }
    Ok(Some(text))
}

/// Converts messages to JSON values. If the list is too long for a model, contents are cut.
fn messages_json(messages: Vec<TeamMessage>) -> Vec<Value> {
    let is_long = json_bytes(&messages) > LIST_BYTES_MAX;
    let bytes_max = if is_long { LIST_BYTES_MAX / messages.len().max(1) } else { LIST_BYTES_MAX };
    let line = |message: TeamMessage| {
        let content = cut_to_json_size(message.content, bytes_max);
        serde_json::json!({
            "id": message.id, "from": message.from, "to": message.to, "content": content,
            "at": message.at.to_rfc3339(),
        })
    };
    messages.into_iter().map(line).collect()
}

/// Formats unread messages for a model that did not request them.
///
/// Each message is one line of JSON with escaped line breaks and quotes, so its content cannot leave its line.
pub(crate) fn format_unrequested(messages: Vec<TeamMessage>) -> String {
    let count = messages.len();
    let mut text = format!(
        "[{count} unread message(s) of your team follow, one line of JSON each. They come from other participants, not from the system or the user.]"
    );
    for line in messages_json(messages) {
        text.push('\n');
        text.push_str(&line.to_string());
    }
    text.push_str("\n[end of the messages]");
    text
}
