//! The facts that decide why something waits or failed, read in one transaction.

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
use crate::table::scheduling::concurrency_limit::CeilingRow;
use crate::table::scheduling::execution_class::ExecClassRow;
use crate::table::scheduling::worker::WorkerRow;
use crate::table::work::attempt::AttemptRow;
use crate::table::work::input::InputRow;
use crate::table::work::run::RunRow;
use crate::table::work::run_step::RunStepRow;
use crate::table::work::session::SessionRow;
use crate::table::work::task::TaskRow;
use provost_core::execution_policy::ExecutionPolicy;
use provost_core::id::name::Namespace;
use provost_core::{ApprovalId, DeliveryId, RunId, TaskId, Timestamp};

/// The subject of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A run.
    Run(RunId),
    /// A task.
    Task(TaskId),
    /// A question.
    Approval(ApprovalId),
    /// A session, by its id or its key.
    Session(String),
    /// A delivery.
    Delivery(DeliveryId),
}

impl FromStr for Subject {
    type Err = Infallible;

    /// By the prefix of an id; what is no id is the name of a session.
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
    /// The moment, the workers and the local facts.
    pub here: Here,
    /// The rows of the subject.
    pub about: About,
}

/// What is explained.
#[derive(Debug, Clone)]
pub enum About {
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

/// The moment, the workers, and the local facts of this process.
#[derive(Debug, Clone)]
pub struct Here {
    /// The moment by the clock of the database.
    pub now: Timestamp,
    /// How long a run may take to stop.
    pub grace: Duration,
    /// The channels that this process sends over.
    pub channels: Vec<String>,
    /// Workers that the database knows as running.
    pub nodes: Vec<Node>,
}

/// A worker.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its row.
    pub row: WorkerRow,
    /// Its lock is held.
    pub alive: bool,
    /// Runs that it carries.
    pub carries: u64,
    /// The sessions it serves, with their namespaces; all of them if there is none.
    pub focus: Option<Vec<(String, String)>>,
}

impl Node {
    /// True if the worker would claim this run, had it a free permit.
    pub fn takes(&self, run: &RunRow) -> bool {
        self.row.build >= run.min_build && self.row.pool == run.pool && self.serves(run)
    }

    /// True if the worker serves the session of this run.
    pub fn serves(&self, run: &RunRow) -> bool {
        let is_its = |(namespace, session): &(String, String)| {
            *namespace == run.namespace && *session == run.session_id
        };
        self.focus.as_ref().is_none_or(|focus| focus.iter().any(is_its))
    }
}

/// A run and everything around it.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run.
    pub run: RunRow,
    /// Its execution policy.
    pub policy: ExecutionPolicy,
    /// Its task.
    pub task: Option<TaskRow>,
    /// Its execution class.
    pub class: ExecClassRow,
    /// The limit of its namespace.
    pub namespace_ceiling: Option<CeilingRow>,
    /// The limit of its pool.
    pub pool_ceiling: Option<CeilingRow>,
    /// Another run that has its session.
    pub holder: Option<Box<RunFacts>>,
    /// Another due run that is next in its session.
    pub first: Option<RunId>,
    /// Runs before it in its session.
    pub ahead_in_session: u64,
    /// Runs before it in its class.
    pub ahead_in_class: u64,
    /// Its last attempt.
    pub attempt: Option<AttemptRow>,
    /// The worker that holds its lease.
    pub owner: Option<Node>,
    /// Steps whose outcome is not known.
    pub open: Vec<RunStepRow>,
    /// The last tool call that did not work, once the run has ended.
    pub failed_call: Option<RunStepRow>,
    /// Its open questions.
    pub questions: Vec<ApprovalRow>,
    /// Questions that were settled, newest last.
    pub settled: Vec<ApprovalRow>,
    /// The runs that it waits for.
    pub children: Vec<RunRow>,
    /// When it stops waiting for them.
    pub wait_over: Option<Timestamp>,
    /// Messages that it has not read.
    pub unread: Vec<InputRow>,
    /// When something last happened to it.
    pub last_event: Option<(String, Timestamp)>,
    /// Budgets that it spends from.
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

/// A question and its run.
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
    /// The run that has it.
    pub holder: Option<RunFacts>,
    /// The next run, if no run holds the session.
    pub next: Option<RunFacts>,
    /// A run that waits without having it.
    pub aside: Option<RunFacts>,
    /// Runs that wait for a worker.
    pub queued: u64,
}

/// A delivery.
#[derive(Debug, Clone)]
pub struct DeliveryFacts {
    /// The delivery.
    pub delivery: DeliveryRow,
}

impl Here {
    /// Workers that run.
    pub fn alive(&self) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.alive).collect()
    }

    /// Workers that would claim a run.
    pub fn takers(&self, run: &RunRow) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.alive && node.takes(run)).collect()
    }
}

impl Facts {
    /// Where the subject stands, in a word or two.
    pub fn state(&self) -> String {
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
    pub fn state(&self) -> String {
        let run = &self.run;
        match (run.phase.as_str(), &run.parked_for) {
            ("done", _) => run.status.clone(),
            ("parked", Some(why)) => format!("parked for {why}"),
            ("leased", _) => "running".to_owned(),
            (phase, _) => phase.to_owned(),
        }
    }
}

/// What only the calling process knows.
#[derive(Debug, Clone)]
pub struct LocalFacts {
    /// How long a run may take to stop.
    pub grace: Duration,
    /// The channels that this process sends over.
    pub channels: Vec<String>,
}

/// Reads the facts about a subject in one transaction.
pub async fn read(
    store: &Store,
    namespace: &Namespace,
    subject: Subject,
    local: LocalFacts,
) -> Result<Facts, QueryError> {
    let namespace = namespace.clone();
    let here = Here {
        now: Timestamp::default(),
        grace: local.grace,
        channels: local.channels,
        nodes: Vec::new(),
    };
    store.read(move |tx| gather::gather(tx, &here, &namespace, &subject)).await
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
