//! Live events: the versioned event stream of a run.
//!
//! The stream contains everything about a live run: a blocking call collects it, a terminal prints it, and a server
//! forwards it. A viewer may miss deltas; the event that completes a message or call repeats its whole content.

mod approval;
pub mod durable;
mod part;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::approval::{ApprovalDecision, ApprovalRequest, ApprovalRequestKind};
pub use self::part::{
    AgentHandoff, AgentUsage, Compaction, LimitKind, LimitReached, TeamMember, TeamMessage,
};
use crate::env::time::millis;
use crate::{
    ApprovalId, ErrorInfo, Message, Money, RunId, StateChange, StopReason, Timestamp, ToolCall,
    ToolResult, Usage,
};

/// Version of the event format. A reader of an older version may skip kinds that it does not know.
pub const EVENT_VERSION: u16 = 1;

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Format version.
    pub v: u16,
    /// Run that emitted the event.
    pub run_id: RunId,
    /// Position in the stream of the run: 0, 1, 2 … without gaps.
    pub seq: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Path of the agent, with its ancestors: `lead/researcher`.
    pub agent: Arc<str>,
    /// Kind and payload.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kind and payload of a live event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run started, or resumed after a suspension.
    RunStarted {
        /// True if the run resumed from stored state.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumed: bool,
    },
    /// A user message entered the conversation: the first message, a steering message or a follow-up.
    UserMessage {
        /// The message as the model receives it.
        message: Arc<Message>,
    },
    /// A model call starts.
    TurnStarted {
        /// Number of the call in the run, from 1.
        turn: u32,
    },
    /// A fragment of the response text.
    TextDelta {
        /// The fragment.
        text: String,
    },
    /// A fragment of the model's reasoning.
    ReasoningDelta {
        /// The fragment.
        text: String,
    },
    /// The model starts to write a tool call.
    ToolCallStarted {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        name: String,
    },
    /// A fragment of the arguments of a tool call.
    ToolCallDelta {
        /// Id of the call.
        call_id: String,
        /// The fragment, as raw text.
        arguments: String,
    },
    /// A tool call is complete. The guard checks it next.
    ToolCallReady {
        /// The call.
        call: Box<ToolCall>,
    },
    /// A model call finished.
    TurnFinished {
        /// Number of the call, as in `TurnStarted`.
        turn: u32,
        /// The complete response.
        message: Arc<Message>,
        /// Reason why the model stopped.
        stop: StopReason,
        /// Tokens of this call.
        usage: Usage,
    },
    /// A model call failed before it emitted output, and is retried.
    ModelRetry {
        /// Number of the retry, from 1.
        attempt: u32,
        /// Wait before the retry.
        #[serde(rename = "delay_ms", with = "millis")]
        delay: Duration,
        /// Error of the failed call.
        error: Box<ErrorInfo>,
    },
    /// A permitted tool call starts to execute.
    ToolStarted {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        name: String,
    },
    /// A tool reports progress. The model does not receive it.
    ToolProgress {
        /// Id of the call.
        call_id: String,
        /// Text of the report.
        message: String,
    },
    /// A tool call finished. Emitted as each call finishes, in any order.
    ToolFinished {
        /// The result.
        result: Box<ToolResult>,
        /// Execution time. Zero if the call was not allowed to run.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A call needs the decision of a person before it may run.
    ApprovalNeeded {
        /// The approval request.
        request: Box<ApprovalRequest>,
    },
    /// A person, or a rule on behalf of a person, decided about a request.
    ApprovalDecided {
        /// Id of the request.
        id: ApprovalId,
        /// The decision.
        decision: ApprovalDecision,
    },
    /// The run reached one of its limits.
    LimitReached(Box<LimitReached>),
    /// The conversation was shortened to fit the context of the model.
    Compacted(Box<Compaction>),
    /// A response did not match the output type and was returned to the model.
    OutputRejected {
        /// Validation error.
        reason: String,
        /// Remaining retries.
        retries_left: u32,
    },
    /// Entries of the shared state, which outlives the run, were set or removed.
    StateChanged {
        /// Changed names with their new values.
        changes: Vec<StateChange>,
    },
    /// Files of the conversation's workspace were lost.
    WorkspaceReset {
        /// Description of the loss and its cause.
        reason: String,
    },
    /// The run pauses between two steps until it is resumed.
    Paused,
    /// The run resumed after a pause.
    Unpaused,
    /// A descendant of this run emitted an event. `agent` of the inner event names its agent.
    Child {
        /// Tool call of this run that started the child.
        call_id: String,
        /// Event of the child. It is itself a `Child` event if a deeper descendant emitted it.
        event: Box<Event>,
    },
    /// Another agent continues the conversation.
    HandedOff(Box<AgentHandoff>),
    /// A member joined the team of this run.
    TeammateSpawned(Box<TeamMember>),
    /// A member of the team completed its work.
    TeammateComplete(Box<TeamMember>),
    /// A member of the team failed.
    TeammateError(Box<TeamMember>),
    /// A member of the team was stopped.
    TeammateStopped(Box<TeamMember>),
    /// A member sent a message to another member or to all.
    TeamMessage(Box<TeamMessage>),
    /// A problem that the user should know about and that did not stop the run.
    Warning {
        /// Text of the warning.
        message: String,
    },
    /// The run succeeded.
    Finished {
        /// Result and totals of the run.
        summary: Box<RunSummary>,
    },
    /// The run waits for decisions. Its state can be stored.
    Suspended {
        /// Pending approval requests.
        approvals: Vec<ApprovalRequest>,
    },
    /// The run failed.
    Failed {
        /// The error.
        error: Box<ErrorInfo>,
    },
    /// A hook denied the run before its first model call.
    Denied {
        /// Reason given by the hook.
        reason: String,
    },
    /// The run was cancelled by the caller.
    Cancelled,
    /// A kind of a newer version.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// Returns true for the last event of a run's stream.
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
    /// Unwraps all levels of `Child` events and returns the event of the run in which it occurred.
    pub fn innermost(&self) -> &Self {
        let mut event = self;
        while let EventKind::Child { event: inner, .. } = &event.kind {
            event = inner;
        }
        event
    }

    /// Returns the number of `Child` levels around the innermost event. 0 for an event of this run.
    pub fn depth(&self) -> u32 {
        match &self.kind {
            EventKind::Child { event, .. } => 1 + event.depth(),
            _ => 0,
        }
    }
}

/// Result and totals of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Text of the final response.
    pub text: String,
    /// The model's reasoning in the final turn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Reason why the run stopped.
    pub stop: StopReason,
    /// Limit that stopped the run. `None` if no limit did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitReached>,
    /// Tool calls that the model requested and that did not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_calls: Vec<ToolCall>,
    /// All tool results of the run, in call order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolResult>,
    /// Tokens of all model calls, including descendants.
    pub usage: Usage,
    /// Cost of all model calls with a known price, including descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Number of model calls without a known price. `cost` does not include them.
    #[serde(default)]
    pub unpriced_calls: u32,
    /// Number of model calls of this run, without those of descendants and compactions.
    pub turns: u32,
    /// Number of tool calls of this run, including denied calls and calls of unknown tools, without those of
    /// descendants.
    pub tool_calls: u32,
    /// Time from start to end.
    #[serde(rename = "duration_ms", with = "millis")]
    pub duration: Duration,
    /// Agent that gave the final response.
    pub agent: String,
    /// The provider's id of the last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Usage per agent. Empty if the run had only one agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentUsage>,
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
