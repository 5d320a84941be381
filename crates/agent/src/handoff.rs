//! Giving a conversation to another agent.

use std::fmt;
use std::sync::Arc;

use provost_core::recovery::EffectClass;
use provost_core::{HandOff, Message, Timestamp};
use provost_model::{ChatModel, ModelInfo};
use provost_tool::{Tool, ToolCx, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::context::{
    ContextError, ContextStrategy, Estimate, FitInput, Fitted, Sliding, Summarize, count_message,
};
use crate::error::BuildError;
use crate::hook::Gate;
use crate::run::{TRANSFER_PREFIX, tool_part};
use crate::subagent::{AgentRef, HooksFor, made};

/// How often a conversation may change hands in one run unless the agent says otherwise.
pub(crate) const HAND_OFFS_DEFAULT: u32 = 10;

type Filter = dyn Fn(&[Arc<Message>]) -> Vec<Arc<Message>> + Send + Sync;
type Check = dyn Fn(&HandOff) -> Gate + Send + Sync;

/// What the next agent sees of the conversation. The stored session keeps all of it.
#[derive(Clone, Default)]
pub enum HistoryPolicy {
    /// All of it.
    #[default]
    Full,
    /// The newest messages; calls and their results stay together.
    LastN(usize),
    /// A summary by this model, then the newest messages.
    Summary(Arc<dyn ChatModel>),
    /// What a function leaves of it. What does not belong together any more is repaired.
    Filter(Arc<Filter>),
}

impl HistoryPolicy {
    /// A summary by this model.
    pub fn summary(model: impl ChatModel) -> Self {
        Self::Summary(Arc::new(model))
    }

    /// What a function leaves.
    pub fn filter(
        filter: impl Fn(&[Arc<Message>]) -> Vec<Arc<Message>> + Send + Sync + 'static,
    ) -> Self {
        Self::Filter(Arc::new(filter))
    }

    /// The model that has to be asked, if one has.
    pub(crate) fn model(&self) -> Option<&ModelInfo> {
        match self {
            Self::Summary(model) => Some(model.info()),
            Self::Full | Self::LastN(_) | Self::Filter(_) => None,
        }
    }

    pub(crate) async fn apply(
        &self,
        messages: &[Arc<Message>],
        now: Timestamp,
    ) -> Result<Fitted, ContextError> {
        let fitted = match self {
            Self::Full => return Ok(Fitted::messages(messages)),
            Self::LastN(count) => shortened(&Sliding::keep_last(*count), messages, now).await?,
            Self::Summary(model) => {
                shortened(&Summarize::new(Arc::clone(model)), messages, now).await?
            }
            Self::Filter(filter) => Fitted::messages(filter(messages)),
        };
        let (repaired, _) = crate::context::repair(fitted.messages);
        Ok(Fitted { messages: repaired, ..fitted })
    }
}

/// What a strategy makes of a conversation that is one token too long.
async fn shortened(
    strategy: &dyn ContextStrategy,
    messages: &[Arc<Message>],
    now: Timestamp,
) -> Result<Fitted, ContextError> {
    let tokens: Vec<u64> =
        messages.iter().map(|message| count_message(&Estimate, message)).collect();
    let budget = tokens.iter().sum::<u64>().saturating_sub(1);
    let input = FitInput { messages, tokens: &tokens, fixed_tokens: 0, budget, now };
    match strategy.fit(input).await {
        // There is nothing that could be left out.
        Err(ContextError::TooLarge { .. }) => Ok(Fitted::messages(messages)),
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

/// How an agent may give its conversation to another one.
#[derive(Clone)]
pub struct HandOffTo {
    pub(crate) description: String,
    pub(crate) history: HistoryPolicy,
    pub(crate) hooks: HooksFor,
    pub(crate) check: Option<Arc<Check>>,
}

impl HandOffTo {
    /// What the model is told that the other agent is for.
    pub fn new(description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            history: HistoryPolicy::Full,
            hooks: HooksFor::Inherit,
            check: None,
        }
    }

    /// Sets what the other agent sees of the conversation.
    #[must_use]
    pub fn history(mut self, history: HistoryPolicy) -> Self {
        self.history = history;
        self
    }

    /// Asks a function before the conversation changes hands; it may refuse.
    #[must_use]
    pub fn on(mut self, check: impl Fn(&HandOff) -> Gate + Send + Sync + 'static) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Sets whose hooks see what the other agent does.
    #[must_use]
    pub fn hooks(mut self, hooks: HooksFor) -> Self {
        self.hooks = hooks;
        self
    }

    /// The tool by which the model gives the conversation away. What follows is the machine's part.
    pub(crate) fn tool(&self, agent: &AgentRef) -> Result<Arc<dyn Tool>, BuildError> {
        let name = format!("{TRANSFER_PREFIX}{}", tool_part(agent.name()));
        let said = format!("{} goes on with the conversation.", agent.name());
        let tool = tool_fn(name, &self.description, move |_cx: ToolCx, _args: Transfer| {
            let said = said.clone();
            async move { Ok::<_, ToolError>(said) }
        });
        made(tool.map(|tool| tool.with_spec(|spec| spec.effect(EffectClass::Pure))))
    }
}

impl fmt::Debug for HandOffTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOffTo").field("history", &self.history).finish_non_exhaustive()
    }
}

/// Why the conversation is given away.
#[derive(Debug, Deserialize, JsonSchema)]
struct Transfer {
    /// Why, in one sentence; people see it.
    #[serde(default)]
    #[expect(dead_code, reason = "the machine reads it from the call")]
    reason: Option<String>,
}
