//! Finding a child's definition from the agent above it, here or in another process.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{FanOut, HookInheritance, SpawnRequest, Subagent};
use crate::agent::AgentDefinition;
use crate::agent::reference::AgentRef;
use crate::handoff::Handoff;
use crate::instructions::Instructions;
use crate::team::{LEAD, Mailbox, Team, nested_team_message, shared_tools};

/// One step from an agent to another one that its definition names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum AgentPathSegment {
    /// The agent of a delegate's tool.
    #[serde(rename = "delegate")]
    Subagent {
        /// The tool's name.
        tool: String,
        /// The agent's name.
        agent: String,
    },
    /// The agent of a fan-out's tool.
    FanOut {
        /// The tool's name.
        tool: String,
        /// The agent's name.
        agent: String,
    },
    /// The agent that a conversation was given to.
    #[serde(rename = "hand_off")]
    Handoff {
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

impl AgentPathSegment {
    /// What the agent is called there.
    pub fn agent(&self) -> &str {
        match self {
            Self::Subagent { agent, .. } | Self::FanOut { agent, .. } | Self::Handoff { agent } => {
                agent
            }
            Self::Member { name, .. } => name,
        }
    }
}

/// Where a child's definition is found: steps from the agent whose run asks for it. Many children of one call share it.
pub type AgentPath = Arc<[AgentPathSegment]>;

impl SpawnRequest {
    /// Its name in the team of the run above, if it is a member.
    pub fn member(&self) -> Option<&str> {
        match self.path.last() {
            Some(AgentPathSegment::Member { name, .. }) => Some(name),
            _ => None,
        }
    }
}

/// The other agents that an agent's definition names.
#[derive(Clone, Default)]
pub(crate) struct Collaborators {
    pub(crate) delegates: Vec<(AgentRef, Subagent)>,
    pub(crate) fan_outs: Vec<(AgentRef, FanOut)>,
    pub(crate) handoffs: Vec<(AgentRef, Handoff)>,
    /// The team it leads.
    pub(crate) team: Option<Team>,
    /// What carries that team's messages in place of its book.
    pub(crate) mailbox: Option<Arc<dyn Mailbox>>,
    /// Unread messages of its team are shown to it without being asked for.
    pub(crate) pushes_messages: bool,
}

impl Collaborators {
    /// True if runs of this agent may have runs below them.
    pub(crate) fn has_children(&self) -> bool {
        !self.delegates.is_empty() || !self.fan_outs.is_empty() || self.team.is_some()
    }

    pub(crate) fn handoff(&self, to: &str) -> Option<&(AgentRef, Handoff)> {
        self.handoffs.iter().find(|(agent, _)| &**agent.name() == to)
    }
}

/// A definition that was found, and whose hooks see what it does.
pub(crate) struct ResolvedAgent {
    pub(crate) core: Arc<AgentDefinition>,
    pub(crate) hooks: HookInheritance,
}

impl AgentDefinition {
    /// The definition at a place below this one; an error says what is missing.
    pub(crate) fn resolve(
        self: &Arc<Self>,
        place: &[AgentPathSegment],
    ) -> Result<ResolvedAgent, String> {
        let mut found = ResolvedAgent { core: Arc::clone(self), hooks: HookInheritance::Inherit };
        for hop in place {
            found = found.core.hop(hop)?;
        }
        Ok(found)
    }

    /// The same with the hooks it has there, those of the agents above included.
    pub(crate) fn resolve_with_hooks(
        self: &Arc<Self>,
        place: &[AgentPathSegment],
    ) -> Result<Arc<Self>, String> {
        let mut here = Arc::clone(self);
        for hop in place {
            let ResolvedAgent { core, hooks } = here.hop(hop)?;
            let hooks = match hooks {
                HookInheritance::Inherit => here.hooks.iter().chain(&core.hooks).cloned().collect(),
                HookInheritance::OwnOnly => core.hooks.clone(),
                HookInheritance::None => Vec::new(),
            };
            // What governs an agent governs those below it, too.
            let guard = core.guard.within(&here.guard);
            here = Arc::new(Self { hooks, guard, ..Self::clone(&core) });
        }
        Ok(here)
    }

    fn hop(self: &Arc<Self>, hop: &AgentPathSegment) -> Result<ResolvedAgent, String> {
        let (agent, hooks) = match hop {
            AgentPathSegment::Subagent { tool, .. } => {
                let named =
                    |(agent, terms): &&(AgentRef, Subagent)| terms.tool_name(agent) == *tool;
                let (agent, terms) = self.family.delegates.iter().find(named).ok_or_else(|| {
                    format!("agent `{}` has no sub-agent called `{tool}`", self.name)
                })?;
                (agent, terms.hooks)
            }
            AgentPathSegment::FanOut { tool, .. } => {
                let named = |(_, terms): &&(AgentRef, FanOut)| terms.name == *tool;
                let (agent, terms) = self.family.fan_outs.iter().find(named).ok_or_else(|| {
                    format!("agent `{}` has no fan-out called `{tool}`", self.name)
                })?;
                (agent, terms.hooks)
            }
            AgentPathSegment::Handoff { agent } => {
                let (agent, terms) = self.family.handoff(agent).ok_or_else(|| {
                    format!("agent `{}` does not hand over to `{agent}`", self.name)
                })?;
                (agent, terms.hooks)
            }
            AgentPathSegment::Member { name, template, instructions } => {
                return self.member(name, template.as_deref(), instructions.as_deref());
            }
        };
        let core = agent
            .core()
            .ok_or_else(|| format!("agent `{}` was promised and never given", agent.name()))?;
        Ok(ResolvedAgent { core, hooks })
    }

    /// A member of the team that this agent leads: made after a template, or a new agent on the lead's model. Besides its own
    /// tools it has those of a team, but for making and stopping members.
    fn member(
        self: &Arc<Self>,
        name: &str,
        template: Option<&str>,
        instructions: Option<&str>,
    ) -> Result<ResolvedAgent, String> {
        let team = self.family.team.as_ref();
        let team = team.ok_or_else(|| format!("agent `{}` leads no team", self.name))?;
        let mut core = match template {
            Some(template) => {
                let missing = || format!("there is no template called `{template}`");
                let agent = team.find_template(template).ok_or_else(missing)?;
                let missing = || format!("agent `{template}` was promised and never given");
                AgentDefinition::clone(&*agent.core().ok_or_else(missing)?)
            }
            None => AgentDefinition {
                instructions: Instructions::Text(match instructions {
                    Some(text) => text.into(),
                    None => instructions_of(name, &team.name).into(),
                }),
                tools: Vec::new(),
                toolsets: Vec::new(),
                execute_tools: true,
                output: None,
                state: serde_json::Map::new(),
                hooks: Vec::new(),
                family: Arc::default(),
                session_store: None,
                ..AgentDefinition::clone(self)
            },
        };
        if core.family.team.is_some() {
            return Err(nested_team_message(&core.name));
        }
        core.name = name.into();
        Arc::make_mut(&mut core.family).pushes_messages = team.push_messages;
        // A model that cannot call tools still can answer.
        if core.model.info().tools {
            core.tools.extend(shared_tools().map_err(|error| error.to_string())?);
        }
        Ok(ResolvedAgent { core: Arc::new(core), hooks: team.hooks })
    }
}

/// What a member is told that was made without a word about it.
fn instructions_of(name: &str, team: &str) -> String {
    format!(
        "You are `{name}`, a member of the team `{team}`. Do the task you are given. Your last answer goes to the lead by \
         itself. While you work you can write to the lead, who is called `{LEAD}`, and to other members, and you share a \
         board of tasks with them."
    )
}
