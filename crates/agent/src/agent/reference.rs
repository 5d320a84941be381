//! References to other agents in a definition, including agents that are not defined yet.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::agent::{Agent, AgentDefinition};

/// A reference to an agent in the definition of another one.
#[derive(Clone)]
pub struct AgentRef(Target);

#[derive(Clone)]
enum Target {
    Agent(Arc<AgentDefinition>),
    Deferred(DeferredAgent),
}

impl AgentRef {
    /// The agent's name.
    pub fn name(&self) -> &Arc<str> {
        match &self.0 {
            Target::Agent(core) => &core.name,
            Target::Deferred(deferred) => &deferred.name,
        }
    }

    /// The definition, or `None` if a [`DeferredAgent`] was never set.
    pub(crate) fn core(&self) -> Option<Arc<AgentDefinition>> {
        match &self.0 {
            Target::Agent(core) => Some(Arc::clone(core)),
            Target::Deferred(deferred) => deferred.core.get().cloned(),
        }
    }
}

/// The error text for a [`DeferredAgent`] that was never set.
pub(crate) fn undefined_agent(agent: &AgentRef) -> String {
    format!("agent `{}` is deferred and was never set", agent.name())
}

impl<O: Send + 'static> From<&Agent<O>> for AgentRef {
    fn from(agent: &Agent<O>) -> Self {
        Self(Target::Agent(Arc::clone(&agent.core)))
    }
}

impl From<&DeferredAgent> for AgentRef {
    fn from(deferred: &DeferredAgent) -> Self {
        Self(Target::Deferred(deferred.clone()))
    }
}

impl fmt::Debug for AgentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentRef({})", self.name())
    }
}

/// A reference to an agent that is defined later, for agents that refer to each other.
///
/// Agents that refer to each other keep each other alive until the program exits.
///
/// ```
/// # use provost_agent::{Agent, DeferredAgent, Handoff};
/// # use provost_model::ScriptedModel;
/// # fn model() -> ScriptedModel { ScriptedModel::new() }
/// let billing = DeferredAgent::new("billing");
/// let front = Agent::builder("front", model()).handoff(Handoff::to(&billing, "Money questions")).build()?;
/// let agent = Agent::builder("billing", model()).handoff(Handoff::to(&front, "All else")).build()?;
/// billing.set(&agent)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DeferredAgent {
    name: Arc<str>,
    core: Arc<OnceLock<Arc<AgentDefinition>>>,
}

/// A failure to set a deferred agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeferredAgentError {
    /// The agent has another name.
    #[error("this reference is for agent `{place}`, not for `{agent}`")]
    NameMismatch {
        /// The name of the reference.
        place: String,
        /// The name of the agent.
        agent: String,
    },
    /// The agent is already set.
    #[error("agent `{0}` is already set")]
    AlreadySet(String),
}

impl DeferredAgent {
    /// Creates a reference to the agent with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into().into(), core: Arc::default() }
    }

    /// Sets the agent. It must have the name of the reference and can be set only once.
    pub fn set<O: Send + 'static>(&self, agent: &Agent<O>) -> Result<(), DeferredAgentError> {
        if agent.name() != &*self.name {
            let (place, agent) = (self.name.to_string(), agent.name().to_owned());
            return Err(DeferredAgentError::NameMismatch { place, agent });
        }
        let taken = |_| DeferredAgentError::AlreadySet(self.name.to_string());
        self.core.set(Arc::clone(&agent.core)).map_err(taken)
    }
}

impl fmt::Debug for DeferredAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeferredAgent({})", self.name)
    }
}
