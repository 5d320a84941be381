//! How a feed is stored: its small part as a step's body, and the message it brought in the one place for messages.

use std::sync::Arc;

use provost_agent::run::{Feed, RunConfig, RunInput, RunStarted};
use provost_core::lifecycle::StepKind;
use provost_core::{Message, Money, RequestKind, StopReason, Timestamp, Usage};
use provost_model::ModelResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::child::join::is_wait;

/// A feed, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: StepKind,
    pub(crate) body: String,
    pub(crate) message: Option<&'a Message>,
}

/// Everything of a model's answer but its message.
#[derive(Serialize, Deserialize)]
struct Answer {
    usage: Usage,
    usage_known: bool,
    stop: StopReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_id: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<Money>,
    at: Timestamp,
}

/// Everything of a beginning but its message.
#[derive(Serialize, Deserialize)]
struct Begun {
    agent: Arc<str>,
    config: RunConfig,
    mirrors_session: bool,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    state: Map<String, Value>,
    /// `None` if it began with the message that is stored beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with: Option<RunInput>,
    at: Timestamp,
}

/// A body that its step's kind does not explain.
#[derive(Debug, thiserror::Error)]
#[error("a {kind} step cannot be read: {problem}")]
pub(crate) struct Unreadable {
    kind: StepKind,
    problem: String,
}

pub(crate) fn beginning(beginning: &RunStarted) -> Result<Record<'_>, serde_json::Error> {
    // What it changes of what outlives it is in rows of its own.
    let RunStarted { agent, config, mirrors_session, state, input, at, shared: _ } = beginning;
    let (message, with) = match input {
        RunInput::Message { message } => (Some(&**message), None),
        other => (None, Some(other.clone())),
    };
    let begun = Begun {
        agent: Arc::clone(agent),
        config: config.clone(),
        mirrors_session: *mirrors_session,
        state: state.clone(),
        with,
        at: *at,
    };
    Ok(Record { kind: StepKind::Checkpoint, body: serde_json::to_string(&begun)?, message })
}

pub(crate) fn read_beginning(
    body: &str,
    message: Option<Arc<Message>>,
) -> Result<RunStarted, Unreadable> {
    let unreadable = |problem: String| Unreadable { kind: StepKind::Checkpoint, problem };
    let begun: Begun = serde_json::from_str(body).map_err(|error| unreadable(error.to_string()))?;
    let input = match (begun.with, message) {
        (Some(input), _) => input,
        (None, Some(message)) => RunInput::Message { message },
        (None, None) => return Err(unreadable("its message is missing".to_owned())),
    };
    let Begun { agent, config, mirrors_session, state, at, .. } = begun;
    Ok(RunStarted { agent, config, mirrors_session, state, shared: Vec::new(), input, at })
}

pub(crate) fn feed(feed: &Feed) -> Result<Record<'_>, serde_json::Error> {
    let kind = kind_of(feed);
    let (body, message) = match feed {
        Feed::ModelAnswered { response, cost, at } => {
            let ModelResponse { message, usage, usage_known, stop, response_id, metadata } =
                &**response;
            let answer = Answer {
                usage: *usage,
                usage_known: *usage_known,
                stop: *stop,
                response_id: response_id.clone(),
                metadata: metadata.clone(),
                cost: *cost,
                at: *at,
            };
            (serde_json::to_string(&answer)?, Some(message))
        }
        Feed::UserSaid { message } => (String::from("{}"), Some(&**message)),
        other => (serde_json::to_string(other)?, None),
    };
    Ok(Record { kind, body, message })
}

pub(crate) fn read_feed(
    kind: StepKind,
    body: &str,
    message: Option<Arc<Message>>,
) -> Result<Feed, Unreadable> {
    let unreadable = |problem: String| Unreadable { kind, problem };
    let missing = || unreadable("its message is missing".to_owned());
    match kind {
        StepKind::ModelCall => {
            let answer: Answer =
                serde_json::from_str(body).map_err(|error| unreadable(error.to_string()))?;
            let message = Arc::unwrap_or_clone(message.ok_or_else(missing)?);
            let Answer { usage, usage_known, stop, response_id, metadata, cost, at } = answer;
            let response =
                ModelResponse { message, usage, usage_known, stop, response_id, metadata };
            Ok(Feed::ModelAnswered { response: Box::new(response), cost, at })
        }
        StepKind::DrainInput => Ok(Feed::UserSaid { message: message.ok_or_else(missing)? }),
        StepKind::AwaitChild => {
            let mut feed: Feed =
                serde_json::from_str(body).map_err(|error| unreadable(error.to_string()))?;
            // Older steps say only by their kind what they wait for.
            if let Feed::ApprovalNeeded { request, .. } = &mut feed {
                request.kind = RequestKind::Runs;
            }
            Ok(feed)
        }
        _ => serde_json::from_str(body).map_err(|error| unreadable(error.to_string())),
    }
}

/// The kind of step that a feed commits.
fn kind_of(feed: &Feed) -> StepKind {
    match feed {
        Feed::ModelAnswered { .. } => StepKind::ModelCall,
        Feed::ToolFinished { .. } => StepKind::ToolCall,
        Feed::ApprovalNeeded { request, .. } if is_wait(request) => StepKind::AwaitChild,
        Feed::ApprovalNeeded { .. } | Feed::ApprovalDecided { .. } => StepKind::Approval,
        Feed::UserSaid { .. } => StepKind::DrainInput,
        Feed::ContextFitted { .. } => StepKind::Compact,
        Feed::ContextChanged { .. }
        | Feed::LimitFound { .. }
        | Feed::LimitDecided { .. }
        | Feed::OutputChecked { .. }
        | Feed::Saved
        | Feed::HandedOff(_)
        | Feed::ChildUsed { .. }
        | Feed::ChildrenUsed { .. }
        | Feed::Noted { .. }
        | Feed::Suspended { .. }
        | Feed::Resumed { .. } => StepKind::Note,
        Feed::Stopped { .. } => StepKind::Finish,
    }
}
