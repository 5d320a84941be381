//! What happens in a run, as a stream of versioned events.
//!
//! The stream is the one truth about a live run: a blocking call folds it, a terminal prints it, a server sends it on.
//! Deltas may be lost on the way to a viewer; the events that end something carry the whole of it.

mod approval;
pub mod durable;
mod part;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::approval::{ApprovalDecision, ApprovalRequest, RequestKind};
pub use self::part::{
    AgentUsed, Compaction, HandOff, LimitKind, LimitReached, TeamMessage, Teammate,
};
use crate::env::time::millis;
use crate::{
    ApprovalId, ErrorInfo, Message, Money, RunId, StateChange, StopReason, Timestamp, ToolCall,
    ToolResult, Usage,
};

/// The version of the event format. A reader that knows an older one may skip kinds it does not know.
pub const EVENT_VERSION: u16 = 1;

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Format version.
    pub v: u16,
    /// Whose event it is.
    pub run_id: RunId,
    /// Position in the run's stream: 0, 1, 2 … without gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// The agent, with the agents above it: `lead/researcher`.
    pub agent: Arc<str>,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run began, or went on after it was suspended.
    RunStarted {
        /// True if it goes on from stored state.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumed: bool,
    },
    /// A message from the user's side entered the conversation: the first one, a steering one, a follow-up.
    UserMessage {
        /// The message as the model will see it.
        message: Arc<Message>,
    },
    /// A model call begins.
    TurnStarted {
        /// 1 for the first call of the run.
        turn: u32,
    },
    /// A piece of the answer.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// A piece of the model's reasoning.
    ReasoningDelta {
        /// The piece.
        text: String,
    },
    /// The model begins to write a tool call.
    ToolCallStarted {
        /// Its id.
        call_id: String,
        /// Which tool.
        name: String,
    },
    /// A piece of a tool call's arguments.
    ToolCallDelta {
        /// Which call.
        call_id: String,
        /// The piece, raw.
        arguments: String,
    },
    /// A tool call is complete and about to be checked and run.
    ToolCallReady {
        /// The call.
        call: Box<ToolCall>,
    },
    /// The model call is over.
    TurnFinished {
        /// The same number as in `TurnStarted`.
        turn: u32,
        /// The whole answer.
        message: Arc<Message>,
        /// Why the model stopped.
        stop: StopReason,
        /// What this call used.
        usage: Usage,
    },
    /// The model call failed before anything of it was shown and is tried again.
    ModelRetry {
        /// 1 for the first retry.
        attempt: u32,
        /// How long it waits first.
        #[serde(rename = "delay_ms", with = "millis")]
        delay: Duration,
        /// Why.
        error: Box<ErrorInfo>,
    },
    /// A permitted tool begins to run.
    ToolStarted {
        /// Which call.
        call_id: String,
        /// Which tool.
        name: String,
    },
    /// A tool tells how far it is. Not shown to the model.
    ToolProgress {
        /// Which call.
        call_id: String,
        /// What it says.
        message: String,
    },
    /// A tool call has its result; sent as each call ends, whatever the order of the calls.
    ToolFinished {
        /// The result.
        result: Box<ToolResult>,
        /// How long it ran; zero if it was not allowed to.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A person must decide before a call may run.
    ApprovalNeeded {
        /// The question.
        request: Box<ApprovalRequest>,
    },
    /// A person, or a rule in a person's place, decided.
    ApprovalDecided {
        /// Which question.
        id: ApprovalId,
        /// The answer.
        decision: ApprovalDecision,
    },
    /// A limit of the run is reached.
    LimitReached(Box<LimitReached>),
    /// The conversation was shortened to fit the model's context.
    Compacted(Box<Compaction>),
    /// An answer was not of the wanted type and went back to the model.
    OutputRejected {
        /// What is wrong with it.
        reason: String,
        /// How many more tries there are.
        retries_left: u32,
    },
    /// Values of the state that outlive the run were set or taken away.
    StateChanged {
        /// Which, and what they are now.
        changes: Vec<StateChange>,
    },
    /// The files that the conversation works on are not what it left: some or all of them are lost.
    WorkspaceReset {
        /// What is lost, and why.
        reason: String,
    },
    /// The run waits at a safe point until it is told to go on.
    Paused,
    /// The run goes on.
    Unpaused,
    /// Something happened in a run below this one. `agent` says in which.
    Child {
        /// The call of this run that the child was started by.
        call_id: String,
        /// What happened there, as that run tells it.
        event: Box<Event>,
    },
    /// Another agent goes on with the conversation.
    HandedOff(Box<HandOff>),
    /// A member joined the team of this run.
    TeammateSpawned(Box<Teammate>),
    /// A member of the team is done.
    TeammateComplete(Box<Teammate>),
    /// A member of the team failed.
    TeammateError(Box<Teammate>),
    /// A member of the team was stopped.
    TeammateStopped(Box<Teammate>),
    /// A member said something to another one, or to all.
    TeamMessage(Box<TeamMessage>),
    /// Something the user should know that did not stop the run.
    Warning {
        /// What.
        message: String,
    },
    /// The run ended well.
    Finished {
        /// Its result.
        summary: Box<RunSummary>,
    },
    /// The run waits for decisions; its state can be stored.
    Suspended {
        /// Decisions it waits for.
        approvals: Vec<ApprovalRequest>,
    },
    /// The run ended with an error.
    Failed {
        /// What went wrong.
        error: Box<ErrorInfo>,
    },
    /// A hook refused the run before its first model call.
    Denied {
        /// Why.
        reason: String,
    },
    /// The run was stopped from outside.
    Cancelled,
    /// Something that only a newer version knows.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// True for the event that ends a run's stream.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::Finished { .. }
                | Self::Suspended { .. }
                | Self::Failed { .. }
                | Self::Denied { .. }
                | Self::Cancelled
        )
    }
}

impl Event {
    /// The event itself, out of the runs it was passed up through.
    pub fn innermost(&self) -> &Self {
        let mut event = self;
        while let EventKind::Child { event: below, .. } = &event.kind {
            event = below;
        }
        event
    }

    /// How many runs are between the one that tells this and the one it happened in.
    pub fn level(&self) -> u32 {
        match &self.kind {
            EventKind::Child { event, .. } => 1 + event.level(),
            _ => 0,
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The final text.
    pub text: String,
    /// The model's reasoning in the final turn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Why it stopped.
    pub stop: StopReason,
    /// The limit that stopped it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitReached>,
    /// Calls the model asked for that did not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_calls: Vec<ToolCall>,
    /// Every tool result of the run, in call order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolResult>,
    /// Tokens of all model calls, those of runs below included.
    pub usage: Usage,
    /// Money of all model calls whose price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Model calls whose price is not known; they are not in `cost`.
    #[serde(default)]
    pub unpriced_calls: u32,
    /// Model calls.
    pub turns: u32,
    /// Executed tool calls, refused and unknown ones included.
    pub tool_calls: u32,
    /// Time from start to end.
    #[serde(rename = "duration_ms", with = "millis")]
    pub duration: Duration,
    /// The agent that gave the answer.
    pub agent: String,
    /// The provider's id of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// What each agent used, where there was more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentUsed>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;

    #[test]
    fn an_event_is_one_flat_json_object_and_comes_back_equal() {
        let env = Env::simulated(3);
        let event = Event {
            v: EVENT_VERSION,
            run_id: env.id(),
            seq: 4,
            at: env.now(),
            agent: "lead".into(),
            kind: EventKind::TextDelta { text: "hi".into() },
        };
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.contains(r#""type":"text_delta","text":"hi""#), "{text}");
        assert!(text.starts_with(r#"{"v":1,"run_id":"run_"#), "{text}");
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }

    /// Every delta is moved several times on its way; rare, large contents are boxed so that it stays small.
    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 160, "{}", size_of::<Event>());
    }

    #[test]
    fn a_kind_of_a_newer_version_can_be_skipped() {
        let env = Env::simulated(3);
        let text = format!(
            r#"{{"v":2,"run_id":"{}","seq":0,"at":0,"agent":"a","type":"sneeze","how":"loud"}}"#,
            env.id::<RunId>()
        );
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap().kind, EventKind::Unknown);
    }

    #[test]
    fn only_the_endings_are_terminal() {
        assert!(EventKind::Cancelled.is_terminal());
        assert!(!EventKind::Paused.is_terminal());
    }
}
