//! Builds agents from their stored revisions.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_agent::context::Truncate;
use provost_agent::{Agent, BuildError};
use provost_core::resource::{AgentSpec, TERMINAL_AGENT_PREFIX};
use provost_core::{Env, ErrorKind, Limits};
use provost_engine::{AgentProvider, AgentRevision, EngineError, Lease, ask_user, child_tools};
use provost_tool::Tool;

use super::resolve::ResolvedAgent;
use super::{AGENT, HostDefaults, INSTRUCTIONS};
use crate::error::HostError;
use crate::model::Models;
use crate::tool::{self, ToolProvider};

/// Factory of agents. The engine adds the guard services of the [`ToolProvider`] to every run.
pub struct AgentFactory {
    models: Arc<Models>,
    defaults: HostDefaults,
    tools: Arc<ToolProvider>,
}

impl AgentFactory {
    /// Creates a factory of agents with these models and tools.
    pub fn new(models: Arc<Models>, defaults: HostDefaults, tools: Arc<ToolProvider>) -> Self {
        Self { models, defaults, tools }
    }

    /// Prepares the model and the sandbox of an agent. Returns an error if this process cannot build the agent, for
    /// example because the key is missing.
    pub async fn prepare(&self, profile: &AgentRevision) -> Result<(), HostError> {
        let resolved = self.defaults.resolve(&profile.config).map_err(HostError::invalid)?;
        if resolved.shell.is_some() {
            self.tools.prepare_shell().await?;
        }
        self.models.get_or_open(resolved.model).map(drop)
    }

    /// Builds the built-in tools of an agent.
    pub fn builtin_tools(&self, spec: &AgentSpec) -> Result<Vec<Arc<dyn Tool>>, HostError> {
        let resolved = self.defaults.resolve(spec).map_err(HostError::invalid)?;
        self.builtin_tools_of(spec, &resolved)
    }

    fn builtin_tools_of(
        &self,
        spec: &AgentSpec,
        resolved: &ResolvedAgent,
    ) -> Result<Vec<Arc<dyn Tool>>, HostError> {
        if !spec.tools {
            return Ok(Vec::new());
        }
        let notes_dir = self.defaults.notes_dir.clone();
        let mut tools = tool::builtin_tools(&Env::system(), notes_dir)?;
        let defect =
            |error: &dyn std::fmt::Display| HostError::new(ErrorKind::Bug, error.to_string());
        if let Some(files) = &resolved.files {
            tools.extend(files.tools()?);
        }
        if let Some(shell) = &resolved.shell {
            tools.extend(shell.tools(resolved.files.as_ref(), self.tools.shell_host()?)?);
        }
        if spec.ask_user.or(spec.policy.interactive).unwrap_or(false) {
            tools.push(Arc::new(ask_user().map_err(|error| defect(&error))?));
        }
        if spec.children {
            tools.extend(child_tools().map_err(|error| defect(&error))?);
        }
        Ok(tools)
    }

    async fn build_in(&self, profile: &AgentRevision, lease: &Lease) -> Result<Agent, HostError> {
        let spec = &profile.config;
        let resolved = self.defaults.resolve(spec).map_err(HostError::invalid)?;
        let mut tools = self.builtin_tools_of(spec, &resolved)?;
        let declared = self
            .tools
            .declared_tools(&lease.namespace, spec, lease.resource_set.as_deref())
            .await?;
        let has_shell = spec.tools && resolved.shell.is_some();
        if has_shell || declared.reads_outputs {
            tools.extend(self.tools.output_reader()?);
        }
        tools.extend(declared.tools);
        // The name of a terminal's agent is a hash, which is not shown to users.
        let is_terminal = profile.name.starts_with(TERMINAL_AGENT_PREFIX);
        let name = if is_terminal { AGENT } else { &profile.name };
        let system_prompt = spec.system_prompt.clone().unwrap_or_else(|| INSTRUCTIONS.to_owned());
        let builder = Agent::builder(name, self.models.get_or_open(resolved.model)?)
            .tools(tools)
            .limits(limits(spec))
            .context(Truncate::new())
            // The prompt of a user is plain text and not a template.
            .instructions_from(move |_| {
                let system_prompt = system_prompt.clone();
                async move { Ok(system_prompt) }
            });
        let builder = declared
            .toolsets
            .into_iter()
            .fold(builder, |builder, toolset| builder.toolset(toolset));
        builder.build().map_err(|error: BuildError| HostError::invalid(error.to_string()))
    }
}

fn limits(spec: &AgentSpec) -> Limits {
    let mut limits = Limits::default();
    if let Some(turns) = spec.max_turns {
        limits = limits.turns(turns);
    }
    if let Some(timeout) = spec.timeout_ms {
        limits = limits.wall(Duration::from_millis(timeout));
    }
    limits
}

impl AgentProvider for AgentFactory {
    fn build<'a>(
        &'a self,
        profile: &'a AgentRevision,
        lease: &'a Lease,
    ) -> BoxFuture<'a, Result<Agent, EngineError>> {
        let build = async {
            let built = self.build_in(profile, lease).await;
            built.map_err(|error| EngineError::Agent {
                agent: profile.name.clone(),
                problem: error.message,
            })
        };
        build.boxed()
    }
}
