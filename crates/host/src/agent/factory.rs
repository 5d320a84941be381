//! Turns stored agents into runnable ones.

use std::sync::Arc;

use provost_agent::Agent;
use provost_engine::{AgentProfile, AgentProvider, EngineError, Lease};

use super::{AGENT, AgentSpec, DECLARED, HostDefaults, MORE};
use crate::error::HostError;
use crate::model::Models;
use crate::tool::{AgentRef, ToolProvider};

/// Builds agents from their stored profiles.
///
/// Invariant: every agent that it builds has the oversight of the [`ToolProvider`].
pub struct AgentFactory {
    models: Arc<Models>,
    /// For agents that others have described; without it only the agents of this program are built.
    defaults: Option<HostDefaults>,
    tools: Arc<ToolProvider>,
}

impl AgentFactory {
    /// A factory of agents with these models and tools.
    pub fn new(
        models: Arc<Models>,
        defaults: Option<HostDefaults>,
        tools: Arc<ToolProvider>,
    ) -> Self {
        Self { models, defaults, tools }
    }

    /// Prepares what the agent needs, and fails if this process cannot build it: it may lack the key.
    pub async fn prepare(&self, profile: &AgentProfile) -> Result<(), HostError> {
        let spec = self.resolve(profile).map_err(HostError::invalid)?;
        if spec.shell().is_some() {
            self.tools.prepare_shell().await?;
        }
        self.models.get(spec.model_request()).map(drop)
    }

    fn resolve(&self, profile: &AgentProfile) -> Result<AgentSpec, String> {
        match &self.defaults {
            Some(defaults) => defaults.resolve(profile),
            None => AgentSpec::read(profile),
        }
    }

    fn build_in(&self, profile: &AgentProfile, namespace: &str) -> Result<Agent, String> {
        let spec = self.resolve(profile)?;
        let model = self.models.get(spec.model_request()).map_err(|problem| problem.message)?;
        spec.require_same_manifests(&self.tools)?;
        let is_declared = profile.config.more.contains_key(DECLARED);
        if is_declared && !self.tools.declares(namespace, &profile.name) {
            return Err(
                "it was declared in files that are not used here: start with --resources PATH"
                    .to_owned(),
            );
        }
        // The name of an agent that a terminal stored only tells it apart from others.
        let name = if profile.config.more.contains_key(MORE) { AGENT } else { &profile.name };
        let agent = AgentRef { namespace, name };
        spec.build(model, agent, &self.tools).map_err(|problem| problem.message)
    }
}

impl AgentProvider for AgentFactory {
    fn build(&self, profile: &AgentProfile, lease: &Lease) -> Result<Agent, EngineError> {
        self.build_in(profile, &lease.namespace)
            .map_err(|problem| EngineError::Agent { agent: profile.name.clone(), problem })
    }
}
