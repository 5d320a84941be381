//! A database for consecutive servers, and raw readers of their streams.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use provost_agent::Agent;
use provost_api::{BodyStream, Client, NewTask, TaskReceipt, Transport};
use provost_core::Env;
use provost_core::id::name::{Namespace, SessionName};
use provost_core::recovery::EffectClass;
use provost_core::resource::AgentSpec;
use provost_engine::{AgentRevision, Engine, EngineDeps, EngineOptions, Lease, Worker};
use provost_model::{self as scripted, ChatRequest, ScriptedModel, ScriptedTurn};
use provost_server::{App, AppOptions, LocalTransport, WebhookSigningKey};
use provost_store::{Store, StoreOptions};
use provost_tool::{FnTool, GuardServices, ToolContext, ToolError, ToolOutput, ToolSpec};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum time to wait for an expected event.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A directory with a database.
pub(crate) struct TestDatabase {
    dir: TempDir,
}

/// A server over the database.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) app: App,
    pub(crate) client: Client,
    pub(crate) transport: LocalTransport,
    worker: Option<Worker>,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a server with a worker.
    pub(crate) async fn open(&self) -> Server {
        let mut server = self.idle().await;
        server.worker = Some(server.engine.start().await.unwrap());
        server
    }

    /// Starts a server without a worker.
    pub(crate) async fn idle(&self) -> Server {
        self.idle_with(Env::system()).await
    }

    /// Starts a server without a worker and with another clock.
    pub(crate) async fn idle_with(&self, env: Env) -> Server {
        let options = StoreOptions::new(self.file("provost.db"));
        let store =
            Store::open(StoreOptions { env: env.clone(), check_transactions: true, ..options })
                .unwrap();
        let agents = |_: &AgentRevision, _: &Lease| {
            let model = ScriptedModel::from_fn(answer).without_recording();
            Ok(Agent::builder("default", model).tool(note()).build().unwrap())
        };
        let options = EngineOptions { poll: Duration::from_millis(20), ..EngineOptions::default() };
        let deps = EngineDeps::new(store, agents, GuardServices::default(), env.clone());
        let engine = Engine::new(deps, options);
        let config = AgentSpec::default_for("default");
        for namespace in ["default", "other"] {
            let namespace: Namespace = namespace.parse().unwrap();
            engine.put_agent(&namespace, "default", None, config.clone()).await.unwrap();
        }
        let options = AppOptions {
            webhook_signing_key: Some(WebhookSigningKey::new([7; 32])),
            allow_private_webhooks: true,
            env,
            ..AppOptions::default()
        };
        let app = App::new(engine.clone(), options);
        let transport = LocalTransport::new(app.clone());
        let client = Client::new(LocalTransport::new(app.clone()), Namespace::default());
        Server { engine, app, client, transport, worker: None }
    }
}

impl Server {
    /// Submits a task in a session.
    pub(crate) async fn submit_text(&self, session: &str, text: &str) -> TaskReceipt {
        let session: SessionName = session.parse().unwrap();
        let task = NewTask { session: Some(session), ..NewTask::text(text) };
        self.client.submit(&task).await.unwrap()
    }

    /// Stops the server: the worker releases its runs, and streams end.
    pub(crate) async fn stop(mut self) {
        self.app.begin_shutdown();
        if let Some(worker) = self.worker.take() {
            worker.stop(Duration::from_millis(50)).await;
        }
    }

    /// Opens a stream.
    pub(crate) async fn watch(&self, path: &str, cursor: Option<&str>) -> StreamReader {
        let (status, body) = self.get(path, cursor).await;
        assert_eq!(status, 200, "{path}");
        StreamReader { body, buffer: Vec::new(), piece: 0 }
    }

    /// Returns the status and the body of a response.
    pub(crate) async fn get(&self, path: &str, cursor: Option<&str>) -> (u16, BodyStream) {
        let mut request = Request::get(format!("/v1/namespaces/default/{path}"));
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        let response = self.transport.send(request.body(Bytes::new()).unwrap()).await.unwrap();
        (response.status().as_u16(), response.into_body())
    }

    /// Returns the status and the JSON body of a response.
    pub(crate) async fn json(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.get(path, None).await;
        let body: Vec<_> = body.map(Result::unwrap).collect().await;
        (status, serde_json::from_slice(&body.concat()).unwrap())
    }
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseBlock {
    pub(crate) raw: String,
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl SseBlock {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.id.is_some()
    }
}

/// Reader of a stream.
pub(crate) struct StreamReader {
    body: BodyStream,
    buffer: Vec<u8>,
    piece: usize,
}

impl StreamReader {
    /// Returns the next event. `None` if the stream is closed.
    pub(crate) async fn next(&mut self) -> Option<SseBlock> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let rest = self.buffer.split_off(end + 2);
                let raw = String::from_utf8(std::mem::replace(&mut self.buffer, rest)).unwrap();
                let mut block = SseBlock { raw: raw.clone(), ..SseBlock::default() };
                for line in raw.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => block.id = Some(id.to_owned()),
                        Some(("event", event)) => event.clone_into(&mut block.event),
                        Some(("data", data)) => data.clone_into(&mut block.data),
                        _ => {}
                    }
                }
                if !block.event.is_empty() {
                    return Some(block);
                }
                continue;
            }
            let piece =
                tokio::time::timeout(TEST_TIMEOUT, self.body.next()).await.expect("a piece")?;
            self.piece += 1;
            self.buffer.extend_from_slice(&piece.ok()?);
        }
    }

    /// Returns all events until the stream is closed.
    pub(crate) async fn rest(mut self) -> Vec<SseBlock> {
        let mut blocks = Vec::new();
        while let Some(block) = self.next().await {
            blocks.push(block);
        }
        blocks
    }

    /// Returns the next event of this kind.
    pub(crate) async fn wait_until(&mut self, kind: &str) -> SseBlock {
        loop {
            let block = self.next().await.expect("more events");
            if block.event == kind {
                return block;
            }
        }
    }
}

/// Returns the raw text of the durable events.
pub(crate) fn durable(blocks: &[SseBlock]) -> String {
    blocks.iter().filter(|block| block.is_durable()).map(|block| block.raw.as_str()).collect()
}

/// Model function: `work 3` calls a tool three times, `hang` starts a response and never ends it, `chatter` sends many deltas.
fn answer(request: &ChatRequest, _: usize) -> ScriptedTurn {
    let said = request
        .messages
        .iter()
        .rev()
        .find(|message| message.role == provost_core::Role::User && !message.text().is_empty());
    let said = said.map(|message| message.text()).unwrap_or_default();
    let results = |message: &&std::sync::Arc<provost_core::Message>| {
        message.role == provost_core::Role::Assistant
    };
    let turns = request.messages.iter().filter(results).count();
    let (word, count) = said.split_once(' ').unwrap_or((&said, "0"));
    let count: usize = count.parse().unwrap_or(0);
    match word {
        "work" if turns < count => {
            scripted::call("note", json!({"text": format!("line {turns}\n")}))
        }
        "chatter" if turns < 2 => {
            let pieces = (0..count).map(|piece| format!("piece {piece} "));
            ScriptedTurn::default().deltas(pieces).call("note", json!({"text": "x"}))
        }
        "hang" => ScriptedTurn::default().deltas(["once ", "upon ", "a time"]).hang(),
        _ => ScriptedTurn::default().deltas(["do", "ne"]),
    }
}

fn note() -> FnTool {
    let spec = ToolSpec::new("note", "Notes something.", json!({"type": "object"})).unwrap();
    FnTool::new(spec.effect(EffectClass::Pure), |permit, _: ToolContext| {
        let text = permit.arguments().to_string();
        Box::pin(async move { Ok::<_, ToolError>(ToolOutput::text(text)) })
    })
}
