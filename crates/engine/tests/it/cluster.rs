//! Several nodes on one database with a clock of its own, and agents whose tools wait at gates.

mod tools;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_bus::Topic;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::resource::AgentSpec;
use provost_core::{Env, Role, RunId, Usage};
use provost_engine::{DeliveryAdapter, Engine, EngineDeps, EngineOptions, SubmitReceipt};
use provost_model::{ChatRequest, ScriptedTurn};
use provost_store::query;
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::scheduling::execution_class::ExecutionClassRow;
use provost_store::table::work::attempt::{self, AttemptRow};
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_event::RunEventRow;
use provost_store::{FaultInjector, Store, StoreError, StoreOptions, params};
use provost_tool::GuardServices;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use self::tools::agents;
use crate::harness::{command, patch, with_channel};

/// How long a test waits for something that must happen.
const LONG: Duration = Duration::from_secs(30);
/// For clocks of a node that must not strike during a test.
pub(crate) const NEVER: Duration = Duration::from_secs(24 * 3600);
/// The lease of all nodes, by the clock of the database.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A place where those who come wait until somebody lets them go on.
pub(crate) struct Gate {
    inside: Semaphore,
    open: Semaphore,
    came: AtomicUsize,
    /// How many were inside at once at most.
    most: AtomicUsize,
    now: AtomicUsize,
    /// Somebody left without being let go.
    left: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            inside: Semaphore::new(0),
            open: Semaphore::new(0),
            came: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            left: Semaphore::new(0),
        }
    }
}

struct Visit<'a> {
    gate: &'a Gate,
    passed: bool,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.gate.now.fetch_sub(1, Ordering::SeqCst);
        if !self.passed {
            self.gate.left.add_permits(1);
        }
    }
}

impl Gate {
    pub(crate) async fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let mut visit = Visit { gate: self, passed: false };
        self.inside.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        visit.passed = true;
    }

    /// Waits until one more has come.
    pub(crate) async fn entered(&self) {
        take(&self.inside, "somebody comes").await;
    }

    /// Waits until one more was stopped inside.
    pub(crate) async fn stopped(&self) {
        take(&self.left, "somebody is stopped").await;
    }

    /// Lets so many go on, now or when they come.
    pub(crate) fn open(&self, count: usize) {
        self.open.add_permits(count);
    }

    /// How many have come.
    pub(crate) fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }

    /// How many were inside at once at most.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

async fn take(permits: &Semaphore, what: &str) {
    tokio::time::timeout(LONG, permits.acquire()).await.expect(what).unwrap().forget();
}

/// What all nodes of a house share.
#[derive(Default)]
pub(crate) struct Rooms {
    /// Tools that wait, by name.
    gates: Mutex<HashMap<String, Arc<Gate>>>,
    /// Where an attempt waits before its first step, if it is closed.
    pub(crate) door: Gate,
    pub(crate) door_closed: AtomicBool,
    /// The agents cannot be built.
    pub(crate) broken: AtomicBool,
    /// The database does not take anything.
    pub(crate) outage: AtomicBool,
    model_calls: AtomicUsize,
    calls: Mutex<HashMap<String, usize>>,
}

impl Rooms {
    pub(crate) fn gate(&self, name: &str) -> Arc<Gate> {
        Arc::clone(self.gates.lock().unwrap().entry(name.to_owned()).or_default())
    }

    pub(crate) fn model_calls(&self) -> usize {
        self.model_calls.load(Ordering::SeqCst)
    }

    /// How often a tool was called.
    pub(crate) fn calls(&self, tool: &str) -> usize {
        self.calls.lock().unwrap().get(tool).copied().unwrap_or(0)
    }

    fn called(&self, tool: &str) {
        *self.calls.lock().unwrap().entry(tool.to_owned()).or_default() += 1;
    }
}

type Answer = dyn Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync;

/// A database with a clock of its own.
pub(crate) struct Cluster {
    dir: TempDir,
    pub(crate) clock: Env,
    pub(crate) store: Store,
    pub(crate) rooms: Arc<Rooms>,
    answer: Arc<Answer>,
    guard: GuardServices,
    /// The engine that people talk to; it works only if a test starts it.
    pub(crate) engine: Engine,
    pub(crate) namespace: Namespace,
}

/// A node with short real times; only the database's clock decides about leases.
pub(crate) fn quick() -> EngineOptions {
    let poll = Duration::from_millis(10);
    EngineOptions { poll, heartbeat: poll, lease: LEASE, ..EngineOptions::default() }
}

/// A node that does not notice anything: as if it was frozen outside of its attempts.
pub(crate) fn frozen() -> EngineOptions {
    EngineOptions { poll: NEVER, heartbeat: NEVER, ..quick() }
}

impl Cluster {
    /// A house whose model answers the n-th time since the last message of the user with the n-th turn.
    pub(crate) async fn new(turns: Vec<ScriptedTurn>) -> Self {
        Self::answering(move |request, _| {
            let said =
                |message: &&std::sync::Arc<provost_core::Message>| message.role != Role::User;
            let since = request.messages.iter().rev().take_while(said);
            let asked = since.filter(|message| message.role == Role::Assistant).count();
            turns.get(asked).cloned().unwrap_or_else(|| provost_model::text("done"))
        })
        .await
    }

    pub(crate) async fn answering(
        answer: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + 'static,
    ) -> Self {
        Self::guarded(GuardServices::default(), answer).await
    }

    /// The same with services that govern each tool call.
    pub(crate) async fn guarded(
        guard: GuardServices,
        answer: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Env::simulated(1);
        let rooms = Arc::<Rooms>::default();
        let store = open(&dir, &clock, &rooms);
        let answer: Arc<Answer> = Arc::new(answer);
        let agents = agents(Arc::clone(&rooms), Arc::clone(&answer));
        let engine = Engine::new(
            EngineDeps::new(store.clone(), agents, guard.clone(), Env::system()),
            quick(),
        );
        let namespace = Namespace::default();
        let cluster = Self { dir, clock, store, rooms, answer, guard, engine, namespace };
        cluster.agent("default", json!({"policy": {"interactive": true}})).await;
        cluster
    }

    /// Another node on the same database.
    pub(crate) fn node(&self, options: EngineOptions) -> Engine {
        self.node_on(&self.store, options, Env::system())
    }

    pub(crate) fn node_on(&self, store: &Store, options: EngineOptions, env: Env) -> Engine {
        Engine::new(self.deps(store, env), options)
    }

    /// Another node, which sends over a channel.
    pub(crate) fn node_with_channel(&self, name: &str, adapter: impl DeliveryAdapter) -> Engine {
        Engine::new(with_channel(name, adapter)(self.deps(&self.store, Env::system())), quick())
    }

    fn deps(&self, store: &Store, env: Env) -> EngineDeps {
        let agents = agents(Arc::clone(&self.rooms), Arc::clone(&self.answer));
        EngineDeps::new(store.clone(), agents, self.guard.clone(), env)
    }

    /// Closes the database and opens it again, as a new process would.
    pub(crate) async fn restart(mut self) -> Self {
        self.store.close().await;
        self.store = open(&self.dir, &self.clock, &self.rooms);
        self.engine = self.node(quick());
        self
    }

    /// Stores the configuration of an agent.
    pub(crate) async fn agent(&self, name: &str, config: Value) {
        let config: AgentSpec = serde_json::from_value(config).unwrap();
        self.engine.put_agent(&self.namespace, name, None, config).await.unwrap();
    }

    pub(crate) async fn say(&self, session: &str, text: &str) -> SubmitReceipt {
        self.accept(command(session, text)).await
    }

    pub(crate) async fn accept(&self, command: TaskRequest) -> SubmitReceipt {
        self.engine.submit(&self.namespace, command).await.unwrap()
    }

    /// A command with a policy of its own.
    pub(crate) async fn say_with(&self, session: &str, policy: Value) -> SubmitReceipt {
        self.accept(TaskRequest { policy: Some(patch(policy)), ..command(session, "go") }).await
    }

    pub(crate) async fn run(&self, id: RunId) -> RunRow {
        query::run::get(self.engine.store(), &self.namespace, id).await.unwrap()
    }

    /// Waits until a run is as the test wants it.
    pub(crate) async fn until(&self, id: RunId, reached: impl Fn(&RunRow) -> bool) -> RunRow {
        let mut hints = self.store.bus().subscribe(Topic::Wakeups);
        let wait = async {
            loop {
                let row = self.run(id).await;
                if reached(&row) {
                    return row;
                }
                drop(tokio::time::timeout(Duration::from_millis(10), hints.recv()).await);
            }
        };
        match tokio::time::timeout(LONG, wait).await {
            Ok(row) => row,
            Err(_) => panic!("never reached: {:#?} {:?}", self.run(id).await, self.kinds(id).await),
        }
    }

    pub(crate) async fn ended(&self, id: RunId) -> RunRow {
        self.until(id, |row| row.phase == RunPhase::Done).await
    }

    pub(crate) async fn parked(&self, id: RunId) -> RunRow {
        self.until(id, |row| row.phase == RunPhase::Parked).await
    }

    pub(crate) async fn events(&self, id: RunId) -> Vec<RunEventRow> {
        query::run::events(self.engine.store(), &self.namespace, id, 0, 10_000).await.unwrap()
    }

    pub(crate) async fn kinds(&self, id: RunId) -> Vec<String> {
        self.events(id).await.into_iter().map(|event| event.kind).collect()
    }

    pub(crate) async fn attempts(&self, id: RunId) -> Vec<AttemptRow> {
        self.store.read(move |tx| attempt::of_run(tx, id)).await.unwrap()
    }

    /// The open questions, oldest first.
    pub(crate) async fn questions(&self) -> Vec<ApprovalRow> {
        query::approval::open(self.engine.store(), &self.namespace, None, 100).await.unwrap()
    }

    /// The only class there is.
    pub(crate) async fn class(&self) -> ExecutionClassRow {
        let mut classes =
            query::execution_class::list(self.engine.store(), &self.namespace, "", 100)
                .await
                .unwrap();
        assert_eq!(classes.len(), 1);
        classes.remove(0)
    }

    /// Changes rows behind the engine's back.
    pub(crate) async fn meddle(&self, sql: &'static str) {
        let all = format!("/* full scan */ {sql}");
        let changed = self.store.write(move |tx| tx.execute_fenced(&all, params![])).await.unwrap();
        assert!(changed > 0, "{sql}");
    }
}

fn open(dir: &TempDir, clock: &Env, rooms: &Arc<Rooms>) -> Store {
    let rooms = Arc::clone(rooms);
    let faults = FaultInjector::new(move |_| {
        let out = rooms.outage.load(Ordering::SeqCst);
        out.then(|| StoreError::Busy { detail: "an outage".to_owned() })
    });
    let options = StoreOptions {
        env: clock.clone(),
        faults: Some(faults),
        ..StoreOptions::for_test(dir.path())
    };
    Store::open(options).unwrap()
}

/// The text of the result of the last tool call that a request shows.
pub(crate) fn last_result(request: &ChatRequest) -> String {
    let results = request.messages.iter().rev().flat_map(|message| message.tool_results());
    results.map(provost_core::ToolResult::to_text).next().unwrap_or_default()
}

/// What a model call uses that costs about one cent at the house's price.
pub(crate) fn cent() -> Usage {
    Usage { input: 5_000, output: 5_000, ..Usage::default() }
}
