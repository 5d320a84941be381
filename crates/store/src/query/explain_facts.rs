//! Facts that explain why a run, task, approval, session or delivery waits or failed. One transaction reads them all.

mod gather;

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Store;
use crate::query::QueryError;
use crate::table::governance::approval::ApprovalRow;
use crate::table::governance::budget::BudgetRow;
use crate::table::outbound::delivery::DeliveryRow;
use crate::table::scheduling::concurrency_limit::ConcurrencyLimitRow;
use crate::table::scheduling::execution_class::ExecutionClassRow;
use crate::table::scheduling::worker::WorkerRow;
use crate::table::work::attempt::AttemptRow;
use crate::table::work::input::InputRow;
use crate::table::work::run::RunRow;
use crate::table::work::run_step::RunStepRow;
use crate::table::work::session::SessionRow;
use crate::table::work::task::TaskRow;
use provost_core::execution_policy::ExecutionPolicy;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::{ApprovalId, DeliveryId, RunId, TaskId, Timestamp};

/// The subject of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A run.
    Run(RunId),
    /// A task.
    Task(TaskId),
    /// An approval.
    Approval(ApprovalId),
    /// A session, by its id or its key.
    Session(String),
    /// A delivery.
    Delivery(DeliveryId),
}

impl FromStr for Subject {
    type Err = Infallible;

    /// Parses an id by its prefix. Any other text is the id or key of a session.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let id = text.parse().map(Self::Run).ok();
        let id = id.or_else(|| text.parse().map(Self::Task).ok());
        let id = id.or_else(|| text.parse().map(Self::Approval).ok());
        let id = id.or_else(|| text.parse().map(Self::Delivery).ok());
        Ok(id.unwrap_or_else(|| Self::Session(text.to_owned())))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(id) => id.fmt(f),
            Self::Task(id) => id.fmt(f),
            Self::Approval(id) => id.fmt(f),
            Self::Session(id) => id.fmt(f),
            Self::Delivery(id) => id.fmt(f),
        }
    }
}

/// The facts about one subject.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The subject as the caller named it.
    pub subject: Subject,
    /// Time, workers and local facts.
    pub system: SystemFacts,
    /// The rows of the subject.
    pub rows: SubjectFacts,
}

/// Rows of the subject.
#[derive(Debug, Clone)]
pub enum SubjectFacts {
    /// A run.
    Run(Box<RunFacts>),
    /// A task.
    Task(Box<TaskFacts>),
    /// An approval.
    Approval(Box<ApprovalFacts>),
    /// A session.
    Session(Box<SessionFacts>),
    /// A delivery.
    Delivery(Box<DeliveryFacts>),
}

/// Time, workers, and local facts of this process.
#[derive(Debug, Clone)]
pub struct SystemFacts {
    /// Current time of the database's clock.
    pub now: Timestamp,
    /// Time that a run has to stop after a cancellation.
    pub grace: Duration,
    /// Channels with an adapter in this process.
    pub channels: Vec<String>,
    /// Workers that are not stopped, according to the database.
    pub workers: Vec<WorkerFacts>,
}

/// A worker.
#[derive(Debug, Clone)]
pub struct WorkerFacts {
    /// Row of the worker.
    pub row: WorkerRow,
    /// True if its process holds the worker lock.
    pub is_alive: bool,
    /// Number of runs that it leases.
    pub leased_runs: u64,
    /// Namespaces and ids of the sessions that it serves; `None` for all sessions.
    pub session_filter: Option<Vec<(String, String)>>,
}

impl WorkerFacts {
    /// Returns true if the worker can claim this run when it has capacity.
    pub fn can_claim(&self, run: &RunRow) -> bool {
        self.row.build >= run.min_build && self.row.pool == run.pool && self.serves_session_of(run)
    }

    /// Returns true if the worker serves the session of this run.
    pub fn serves_session_of(&self, run: &RunRow) -> bool {
        let is_its = |(namespace, session): &(String, String)| {
            *namespace == run.namespace && *session == run.session_id
        };
        self.session_filter.as_ref().is_none_or(|sessions| sessions.iter().any(is_its))
    }
}

/// A run and its related rows.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run.
    pub run: RunRow,
    /// Its execution policy.
    pub policy: ExecutionPolicy,
    /// Its task.
    pub task: Option<TaskRow>,
    /// Its execution class.
    pub class: ExecutionClassRow,
    /// The limit of its namespace.
    pub namespace_ceiling: Option<ConcurrencyLimitRow>,
    /// The limit of its pool.
    pub pool_ceiling: Option<ConcurrencyLimitRow>,
    /// The other run that holds its session.
    pub holder: Option<Box<RunFacts>>,
    /// The other due run that is next in its session.
    pub first: Option<RunId>,
    /// Number of runs before it in its session.
    pub ahead_in_session: u64,
    /// Number of runs before it in its class.
    pub ahead_in_class: u64,
    /// Its last attempt.
    pub attempt: Option<AttemptRow>,
    /// The worker that holds its lease.
    pub owner: Option<WorkerFacts>,
    /// Steps without an outcome.
    pub open: Vec<RunStepRow>,
    /// The last failed tool call of an ended run.
    pub failed_call: Option<RunStepRow>,
    /// Its pending approvals.
    pub questions: Vec<ApprovalRow>,
    /// Its decided approvals, newest last.
    pub settled: Vec<ApprovalRow>,
    /// The runs that it waits for.
    pub children: Vec<RunRow>,
    /// Time at which the wait for the children ends.
    pub wait_over: Option<Timestamp>,
    /// Its pending inputs.
    pub unread: Vec<InputRow>,
    /// Kind and time of its last event.
    pub last_event: Option<(String, Timestamp)>,
    /// Budgets that its costs count against.
    pub budgets: Vec<BudgetRow>,
    /// Its deliveries.
    pub deliveries: Vec<DeliveryRow>,
}

/// A task and its run.
#[derive(Debug, Clone)]
pub struct TaskFacts {
    /// The task.
    pub task: TaskRow,
    /// Its newest run.
    pub run: Option<RunFacts>,
}

/// An approval and its run.
#[derive(Debug, Clone)]
pub struct ApprovalFacts {
    /// The approval.
    pub approval: ApprovalRow,
    /// Its run.
    pub run: Option<RunRow>,
}

/// A session and its runs.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The session.
    pub session: SessionRow,
    /// The run that holds the session.
    pub holder: Option<RunFacts>,
    /// The next run, if no run holds the session.
    pub next: Option<RunFacts>,
    /// A parked run that does not hold the session.
    pub aside: Option<RunFacts>,
    /// Number of queued runs.
    pub queued: u64,
}

/// A delivery.
#[derive(Debug, Clone)]
pub struct DeliveryFacts {
    /// The delivery.
    pub delivery: DeliveryRow,
}

impl SystemFacts {
    /// Returns the live workers.
    pub fn live_workers(&self) -> Vec<&WorkerFacts> {
        self.workers.iter().filter(|worker| worker.is_alive).collect()
    }

    /// Returns the live workers that can claim a run.
    pub fn eligible_workers(&self, run: &RunRow) -> Vec<&WorkerFacts> {
        self.workers.iter().filter(|worker| worker.is_alive && worker.can_claim(run)).collect()
    }
}

impl Facts {
    /// Returns the state of the subject in one or two words.
    pub fn state(&self) -> String {
        match &self.rows {
            SubjectFacts::Run(facts) => facts.state(),
            SubjectFacts::Task(facts) => match facts.task.archived {
                Some(_) => format!("{}, archived", facts.task.state),
                None => facts.task.state.to_string(),
            },
            SubjectFacts::Approval(facts) => facts.approval.state.to_string(),
            SubjectFacts::Session(facts) => match (&facts.holder, facts.queued) {
                (Some(holder), _) => holder.state(),
                (None, 0) => "idle".to_owned(),
                (None, _) => "queued".to_owned(),
            },
            SubjectFacts::Delivery(facts) => facts.delivery.state.to_string(),
        }
    }
}

impl RunFacts {
    /// Returns the state of the run in one or two words.
    pub fn state(&self) -> String {
        let run = &self.run;
        match (run.phase, run.parked_for) {
            (RunPhase::Done, _) => run.status.to_string(),
            (RunPhase::Parked, Some(reason)) => format!("parked for {reason}"),
            (RunPhase::Leased, _) => "running".to_owned(),
            (RunPhase::Queued | RunPhase::Parked, _) => run.phase.to_string(),
        }
    }
}

/// Facts that only the calling process knows.
#[derive(Debug, Clone)]
pub struct LocalFacts {
    /// Time that a run has to stop after a cancellation.
    pub grace: Duration,
    /// Channels with an adapter in this process.
    pub channels: Vec<String>,
}

/// Reads the facts about a subject in one transaction. Fails if the subject does not exist.
pub async fn read(
    store: &Store,
    namespace: &Namespace,
    subject: Subject,
    local: LocalFacts,
) -> Result<Facts, QueryError> {
    let namespace = namespace.clone();
    let system = SystemFacts {
        now: Timestamp::default(),
        grace: local.grace,
        channels: local.channels,
        workers: Vec::new(),
    };
    store.read(move |tx| gather::gather(tx, &system, &namespace, &subject)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_prefix_and_anything_else_is_a_session() {
        let env = provost_core::Env::simulated(1);
        let (run, task): (RunId, TaskId) = (env.id(), env.id());
        let (asked, sent): (ApprovalId, DeliveryId) = (env.id(), env.id());
        for subject in [
            Subject::Run(run),
            Subject::Task(task),
            Subject::Approval(asked),
            Subject::Delivery(sent),
            Subject::Session("main".to_owned()),
            Subject::Session("run_short".to_owned()),
        ] {
            assert_eq!(subject.to_string().parse::<Subject>(), Ok(subject));
        }
    }
}
