//! Handoffs: another agent continues the conversation.

use std::fmt;
use std::sync::Arc;

use provost_core::recovery::EffectClass;
use provost_core::{AgentHandoff, Message, Timestamp};
use provost_model::{ChatModel, ModelInfo};
use provost_tool::{Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::context::{
    CompactionInput, CompactionResult, ContextError, ContextStrategy, HeuristicCounter,
    SlidingWindow, Summarize, count_message,
};
use crate::error::BuildError;
use crate::hook::HookDecision;
use crate::run::{TRANSFER_PREFIX, tool_name_part};
use crate::subagent::{AgentRef, HookInheritance, erase_tool};

/// Default maximum of handoffs in one run.
pub(crate) const MAX_HANDOFFS_DEFAULT: u32 = 10;

type Filter = dyn Fn(&[Arc<Message>]) -> Vec<Arc<Message>> + Send + Sync;
type HandoffCheck = dyn Fn(&AgentHandoff) -> HookDecision + Send + Sync;

/// The part of the conversation that the next agent sees. The stored session stays complete.
#[derive(Clone, Default)]
pub enum HistoryPolicy {
    /// The whole conversation.
    #[default]
    Full,
    /// The newest messages, at most this many. Tool calls and their results stay together.
    LastN(usize),
    /// A summary by this model, followed by the newest messages.
    Summary(Arc<dyn ChatModel>),
    /// The result of a function. Tool calls and results that lost their counterpart are repaired.
    Filter(Arc<Filter>),
}

impl HistoryPolicy {
    /// Creates [`Summary`](Self::Summary) with this model.
    pub fn summary(model: impl ChatModel) -> Self {
        Self::Summary(Arc::new(model))
    }

    /// Creates [`Filter`](Self::Filter) with this function.
    pub fn filter(
        filter: impl Fn(&[Arc<Message>]) -> Vec<Arc<Message>> + Send + Sync + 'static,
    ) -> Self {
        Self::Filter(Arc::new(filter))
    }

    /// Returns the model that the policy calls. `None` if it calls none.
    pub(crate) fn model(&self) -> Option<&ModelInfo> {
        match self {
            Self::Summary(model) => Some(model.info()),
            Self::Full | Self::LastN(_) | Self::Filter(_) => None,
        }
    }

    /// Returns the conversation that the next agent sees. A policy that cannot shorten the conversation returns it
    /// whole.
    pub(crate) async fn apply(
        &self,
        messages: &[Arc<Message>],
        now: Timestamp,
    ) -> Result<CompactionResult, ContextError> {
        let fitted = match self {
            Self::Full => return Ok(CompactionResult::messages(messages)),
            Self::LastN(count) => {
                compact_once(&SlidingWindow::keep_last(*count), messages, now).await?
            }
            Self::Summary(model) => {
                compact_once(&Summarize::new(Arc::clone(model)), messages, now).await?
            }
            Self::Filter(filter) => CompactionResult::messages(filter(messages)),
        };
        let (repaired, _) = crate::context::repair(fitted.messages);
        Ok(CompactionResult { messages: repaired, ..fitted })
    }
}

/// Compacts a conversation as if it were one token too long. Returns it unchanged if no message can be removed.
async fn compact_once(
    strategy: &dyn ContextStrategy,
    messages: &[Arc<Message>],
    now: Timestamp,
) -> Result<CompactionResult, ContextError> {
    let tokens: Vec<u64> =
        messages.iter().map(|message| count_message(&HeuristicCounter, message)).collect();
    let budget = tokens.iter().sum::<u64>().saturating_sub(1);
    let input = CompactionInput { messages, tokens: &tokens, fixed_tokens: 0, budget, now };
    match strategy.compact(input).await {
        // No message can be removed.
        Err(ContextError::TooLarge { .. }) => Ok(CompactionResult::messages(messages)),
        other => other,
    }
}

impl fmt::Debug for HistoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("Full"),
            Self::LastN(count) => write!(f, "LastN({count})"),
            Self::Summary(_) => f.write_str("Summary(..)"),
            Self::Filter(_) => f.write_str("Filter(..)"),
        }
    }
}

/// Another agent to which an agent can hand the conversation off.
#[derive(Clone)]
pub struct Handoff {
    pub(crate) agent: AgentRef,
    pub(crate) description: String,
    pub(crate) history: HistoryPolicy,
    pub(crate) hooks: HookInheritance,
    pub(crate) check: Option<Arc<HandoffCheck>>,
}

impl Handoff {
    /// Creates a handoff to this agent. The description tells the model when to hand off.
    pub fn to(agent: impl Into<AgentRef>, description: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            description: description.into(),
            history: HistoryPolicy::Full,
            hooks: HookInheritance::Inherit,
            check: None,
        }
    }

    /// Sets the part of the conversation that the next agent sees.
    #[must_use]
    pub fn history(mut self, history: HistoryPolicy) -> Self {
        self.history = history;
        self
    }

    /// Sets a function that can deny a handoff before it happens.
    #[must_use]
    pub fn guard(
        mut self,
        check: impl Fn(&AgentHandoff) -> HookDecision + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Sets which hooks observe the next agent.
    #[must_use]
    pub fn hooks(mut self, hooks: HookInheritance) -> Self {
        self.hooks = hooks;
        self
    }

    /// Creates the tool with which the model requests the handoff. The run performs the handoff after the turn.
    pub(crate) fn tool(&self) -> Result<Arc<dyn Tool>, BuildError> {
        let agent = self.agent.name();
        let name = format!("{TRANSFER_PREFIX}{}", tool_name_part(agent));
        let result = format!("{agent} continues the conversation.");
        let tool = tool_fn(name, &self.description, move |_cx: ToolContext, _args: HandoffArgs| {
            let result = result.clone();
            async move { Ok::<_, ToolError>(result) }
        });
        erase_tool(tool.map(|tool| tool.with_spec(|spec| spec.effect(EffectClass::Pure))))
    }
}

impl fmt::Debug for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff")
            .field("agent", &self.agent)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

/// The arguments of the handoff tool.
#[derive(Debug, Deserialize, JsonSchema)]
struct HandoffArgs {
    /// The reason for the handoff in one sentence, for people who read the conversation.
    #[serde(default)]
    #[expect(dead_code, reason = "the machine reads it from the call")]
    reason: Option<String>,
}
