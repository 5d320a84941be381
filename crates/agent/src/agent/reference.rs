//! References to other agents in a definition.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::agent::{Agent, AgentDefinition};

/// A reference to an agent in the definition of another one. It owns the agent, except inside of
/// [`AgentBuilder::build_cyclic`](crate::AgentBuilder::build_cyclic).
#[derive(Clone)]
pub struct AgentRef(ReferencedAgent);

#[derive(Clone)]
enum ReferencedAgent {
    Owned(Arc<AgentDefinition>),
    /// The agent that owns the definition with this reference.
    Owner {
        name: Arc<str>,
        definition: Weak<AgentDefinition>,
    },
}

impl AgentRef {
    /// Returns a reference to the owner of the agents that use it.
    pub(crate) fn owner(name: Arc<str>, definition: Weak<AgentDefinition>) -> Self {
        Self(ReferencedAgent::Owner { name, definition })
    }

    /// Returns the agent's name.
    pub fn name(&self) -> &Arc<str> {
        match &self.0 {
            ReferencedAgent::Owned(definition) => &definition.name,
            ReferencedAgent::Owner { name, .. } => name,
        }
    }

    /// Returns the definition. `None` if it is an owner that is not built yet or no longer exists.
    pub(crate) fn definition(&self) -> Option<Arc<AgentDefinition>> {
        match &self.0 {
            ReferencedAgent::Owned(definition) => Some(Arc::clone(definition)),
            ReferencedAgent::Owner { definition, .. } => definition.upgrade(),
        }
    }
}

/// Returns the error text for a reference without an agent.
pub(crate) fn missing_agent(agent: &AgentRef) -> String {
    format!("agent `{}` no longer exists: keep the agent of `build_cyclic`", agent.name())
}

impl<O: Send + 'static> From<&Agent<O>> for AgentRef {
    fn from(agent: &Agent<O>) -> Self {
        Self(ReferencedAgent::Owned(Arc::clone(&agent.definition)))
    }
}

impl From<&Self> for AgentRef {
    fn from(agent: &Self) -> Self {
        agent.clone()
    }
}

impl fmt::Debug for AgentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentRef({})", self.name())
    }
}
