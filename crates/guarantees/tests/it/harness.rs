//! One database file, a counted model, a counted tool server, and nodes that come and go.
//!
//! The test itself holds an engine that never works: it accepts, answers, cancels, waits and reads.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::id::name::{Namespace, SessionName};
use provost_core::lifecycle::RunStatus;
use provost_core::resource::AgentSpec;
use provost_core::{Env, RunId, TaskId};
use provost_engine::{
    AgentRevision, Engine, EngineDeps, EngineError, EngineOptions, Lease, SubmitReceipt,
};
use provost_store::query;
use provost_store::table::governance::approval;
use provost_store::table::work::attempt::{self, AttemptRow};
use provost_store::table::work::run::{self, RunFilter, RunRow};
use provost_store::table::work::run_event::RunEventRow;
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::{Store, StoreError, StoreOptions, params};
use provost_testkit::history::{self, Record};
use provost_testkit::{EffectServer, FakeProvider, Process};
use provost_tool::GuardServices;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::plan;

/// Long enough for a loaded machine; nothing waits for so long when all is well.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A lease so short that a test can wait for its end, and long enough to be renewed on a loaded machine.
pub(crate) const SHORT_LEASE: [&str; 4] = ["--lease-ms", "900", "--heartbeat-ms", "100"];

pub(crate) struct Harness {
    pub(crate) dir: TempDir,
    pub(crate) provider: FakeProvider,
    pub(crate) effect_server: EffectServer,
    pub(crate) engine: Engine,
    pub(crate) namespace: Namespace,
}

impl Harness {
    /// A stage whose model follows plans.
    pub(crate) async fn new() -> Self {
        Self::with(plan::provider().await, json!({})).await
    }

    /// A stage whose agent has this configuration.
    pub(crate) async fn with(provider: FakeProvider, config: Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::in_dir(dir.path())).unwrap();
        let options = EngineOptions { poll: Duration::from_millis(20), ..EngineOptions::default() };
        let engine = Engine::new(
            EngineDeps::new(store, no_agents, GuardServices::default(), Env::system()),
            options,
        );
        let harness = Self {
            dir,
            provider,
            effect_server: EffectServer::start().await,
            engine,
            namespace: Namespace::default(),
        };
        harness.configure(config).await;
        harness
    }

    /// Gives the agent a configuration; runs that are there keep theirs.
    pub(crate) async fn configure(&self, config: Value) {
        let spec: AgentSpec = serde_json::from_value(config).unwrap();
        let policy: ExecutionPolicyPatch =
            serde_json::from_value(json!({"interactive": true})).unwrap();
        let config = AgentSpec { policy, ..spec };
        self.engine.put_agent(&self.namespace, "default", None, config).await.unwrap();
    }

    /// The command line of a node.
    pub(crate) fn node(&self, arguments: &[&str], failpoints: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provost-node"));
        command.arg("--db").arg(self.engine.store().path());
        command.args([
            "--model-url",
            &self.provider.base_url(),
            "--effect-server-url",
            &self.effect_server.url(),
        ]);
        command.args(arguments).env("PROVOST_FAILPOINTS", failpoints);
        command
    }

    /// A worker that is ready.
    pub(crate) async fn worker(&self) -> Process {
        self.worker_with(&[], "").await
    }

    /// A worker that stops at a place.
    pub(crate) async fn worker_until(&self, failpoints: &str) -> Process {
        self.worker_with(&[], failpoints).await
    }

    /// A worker that does not wait for what is under way when it is asked to end.
    pub(crate) async fn leaving_worker(&self) -> Process {
        self.ready_worker(&["work", "--drain-timeout-ms", "0"], "").await
    }

    /// A worker with options of its own.
    pub(crate) async fn worker_with(&self, options: &[&str], failpoints: &str) -> Process {
        let arguments: Vec<&str> = options.iter().copied().chain(["work"]).collect();
        self.ready_worker(&arguments, failpoints).await
    }

    async fn ready_worker(&self, arguments: &[&str], failpoints: &str) -> Process {
        let worker = Process::start_with_input(self.node(arguments, failpoints)).unwrap();
        worker.wait_for_line("ready ", LONG).await.unwrap();
        worker
    }

    /// Starts a worker that is expected to die at a place, and waits until it has.
    pub(crate) async fn worker_dies_at(&self, place: &str) {
        self.worker_dies_with(&[], &format!("{place}=kill")).await;
    }

    /// Like [`worker_dies_at`](Self::worker_dies_at), with options and rules of its own.
    pub(crate) async fn worker_dies_with(&self, options: &[&str], failpoints: &str) {
        let arguments: Vec<&str> = options.iter().copied().chain(["work"]).collect();
        let worker = Process::start_with_input(self.node(&arguments, failpoints)).unwrap();
        let ended = worker.wait(LONG).await.unwrap();
        assert!(was_killed(ended), "it was not killed at {failpoints}: {worker:?}");
    }

    /// A worker with a short lease that stands still at a place, and the file that lets it go on from there once it is thawed.
    pub(crate) async fn worker_frozen_at(&self, place: &str) -> (Process, PathBuf) {
        let (gate, trace) = (self.gate("gate"), self.gate("trace"));
        let arguments: Vec<&str> = SHORT_LEASE.iter().copied().chain(["work"]).collect();
        let mut node = self.node(&arguments, &format!("{place}=pause:{}", gate.display()));
        node.env("PROVOST_FAILPOINTS_TRACE", &trace);
        let worker = Process::start_with_input(node).unwrap();
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        let reached = async {
            while !fs::read_to_string(&trace)
                .is_ok_and(|names| names.lines().any(|name| name == place))
            {
                looks.tick().await;
            }
        };
        tokio::time::timeout(LONG, reached).await.expect("the place is reached");
        self.freeze(&worker).await;
        (worker, gate)
    }

    /// Freezes a worker, but not in the middle of a transaction: on one file that stops everybody until it is thawed.
    pub(crate) async fn freeze(&self, worker: &Process) {
        let options = StoreOptions {
            busy_timeout: Duration::from_millis(20),
            ..StoreOptions::new(self.engine.store().path())
        };
        let probe = Store::open(options).unwrap();
        loop {
            worker.freeze().await.unwrap();
            if probe.write(|_| Ok::<_, StoreError>(())).await.is_ok() {
                return probe.close().await;
            }
            worker.thaw().unwrap();
        }
    }

    /// Runs a node that does one thing; its line as JSON, if it had the time to say it.
    pub(crate) async fn once(&self, arguments: &[&str], failpoints: &str) -> Option<Value> {
        let node = Process::start(self.node(arguments, failpoints)).unwrap();
        let ended = node.wait(LONG).await.unwrap();
        if was_killed(ended) {
            assert!(node.lines().is_empty(), "{node:?}");
            return None;
        }
        assert!(ended.success(), "{node:?}");
        // The output may be read after the end is seen.
        let line = node.wait_for_line("{", LONG).await.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    }

    pub(crate) async fn accept(&self, command: TaskRequest) -> SubmitReceipt {
        self.engine.submit(&self.namespace, command).await.unwrap()
    }

    /// Says something in a session of its own.
    pub(crate) async fn say(&self, text: &str) -> RunId {
        self.accept(TaskRequest::text(text)).await.run
    }

    /// Waits for the end of a run.
    pub(crate) async fn wait(&self, run: RunId) -> RunRow {
        let waiting = self.engine.runs().wait(&self.namespace, run);
        match tokio::time::timeout(LONG, waiting).await {
            Ok(row) => row.unwrap(),
            Err(_) => {
                panic!("{run} does not end: {:#?} {:?}", self.row(run).await, self.kinds(run).await)
            }
        }
    }

    /// Waits for the end of a run, and for all that must hold of its history; the text it ended with.
    pub(crate) async fn answer(&self, run: RunId) -> String {
        let row = self.wait(run).await;
        assert_eq!(row.status, RunStatus::Ok, "{:?}: {:?}", row.outcome_code, row.detail);
        self.assert_history(&[run]).await;
        text(&row)
    }

    pub(crate) async fn row(&self, run: RunId) -> RunRow {
        query::run::get(self.engine.store(), &self.namespace, run).await.unwrap()
    }

    /// Waits until a run is as it is wanted to be.
    pub(crate) async fn until(&self, run: RunId, wanted: impl Fn(&RunRow) -> bool) -> RunRow {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        let looking = async {
            loop {
                looks.tick().await;
                let row = self.row(run).await;
                if wanted(&row) {
                    return row;
                }
            }
        };
        match tokio::time::timeout(LONG, looking).await {
            Ok(row) => row,
            Err(_) => panic!(
                "{run} does not get there: {:#?} {:?}",
                self.row(run).await,
                self.kinds(run).await
            ),
        }
    }

    pub(crate) async fn events(&self, run: RunId) -> Vec<RunEventRow> {
        query::run::events(self.engine.store(), &self.namespace, run, 0, 100_000).await.unwrap()
    }

    pub(crate) async fn kinds(&self, run: RunId) -> Vec<String> {
        self.events(run).await.into_iter().map(|event| event.kind).collect()
    }

    /// How many events of a kind a run has.
    pub(crate) async fn count(&self, run: RunId, kind: &str) -> usize {
        self.kinds(run).await.iter().filter(|found| *found == kind).count()
    }

    pub(crate) async fn attempts(&self, run: RunId) -> Vec<AttemptRow> {
        let read = self.engine.store().read(move |tx| attempt::of_run(tx, run));
        read.await.unwrap()
    }

    pub(crate) async fn steps(&self, run: RunId) -> Vec<RunStepRow> {
        let read = self.engine.store().read(move |tx| run_step::after(tx, run, 0, 100_000));
        read.await.unwrap()
    }

    /// True if a call of a run never began, because the outcome of another one is unknown, and its result says so.
    pub(crate) async fn was_refused(&self, run: RunId, call: &str) -> bool {
        let steps = self.steps(run).await;
        let told = |step: &RunStepRow| {
            step.body.as_deref().is_some_and(|body| body.contains("was not run: the outcome of an"))
        };
        steps.iter().any(|step| {
            step.call_id.as_deref() == Some(call) && step.effect_key.is_none() && told(step)
        })
    }

    /// How many rows a table has.
    pub(crate) async fn rows(&self, table: &str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        self.engine.store().read(move |tx| tx.fetch_one(&sql, params![])).await.unwrap()
    }

    /// The first column of the first row.
    pub(crate) async fn one(&self, sql: &'static str) -> i64 {
        self.engine.store().read(move |tx| tx.fetch_one(sql, params![])).await.unwrap()
    }

    pub(crate) async fn all_runs(&self) -> Vec<RunRow> {
        let read = self.engine.store().read(|tx| {
            run::list(tx, Namespace::default().as_str(), &RunFilter::default(), 100_000)
        });
        read.await.unwrap()
    }

    /// Waits until the worker of a run has looked for what other processes said to it: with each renewal of its lease it
    /// does, and after the second one the first has been heeded.
    pub(crate) async fn looked_around(&self, run: RunId) {
        for _ in 0..2 {
            let before = self.row(run).await.lease_until;
            self.until(run, |row| row.lease_until > before).await;
        }
    }

    /// The runs of a task, once there are so many.
    pub(crate) async fn runs_of(&self, task: TaskId, wanted: usize) -> Vec<RunId> {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        let looking = async {
            loop {
                looks.tick().await;
                let runs =
                    self.engine.store().read(move |tx| run::of_task(tx, task)).await.unwrap();
                if runs.len() >= wanted {
                    return runs.iter().map(|run| run.id).collect();
                }
            }
        };
        tokio::time::timeout(LONG, looking).await.expect("the task gets its runs")
    }

    /// The id of the one question of a run that is open.
    pub(crate) async fn question(&self, run: RunId) -> String {
        let read = self.engine.store().read(move |tx| approval::open_of_run(tx, run));
        let open = read.await.unwrap();
        assert_eq!(open.len(), 1, "{open:?}");
        open[0].id.to_string()
    }

    /// Waits until so many answers of the ledger are held.
    pub(crate) async fn effect_server_pauses(&self, wanted: usize) {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        let looking = async {
            while self.effect_server.paused_count() != wanted {
                looks.tick().await;
            }
        };
        tokio::time::timeout(LONG, looking)
            .await
            .expect("another call waits for the effect server");
    }

    pub(crate) async fn records(&self, runs: &[RunId]) -> Vec<Record> {
        let mut records = Vec::new();
        for run in runs {
            records.extend(self.events(*run).await.into_iter().map(|event| Record {
                run: run.to_string(),
                seq: event.seq,
                epoch: event.epoch,
                kind: event.kind,
                at: event.at.as_millis(),
            }));
        }
        records
    }

    /// G43, G46: numbers without gaps, epochs that only grow, one end that is the last.
    pub(crate) async fn assert_history(&self, runs: &[RunId]) {
        history::assert_holds(&history::check(&self.records(runs).await, is_terminal));
    }

    /// A file that is not there yet, for a place to wait for.
    pub(crate) fn gate(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn no_agents(_: &AgentRevision, _: &Lease) -> Result<provost_agent::Agent, EngineError> {
    Err(EngineError::Agent {
        agent: "default".to_owned(),
        problem: "a test does not work".to_owned(),
    })
}

pub(crate) fn is_terminal(kind: &str) -> bool {
    matches!(kind, "finished" | "failed" | "cancelled" | "timed_out")
}

/// A command in a session.
pub(crate) fn in_session(session: &str, text: &str) -> TaskRequest {
    let session_id: SessionName = session.parse().unwrap();
    TaskRequest { session_id: Some(session_id), ..TaskRequest::text(text) }
}

/// The text a run ended with.
pub(crate) fn text(run: &RunRow) -> String {
    let result: Value = serde_json::from_str(run.result.as_deref().unwrap_or("{}")).unwrap();
    result["text"].as_str().unwrap_or_default().to_owned()
}

fn was_killed(ended: std::process::ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&ended) == Some(9)
}
