//! Seed data: one real run, copied many times under new ids.

use provost_core::scheduling::TimerKind;
use provost_core::{ApprovalId, Env, RunId, SessionId, TaskId, Timestamp};
use provost_store::table::governance::approval::{self, ApprovalRow};
use provost_store::table::scheduling::timer;
use provost_store::table::work::attempt::{self, AttemptRow};
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_event::{self, LogPosition, RunEventRow};
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::table::work::session::{self, SessionRow};
use provost_store::table::work::task::{self, TaskRow};
use provost_store::{Store, StoreError, Tx};

use crate::Result;

/// Copies per transaction.
const BATCH: usize = 500;
/// Maximum number of rows of one kind that a run has.
const ROWS_READ: u64 = 10_000;

/// A run with all its rows except its messages, which the copies share.
#[derive(Clone)]
pub(crate) struct Original {
    session: SessionRow,
    task: TaskRow,
    run: RunRow,
    inputs: Vec<InputRow>,
    attempts: Vec<AttemptRow>,
    steps: Vec<RunStepRow>,
    events: Vec<RunEventRow>,
    /// Each approval with the time at which its timer fires.
    approvals: Vec<(ApprovalRow, Option<Timestamp>)>,
}

impl Original {
    /// Reads a run.
    pub(crate) async fn of(store: &Store, run: RunId) -> Result<Self> {
        let found = store.read(move |tx| Self::read(tx, run)).await?;
        Ok(found.ok_or("a run that nobody knows")?)
    }

    fn read(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Self>, StoreError> {
        let Some(run) = run::get(tx, id)? else { return Ok(None) };
        let Some(task) = task::get(tx, run.task_id)? else { return Ok(None) };
        let session = session::get(tx, &run.namespace, &run.session_id)?;
        let Some(session) = session else { return Ok(None) };
        let mut approvals = Vec::new();
        for row in approval::of_run(tx, id)? {
            let timer = timer::get(tx, TimerKind::ApprovalExpiry, &row.id.to_string())?;
            approvals.push((row, timer.map(|timer| timer.fire_at)));
        }
        Ok(Some(Self {
            session,
            inputs: input::of_task(tx, task.id, 0, ROWS_READ)?,
            attempts: attempt::of_run(tx, id)?,
            steps: run_step::after(tx, id, 0, ROWS_READ)?,
            events: run_event::after(tx, id, 0, ROWS_READ)?,
            approvals,
            task,
            run,
        }))
    }

    /// Returns the number of its events.
    pub(crate) fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Stores `count` copies.
    pub(crate) async fn multiply(self, store: &Store, count: usize) -> Result<()> {
        for first in (0..count).step_by(BATCH) {
            let original = self.clone();
            let places = first..count.min(first + BATCH);
            let stored = store.write(move |tx| {
                let env = Env::system();
                places.clone().try_for_each(|place| original.copy(tx, &env, place))
            });
            stored.await.map_err(|error: StoreError| error)?;
        }
        Ok(())
    }

    /// Stores one copy under new ids, after the earlier copies.
    fn copy(&self, tx: &mut Tx<'_>, env: &Env, place: usize) -> Result<(), StoreError> {
        let task_id: TaskId = env.id();
        let run_id: RunId = env.id();
        let session_id = env.id::<SessionId>().to_string();
        let holder_run_id = self.session.holder_run_id.map(|_| run_id);
        let id = session_id.clone();
        SessionRow { id, key: None, holder_run_id, ..self.session.clone() }.insert(tx)?;
        let mut task = TaskRow { id: task_id, ..self.task.clone() };
        task.session_id.clone_from(&session_id);
        task.current_run_id = Some(run_id);
        task.insert(tx)?;
        let rank = self.run.rank.saturating_add(i64::try_from(place).unwrap_or(i64::MAX));
        RunRow { id: run_id, task_id, session_id, rank, ..self.run.clone() }.insert(tx)?;
        for row in &self.inputs {
            let run_id = row.run_id.map(|_| run_id);
            InputRow { id: env.id(), task_id, run_id, ..row.clone() }.insert(tx)?;
        }
        for row in &self.attempts {
            AttemptRow { run_id, ..row.clone() }.insert(tx)?;
        }
        for row in &self.steps {
            RunStepRow { run_id, ..row.clone() }.insert(tx)?;
        }
        for row in &self.events {
            RunEventRow { pos: LogPosition::NEXT, run_id, ..row.clone() }.insert(tx)?;
        }
        for (row, expires) in &self.approvals {
            let id: ApprovalId = env.id();
            ApprovalRow { id, run_id, task_id, ..row.clone() }.insert(tx)?;
            if let Some(expires) = expires {
                timer::set(tx, TimerKind::ApprovalExpiry, &id.to_string(), *expires)?;
            }
        }
        Ok(())
    }
}
