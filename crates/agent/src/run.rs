//! The state machine of a run: decides the next step and executes nothing itself.
//!
//! A [`Run`] is a value. [`Run::next_step`] returns the next step; the driver executes it and applies the result with
//! [`Run::apply`], the only way to change a run. Blocking, streaming, continued, suspended and child runs all use
//! this one machine.
//!
//! Invariants:
//! - No I/O, clock, lock or handle: time is an argument.
//! - The conversation is valid after every entry: each tool call of a finished turn has its result, in call order.
//! - Serializing and deserializing a run at any point gives an equal run.

mod apply;
mod at_limit;
mod call;
mod data;
mod descendants;
mod feed;
mod handoff;
mod limit;
mod next_step;
mod output;
mod response;
mod start;
mod tool_round;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::{
    AgentUsage, LimitReached, Limits, Message, Money, RunId, RunSummary, StopReason, Timestamp,
    ToolCall, Usage,
};
use provost_session::SessionChange;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use crate::run::handoff::tool_name_part;
pub use crate::run::handoff::{HandoffApplied, TRANSFER_PREFIX};
pub use crate::run::next_step::{Step, ToolCallRequest};
pub(crate) use crate::run::next_step::{decision_for, has_waited};
use call::SeenCallIds;
pub use call::{ApprovalAnswer, CallState};
pub use data::{ApplyResult, ContextEdit, JournalEntry, RunInput, RunStarted};
pub use feed::TransitionError;
pub use limit::{LimitAction, LimitContext, LimitDecision};
pub use start::ContinueError;
pub(crate) use usage::UsageTotals;

/// Version of the stored form. A run of another version is rejected.
pub const RUN_VERSION: u16 = 1;

/// The configuration of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunConfig {
    /// Limits of the run.
    pub limits: Limits,
    /// The action at a limit.
    #[serde(rename = "at_limit")]
    pub on_limit: LimitAction,
    /// False returns tool calls to the caller instead of executing them.
    pub execute_tools: bool,
    /// The method that makes the model return the output type.
    pub output: OutputMode,
    /// Maximum number of invalid outputs that are returned to the model for correction.
    pub output_retries: u32,
    /// Number of ancestor agents.
    pub depth: u32,
    /// Maximum number of handoffs in the run.
    #[serde(default)]
    #[serde(rename = "hand_offs_max")]
    pub max_handoffs: u32,
    /// The agents that the root agent may hand off to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "transfers")]
    pub handoff_targets: Vec<Arc<str>>,
}

/// The method that makes the model return the final output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// Any text is a valid output.
    #[default]
    Text,
    /// The provider enforces a JSON schema.
    Native,
    /// The model calls this tool with the output as its arguments.
    Tool(String),
    /// The instructions ask for JSON, and the text is validated.
    Prompted,
}

/// The complete state of a run: everything needed to continue it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    version: u16,
    id: RunId,
    agent: Arc<str>,
    started_at: Timestamp,
    config: RunConfig,
    /// The messages of the next model call, without the instructions.
    context: Vec<Arc<Message>>,
    /// Every message that the run added to the conversation, including those that compaction removed from the
    /// context.
    #[serde(rename = "produced")]
    new_messages: Vec<Arc<Message>>,
    /// The change that the stored session does not have yet.
    unsaved: SessionChange,
    /// True while the context equals the end of the session that the next commit produces.
    #[serde(rename = "mirrors_session")]
    context_matches_session: bool,
    /// The time of the suspension. `None` while the run is not suspended.
    #[serde(default)]
    suspended_at: Option<Timestamp>,
    /// True if a provider did not report the usage of a model call.
    #[serde(default)]
    #[serde(rename = "unmetered")]
    usage_unknown: bool,
    phase: Phase,
    /// User messages that arrived during a tool round. They follow its results.
    #[serde(rename = "after_results")]
    queued_messages: Vec<Arc<Message>>,
    usage: Usage,
    cost: Option<Money>,
    unpriced_calls: u32,
    turns: u32,
    #[serde(rename = "rounds")]
    tool_rounds: u32,
    tool_calls: u32,
    /// The counts that limits are measured from. Extending a limit moves them.
    baseline: LimitBaseline,
    /// Number of calls with invalid arguments, by tool.
    argument_faults: BTreeMap<String, u32>,
    output_faults: u32,
    state: Map<String, Value>,
    #[serde(rename = "last")]
    last_response: LastResponse,
    #[serde(skip)]
    call_ids: SeenCallIds,
    /// The limit that permits only one more model call, without tools.
    #[serde(rename = "last_word")]
    final_answer_limit: Option<LimitReached>,
    /// Usage of child runs, by run. It is included in `usage` and `cost`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "below")]
    child_usage: BTreeMap<RunId, Vec<AgentUsage>>,
    /// The targets of all handoffs so far, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "handed_to")]
    handoffs: Vec<Arc<str>>,
    /// The agents that the active agent may hand off to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "transfers")]
    handoff_targets: Vec<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct LimitBaseline {
    unpriced_calls: u32,
    #[serde(rename = "rounds")]
    tool_rounds: u32,
    tool_calls: u32,
    usage: Usage,
    cost: Option<Money>,
    at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct LastResponse {
    text: String,
    reasoning: String,
    stop: Option<StopReason>,
    response_id: Option<String>,
}

/// The phase of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// Ready for a model call. It has no tools if it is the final response at a limit.
    Model { without_tools: bool },
    /// Tool calls are unfinished.
    Tools { calls: Vec<CallState> },
    /// A handoff is requested.
    #[serde(rename = "hand_off")]
    Handoff { to: Arc<str>, reason: Option<String> },
    /// The program must decide how to continue at a limit.
    AtLimit {
        #[serde(rename = "question")]
        context: LimitContext,
    },
    /// The output must be validated. If it came as a call of the output tool, `calls` holds all calls of that
    /// response.
    Output { raw: String, call_id: Option<String>, calls: Vec<ToolCall> },
    /// Ended.
    Done(Completion),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Completion {
    stop: StopReason,
    limit: Option<LimitReached>,
    pending_calls: Vec<ToolCall>,
    /// The validated output, if it is not the text of the last response.
    output: Option<String>,
    at: Timestamp,
}

impl Run {
    /// Returns the id of the run.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Returns the path of the root agent: the names of its ancestors and its own name.
    pub fn agent(&self) -> &Arc<str> {
        &self.agent
    }

    /// Returns the configuration of the run.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// Returns the messages of the next model call, without the instructions.
    pub fn context(&self) -> &[Arc<Message>] {
        &self.context
    }

    /// Returns every message that the run added to the conversation so far.
    pub fn new_messages(&self) -> &[Arc<Message>] {
        &self.new_messages
    }

    /// Returns the number of model calls so far.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Returns the token usage so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the run's state.
    pub fn state(&self) -> &Map<String, Value> {
        &self.state
    }

    /// Returns the deadline of the run. `None` if it has no time limit.
    pub fn must_end_at(&self) -> Option<Timestamp> {
        let wall = self.config.limits.wall?;
        let wall_ms = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX);
        Some(Timestamp::from_millis(self.baseline.at.as_millis().saturating_add(wall_ms)))
    }

    /// Returns true if the model has used up its retries for this tool. The tool is then no longer offered.
    pub fn is_withdrawn(&self, tool: &str, retries: u32) -> bool {
        self.argument_faults.get(tool).copied().unwrap_or(0) > retries
    }

    /// Returns true if the conversation can be stored now: every call has its result and no output is being corrected.
    /// A finished run is not checkpointable here: its end is stored with the accepted output.
    pub fn is_checkpointable(&self) -> bool {
        matches!(self.phase, Phase::Model { .. }) && self.output_faults == 0
    }

    /// Returns true if the run can take a user message now: never between a call and its result.
    pub fn accepts_input(&self) -> bool {
        matches!(self.phase, Phase::Model { .. } | Phase::Tools { .. })
    }

    /// Returns true if the next step is a model call, unless a limit is reached.
    pub fn awaits_model(&self) -> bool {
        matches!(self.phase, Phase::Model { .. })
    }

    /// Returns true if the run has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }

    /// Returns true if the model completed its response, so that another message can continue the run. False after a
    /// limit, a cancellation or with pending calls.
    pub fn ended_normally(&self) -> bool {
        matches!(&self.phase, Phase::Done(ending)
            if ending.limit.is_none()
                && ending.pending_calls.is_empty()
                && !matches!(ending.stop, StopReason::Cancelled | StopReason::Limit))
    }

    /// The change that the stored session does not have yet.
    pub fn unsaved(&self) -> &SessionChange {
        &self.unsaved
    }

    /// Returns true if the session has uncommitted changes.
    pub fn has_unsaved(&self) -> bool {
        self.unsaved.pop > 0 || !self.unsaved.add.is_empty()
    }

    /// Returns the final output: the arguments of the output tool, or the text of the last response.
    pub fn output(&self) -> &str {
        match &self.phase {
            Phase::Done(Completion { output: Some(output), .. }) => output,
            _ => &self.last_response.text,
        }
    }

    /// Summarizes the run so far. Complete once [`Step::Done`] is reached.
    pub fn summary(&self, now: Timestamp) -> RunSummary {
        let ending = match &self.phase {
            Phase::Done(ending) => Some(ending),
            _ => None,
        };
        let results = self.new_messages.iter().flat_map(|message| message.tool_results());
        RunSummary {
            text: self.output().to_owned(),
            reasoning: self.last_response.reasoning.clone(),
            stop: ending.map_or(StopReason::Cancelled, |ending| ending.stop),
            limit: ending.and_then(|ending| ending.limit.clone()),
            pending_calls: ending.map(|ending| ending.pending_calls.clone()).unwrap_or_default(),
            tool_results: results.filter(|result| !result.pending).cloned().collect(),
            usage: self.usage,
            cost: self.cost,
            unpriced_calls: self.unpriced_calls,
            turns: self.turns,
            tool_calls: self.tool_calls,
            duration: ending.map_or(now, |ending| ending.at).since(self.started_at),
            agent: self.active_agent().to_owned(),
            response_id: self.last_response.response_id.clone(),
            agents: self.usage_by_agent(),
        }
    }

    /// Adds a message to the conversation and to the next session commit.
    fn push(&mut self, message: Arc<Message>) {
        self.context.push(Arc::clone(&message));
        self.new_messages.push(Arc::clone(&message));
        self.unsaved.add.push(message);
    }
}

#[cfg(test)]
mod stored_form;
#[cfg(test)]
mod tests;
