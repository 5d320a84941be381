//! Builds agents from their stored profiles.

use std::sync::Arc;

use provost_agent::Agent;
use provost_engine::{AgentProvider, AgentRevision, EngineError, Lease};

use super::{AGENT, AgentSpec, HostDefaults, LOCAL_SPEC_KEY, MANAGED_BY_MANIFEST};
use crate::error::HostError;
use crate::model::Models;
use crate::tool::{AgentRef, ToolProvider};

/// Factory of agents. The engine adds the oversight of the [`ToolProvider`] to every run.
pub struct AgentFactory {
    models: Arc<Models>,
    /// Defaults of agents that API clients created. `None` if only local agents can be built.
    defaults: Option<HostDefaults>,
    tools: Arc<ToolProvider>,
}

impl AgentFactory {
    /// Creates a factory of agents with these models and tools.
    pub fn new(
        models: Arc<Models>,
        defaults: Option<HostDefaults>,
        tools: Arc<ToolProvider>,
    ) -> Self {
        Self { models, defaults, tools }
    }

    /// Prepares the model and the sandbox of an agent. Returns an error if this process cannot build the agent, for
    /// example because the key is missing.
    pub async fn prepare(&self, profile: &AgentRevision) -> Result<(), HostError> {
        let spec = self.resolve(profile).map_err(HostError::invalid)?;
        if spec.shell().is_some() {
            self.tools.prepare_shell().await?;
        }
        self.models.get(spec.model_request()).map(drop)
    }

    fn resolve(&self, profile: &AgentRevision) -> Result<AgentSpec, String> {
        match &self.defaults {
            Some(defaults) => defaults.resolve(profile),
            None => AgentSpec::from_profile(profile),
        }
    }

    fn build_in(&self, profile: &AgentRevision, namespace: &str) -> Result<Agent, String> {
        let spec = self.resolve(profile)?;
        let model = self.models.get(spec.model_request()).map_err(|problem| problem.message)?;
        spec.require_same_manifests(&self.tools)?;
        let is_declared = profile.config.more.contains_key(MANAGED_BY_MANIFEST);
        if is_declared && !self.tools.declares(namespace, &profile.name) {
            return Err(
                "it is declared in manifests that this process does not use: start with --manifests PATH"
                    .to_owned(),
            );
        }
        // The stored name of a local agent is a hash, which is not shown to users.
        let name =
            if profile.config.more.contains_key(LOCAL_SPEC_KEY) { AGENT } else { &profile.name };
        let agent = AgentRef { namespace, name };
        spec.build(model, agent, &self.tools).map_err(|problem| problem.message)
    }
}

impl AgentProvider for AgentFactory {
    fn build(&self, profile: &AgentRevision, lease: &Lease) -> Result<Agent, EngineError> {
        self.build_in(profile, &lease.namespace)
            .map_err(|problem| EngineError::Agent { agent: profile.name.clone(), problem })
    }
}
