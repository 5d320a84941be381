//! Conversations that a test can hold still: a model that says what it was told, waits at a gate where the message asks for
//! it, and remembers what it saw.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use provost_agent::Agent;
use provost_bus::Topic;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::recovery::EffectClass;
use provost_core::resource::AgentSpec;
use provost_core::scheduling::InputMode;
use provost_core::{Env, Message, Role, RunId, TaskId, ToolResultPart};
use provost_engine::{
    AgentRevision, Engine, EngineDeps, EngineError, EngineOptions, InputReceipt, InputRequest,
    Lease, SubmitReceipt, Worker, ask_user,
};
use provost_model::{
    self as scripted, ChatModel, ChatRequest, ModelErrorClass, ModelInfo, ModelStream,
    ScriptedModel, ScriptedTurn,
};
use provost_store::query;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_event::RunEventRow;
use provost_store::table::work::task::TaskRow;
use provost_store::{FaultInjector, Store, StoreOptions, Tx};
use provost_tool::{FnTool, GuardServices, RequiresApproval, ToolError, ToolOutput, ToolSpec};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::harness::{command, options, patch};

const LONG: Duration = Duration::from_secs(30);

/// A place where those who come wait until somebody lets one of them go on.
pub(crate) struct Gate {
    inside: Semaphore,
    open: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self { inside: Semaphore::new(0), open: Semaphore::new(0) }
    }
}

impl Gate {
    async fn pass(&self) {
        self.inside.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }

    /// Waits until one more has come.
    pub(crate) async fn entered(&self) {
        let waiting = self.inside.acquire();
        tokio::time::timeout(LONG, waiting).await.expect("somebody comes").unwrap().forget();
    }

    /// Lets one go on.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }
}

/// What all models and tools of a test share.
#[derive(Default)]
pub(crate) struct Mind {
    seen: Mutex<Vec<Vec<String>>>,
    ran: Mutex<Vec<String>>,
    /// Where the tool `hold` waits.
    pub(crate) hold: Gate,
    /// Where an answer to `think …` waits.
    pub(crate) think: Gate,
}

impl Mind {
    /// What the model saw in each of its calls.
    pub(crate) fn seen(&self) -> Vec<Vec<String>> {
        self.seen.lock().unwrap().clone()
    }

    /// What the model saw in its last call.
    pub(crate) fn last(&self) -> Vec<String> {
        self.seen().pop().unwrap()
    }

    /// The last thing the model was told in each of its calls.
    pub(crate) fn told(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.last().unwrap().clone()).collect()
    }

    /// The tools that ran, in order.
    pub(crate) fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

/// A message as a line.
fn line(message: &Message) -> Vec<String> {
    match message.role {
        Role::Assistant => {
            let calls = message.tool_calls().map(|call| format!("call {}", call.name));
            let text = message.text();
            calls.chain((!text.is_empty()).then(|| format!("a: {text}"))).collect()
        }
        Role::Tool => message
            .tool_results()
            .map(|result| {
                let text = |part: &ToolResultPart| match part {
                    ToolResultPart::Text { text } => Some(text.clone()),
                    _ => None,
                };
                let text: String = result.parts.iter().filter_map(text).collect();
                format!("{}: {text}", result.name)
            })
            .collect(),
        _ => vec![message.text()],
    }
}

struct TalkModel {
    script: ScriptedModel,
    mind: Arc<Mind>,
}

impl ChatModel for TalkModel {
    fn info(&self) -> &ModelInfo {
        self.script.info()
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let lines = request.messages.iter().flat_map(|message| line(message)).collect();
        self.mind.seen.lock().unwrap().push(lines);
        let thinks = is_at(&request, "think");
        let answer = self.script.stream(request);
        if !thinks {
            return answer;
        }
        let mind = Arc::clone(&self.mind);
        let gate = async move {
            mind.think.pass().await;
            answer
        };
        Box::pin(stream::once(gate).flatten())
    }
}

fn last_said(request: &ChatRequest) -> (String, bool) {
    let said = request.messages.iter().rposition(|message| message.role == Role::User).unwrap();
    let ran = request.messages[said..].iter().any(|message| message.role == Role::Tool);
    (request.messages[said].text(), ran)
}

fn is_at(request: &ChatRequest, word: &str) -> bool {
    let (said, ran) = last_said(request);
    !ran && said.starts_with(word)
}

fn answer(request: &ChatRequest, _call: usize) -> ScriptedTurn {
    let (said, ran) = last_said(request);
    if ran {
        return scripted::text(format!("done: {said}"));
    }
    match said.split(' ').next().unwrap() {
        "hold" => scripted::call("hold", json!({})),
        "pair" => scripted::calls([("hold", json!({})), ("next", json!({}))]),
        "guard" => scripted::call("guarded", json!({})),
        "ask" => scripted::call("ask_user", json!({"questions": [{"question": "which one?"}]})),
        "fail" => scripted::fail(ModelErrorClass::InvalidRequest, "it cannot be done"),
        _ => scripted::text(format!("re: {said}")),
    }
}

fn agents(
    mind: Arc<Mind>,
) -> impl Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    move |revision, _| {
        let model = TalkModel { script: ScriptedModel::from_fn(answer), mind: Arc::clone(&mind) };
        let prompt = revision.config.system_prompt.clone().unwrap_or_default();
        let builder = Agent::builder("talker", model).instructions(prompt);
        let builder = builder.tool(tool("hold", &mind)).tool(tool("next", &mind));
        let builder = builder.tool(tool("guarded", &mind));
        Ok(builder.tool(ask_user().unwrap()).build().unwrap())
    }
}

/// Tools that must run alone, so that the second waits for the first.
fn tool(name: &'static str, mind: &Arc<Mind>) -> FnTool {
    let mind = Arc::clone(mind);
    let spec = ToolSpec::new(name, "Waits", json!({"type": "object"})).unwrap();
    let asks = if name == "guarded" { RequiresApproval::Always } else { RequiresApproval::Never };
    let spec = spec.effect(EffectClass::Pure).exclusive().approval(asks);
    FnTool::new(spec, move |_permit, _cx| {
        let mind = Arc::clone(&mind);
        async move {
            mind.ran.lock().unwrap().push(name.to_owned());
            if name == "hold" {
                mind.hold.pass().await;
            }
            Ok::<_, ToolError>(ToolOutput::text("ok"))
        }
        .boxed()
    })
}

/// One database with an engine, and more engines on demand.
pub(crate) struct Conversation {
    dir: TempDir,
    pub(crate) env: Env,
    lease: Duration,
    pub(crate) engine: Engine,
    pub(crate) mind: Arc<Mind>,
    pub(crate) namespace: Namespace,
}

impl Conversation {
    pub(crate) async fn new() -> Self {
        // Nobody should have to wait long for the lease of a worker that is gone.
        Self::with(Setup::new(Env::system(), Duration::from_secs(3))).await
    }

    /// On a clock that only the test moves.
    pub(crate) async fn simulated() -> Self {
        // A step of the clock must not take the lease away.
        Self::with(Setup::new(Env::simulated(7), Duration::from_secs(30))).await
    }

    /// With a store that fails where it is told to.
    pub(crate) async fn failing(faults: FaultInjector) -> Self {
        let setup = Setup::new(Env::system(), Duration::from_secs(3));
        Self::with(Setup { faults: Some(faults), ..setup }).await
    }

    async fn with(setup: Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mind = Arc::<Mind>::default();
        let (env, lease) = (setup.env.clone(), setup.lease);
        let engine = engine(&dir, setup, &mind);
        let namespace = Namespace::default();
        let config =
            AgentSpec { policy: patch(json!({"interactive": true})), ..AgentSpec::default() };
        engine.put_agent(&namespace, "default", None, config).await.unwrap();
        Self { dir, env, lease, engine, mind, namespace }
    }

    /// Another engine on the same file, as another process would have it: no hint goes from one to the other.
    pub(crate) fn another(&self) -> Engine {
        engine(&self.dir, Setup::new(self.env.clone(), self.lease), &self.mind)
    }

    pub(crate) async fn worker(&self) -> Worker {
        self.engine.start().await.unwrap()
    }

    pub(crate) async fn accept(&self, session: &str, text: &str) -> SubmitReceipt {
        self.engine.submit(&self.namespace, command(session, text)).await.unwrap()
    }

    pub(crate) async fn accept_mode(
        &self,
        session: &str,
        text: &str,
        mode: InputMode,
    ) -> Result<SubmitReceipt, EngineError> {
        let command = TaskRequest { queue_mode: Some(mode), ..command(session, text) };
        self.engine.submit(&self.namespace, command).await
    }

    pub(crate) async fn say(&self, task: TaskId, text: &str, mode: InputMode) -> InputReceipt {
        self.try_say(task, text, mode).await.unwrap()
    }

    pub(crate) async fn try_say(
        &self,
        task: TaskId,
        text: &str,
        mode: InputMode,
    ) -> Result<InputReceipt, EngineError> {
        self.engine.inputs().send(&self.namespace, task, InputRequest::text(text).mode(mode)).await
    }

    pub(crate) async fn wait(&self, run: RunId) -> RunRow {
        let waiting = self.engine.runs().wait(&self.namespace, run);
        match tokio::time::timeout(LONG, waiting).await {
            Ok(row) => row.unwrap(),
            Err(_) => panic!("it does not end: {:#?}", self.run(run).await),
        }
    }

    /// Waits until a run is as wanted.
    pub(crate) async fn until(&self, run: RunId, wanted: impl Fn(&RunRow) -> bool) -> RunRow {
        let found = async {
            let mut hints = self.engine.store().bus().subscribe(Topic::Wakeups);
            loop {
                let row = self.run(run).await;
                if wanted(&row) {
                    return row;
                }
                drop(tokio::time::timeout(Duration::from_millis(20), hints.recv()).await);
            }
        };
        tokio::time::timeout(LONG, found).await.expect("the run gets there")
    }

    /// Waits until a task has ended and nothing waits for it.
    pub(crate) async fn settled(&self, task: TaskId) -> TaskRow {
        loop {
            let row = self.task(task).await;
            let current = row.current_run_id.unwrap();
            self.wait(current).await;
            let row = self.task(task).await;
            if row.current_run_id == Some(current) && row.ended.is_some() {
                return row;
            }
        }
    }

    pub(crate) async fn run(&self, id: RunId) -> RunRow {
        query::run::get(self.engine.store(), &self.namespace, id).await.unwrap()
    }

    pub(crate) async fn task(&self, id: TaskId) -> TaskRow {
        query::task::get(self.engine.store(), &self.namespace, id).await.unwrap()
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Tx<'_>) -> T + Send + 'static,
    ) -> T {
        self.engine.store().read(move |tx| Ok::<_, EngineError>(job(tx))).await.unwrap()
    }

    /// The inputs of a task, in order.
    pub(crate) async fn inputs(&self, task: TaskId) -> Vec<InputRow> {
        self.read(move |tx| input::of_task(tx, task, 0, 1000).unwrap()).await
    }

    /// The states of the inputs of a task, in order.
    pub(crate) async fn states(&self, task: TaskId) -> Vec<String> {
        self.inputs(task).await.into_iter().map(|row| row.state.to_string()).collect()
    }

    pub(crate) async fn events(&self, run: RunId) -> Vec<RunEventRow> {
        query::run::events(self.engine.store(), &self.namespace, run, 0, 10_000).await.unwrap()
    }

    /// The body of the first event of a kind.
    pub(crate) async fn event(&self, run: RunId, kind: &str) -> Option<Value> {
        let events = self.events(run).await;
        let found = events.into_iter().find(|event| event.kind == kind)?;
        Some(serde_json::from_str(&found.body.unwrap()).unwrap())
    }

    /// What a session consists of now, as lines.
    pub(crate) async fn session(&self, id: &str) -> Vec<String> {
        let store = self.engine.store();
        let found = query::session::messages(store, &self.namespace, id, None, 500).await.unwrap();
        found.items.iter().flat_map(|item| line(&item.message)).collect()
    }

    /// How many rows a table has.
    pub(crate) async fn count(&self, table: &'static str) -> u64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.read(move |tx| tx.fetch_one::<u64>(&sql, provost_store::params![]).unwrap()).await
    }
}

/// What an engine differs in.
struct Setup {
    env: Env,
    lease: Duration,
    faults: Option<FaultInjector>,
}

impl Setup {
    fn new(env: Env, lease: Duration) -> Self {
        Self { env, lease, faults: None }
    }
}

fn engine(dir: &TempDir, setup: Setup, mind: &Arc<Mind>) -> Engine {
    let Setup { env, lease, faults } = setup;
    let store = StoreOptions { env: env.clone(), faults, ..StoreOptions::for_test(dir.path()) };
    let store = Store::open(store).unwrap();
    let options = EngineOptions { heartbeat: Duration::from_millis(100), lease, ..options() };
    Engine::new(
        EngineDeps::new(store, agents(Arc::clone(mind)), GuardServices::default(), env),
        options,
    )
}

/// The text a run ended with.
pub(crate) fn text(run: &RunRow) -> String {
    crate::harness::text(run)
}
