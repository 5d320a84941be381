//! Finding a child's definition from the agent above it, here or in another process.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::agent_ref::AgentRef;
use super::{Delegate, FanOut, HooksFor};
use crate::agent::AgentCore;
use crate::hand_off::HandOffTo;
use crate::prompt::Instructions;

/// One step from an agent to another one that its definition names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Hop {
    /// The agent of a delegate's tool.
    Delegate {
        /// The tool's name.
        tool: String,
    },
    /// The agent of a fan-out's tool.
    FanOut {
        /// The tool's name.
        tool: String,
    },
    /// The agent that a conversation was given to.
    HandOff {
        /// Its name.
        agent: String,
    },
    /// A member of the agent's team.
    Member {
        /// Its name in the team.
        name: String,
        /// The template it is made after; else it is a new agent on the lead's model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<String>,
        /// The instructions of a new agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
}

/// Where a child's definition is found: steps from the agent whose run asks for it.
pub type ChildPlace = Vec<Hop>;

/// The other agents that an agent's definition names.
#[derive(Clone, Default)]
pub(crate) struct Family {
    pub(crate) delegates: Vec<(AgentRef, Delegate)>,
    pub(crate) fan_outs: Vec<(AgentRef, FanOut)>,
    pub(crate) hand_offs: Vec<(AgentRef, HandOffTo)>,
}

impl Family {
    /// True if runs of this agent may have runs below them.
    pub(crate) fn has_children(&self) -> bool {
        !self.delegates.is_empty() || !self.fan_outs.is_empty()
    }

    pub(crate) fn hand_off(&self, to: &str) -> Option<&(AgentRef, HandOffTo)> {
        self.hand_offs.iter().find(|(agent, _)| &**agent.name() == to)
    }
}

/// A definition that was found, and whose hooks see what it does.
pub(crate) struct Found {
    pub(crate) core: Arc<AgentCore>,
    pub(crate) hooks: HooksFor,
}

impl AgentCore {
    /// The definition at a place below this one; an error says what is missing.
    pub(crate) fn below(self: &Arc<Self>, place: &[Hop]) -> Result<Found, String> {
        let mut found = Found { core: Arc::clone(self), hooks: HooksFor::Inherit };
        for hop in place {
            found = found.core.hop(hop)?;
        }
        Ok(found)
    }

    fn hop(self: &Arc<Self>, hop: &Hop) -> Result<Found, String> {
        let (agent, hooks) = match hop {
            Hop::Delegate { tool } => {
                let named =
                    |(agent, terms): &&(AgentRef, Delegate)| terms.tool_name(agent) == *tool;
                let (agent, terms) = self.family.delegates.iter().find(named).ok_or_else(|| {
                    format!("agent `{}` has no sub-agent called `{tool}`", self.name)
                })?;
                (agent, terms.hooks)
            }
            Hop::FanOut { tool } => {
                let named = |(_, terms): &&(AgentRef, FanOut)| terms.name == *tool;
                let (agent, terms) = self.family.fan_outs.iter().find(named).ok_or_else(|| {
                    format!("agent `{}` has no fan-out called `{tool}`", self.name)
                })?;
                (agent, terms.hooks)
            }
            Hop::HandOff { agent } => {
                let (agent, terms) = self.family.hand_off(agent).ok_or_else(|| {
                    format!("agent `{}` does not hand over to `{agent}`", self.name)
                })?;
                (agent, terms.hooks)
            }
            Hop::Member { name, template, instructions } => {
                return self.member(name, template.as_deref(), instructions.as_deref());
            }
        };
        let core = agent
            .core()
            .ok_or_else(|| format!("agent `{}` was promised and never given", agent.name()))?;
        Ok(Found { core, hooks })
    }

    fn member(
        self: &Arc<Self>,
        name: &str,
        template: Option<&str>,
        instructions: Option<&str>,
    ) -> Result<Found, String> {
        let text = instructions.unwrap_or("You are a member of a team. Do the task you are given.");
        let instructions = match template {
            Some(template) => return Err(format!("there is no template called `{template}`")),
            None => Instructions::Text(text.into()),
        };
        let core = AgentCore {
            name: name.into(),
            instructions,
            tools: Vec::new(),
            toolsets: Vec::new(),
            family: Arc::default(),
            output: None,
            state: serde_json::Map::new(),
            hooks: Vec::new(),
            session_store: None,
            ..AgentCore::clone(self)
        };
        Ok(Found { core: Arc::new(core), hooks: HooksFor::Inherit })
    }
}
