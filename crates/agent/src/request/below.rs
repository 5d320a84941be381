//! A run below another one: what it takes over from it.

use std::sync::Arc;

use provost_core::{Limits, RunId};
use provost_tool::{Guard, Origin};
use tokio_util::sync::CancellationToken;

use super::{Begin, Parent, Reader, RunBuilder, RunOptions};
use crate::agent::{Agent, AgentCore};
use crate::child::HooksFor;
use crate::child::local::approval_below;
use crate::drive::{self, Cx};
use crate::error::Error;
use crate::handle::Control;
use crate::hook::Hook;
use crate::outcome::{Outcome, Suspended};
use crate::pot::Pot;
use crate::stream::EventQueue;
use crate::team::Seat;

/// What a run takes over from the run above it; many runs of one call share it.
pub(crate) struct Above {
    /// They see it before its own do.
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    /// False leaves out the hooks of its own agent.
    pub(crate) own_hooks: bool,
    /// Where decisions of whoever reads the events come in.
    pub(crate) asks: Arc<Control>,
    pub(crate) queue: Arc<EventQueue>,
    /// The call that started it.
    pub(crate) call_id: Arc<str>,
    /// What governs the run above.
    pub(crate) guard: Guard,
    /// Where the run above comes from.
    pub(crate) origin: Origin,
}

impl Above {
    pub(crate) fn new(parent: &Cx, call_id: &Arc<str>, hooks: HooksFor) -> Self {
        let from_above = match hooks {
            HooksFor::Inherit => parent.hooks.all().to_vec(),
            HooksFor::Own | HooksFor::None => Vec::new(),
        };
        Self {
            hooks: from_above,
            own_hooks: hooks != HooksFor::None,
            asks: Arc::clone(parent.asks()),
            queue: Arc::clone(&parent.queue),
            call_id: Arc::clone(call_id),
            guard: parent.shared_guard.clone(),
            origin: parent.origin().clone(),
        }
    }

    /// The same, for runs that work one after the other: those that work at the same time and count their uses in one place
    /// wait for each other there.
    pub(crate) fn apart(&self) -> Self {
        Self {
            hooks: self.hooks.clone(),
            own_hooks: self.own_hooks,
            asks: Arc::clone(&self.asks),
            queue: Arc::clone(&self.queue),
            call_id: Arc::from(&*self.call_id),
            guard: self.guard.clone(),
            origin: self.origin.clone(),
        }
    }
}

/// What is said of one run below.
pub(crate) struct Below {
    pub(crate) above: Arc<Above>,
    /// The agent of that call.
    pub(crate) parent: Parent,
    pub(crate) run: RunId,
    pub(crate) cancel: CancellationToken,
    pub(crate) label: Option<String>,
    pub(crate) max_turns: Option<u32>,
    /// True if the call that started it can wait for a person with it.
    pub(crate) may_suspend: bool,
    /// Its place in the team of the run above.
    pub(crate) seat: Option<Seat>,
}

impl RunBuilder {
    /// A run below another one: a task to begin with, or one that waited for a person and may go on.
    pub(crate) fn below(
        parent: &Arc<Cx>,
        core: Arc<AgentCore>,
        (task, waiting): (String, Option<Suspended>),
        below: Below,
    ) -> Self {
        let Below { above, run, cancel, label, max_turns, may_suspend, seat, .. } = below;
        let agent = Agent { core, decode: |text| Ok(text.to_owned()) };
        let begin = match waiting {
            Some(suspended) => Begin::Resume(Box::new(suspended.approve_all())),
            None => Begin::Message(task.into()),
        };
        let own = agent.core.on_approval.clone();
        let mut limits = agent.core.limits.clone();
        limits.turns = fewer(max_turns, limits.turns);
        let options = RunOptions {
            deps: parent.deps.clone(),
            pot: Some(Arc::new(Pot::new(limits.clone(), Some(Arc::clone(&parent.pot))))),
            limits: Some(limits),
            on_approval: Some(approval_below(own.as_ref(), &parent.on_approval, may_suspend)),
            run_id: Some(run),
            above: Some(above),
            label: label.map(Into::into),
            seat,
            shared: parent.shared_options().for_child(),
            parent: Some(below.parent),
            cancel: Some(cancel),
            ..RunOptions::default()
        };
        Self { agent, begin, options }
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
        drive::drive(self.prepare(Reader::Nobody)).await
    }
}

/// Who asks for a child may allow it less than its own agent does, not more.
pub(super) fn fewer(asked: Option<u32>, own: Option<u32>) -> Option<u32> {
    match (asked, own) {
        (Some(asked), Some(own)) => Some(asked.min(own)),
        (asked, own) => asked.or(own),
    }
}
