//! An agent: a definition, immutable and cheap to clone.

pub(crate) mod builder;
pub(crate) mod output;
pub(crate) mod reference;

use std::fmt;
use std::sync::Arc;

use provost_core::{Env, Limits, ToolResult};
use provost_model::{ChatModel, Settings};
use provost_session::SessionStore;
use provost_session::shared_state::StateStore;
use provost_tool::{Guard, Tool, Toolset};

use crate::agent::builder::AgentBuilder;
use crate::agent::output::OutputSpec;
use crate::approval::OnApproval;
use crate::context::ContextStrategy;
use crate::control::UserInput;
use crate::hook::Hook;
use crate::instructions::Instructions;
use crate::outcome::Suspended;
use crate::run::AtLimit;
use crate::run::{Run, RunInput};
use crate::run_builder::limit::AskLimit;
use crate::run_builder::{Restored, RunBuilder, RunSource};
use crate::subagent::{Family, Hop};
use crate::team::TeamBook;

/// A definition of an agent: instructions, model, tools, limits.
///
/// It is immutable and shared; everything that changes belongs to a run, so any number of runs can use one agent at once.
/// `O` is the type of its answers.
pub struct Agent<O = String> {
    pub(crate) core: Arc<AgentCore>,
    pub(crate) decode: fn(&str) -> Result<O, String>,
}

/// What all runs of an agent share.
#[derive(Clone)]
pub(crate) struct AgentCore {
    pub(crate) name: Arc<str>,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) instructions: Instructions,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) toolsets: Vec<Arc<dyn Toolset>>,
    pub(crate) guard: Guard,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) at_limit: AtLimit,
    pub(crate) ask_limit: Option<AskLimit>,
    pub(crate) parallel_tools: usize,
    pub(crate) execute_tools: bool,
    /// Who answers; whoever answers for the run above, if it says nothing.
    pub(crate) on_approval: Option<OnApproval>,
    pub(crate) context: Option<ContextPolicy>,
    pub(crate) output: Option<OutputSpec>,
    pub(crate) output_retries: u32,
    pub(crate) state: serde_json::Map<String, serde_json::Value>,
    pub(crate) family: Arc<Family>,
    pub(crate) hand_offs_max: u32,
    pub(crate) session_store: Option<Arc<dyn SessionStore>>,
    pub(crate) state_store: Option<Arc<dyn StateStore>>,
    pub(crate) env: Env,
}

/// How an agent keeps its conversations within the model's context.
#[derive(Clone)]
pub(crate) struct ContextPolicy {
    pub(crate) strategy: Arc<dyn ContextStrategy>,
    /// The most tokens of a request; the model's window less the reserve if not set.
    pub(crate) tokens_max: Option<u64>,
    /// Tokens kept free for the answer.
    pub(crate) reserve: u64,
}

impl Agent {
    /// Begins a definition.
    pub fn builder(name: impl Into<String>, model: impl ChatModel) -> AgentBuilder {
        AgentBuilder::new(name.into(), Arc::new(model))
    }
}

impl<O: Send + 'static> Agent<O> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Its model.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.core.model
    }

    /// The tools it always has.
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.core.tools
    }

    /// The same agent on another model: for tests and for trying models out.
    #[must_use]
    pub fn with_model(&self, model: impl ChatModel) -> Self {
        let core = AgentCore { model: Arc::new(model), ..AgentCore::clone(&self.core) };
        Self { core: Arc::new(core), decode: self.decode }
    }

    /// The book of its team as a new run of it begins, if it leads one; for programs that keep runs themselves.
    pub fn team_book(&self) -> Option<TeamBook> {
        let team = self.core.family.team.as_ref()?;
        Some(TeamBook::new(team.name.as_str(), team.max_size))
    }

    /// The agent at a place below this one, for programs that keep the runs of children themselves. An error says what is
    /// missing.
    pub fn below(&self, place: &[Hop]) -> Result<Agent, String> {
        let core = self.core.hooked_below(place)?;
        Ok(Agent { core, decode: |text| Ok(text.to_owned()) })
    }

    /// Prepares a run that answers a message. Await it, stream it, or ask for its outcome.
    pub fn run(&self, input: impl Into<UserInput>) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::message(input.into()))
    }

    /// Prepares a run that goes on with results of calls that were left to the caller. It needs the session they are in.
    pub fn continue_with(&self, results: impl IntoIterator<Item = ToolResult>) -> RunBuilder<O> {
        RunBuilder::new(
            self,
            RunSource::New(RunInput::ToolResults { results: results.into_iter().collect() }),
        )
    }

    /// Prepares a run that goes on where a conversation stopped, without a new message: after a failure in a later turn, or after
    /// a limit. It needs the conversation: a session or a history.
    pub fn proceed(&self) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::New(RunInput::Continue))
    }

    /// Prepares to go on with a suspended run.
    pub fn resume(&self, suspended: Suspended) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::Resume(Box::new(suspended)))
    }

    /// Prepares to go on with a run that was folded from its journal, whose session stands at this revision.
    pub fn restore(&self, run: Run, revision: u64) -> RunBuilder<O> {
        RunBuilder::new(self, RunSource::Restore(Box::new(Restored { run, revision })))
    }
}

impl<O> Clone for Agent<O> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), decode: self.decode }
    }
}

impl<O> fmt::Debug for Agent<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.core.tools.iter().map(|tool| tool.spec().name()).collect();
        f.debug_struct("Agent").field("name", &self.core.name).field("tools", &names).finish()
    }
}
