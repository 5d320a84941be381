//! Another agent goes on with the conversation.

use std::sync::Arc;

use provost_core::{HandOff, Money, Timestamp, ToolCall, ToolResult, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FeedError, OutputPlan, Phase, Piece, Run};

/// What the tools are called by which an agent gives a conversation away, before the agent's name.
pub const TRANSFER_PREFIX: &str = "transfer_to_";

/// How a conversation changed hands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandedOff {
    /// From whom to whom.
    pub hand_off: HandOff,
    /// The agents whose tools the next agent has to give it on.
    pub transfers: Vec<Arc<str>>,
    /// How the next agent's model is held to the type of the answer, where it is not as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputPlan>,
    /// What the next agent sees of the conversation.
    pub messages: Vec<Piece>,
    /// What making that used.
    pub usage: Usage,
    /// What it cost, if its price is known.
    pub cost: Option<Money>,
    /// How many model calls did not say what they used.
    pub unmetered_calls: u32,
    /// When.
    pub at: Timestamp,
}

impl Run {
    /// The agents that the conversation was given to, in order; the last one has it.
    pub fn handed_to(&self) -> &[Arc<str>] {
        &self.handed_to
    }

    /// True if it may change hands once more.
    pub fn may_hand_off(&self) -> bool {
        self.handed_to.len() < self.config.hand_offs_max as usize
    }

    /// The first of the calls of a round by which the conversation is given away. Others are just acknowledged.
    pub(super) fn transfer_among(
        &self,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Option<(Arc<str>, Option<String>)> {
        if self.transfers.is_empty() || !self.may_hand_off() {
            return None;
        }
        calls.iter().zip(results).filter(|(_, result)| !result.is_error).find_map(|(call, _)| {
            let name = call.name.strip_prefix(TRANSFER_PREFIX)?;
            let to = self.transfers.iter().find(|to| tool_part(to) == name)?;
            Some((Arc::clone(to), reason_in(call)))
        })
    }

    /// The agent that is to go on, and why.
    pub(super) fn hand_off_due(&self) -> Option<(Arc<str>, Option<String>)> {
        match &self.phase {
            Phase::HandOff { to, reason } => Some((Arc::clone(to), reason.clone())),
            _ => None,
        }
    }

    /// Takes in that it has changed hands.
    pub(super) fn handed_off(&mut self, handed: HandedOff) -> Result<(), FeedError> {
        let Some((to, _)) = self.hand_off_due() else {
            return Err(FeedError::Phase("a hand-off"));
        };
        let HandedOff { transfers, output, messages, usage, cost, unmetered_calls, .. } = handed;
        let messages = self.assemble(messages)?;
        let same = messages.len() == self.context.len()
            && messages.iter().zip(&self.context).all(|(new, old)| Arc::ptr_eq(new, old));
        if !same {
            self.context_changed(messages);
        }
        self.add_compaction(usage, cost, unmetered_calls);
        self.transfers = transfers;
        if let Some(output) = output {
            self.config.output = output;
        }
        self.handed_to.push(to);
        // What one agent got wrong says nothing about the next.
        self.argument_faults.clear();
        self.phase = Phase::Model { without_tools: false };
        Ok(())
    }

    /// The name of the agent that has the conversation now.
    pub(super) fn active_agent(&self) -> &str {
        match self.handed_to.last() {
            Some(to) => to,
            None => self.agent.rsplit('/').next().unwrap_or_default(),
        }
    }

    /// What is told of a hand-off that is due.
    pub fn hand_off(&self) -> Option<HandOff> {
        let (to, reason) = self.hand_off_due()?;
        Some(HandOff { from: self.active_agent().to_owned(), to: to.to_string(), reason })
    }
}

/// An agent's name as part of a tool's name.
pub(crate) fn tool_part(agent: &str) -> String {
    agent.replace('.', "_")
}

fn reason_in(call: &ToolCall) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let reason = arguments.get("reason")?.as_str()?.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}
