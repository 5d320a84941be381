//! The run machine: decides what happens next, and does nothing itself.
//!
//! A [`Run`] is a value. [`Run::next_step`] says what to do, its driver does that and applies the
//! result with [`Run::apply`], which is the only way to change a run.
//! Blocking, streaming, continuing, suspending and every kind of child are folds over this one machine.
//!
//! Invariants:
//! - no I/O, no clock, no lock, no handle in here: time comes in as an argument;
//! - the conversation is valid after every feed: each tool call of a finished turn has its result, in call order;
//! - serializing and deserializing at any point gives an equal run.

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
    AgentUsed, LimitReached, Limits, Message, Money, RunId, RunSummary, StopReason, Timestamp,
    ToolCall, Usage,
};
use provost_session::SessionChange;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use crate::run::handoff::tool_part;
pub use crate::run::handoff::{HandedOff, TRANSFER_PREFIX};
pub use crate::run::next_step::{CallTicket, Step};
pub(crate) use crate::run::next_step::{answer_to, has_waited};
use call::CallIds;
pub use call::{Answer, CallState};
pub use data::{Fed, Feed, Piece, RunInput, RunStarted};
pub use feed::FeedError;
pub use limit::{AtLimit, LimitDecision, LimitQuestion};
pub use start::ContinueError;
pub(crate) use usage::UsageTotals;

/// The version of the stored form. Another version is refused, not guessed.
pub const RUN_VERSION: u16 = 1;

/// What stays the same for the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunConfig {
    /// What it may use.
    pub limits: Limits,
    /// What happens when that is used up.
    pub at_limit: AtLimit,
    /// False leaves tool calls to the caller.
    pub execute_tools: bool,
    /// How a typed answer is asked for.
    pub output: OutputPlan,
    /// How often an answer of the wrong type is sent back.
    pub output_retries: u32,
    /// Agents above this one.
    pub depth: u32,
    /// How often the conversation may go from one agent to another.
    #[serde(default)]
    pub hand_offs_max: u32,
    /// The agents that the first one may give it to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Arc<str>>,
}

/// How the final answer is obtained.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPlan {
    /// Any text will do.
    #[default]
    Text,
    /// The provider holds the model to a schema.
    Native,
    /// The model calls this tool with the answer as its arguments.
    Tool(String),
    /// The instructions ask for JSON and the text is checked.
    Prompted,
}

/// One life of a task: everything needed to go on, and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    version: u16,
    id: RunId,
    agent: Arc<str>,
    started_at: Timestamp,
    config: RunConfig,
    /// What the model sees, without the instructions.
    context: Vec<Arc<Message>>,
    /// Everything this run added to the conversation, whatever compaction did to the context.
    produced: Vec<Arc<Message>>,
    /// What the stored session does not have yet.
    unsaved: SessionChange,
    /// True while the context is what the end of the session will be.
    mirrors_session: bool,
    /// Since when it waits for decisions.
    #[serde(default)]
    suspended_at: Option<Timestamp>,
    /// True once a model call did not say what it used.
    #[serde(default)]
    unmetered: bool,
    phase: Phase,
    /// What the user's side said while calls were running; it follows their results.
    after_results: Vec<Arc<Message>>,
    usage: Usage,
    cost: Option<Money>,
    unpriced_calls: u32,
    turns: u32,
    rounds: u32,
    tool_calls: u32,
    /// Where the counting for the limits starts; moves when a limit is extended.
    baseline: Baseline,
    /// Wrong arguments so far, by tool.
    argument_faults: BTreeMap<String, u32>,
    output_faults: u32,
    state: Map<String, Value>,
    last: LastAnswer,
    #[serde(skip)]
    call_ids: CallIds,
    /// The limit after which the model has only a last word.
    last_word: Option<LimitReached>,
    /// What runs below used, by run; it is part of `usage` and `cost`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    below: BTreeMap<RunId, Vec<AgentUsed>>,
    /// The agents that the conversation was given to, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    handed_to: Vec<Arc<str>>,
    /// The agents that the one that has it now may give it to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    transfers: Vec<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Baseline {
    unpriced_calls: u32,
    rounds: u32,
    tool_calls: u32,
    usage: Usage,
    cost: Option<Money>,
    at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct LastAnswer {
    text: String,
    reasoning: String,
    stop: Option<StopReason>,
    response_id: Option<String>,
}

/// Where the run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// The model is to be asked; at the very end of a limit, without tools.
    Model { without_tools: bool },
    /// Calls are to run.
    Tools { calls: Vec<CallState> },
    /// Another agent is to go on.
    HandOff { to: Arc<str>, reason: Option<String> },
    /// Somebody must say what happens at a limit.
    AtLimit { question: LimitQuestion },
    /// The answer must be checked; `calls` are the calls of the same answer, if the answer came as a call.
    Output { raw: String, call_id: Option<String>, calls: Vec<ToolCall> },
    /// Over.
    Done(Ending),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ending {
    stop: StopReason,
    limit: Option<LimitReached>,
    pending_calls: Vec<ToolCall>,
    /// The checked answer, where it is not the last text.
    output: Option<String>,
    at: Timestamp,
}

impl Run {
    /// Its id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The agent, with the agents above it.
    pub fn agent(&self) -> &Arc<str> {
        &self.agent
    }

    /// What stays the same for the whole run.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// What the model sees, without the instructions.
    pub fn context(&self) -> &[Arc<Message>] {
        &self.context
    }

    /// Everything this run added to the conversation so far.
    pub fn produced(&self) -> &[Arc<Message>] {
        &self.produced
    }

    /// Model calls so far.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Tokens so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The run's own notes.
    pub fn state(&self) -> &Map<String, Value> {
        &self.state
    }

    /// When it must be over, if its time is limited.
    pub fn must_end_at(&self) -> Option<Timestamp> {
        let wall = self.config.limits.wall?;
        let wall_ms = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX);
        Some(Timestamp::from_millis(self.baseline.at.as_millis().saturating_add(wall_ms)))
    }

    /// True if the model has used up its retries for this tool, so it is no longer offered.
    pub fn is_withdrawn(&self, tool: &str, retries: u32) -> bool {
        self.argument_faults.get(tool).copied().unwrap_or(0) > retries
    }

    /// True if the conversation can be stored as it stands: every call has its result, and no answer is being corrected.
    /// What is over is stored by whoever accepts the answer.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Model { .. }) && self.output_faults == 0
    }

    /// True if a message from the user's side has a place now: not between a call and its result.
    pub fn can_hear(&self) -> bool {
        matches!(self.phase, Phase::Model { .. } | Phase::Tools { .. })
    }

    /// True if the model is to be asked next, unless a limit is found to be used up.
    pub fn is_at_model(&self) -> bool {
        matches!(self.phase, Phase::Model { .. })
    }

    /// True if it is over.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }

    /// True if it is over because the model had said everything, so that more can be said to it.
    pub fn ended_by_itself(&self) -> bool {
        matches!(&self.phase, Phase::Done(ending)
            if ending.limit.is_none()
                && ending.pending_calls.is_empty()
                && !matches!(ending.stop, StopReason::Cancelled | StopReason::Limit))
    }

    /// What the stored session does not have yet.
    pub fn unsaved(&self) -> &SessionChange {
        &self.unsaved
    }

    /// True if there is something to commit.
    pub fn has_unsaved(&self) -> bool {
        self.unsaved.pop > 0 || !self.unsaved.add.is_empty()
    }

    /// The checked answer: the arguments of the output tool, or the final text.
    pub fn answer(&self) -> &str {
        match &self.phase {
            Phase::Done(Ending { output: Some(output), .. }) => output,
            _ => &self.last.text,
        }
    }

    /// What it came to so far; complete once [`Step::Done`] is reached.
    pub fn summary(&self, now: Timestamp) -> RunSummary {
        let ending = match &self.phase {
            Phase::Done(ending) => Some(ending),
            _ => None,
        };
        let results = self.produced.iter().flat_map(|message| message.tool_results());
        RunSummary {
            text: self.answer().to_owned(),
            reasoning: self.last.reasoning.clone(),
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
            response_id: self.last.response_id.clone(),
            agents: self.used_by_agent(),
        }
    }

    /// Adds a message to the conversation that the session gets with the next commit.
    fn push(&mut self, message: Arc<Message>) {
        self.context.push(Arc::clone(&message));
        self.produced.push(Arc::clone(&message));
        self.unsaved.add.push(message);
    }
}

#[cfg(test)]
mod stored_form;
#[cfg(test)]
mod tests;
