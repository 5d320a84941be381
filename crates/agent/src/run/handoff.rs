//! Handoffs: another agent continues the conversation.

use std::sync::Arc;

use provost_core::{AgentHandoff, Money, Timestamp, ToolCall, ToolResult, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ContextEdit, OutputMode, Phase, Run, TransitionError};

/// Prefix of the names of handoff tools, followed by the name of the target agent.
pub const TRANSFER_PREFIX: &str = "transfer_to_";

/// A completed handoff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffApplied {
    /// The agents and the reason of the handoff.
    #[serde(rename = "hand_off")]
    pub handoff: AgentHandoff,
    /// The agents that the new agent may hand off to.
    #[serde(rename = "transfers")]
    pub handoff_targets: Vec<Arc<str>>,
    /// The output mode of the new agent. `None` if it does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputMode>,
    /// The context of the new agent.
    pub messages: Vec<ContextEdit>,
    /// Token usage of preparing the context.
    pub usage: Usage,
    /// Its cost. `None` if the price is unknown.
    pub cost: Option<Money>,
    /// Number of model calls whose usage was not reported.
    #[serde(rename = "unmetered_calls")]
    pub calls_without_usage: u32,
    /// Time of the handoff.
    pub at: Timestamp,
}

impl Run {
    /// Returns the targets of all handoffs so far, in order. The last one is the active agent.
    pub fn handoffs(&self) -> &[Arc<str>] {
        &self.handoffs
    }

    /// Returns true if another handoff is allowed.
    pub fn can_handoff(&self) -> bool {
        self.handoffs.len() < self.config.max_handoffs as usize
    }

    /// Returns the target and the reason of the first successful handoff call of a round. `None` if there is none.
    /// Further handoff calls have no effect.
    pub(super) fn find_transfer(
        &self,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Option<(Arc<str>, Option<String>)> {
        if self.handoff_targets.is_empty() || !self.can_handoff() {
            return None;
        }
        calls.iter().zip(results).filter(|(_, result)| !result.is_error).find_map(|(call, _)| {
            let name = call.name.strip_prefix(TRANSFER_PREFIX)?;
            let to = self.handoff_targets.iter().find(|to| tool_name_part(to) == name)?;
            Some((Arc::clone(to), reason_in(call)))
        })
    }

    /// Returns the target and the reason of the requested handoff. `None` if none is requested.
    pub(super) fn requested_handoff(&self) -> Option<(Arc<str>, Option<String>)> {
        match &self.phase {
            Phase::Handoff { to, reason } => Some((Arc::clone(to), reason.clone())),
            _ => None,
        }
    }

    /// Applies a completed handoff: the target becomes the active agent. Returns an error if no handoff is requested.
    pub(super) fn apply_handoff(&mut self, handed: HandoffApplied) -> Result<(), TransitionError> {
        let Some((to, _)) = self.requested_handoff() else {
            return Err(TransitionError::Phase("a handoff"));
        };
        let HandoffApplied {
            handoff_targets,
            output,
            messages,
            usage,
            cost,
            calls_without_usage: unmetered_calls,
            ..
        } = handed;
        let messages = self.apply_edits(messages)?;
        let same = messages.len() == self.context.len()
            && messages.iter().zip(&self.context).all(|(new, old)| Arc::ptr_eq(new, old));
        if !same {
            self.replace_context(messages);
        }
        self.add_compaction_usage(usage, cost, unmetered_calls);
        self.handoff_targets = handoff_targets;
        if let Some(output) = output {
            self.config.output = output;
        }
        self.handoffs.push(to);
        // The errors of one agent say nothing about the next.
        self.argument_faults.clear();
        self.phase = Phase::Model { without_tools: false };
        Ok(())
    }

    /// Returns the name of the active agent.
    pub(super) fn active_agent(&self) -> &str {
        match self.handoffs.last() {
            Some(to) => to,
            None => self.agent.rsplit('/').next().unwrap_or_default(),
        }
    }

    /// Returns the requested handoff. `None` if none is requested.
    pub fn handoff(&self) -> Option<AgentHandoff> {
        let (to, reason) = self.requested_handoff()?;
        Some(AgentHandoff { from: self.active_agent().to_owned(), to: to.to_string(), reason })
    }
}

/// Converts an agent's name into a part of a tool name.
pub(crate) fn tool_name_part(agent: &str) -> String {
    agent.replace('.', "_")
}

fn reason_in(call: &ToolCall) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let reason = arguments.get("reason")?.as_str()?.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}
