//! Naming other agents in a definition, also those that are not defined yet.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::agent::{Agent, AgentCore};

/// An agent that another agent's definition names.
#[derive(Clone)]
pub struct AgentRef(Kind);

#[derive(Clone)]
enum Kind {
    Agent(Arc<AgentCore>),
    Slot(AgentSlot),
}

impl AgentRef {
    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        match &self.0 {
            Kind::Agent(core) => &core.name,
            Kind::Slot(slot) => &slot.name,
        }
    }

    /// Its definition; none, if it was promised and never given.
    pub(crate) fn core(&self) -> Option<Arc<AgentCore>> {
        match &self.0 {
            Kind::Agent(core) => Some(Arc::clone(core)),
            Kind::Slot(slot) => slot.core.get().cloned(),
        }
    }
}

impl<O: Send + 'static> From<&Agent<O>> for AgentRef {
    fn from(agent: &Agent<O>) -> Self {
        Self(Kind::Agent(Arc::clone(&agent.core)))
    }
}

impl From<&AgentSlot> for AgentRef {
    fn from(slot: &AgentSlot) -> Self {
        Self(Kind::Slot(slot.clone()))
    }
}

impl fmt::Debug for AgentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentRef({})", self.name())
    }
}

/// A place for an agent that is defined later, for agents that name each other.
///
/// Agents that name each other keep each other alive, as long as the program runs.
///
/// ```
/// # use provost_agent::{Agent, AgentSlot, HandOffTo};
/// # use provost_model::ScriptedModel;
/// # fn model() -> ScriptedModel { ScriptedModel::new() }
/// let billing = AgentSlot::new("billing");
/// let front = Agent::builder("front", model()).hand_off(&billing, HandOffTo::new("Money questions")).build()?;
/// let agent = Agent::builder("billing", model()).hand_off(&front, HandOffTo::new("All else")).build()?;
/// billing.fill(&agent)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AgentSlot {
    name: Arc<str>,
    core: Arc<OnceLock<Arc<AgentCore>>>,
}

/// Why an agent does not fit its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// It is somebody else's place.
    #[error("the place is for agent `{place}`, not for `{agent}`")]
    Name {
        /// Whose it is.
        place: String,
        /// Who was given.
        agent: String,
    },
    /// It is taken.
    #[error("the place of agent `{0}` is taken already")]
    Taken(String),
}

impl AgentSlot {
    /// A place for the agent of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into().into(), core: Arc::default() }
    }

    /// Gives the agent.
    pub fn fill<O: Send + 'static>(&self, agent: &Agent<O>) -> Result<(), SlotError> {
        if agent.name() != &*self.name {
            let (place, agent) = (self.name.to_string(), agent.name().to_owned());
            return Err(SlotError::Name { place, agent });
        }
        let taken = |_| SlotError::Taken(self.name.to_string());
        self.core.set(Arc::clone(&agent.core)).map_err(taken)
    }
}

impl fmt::Debug for AgentSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentSlot({})", self.name)
    }
}
