//! Feeds as data: whoever keeps them can build the run again.
//!
//! A run is the fold of its feeds: [`Run::start`], then [`Run::apply`] for each of them, gives an equal run. A journal stores
//! them as they come and never stores the run itself, so the cost of a step does not grow with the run.

use std::sync::Arc;

use provost_core::{
    AgentUsed, ApprovalDecision, ApprovalId, ApprovalRequest, LimitReached, Message, Money, RunId,
    StateChange, StopReason, Timestamp, ToolCall, ToolResult, Usage,
};
use provost_model::ModelResponse;
use provost_session::SessionChange;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FeedError, HandedOff, LimitDecision, Run, RunConfig};

/// The start of a run; with the conversation before it, this is all that is needed to start it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The agent, with the agents above it.
    pub agent: Arc<str>,
    /// What stays the same for the whole run.
    pub config: RunConfig,
    /// True if the history is the end of the stored session, message for message.
    pub mirrors_session: bool,
    /// The run's own notes at the start.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub state: Map<String, Value>,
    /// Values given to the run that outlive it, where a journal stores them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<StateChange>,
    /// The input.
    #[serde(rename = "with")]
    pub input: RunInput,
    /// When.
    pub at: Timestamp,
}

/// The input of a new run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "with", rename_all = "snake_case")]
pub enum RunInput {
    /// A message to answer.
    Message {
        /// The message.
        message: Arc<Message>,
    },
    /// The results of calls that were left to the caller.
    #[serde(rename = "results")]
    ToolResults {
        /// One for each pending call.
        results: Vec<ToolResult>,
    },
    /// Nothing new: the conversation itself waits for an answer.
    #[serde(rename = "nothing")]
    Continue,
}

/// One thing fed into the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "feed", rename_all = "snake_case")]
pub enum Feed {
    /// The model answered; the message is as [`Run::normalize_response`] left it.
    ModelAnswered {
        /// The answer.
        response: Box<ModelResponse>,
        /// What it cost, if its price is known.
        cost: Option<Money>,
        /// When.
        at: Timestamp,
    },
    /// A call has its result.
    ToolFinished {
        /// The result.
        result: Box<ToolResult>,
        /// True if the model sent arguments the tool refuses.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fault: bool,
        /// When.
        at: Timestamp,
    },
    /// A call waits for a person.
    ApprovalNeeded {
        /// The call as hooks left it.
        effective: Box<ToolCall>,
        /// The question.
        request: Box<ApprovalRequest>,
    },
    /// A person decided.
    ApprovalDecided {
        /// Which question.
        id: ApprovalId,
        /// The answer.
        decision: ApprovalDecision,
    },
    /// The user's side said something while the run was under way.
    UserSaid {
        /// The message.
        message: Arc<Message>,
    },
    /// A hook changed the conversation.
    ContextChanged {
        /// The new conversation.
        messages: Vec<Piece>,
    },
    /// The conversation was made to fit.
    ContextFitted {
        /// The new conversation.
        messages: Vec<Piece>,
        /// How the stored session changes with it.
        session: Option<SessionChange>,
        /// What that used.
        usage: Usage,
        /// What that cost, if its price is known.
        cost: Option<Money>,
        /// How many model calls did not say what they used.
        unmetered_calls: u32,
    },
    /// Tokens, money or time were found to be used up.
    LimitFound {
        /// When.
        at: Timestamp,
    },
    /// Somebody said what happens at a limit.
    LimitDecided {
        /// The answer.
        decision: LimitDecision,
        /// When.
        at: Timestamp,
    },
    /// The answer was checked.
    OutputChecked {
        /// What is wrong with it, if anything.
        problem: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// The stored session has everything now.
    Saved,
    /// Another agent goes on with the conversation.
    HandedOff(Box<HandedOff>),
    /// A run below has used this.
    ChildUsed {
        /// Which run.
        child: RunId,
        /// What each agent used.
        used: Vec<AgentUsed>,
    },
    /// Runs below have used this.
    ChildrenUsed {
        /// Which runs, and what each agent used there.
        children: Vec<(RunId, Vec<AgentUsed>)>,
    },
    /// The run's own notes changed.
    Noted {
        /// All of them.
        state: Map<String, Value>,
        /// What changed of those that outlive the run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shared: Vec<StateChange>,
    },
    /// The run waits for decisions.
    Suspended {
        /// The run's own notes.
        state: Map<String, Value>,
        /// When.
        at: Timestamp,
    },
    /// The run goes on.
    Resumed {
        /// When.
        at: Timestamp,
    },
    /// The run was stopped where it stood.
    Stopped {
        /// What the model had said.
        partial: Option<Box<ModelResponse>>,
        /// What that cost, if its price is known.
        cost: Option<Money>,
        /// Why.
        reason: StopReason,
        /// The limit, if it is none of the run's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Box<LimitReached>>,
        /// When.
        at: Timestamp,
    },
}

/// A part of a conversation that replaces another one: what stayed is named by its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// So many messages of the old conversation, from this place on.
    Kept {
        /// The first one.
        from: usize,
        /// How many.
        count: usize,
    },
    /// A message that was not there.
    New(Arc<Message>),
}

/// What came of a feed, for whoever drives.
#[derive(Debug, Clone, PartialEq)]
pub enum Fed {
    /// The run has it.
    Taken,
    /// The model's message as the conversation has it.
    Answer(Arc<Message>),
    /// Whether the checked answer goes back to the model.
    SentBack(bool),
}

impl Run {
    /// How this conversation differs from the run's.
    pub fn pieces(&self, messages: &[Arc<Message>]) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut search_from = 0;
        for message in messages {
            let same = |old: &Arc<Message>| Arc::ptr_eq(old, message);
            let tail = self.context.get(search_from..).unwrap_or_default();
            // What is kept is usually in order; only a strategy that reorders needs the second look.
            let place = tail
                .iter()
                .position(same)
                .map(|place| search_from + place)
                .or_else(|| self.context.iter().position(same));
            let Some(place) = place else {
                pieces.push(Piece::New(Arc::clone(message)));
                continue;
            };
            search_from = place + 1;
            match pieces.last_mut() {
                Some(Piece::Kept { from, count }) if *from + *count == place => *count += 1,
                _ => pieces.push(Piece::Kept { from: place, count: 1 }),
            }
        }
        pieces
    }

    pub(super) fn assemble(&self, pieces: Vec<Piece>) -> Result<Vec<Arc<Message>>, FeedError> {
        let mut messages = Vec::new();
        for piece in pieces {
            match piece {
                Piece::New(message) => messages.push(message),
                Piece::Kept { from, count } => {
                    let kept = self.context.get(from..from.saturating_add(count));
                    let kept = kept.ok_or(FeedError::Phase("messages it does not have"))?;
                    messages.extend_from_slice(kept);
                }
            }
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests;
