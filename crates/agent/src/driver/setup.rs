//! Prepares a run: checks, instructions and the conversation so far.

mod join;
pub(super) mod open;

use std::ops::Deref;
use std::sync::Arc;

use provost_core::{Env, LimitKind, LimitReached, RunId, Timestamp};
use provost_model::{ChatModel, ModelSettings};
use provost_tool::{CallOrigin, ConversationRef, Deps, Guard, State, Tool};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::session::RunSession;
use super::{PreparedRun, hook_error};
use crate::agent::AgentDefinition;
use crate::agent::builder::check_tools;
use crate::approval::ApprovalMode;
use crate::budget::UsageBudget;
use crate::control::{RunControl, UserInput};
use crate::error::Error;
use crate::hook::{HookChain, HookDecision};
use crate::instructions::Instructions;
use crate::journal::Journal;
use crate::outcome::RunOutcome;
use crate::run::{OutputMode, RunConfig};
use crate::run_builder::{RunOptions, RunSource};
use crate::shared_state::SharedStateOptions;
use crate::stream::EventBuffer;
use crate::subagent::local::LocalSpawner;
use crate::subagent::{AgentPathSegment, ChildSpawnerHandle};
use crate::team::TeamMembership;

/// The parts of a run that all its agents share. A handoff keeps them.
pub(crate) struct RunShared {
    /// The agent of the run.
    root: Arc<AgentDefinition>,
    pub(crate) run_id: RunId,
    /// Number of ancestor agents.
    pub(crate) depth: u32,
    pub(crate) state: State,
    pub(crate) env: Env,
    pub(crate) started_at: Timestamp,
    pub(crate) events: Arc<EventBuffer>,
    pub(crate) control: Arc<RunControl>,
    pub(crate) budget: Arc<UsageBudget>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    options: RunOptions,
}

/// The active agent of a run with its tools, hooks and guard. A handoff builds a new context.
pub(crate) struct DriverContext {
    shared: Arc<RunShared>,
    pub(crate) definition: Arc<AgentDefinition>,
    /// Path of the agent: the names of its ancestors and its own name.
    pub(crate) agent: Arc<str>,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) settings: ModelSettings,
    /// The agent's tools and the tools added to this run.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) hooks: HookChain,
    /// Combined guard of this agent, the run's root agent and all ancestor agents.
    pub(crate) shared_guard: Guard,
    guard: OnceCell<Guard>,
    pub(crate) on_approval: ApprovalMode,
    pub(crate) deps: Deps,
    pub(crate) relations: RunRelations,
}

/// The children, handoffs and team of an agent in a run.
#[derive(Clone, Default)]
pub(crate) struct RunRelations {
    /// Starts children. `None` if the agent may not have any.
    pub(crate) children: Option<ChildSpawnerHandle>,
    /// The spawner of children that run as tasks of this process.
    pub(crate) local: Option<LocalSpawner>,
    /// The handoffs from the run's root agent to this agent.
    hops: Vec<AgentPathSegment>,
    /// The run's membership in a team.
    pub(crate) membership: Option<TeamMembership>,
}

impl Deref for DriverContext {
    type Target = RunShared;

    fn deref(&self) -> &RunShared {
        &self.shared
    }
}

/// Splits a prepared run into its source and the context of its root agent. The run is new or resumed.
pub(crate) fn into_source_and_context(
    prepared: Box<PreparedRun>,
) -> (RunSource, Arc<DriverContext>) {
    let PreparedRun { definition, run_id, source, mut options, events, control, budget, .. } =
        *prepared;
    let existing = source.existing();
    let mut values = existing.map_or_else(|| definition.state.clone(), |run| run.state().clone());
    let mut shared = std::mem::take(&mut options.shared);
    shared.bind(definition.state_store.as_ref(), RunSession::id_of(&options));
    options.shared = shared;
    if matches!(source, RunSource::Resume(_)) && options.shared.bound.is_some() {
        crate::driver::shared_state::remove_shared_values(&mut values);
    }
    values.append(&mut options.state);
    let cx = DriverContext::of_run(RunShared {
        run_id,
        depth: options.parent.as_ref().map_or(0, |parent| parent.depth + 1),
        state: State::scoped(values, options.shared.scopes()),
        env: definition.env.clone(),
        started_at: definition.env.now(),
        events,
        control,
        budget,
        journal: options.journal.clone(),
        root: definition,
        options,
    });
    (source, cx)
}

impl DriverContext {
    /// Returns the origin of the run. A child run has the origin of its parent.
    pub(crate) fn origin(&self) -> &CallOrigin {
        self.options.inherited.as_ref().map_or(&self.options.origin, |above| &above.origin)
    }

    /// Returns the control that receives decisions about approvals. A child run uses the control of its parent.
    pub(crate) fn approval_control(&self) -> &Arc<RunControl> {
        self.options.inherited.as_ref().map_or(&self.control, |above| &above.approval_control)
    }

    /// Returns the conversation of the run: the conversation of its session, or its own if it has no session.
    pub(crate) fn conversation(&self) -> ConversationRef {
        let CallOrigin { namespace, principal, .. } = self.origin();
        let session = RunSession::id_of(&self.options).map(str::to_owned);
        let id = session.unwrap_or_else(|| self.run_id.to_string());
        ConversationRef::new(namespace, id, principal)
    }

    /// Returns the guard of this run. The first call loads its policy.
    pub(crate) async fn guard(&self) -> &Guard {
        let shared = &self.shared_guard;
        if !shared.has_policy() {
            return shared;
        }
        self.guard
            .get_or_init(|| {
                shared.for_run(CallOrigin {
                    agent: self.definition.name.to_string(),
                    run: Some(self.run_id),
                    ..self.origin().clone()
                })
            })
            .await
    }

    /// Returns the options of the shared state.
    pub(crate) fn shared_state_options(&self) -> &SharedStateOptions {
        &self.options.shared
    }

    /// Returns the initial state of every run of the agent.
    pub(super) fn initial_state(&self) -> &Map<String, Value> {
        &self.root.state
    }

    /// Lets hooks change or deny the user's message. Returns an error if a hook denies the message or fails.
    pub(crate) async fn check_message(&self, input: &mut UserInput) -> Result<(), Error> {
        match self
            .hooks
            .on_user_message(&mut input.0)
            .await
            .map_err(hook_error("on_user_message"))?
        {
            HookDecision::Allow => Ok(()),
            HookDecision::Deny(reason) => {
                Err(Error::Hook { point: "on_user_message", error: crate::hook::HookError(reason) })
            }
        }
    }

    /// Returns an error if the output of a completed run does not match the output type, whether a model or a hook
    /// produced it.
    pub(crate) fn check_output(&self, outcome: RunOutcome) -> Result<RunOutcome, Error> {
        let (RunOutcome::Completed(result), Some(spec)) = (&outcome, &self.definition.output)
        else {
            return Ok(outcome);
        };
        let Err(problem) = spec.check(&result.output) else { return Ok(outcome) };
        let problem = match &result.limit {
            Some(reached) => {
                format!(
                    "the run stopped at its limit of {} {}",
                    reached.allowed,
                    reached.limit.as_str()
                )
            }
            None if !result.pending_calls.is_empty() => "tool calls are pending".to_owned(),
            None => problem,
        };
        Err(Error::Output { problem, raw: result.output.clone() })
    }

    /// Validates the run before its first side effect: options, runtime, tools, dependencies, depth, cost limit and
    /// model features. Returns the first error.
    fn validate(&self) -> Result<(), Error> {
        if let Some(problem) = &self.options.problem {
            return Err(Error::Start(problem.clone()));
        }
        self.check_given(self.shared_state_options())?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::Start("a run needs a tokio runtime around it".to_owned()));
        }
        check_tools(&self.tools, self.definition.output.as_ref())
            .map_err(|error| Error::Start(error.to_string()))?;
        for tool in &self.tools {
            let spec = tool.spec();
            if let Some(dep) = spec.deps.iter().find(|dep| !self.deps.has(dep)) {
                return Err(Error::Start(format!(
                    "tool `{}` needs a `{}`: give it to the run with `.dep(..)`",
                    spec.name(),
                    dep.name()
                )));
            }
        }
        let limits = self.limits();
        if let Some(allowed) = self.depth_max()
            && self.depth > allowed
        {
            return Err(Error::Limit(LimitReached {
                limit: LimitKind::Depth,
                allowed: allowed.to_string(),
                used: self.depth.to_string(),
            }));
        }
        let info = self.model.info();
        if limits.cost.is_some() && info.pricing.is_none() {
            return Err(Error::Start(format!(
                "the price of {}/{} is not known, so a cost limit cannot be kept: give the model a price or drop the limit",
                info.provider, info.model
            )));
        }
        if let (Some(limit), Some(pricing)) = (limits.cost, info.pricing)
            && limit.currency != pricing.currency
        {
            return Err(Error::Start(format!(
                "{}/{} is paid in {}, so a cost limit in {} cannot be kept: give the limit in {2}",
                info.provider,
                info.model,
                pricing.currency.as_str(),
                limit.currency.as_str()
            )));
        }
        if !info.tools && (!self.tools.is_empty() || !self.definition.toolsets.is_empty()) {
            return Err(Error::Start(format!(
                "{}/{} cannot call tools",
                info.provider, info.model
            )));
        }
        Ok(())
    }

    /// Returns the lowest depth limit of this agent and its ancestors. `None` means unlimited.
    pub(crate) fn depth_max(&self) -> Option<u32> {
        let above = self.options.parent.as_ref().and_then(|parent| parent.depth_max);
        match (self.limits().depth, above) {
            (Some(own), Some(above)) => Some(own.min(above)),
            (own, above) => own.or(above),
        }
    }

    /// Returns the limits of the run, or of the agent if the run sets none.
    pub(crate) fn limits(&self) -> provost_core::Limits {
        self.options.limits.clone().unwrap_or_else(|| self.definition.limits.clone())
    }

    /// Returns how the model is made to return the output type.
    pub(crate) fn output_mode(&self) -> OutputMode {
        let has_tools = !self.tools.is_empty() || !self.definition.toolsets.is_empty();
        let plan = self
            .definition
            .output
            .as_ref()
            .map(|spec| spec.select_mode(self.model.info(), has_tools));
        plan.unwrap_or_default()
    }

    /// Returns the configuration of a new run.
    fn config(&self) -> RunConfig {
        RunConfig {
            limits: self.limits(),
            on_limit: self.definition.on_limit.action(),
            execute_tools: self.definition.execute_tools,
            output: self.output_mode(),
            output_retries: self.definition.output_retries,
            depth: self.depth,
            max_handoffs: self.definition.max_handoffs,
            handoff_targets: self.handoff_targets(),
        }
    }

    /// Renders the instructions. In prompted mode, adds the paragraph that requests JSON. `None` if there are none.
    pub(crate) async fn instructions(&self, plan: &OutputMode) -> Result<Option<Arc<str>>, Error> {
        let system = match &self.definition.instructions {
            Instructions::None => None,
            Instructions::Text(text) => Some(Arc::clone(text)),
            made => made.resolve(self.hooks.context().clone()).await?,
        };
        match (&self.definition.output, plan) {
            (Some(spec), OutputMode::Prompted) => {
                let mut text = system.map(|system| format!("{system}\n\n")).unwrap_or_default();
                text.push_str(&spec.json_instructions());
                Ok(Some(text.into()))
            }
            _ => Ok(system),
        }
    }
}
