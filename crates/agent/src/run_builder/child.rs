//! A run below another one: what it takes over from it.

use std::sync::Arc;

use provost_core::{Limits, RunId};
use provost_tool::{Guard, Origin};
use tokio_util::sync::CancellationToken;

use super::{EventMode, Parent, RunBuilder, RunOptions, RunSource};
use crate::agent::{Agent, AgentCore};
use crate::budget::Pot;
use crate::control::Control;
use crate::driver::{self, Cx};
use crate::error::Error;
use crate::hook::Hook;
use crate::outcome::Outcome;
use crate::stream::EventQueue;
use crate::subagent::HooksFor;
use crate::subagent::local::approval_below;
use crate::team::Seat;

/// The settings that a child run inherits from its parent run.
pub(crate) struct InheritedContext {
    /// They are called before the child's own hooks.
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    /// False leaves out the hooks of the child's agent.
    pub(crate) own_hooks: bool,
    /// Receives the decisions of the reader of the events.
    pub(crate) asks: Arc<Control>,
    pub(crate) queue: Arc<EventQueue>,
    /// The call that started the child.
    pub(crate) call_id: Arc<str>,
    /// The guard of the parent run.
    pub(crate) guard: Guard,
    /// The origin of the parent run.
    pub(crate) origin: Origin,
}

impl InheritedContext {
    pub(crate) fn new(parent: &Cx, call_id: &str, hooks: HooksFor) -> Self {
        let inherited = match hooks {
            HooksFor::Inherit => parent.hooks.all().to_vec(),
            HooksFor::Own | HooksFor::None => Vec::new(),
        };
        Self {
            hooks: inherited,
            own_hooks: hooks != HooksFor::None,
            asks: Arc::clone(parent.asks()),
            queue: Arc::clone(&parent.queue),
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
    pub(crate) label: Option<String>,
    pub(crate) max_turns: Option<u32>,
    /// True if the call that started the child can be suspended with it.
    pub(crate) may_suspend: bool,
    /// The child's place in the team of the parent run.
    pub(crate) seat: Option<Seat>,
}

impl RunBuilder {
    /// Prepares a child run.
    pub(crate) fn below(
        parent: &Cx,
        core: Arc<AgentCore>,
        source: RunSource,
        options: ChildRunOptions,
    ) -> Self {
        let ChildRunOptions { inherited, run, cancel, label, max_turns, may_suspend, .. } = options;
        let agent = Agent { core, decode: |text| Ok(text.to_owned()) };
        let own = agent.core.on_approval.clone();
        let mut limits = agent.core.limits.clone();
        limits.turns = fewer(max_turns, limits.turns);
        let options = RunOptions {
            deps: parent.deps.clone(),
            pot: Some(Arc::new(Pot::new(limits.clone(), Some(Arc::clone(&parent.pot))))),
            limits: Some(limits),
            on_approval: Some(approval_below(own.as_ref(), &parent.on_approval, may_suspend)),
            run_id: Some(run),
            inherited: Some(inherited),
            label: label.map(Into::into),
            seat: options.seat,
            shared: parent.shared_options().for_child(),
            parent: Some(options.parent),
            cancel: Some(cancel),
            ..RunOptions::default()
        };
        Self { agent, source, options }
    }

    /// What a run below uses, while it runs.
    pub(crate) fn pot(&self) -> Arc<Pot> {
        self.options.pot.clone().unwrap_or_else(|| Arc::new(Pot::new(Limits::default(), None)))
    }

    /// The agent with the agents above it.
    pub(crate) fn path(&self) -> Arc<str> {
        self.options.path(&self.agent.core.name)
    }

    /// Runs a run below to its end; whoever reads the run above sees its events.
    pub(crate) async fn outcome_below(self) -> Result<Outcome, Error> {
        driver::drive(self.prepare(EventMode::Discard)).await
    }
}

/// Who asks for a child may allow it less than its own agent does, not more.
pub(super) fn fewer(asked: Option<u32>, own: Option<u32>) -> Option<u32> {
    match (asked, own) {
        (Some(asked), Some(own)) => Some(asked.min(own)),
        (asked, own) => asked.or(own),
    }
}
