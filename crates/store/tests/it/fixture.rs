//! A database for one test, and rows to put into it.

use std::sync::mpsc;

use provost_core::lifecycle::{RunKind, RunPhase, RunStatus, TaskState};
use provost_core::scheduling::{ClassHealth, InputMode};
use provost_core::{Env, RunId, TaskId, Timestamp};
use provost_store::table::scheduling::execution_class::ExecutionClassRow;
use provost_store::table::scheduling::process_start::ProcessStartRow;
use provost_store::table::work::journal::RunProgress;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_event::{LogPosition, RunEventRow};
use provost_store::table::work::session::SessionRow;
use provost_store::table::work::task::TaskRow;
use provost_store::{Durability, Store, StoreError, StoreOptions, Tx, WriteHandle, params};
use tempfile::TempDir;

pub(crate) type Outcome<T = ()> = Result<T, StoreError>;

/// A database of its own, in a directory that goes away.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) env: Env,
}

impl Fixture {
    pub(crate) fn sqlite() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), env: Env::simulated(1) }
    }

    /// Another database of the same kind.
    pub(crate) fn another(&self) -> Self {
        Self::sqlite()
    }

    /// The options for this database, without waiting for the disk: no test here cuts the power.
    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            env: self.env.clone(),
            durability: Durability::ProcessExit,
            ..StoreOptions::in_dir(self.dir.path())
        }
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(self.options()).unwrap()
    }
}

/// Keeps the writer busy until it is opened, so that what is enqueued meanwhile becomes one group.
pub(crate) struct Gate {
    open: mpsc::Sender<()>,
    passed: WriteHandle<(), StoreError>,
}

impl Gate {
    /// Returns once the writer stands in front of the gate.
    pub(crate) fn close(store: &Store) -> Self {
        let (open, opened) = mpsc::channel();
        let (stand, standing) = mpsc::channel();
        let passed = store.write(move |_| {
            stand.send(()).unwrap();
            opened.recv().unwrap();
            Ok(())
        });
        standing.recv().unwrap();
        Self { open, passed }
    }

    /// Lets the writer go on; the outcome is that of the group the gate stands in.
    pub(crate) async fn open(self) -> Outcome {
        self.open.send(()).unwrap();
        self.passed.await
    }
}

/// Puts one small row with the id.
pub(crate) fn put(tx: &mut Tx<'_>, id: &str) -> Outcome {
    ProcessStartRow { id: id.to_owned(), started: tx.now(), clean_stop: None }.insert(tx)
}

/// The ids of the small rows.
pub(crate) async fn ids(store: &Store) -> Vec<String> {
    store.read(|tx| tx.fetch_all("SELECT id FROM boot ORDER BY id", params![])).await.unwrap()
}

/// A time that many milliseconds after the start of a simulated clock.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub(crate) fn class() -> ExecutionClassRow {
    ExecutionClassRow {
        key: "class".into(),
        namespace: "default".into(),
        agent: None,
        lane: None,
        pool: "default".into(),
        max_running: 2,
        running: 0,
        health: ClassHealth::Healthy,
        failures: "[]".into(),
        probe_at: None,
        last_served: 0,
        updated: at(0),
    }
}

pub(crate) fn session(id: &str) -> SessionRow {
    SessionRow {
        namespace: "default".into(),
        id: id.into(),
        key: None,
        agent: None,
        queue: None,
        revision: 0,
        next_entry: 1,
        fence: 0,
        holder_run_id: None,
        created: at(0),
        updated: at(0),
        continuable: false,
    }
}

pub(crate) fn task(id: TaskId, namespace: &str) -> TaskRow {
    TaskRow {
        id,
        namespace: namespace.into(),
        agent: "helper".into(),
        agent_revision: 1,
        session_id: "s".into(),
        parent_task_id: None,
        state: TaskState::Queued,
        queue_mode: InputMode::Followup,
        priority: 0,
        command: "{}".into(),
        label: None,
        spawned_by: None,
        current_run_id: None,
        run_count: 0,
        next_input: 1,
        drop_reason: None,
        waiting_for: None,
        wake_at: None,
        deadline: None,
        cost_micros: 0,
        version: 0,
        created: at(0),
        updated: at(0),
        ended: None,
        archived: None,
    }
}

pub(crate) fn run(id: RunId, task: &TaskRow) -> RunRow {
    RunRow {
        id,
        namespace: task.namespace.clone(),
        task_id: task.id,
        ordinal: 1,
        session_id: task.session_id.clone(),
        class_key: "class".into(),
        pool: "default".into(),
        agent: task.agent.clone(),
        agent_revision: 1,
        policy: "{}".into(),
        status: RunStatus::Accepted,
        phase: RunPhase::Queued,
        outcome_code: None,
        detail: None,
        ready: false,
        rank: 0,
        not_before: at(0),
        deadline: None,
        queue_deadline: None,
        timeout_ms: None,
        holds_session: false,
        parked_for: None,
        epoch: 0,
        lease_owner: None,
        lease_until: None,
        attempt_no: 0,
        claim_count: 0,
        crash_count: 0,
        failure_count: 0,
        cancel_requested: None,
        cancel_code: None,
        interrupt_requested: None,
        paused: None,
        next_seq: 1,
        next_step: 1,
        open_from: 1,
        restricted: false,
        base_revision: None,
        parent_run_id: None,
        parent_step: None,
        depth: 0,
        spawn: None,
        forked_from: None,
        forked_step: None,
        min_build: 0,
        usage: None,
        cost_micros: 0,
        result: None,
        created: at(0),
        started: None,
        ended: None,
        kind: RunKind::Agent,
        resource_set: None,
    }
}

/// Stores a task with one run, and the class and session it needs.
pub(crate) async fn put_run(store: &Store, env: &Env) -> RunRow {
    let task = task(env.id(), "default");
    let run = run(env.id(), &task);
    let stored = run.clone();
    let written = store.write(move |tx| {
        class().insert_new(tx)?;
        session("s").insert_new(tx)?;
        task.insert(tx)?;
        run.insert(tx)
    });
    written.await.unwrap();
    stored
}

/// A write of an attempt that appends events.
pub(crate) fn advance(run: RunId, epoch: u64, events: u64) -> RunProgress {
    RunProgress {
        run,
        epoch,
        events,
        next_step: 1,
        open_from: 1,
        progress: false,
        restricted: false,
        cost_micros: 0,
        base_revision: None,
    }
}

/// The event of a run with the number.
pub(crate) fn event(run: &RunRow, seq: u64) -> RunEventRow {
    RunEventRow {
        pos: LogPosition::NEXT,
        run_id: run.id,
        seq,
        epoch: run.epoch,
        attempt_no: 1,
        kind: "noted".into(),
        at: at(0),
        message_id: None,
        body: Some("{}".into()),
        blob: None,
    }
}
