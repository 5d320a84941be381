//! Child runs: the settings that they inherit.

use std::sync::Arc;

use provost_core::{Limits, RunId};
use provost_tool::{CallOrigin, Guard};
use tokio_util::sync::CancellationToken;

use super::{EventMode, Parent, RunBuilder, RunOptions, RunSource};
use crate::agent::{Agent, AgentDefinition};
use crate::budget::UsageBudget;
use crate::control::RunControl;
use crate::driver::{self, DriverContext};
use crate::error::Error;
use crate::hook::Hook;
use crate::outcome::RunOutcome;
use crate::stream::EventBuffer;
use crate::subagent::HookInheritance;
use crate::subagent::local::child_approval_mode;
use crate::team::TeamMembership;

/// The settings that a child run inherits from its parent run.
pub(crate) struct InheritedContext {
    /// Called before the child's own hooks.
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    /// False skips the hooks of the child's agent.
    pub(crate) own_hooks: bool,
    /// Receives approval decisions from the reader of the events.
    pub(crate) approval_control: Arc<RunControl>,
    pub(crate) events: Arc<EventBuffer>,
    /// The tool call that started the child.
    pub(crate) call_id: Arc<str>,
    /// The guard of the parent run.
    pub(crate) guard: Guard,
    /// The origin of the parent run.
    pub(crate) origin: CallOrigin,
}

impl InheritedContext {
    pub(crate) fn new(parent: &DriverContext, call_id: &str, hooks: HookInheritance) -> Self {
        let inherited = match hooks {
            HookInheritance::Inherit => parent.hooks.all().to_vec(),
            HookInheritance::OwnOnly | HookInheritance::None => Vec::new(),
        };
        Self {
            hooks: inherited,
            own_hooks: hooks != HookInheritance::None,
            approval_control: Arc::clone(parent.approval_control()),
            events: Arc::clone(&parent.events),
            call_id: call_id.into(),
            guard: parent.shared_guard.clone(),
            origin: parent.origin().clone(),
        }
    }
}

/// The options of one child run.
pub(crate) struct ChildRunOptions {
    pub(crate) inherited: Arc<InheritedContext>,
    /// The agent of the call that started the child.
    pub(crate) parent: Parent,
    pub(crate) run: RunId,
    pub(crate) cancel: CancellationToken,
    pub(crate) task_id: Option<String>,
    pub(crate) max_turns: Option<u32>,
    /// True if the tool call that started the child can be suspended with it.
    pub(crate) may_suspend: bool,
    /// The child's membership in the parent run's team.
    pub(crate) membership: Option<TeamMembership>,
}

impl RunBuilder {
    /// Creates a child run with the settings of its parent.
    pub(crate) fn for_child(
        parent: &DriverContext,
        definition: Arc<AgentDefinition>,
        source: RunSource,
        options: ChildRunOptions,
    ) -> Self {
        let ChildRunOptions { inherited, run, cancel, task_id, max_turns, may_suspend, .. } =
            options;
        let agent = Agent { definition, decode: |text| Ok(text.to_owned()) };
        let own = agent.definition.on_approval.clone();
        let mut limits = agent.definition.limits.clone();
        limits.turns = lower_limit(max_turns, limits.turns);
        let options = RunOptions {
            deps: parent.deps.clone(),
            budget: Some(Arc::new(UsageBudget::new(
                limits.clone(),
                Some(Arc::clone(&parent.budget)),
            ))),
            limits: Some(limits),
            on_approval: Some(child_approval_mode(own.as_ref(), &parent.on_approval, may_suspend)),
            run_id: Some(run),
            inherited: Some(inherited),
            task_id: task_id.map(Into::into),
            membership: options.membership,
            shared: parent.shared_state_options().for_child(),
            parent: Some(options.parent),
            cancel: Some(cancel),
            ..RunOptions::default()
        };
        Self { agent, source, options }
    }

    /// Returns the usage budget of the child run, updated while it runs.
    pub(crate) fn budget(&self) -> Arc<UsageBudget> {
        self.options
            .budget
            .clone()
            .unwrap_or_else(|| Arc::new(UsageBudget::new(Limits::default(), None)))
    }

    /// Returns the path of the agent: the names of its ancestors and its own name.
    pub(crate) fn path(&self) -> Arc<str> {
        self.options.path(&self.agent.definition.name)
    }

    /// Drives a child run to its end. Its events go to the reader of the parent run.
    pub(crate) async fn outcome_of_child(self) -> Result<RunOutcome, Error> {
        driver::drive(self.prepare(EventMode::Discard)).await
    }
}

/// Returns the lower of two limits: the parent may lower the child agent's limit, not raise it.
pub(super) fn lower_limit(parent: Option<u32>, own: Option<u32>) -> Option<u32> {
    match (parent, own) {
        (Some(parent), Some(own)) => Some(parent.min(own)),
        (parent, own) => parent.or(own),
    }
}
