//! Paths from an agent to the definitions of its children, valid in any process that has the same agent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{FanOut, HookInheritance, SpawnRequest, Subagent};
use crate::agent::AgentDefinition;
use crate::agent::reference::missing_agent;
use crate::handoff::Handoff;
use crate::instructions::Instructions;
use crate::team::{LEAD, Mailbox, Team, nested_team_message, shared_tools};

/// One step of a path: from an agent to another agent that its definition names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum AgentPathSegment {
    /// The agent of a subagent tool.
    #[serde(rename = "delegate")]
    Subagent {
        /// The tool's name.
        tool: String,
        /// The agent's name.
        agent: String,
    },
    /// The agent of a fan-out tool.
    FanOut {
        /// The tool's name.
        tool: String,
        /// The agent's name.
        agent: String,
    },
    /// The target of a handoff.
    #[serde(rename = "hand_off")]
    Handoff {
        /// Its name.
        agent: String,
    },
    /// A member of the agent's team.
    Member {
        /// The member's name in the team.
        name: String,
        /// Name of the member's template. `None` means a new agent with the lead's model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<String>,
        /// The instructions of a new agent. Unused with a template.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
}

impl AgentPathSegment {
    /// Returns the name of the agent at the end of this step.
    pub fn agent(&self) -> &str {
        match self {
            Self::Subagent { agent, .. } | Self::FanOut { agent, .. } | Self::Handoff { agent } => {
                agent
            }
            Self::Member { name, .. } => name,
        }
    }
}

/// Path from the agent of the parent run to the definition of a child. All children of one call share it.
pub type AgentPath = Arc<[AgentPathSegment]>;

impl SpawnRequest {
    /// Returns the child's name in the team of the parent run. `None` if the child is not a member.
    pub fn member(&self) -> Option<&str> {
        match self.path.last() {
            Some(AgentPathSegment::Member { name, .. }) => Some(name),
            _ => None,
        }
    }
}

/// The other agents that an agent's definition names: subagents, fan-outs, handoffs and its team.
#[derive(Clone, Default)]
pub(crate) struct Collaborators {
    pub(crate) subagents: Vec<Subagent>,
    pub(crate) fan_outs: Vec<FanOut>,
    pub(crate) handoffs: Vec<Handoff>,
    /// The team that the agent leads.
    pub(crate) team: Option<Team>,
    /// Transport of the team's messages. `None` keeps them in the team's state.
    pub(crate) mailbox: Option<Arc<dyn Mailbox>>,
    /// True if the agent receives unread team messages before each model call.
    pub(crate) pushes_messages: bool,
}

impl Collaborators {
    /// Returns true if runs of this agent may start child runs.
    pub(crate) fn has_children(&self) -> bool {
        !self.subagents.is_empty() || !self.fan_outs.is_empty() || self.team.is_some()
    }

    /// Returns the handoff to this agent. `None` if there is none.
    pub(crate) fn handoff(&self, to: &str) -> Option<&Handoff> {
        self.handoffs.iter().find(|handoff| &**handoff.agent.name() == to)
    }
}

/// A definition at a path, and the hooks that observe it there.
pub(crate) struct ResolvedAgent {
    pub(crate) definition: Arc<AgentDefinition>,
    pub(crate) hooks: HookInheritance,
}

impl AgentDefinition {
    /// Returns a copy of this definition that keeps `origin`, under which it was found.
    pub(crate) fn derive(&self, origin: &Arc<Self>) -> Self {
        Self { origin: Some(Arc::clone(origin)), ..self.clone() }
    }

    /// Returns the definition at a path below this one. The error names the missing agent, tool or template.
    pub(crate) fn resolve(
        self: &Arc<Self>,
        path: &[AgentPathSegment],
    ) -> Result<ResolvedAgent, String> {
        let mut agent =
            ResolvedAgent { definition: Arc::clone(self), hooks: HookInheritance::Inherit };
        for segment in path {
            agent = agent.definition.follow(segment)?;
        }
        Ok(agent)
    }

    /// Returns the definition at a path, with the hooks and the guard that it inherits from the agents on the path.
    pub(crate) fn resolve_with_hooks(
        self: &Arc<Self>,
        path: &[AgentPathSegment],
    ) -> Result<Arc<Self>, String> {
        let mut current = Arc::clone(self);
        for segment in path {
            let ResolvedAgent { definition, hooks } = current.follow(segment)?;
            let hooks = match hooks {
                HookInheritance::Inherit => {
                    current.hooks.iter().chain(&definition.hooks).cloned().collect()
                }
                HookInheritance::OwnOnly => definition.hooks.clone(),
                HookInheritance::None => Vec::new(),
            };
            // The policy of an agent applies to all agents below it.
            let guard = definition.guard.inherit_from(&current.guard);
            current = Arc::new(Self { hooks, guard, ..definition.derive(&current) });
        }
        Ok(current)
    }

    /// Returns the definition at the end of one step. The error names the missing agent, tool or template.
    fn follow(self: &Arc<Self>, segment: &AgentPathSegment) -> Result<ResolvedAgent, String> {
        let (agent, hooks) = match segment {
            AgentPathSegment::Subagent { tool, .. } => {
                let is_named = |subagent: &&Subagent| subagent.tool_name() == *tool;
                let subagent = self.family.subagents.iter().find(is_named);
                let subagent = subagent.ok_or_else(|| {
                    format!("agent `{}` has no subagent tool named `{tool}`", self.name)
                })?;
                (&subagent.agent, subagent.hooks)
            }
            AgentPathSegment::FanOut { tool, .. } => {
                let fan_out = self.family.fan_outs.iter().find(|fan_out| fan_out.name == *tool);
                let fan_out = fan_out.ok_or_else(|| {
                    format!("agent `{}` has no fan-out tool named `{tool}`", self.name)
                })?;
                (&fan_out.agent, fan_out.hooks)
            }
            AgentPathSegment::Handoff { agent } => {
                let handoff = self
                    .family
                    .handoff(agent)
                    .ok_or_else(|| format!("agent `{}` cannot hand off to `{agent}`", self.name))?;
                (&handoff.agent, handoff.hooks)
            }
            AgentPathSegment::Member { name, template, instructions } => {
                return self.member(name, template.as_deref(), instructions.as_deref());
            }
        };
        let definition = agent.definition().ok_or_else(|| missing_agent(agent))?;
        Ok(ResolvedAgent { definition, hooks })
    }

    /// Builds a member of the team that this agent leads: from a template, or a new agent with the lead's model. The
    /// member also gets the team's tools, except those that start and stop members.
    fn member(
        self: &Arc<Self>,
        name: &str,
        template: Option<&str>,
        instructions: Option<&str>,
    ) -> Result<ResolvedAgent, String> {
        let team = self.family.team.as_ref();
        let team = team.ok_or_else(|| format!("agent `{}` leads no team", self.name))?;
        let mut definition = match template {
            Some(template) => {
                let missing = || format!("no template is named `{template}`");
                let agent = team.find_template(template).ok_or_else(missing)?;
                agent.definition().ok_or_else(|| missing_agent(agent))?.derive(self)
            }
            None => AgentDefinition {
                instructions: Instructions::Text(match instructions {
                    Some(text) => text.into(),
                    None => default_instructions(name, &team.name).into(),
                }),
                tools: Vec::new(),
                toolsets: Vec::new(),
                execute_tools: true,
                output: None,
                state: serde_json::Map::new(),
                hooks: Vec::new(),
                family: Arc::default(),
                session_store: None,
                ..self.derive(self)
            },
        };
        if definition.family.team.is_some() {
            return Err(nested_team_message(&definition.name));
        }
        definition.name = name.into();
        Arc::make_mut(&mut definition.family).pushes_messages = team.push_messages;
        // A model without tool support can still respond.
        if definition.model.info().tools {
            definition.tools.extend(shared_tools().map_err(|error| error.to_string())?);
        }
        Ok(ResolvedAgent { definition: Arc::new(definition), hooks: team.hooks })
    }
}

/// Returns the default instructions of a member without a template.
fn default_instructions(name: &str, team: &str) -> String {
    format!(
        "You are `{name}`, a member of the team `{team}`. Do the task you are given. Your last answer goes to the lead by \
         itself. While you work you can write to the lead, who is called `{LEAD}`, and to other members, and you share a \
         board of tasks with them."
    )
}
