//! Everything that a cause is decided by, as it was at one moment.

use std::time::Duration;

use provost_core::execution_policy::ExecPolicy;
use provost_core::{RunId, Timestamp};
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::governance::budget::BudgetRow;
use provost_store::table::outbound::delivery::DeliveryRow;
use provost_store::table::scheduling::concurrency_limit::CeilingRow;
use provost_store::table::scheduling::execution_class::ExecClassRow;
use provost_store::table::scheduling::worker::WorkerRow;
use provost_store::table::work::attempt::AttemptRow;
use provost_store::table::work::input::InputRow;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_step::RunStepRow;
use provost_store::table::work::session::SessionRow;
use provost_store::table::work::task::TaskRow;

use crate::engine::Shared;

/// What a cause is decided by.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) here: Here,
    pub(super) about: About,
}

/// What is explained.
#[derive(Debug, Clone)]
pub(super) enum About {
    Run(Box<RunFacts>),
    Task(Box<TaskFacts>),
    Approval(Box<ApprovalFacts>),
    Session(Box<SessionFacts>),
    Delivery(Box<DeliveryFacts>),
}

/// The moment, who works, and what only this process knows.
#[derive(Debug, Clone)]
pub(super) struct Here {
    /// The moment by the clock of the database.
    pub(super) now: Timestamp,
    /// How long a run may take to stop.
    pub(super) grace: Duration,
    /// The channels that this process sends over.
    pub(super) channels: Vec<String>,
    /// Everybody who has not ended as far as the database knows.
    pub(super) nodes: Vec<Node>,
}

/// Somebody who works.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) row: WorkerRow,
    /// Its lock is held.
    pub(super) alive: bool,
    /// Runs that it carries.
    pub(super) carries: u64,
    /// The sessions it serves, with their namespaces; all of them if there is none.
    pub(super) focus: Option<Vec<(String, String)>>,
}

impl Node {
    /// Would it take this run at all, if it had a place for it?
    pub(super) fn takes(&self, run: &RunRow) -> bool {
        self.row.build >= run.min_build && self.row.pool == run.pool && self.serves(run)
    }

    /// Does it serve the session of this run?
    pub(super) fn serves(&self, run: &RunRow) -> bool {
        let is_its = |(namespace, session): &(String, String)| {
            *namespace == run.namespace && *session == run.session_id
        };
        self.focus.as_ref().is_none_or(|focus| focus.iter().any(is_its))
    }
}

/// A run and everything around it.
#[derive(Debug, Clone)]
pub(super) struct RunFacts {
    pub(super) run: RunRow,
    pub(super) policy: ExecPolicy,
    pub(super) task: Option<TaskRow>,
    pub(super) class: ExecClassRow,
    pub(super) namespace_ceiling: Option<CeilingRow>,
    pub(super) pool_ceiling: Option<CeilingRow>,
    /// Another run that has its session.
    pub(super) holder: Option<Box<RunFacts>>,
    /// Another due run that is next in its session.
    pub(super) first: Option<RunId>,
    pub(super) ahead_in_session: u64,
    pub(super) ahead_in_class: u64,
    /// Its last attempt.
    pub(super) attempt: Option<AttemptRow>,
    /// Who has it.
    pub(super) owner: Option<Node>,
    /// Steps whose outcome is not known.
    pub(super) open: Vec<RunStepRow>,
    /// The last tool call that did not work, once the run has ended.
    pub(super) failed_call: Option<RunStepRow>,
    /// Its open questions.
    pub(super) questions: Vec<ApprovalRow>,
    /// Questions that were settled, newest last.
    pub(super) settled: Vec<ApprovalRow>,
    /// The runs that it waits for.
    pub(super) children: Vec<RunRow>,
    /// When it stops waiting for them.
    pub(super) wait_over: Option<Timestamp>,
    /// Messages that it has not read.
    pub(super) unread: Vec<InputRow>,
    /// When something last happened to it.
    pub(super) last_event: Option<(String, Timestamp)>,
    pub(super) budgets: Vec<BudgetRow>,
    pub(super) deliveries: Vec<DeliveryRow>,
}

/// A task and its run.
#[derive(Debug, Clone)]
pub(super) struct TaskFacts {
    pub(super) task: TaskRow,
    pub(super) run: Option<RunFacts>,
}

/// A question and its run.
#[derive(Debug, Clone)]
pub(super) struct ApprovalFacts {
    pub(super) approval: ApprovalRow,
    pub(super) run: Option<RunRow>,
}

/// A session and what goes on in it.
#[derive(Debug, Clone)]
pub(super) struct SessionFacts {
    pub(super) session: SessionRow,
    /// The run that has it.
    pub(super) holder: Option<RunFacts>,
    /// The run that is next, if nobody has it.
    pub(super) next: Option<RunFacts>,
    /// A run that waits without having it.
    pub(super) aside: Option<RunFacts>,
    /// Runs that wait for a worker.
    pub(super) queued: u64,
}

/// An answer on its way out.
#[derive(Debug, Clone)]
pub(super) struct DeliveryFacts {
    pub(super) delivery: DeliveryRow,
}

impl Here {
    /// What only this process knows; the rest is read with the facts.
    pub(super) fn of(shared: &Shared) -> Self {
        Self {
            now: Timestamp::default(),
            grace: shared.options.grace,
            channels: shared.channel_names(),
            nodes: Vec::new(),
        }
    }

    /// Those who can work at all.
    pub(super) fn alive(&self) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.alive).collect()
    }

    /// Those who would take a run.
    pub(super) fn takers(&self, run: &RunRow) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.alive && node.takes(run)).collect()
    }
}

impl Facts {
    /// Where the subject stands, in a word or two.
    pub(super) fn state(&self) -> String {
        match &self.about {
            About::Run(facts) => facts.state(),
            About::Task(facts) => match facts.task.archived {
                Some(_) => format!("{}, archived", facts.task.state),
                None => facts.task.state.clone(),
            },
            About::Approval(facts) => facts.approval.state.clone(),
            About::Session(facts) => match (&facts.holder, facts.queued) {
                (Some(holder), _) => holder.state(),
                (None, 0) => "idle".to_owned(),
                (None, _) => "queued".to_owned(),
            },
            About::Delivery(facts) => facts.delivery.state.clone(),
        }
    }
}

impl RunFacts {
    /// Where the run stands, in a word or two.
    pub(super) fn state(&self) -> String {
        let run = &self.run;
        match (run.phase.as_str(), &run.parked_for) {
            ("done", _) => run.status.clone(),
            ("parked", Some(why)) => format!("parked for {why}"),
            ("leased", _) => "running".to_owned(),
            (phase, _) => phase.to_owned(),
        }
    }
}
