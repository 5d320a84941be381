//! Agents: immutable definitions that are cheap to clone.

pub(crate) mod builder;
pub(crate) mod output;
pub(crate) mod reference;

use std::fmt;
use std::sync::Arc;

use provost_core::{Env, Limits, ToolResult};
use provost_model::{ChatModel, ModelSettings};
use provost_session::SessionStore;
use provost_session::shared_state::StateStore;
use provost_tool::{Guard, Tool, Toolset};

use crate::agent::builder::AgentBuilder;
use crate::agent::output::OutputSpec;
use crate::approval::ApprovalMode;
use crate::context::ContextConfig;
use crate::control::UserInput;
use crate::hook::Hook;
use crate::instructions::Instructions;
use crate::on_limit::OnLimit;
use crate::outcome::SuspendedRun;
use crate::run::{Run, RunInput};
use crate::run_builder::{RestoredRun, RunBuilder, RunSource};
use crate::subagent::{AgentPathSegment, Collaborators};
use crate::team::TeamState;

/// The definition of an agent: instructions, model, tools and limits.
///
/// It is immutable and shared. All changing state belongs to a run, so many runs can use one agent at the same time.
/// `O` is the output type of its runs.
pub struct Agent<O = String> {
    pub(crate) definition: Arc<AgentDefinition>,
    pub(crate) decode: fn(&str) -> Result<O, String>,
}

/// The fields of an agent, which all its runs share.
#[derive(Clone)]
pub(crate) struct AgentDefinition {
    /// The definition from which this one was derived. Kept, because its agents may refer to it without owning it.
    #[expect(dead_code, reason = "it only keeps the definition alive")]
    pub(crate) origin: Option<Arc<AgentDefinition>>,
    pub(crate) name: Arc<str>,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) instructions: Instructions,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) toolsets: Vec<Arc<dyn Toolset>>,
    pub(crate) guard: Guard,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) settings: ModelSettings,
    pub(crate) limits: Limits,
    pub(crate) on_limit: OnLimit,
    pub(crate) parallel_tools: usize,
    pub(crate) execute_tools: bool,
    /// The approval mode. `None` means the mode of the parent run.
    pub(crate) on_approval: Option<ApprovalMode>,
    pub(crate) context: Option<ContextConfig>,
    pub(crate) output: Option<OutputSpec>,
    pub(crate) output_retries: u32,
    pub(crate) state: serde_json::Map<String, serde_json::Value>,
    pub(crate) family: Arc<Collaborators>,
    pub(crate) max_handoffs: u32,
    pub(crate) session_store: Option<Arc<dyn SessionStore>>,
    pub(crate) state_store: Option<Arc<dyn StateStore>>,
    pub(crate) env: Env,
}

impl Agent {
    /// Starts a definition.
    pub fn builder(name: impl Into<String>, model: impl ChatModel) -> AgentBuilder {
        AgentBuilder::new(name.into(), Arc::new(model))
    }
}

impl<O: Send + 'static> Agent<O> {
    /// Returns the agent's name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the agent's model.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.definition.model
    }

    /// Returns the fixed tools of the agent, without the tools of its toolsets.
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.definition.tools
    }

    /// Returns the same agent with another model, for tests and for comparing models.
    #[must_use]
    pub fn with_model(&self, model: impl ChatModel) -> Self {
        let definition =
            AgentDefinition { model: Arc::new(model), ..self.definition.derive(&self.definition) };
        Self { definition: Arc::new(definition), decode: self.decode }
    }

    /// Returns the initial state of the team that this agent leads, for engines that store runs themselves. `None` if
    /// it leads none.
    pub fn initial_team_state(&self) -> Option<TeamState> {
        let team = self.definition.family.team.as_ref()?;
        Some(TeamState::new(team.name.as_str(), team.max_size))
    }

    /// Returns the agent at a path below this one, with the hooks and the guard that it has there, for engines that
    /// store child runs themselves. The error names the agent, tool or template that is missing.
    ///
    /// An error names the agent, tool or template that is missing.
    pub fn resolve_path(&self, place: &[AgentPathSegment]) -> Result<Agent, String> {
        let definition = self.definition.resolve_with_hooks(place)?;
        Ok(Agent { definition, decode: |text| Ok(text.to_owned()) })
    }

    /// Prepares a run for a message. Await the builder, stream it, or call [`outcome`](RunBuilder::outcome).
    pub fn run(&self, input: impl Into<UserInput>) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::message(input.into()))
    }

    /// Prepares a run that continues with the results of tool calls that were left to the caller. It needs the
    /// session that contains the calls.
    pub fn submit_tool_results(
        &self,
        results: impl IntoIterator<Item = ToolResult>,
    ) -> RunBuilder<O> {
        RunBuilder::new(
            self,
            RunSource::New(RunInput::ToolResults { results: results.into_iter().collect() }),
        )
    }

    /// Prepares a run that continues a conversation without a new message, for example after a failure in a later
    /// turn or after a limit. It needs a session or a history.
    pub fn continue_conversation(&self) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::New(RunInput::Continue))
    }

    /// Prepares a run that resumes a suspended run.
    pub fn resume(&self, suspended: SuspendedRun) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::Resume(Box::new(suspended)))
    }

    /// Prepares a run that continues one restored from its journal. `revision` is the current revision of its
    /// session.
    pub fn restore(&self, run: Run, revision: u64) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::Restore(Box::new(RestoredRun { run, revision })))
    }
}

impl<O> Clone for Agent<O> {
    fn clone(&self) -> Self {
        Self { definition: Arc::clone(&self.definition), decode: self.decode }
    }
}

impl<O> fmt::Debug for Agent<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.definition.tools.iter().map(|tool| tool.spec().name()).collect();
        f.debug_struct("Agent").field("name", &self.definition.name).field("tools", &names).finish()
    }
}
