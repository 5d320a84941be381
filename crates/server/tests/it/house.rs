//! A database on which servers come and go, and readers of their streams that look at every byte.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use provost_agent::Agent;
use provost_api::{Accepted, Answers, Client, NewTask, Transport};
use provost_core::Env;
use provost_core::id::name::{Namespace, SessionName};
use provost_core::recovery::EffectClass;
use provost_engine::{AgentConfig, AgentProfile, Engine, EngineDeps, EngineOptions, Lease, Worker};
use provost_model::{self as scripted, ChatRequest, ScriptedModel, Turn};
use provost_server::{App, AppOptions, LocalTransport, MasterKey};
use provost_store::{Store, StoreOptions};
use provost_tool::{FnTool, ToolCx, ToolError, ToolOutput, ToolSpec};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long something may take that must happen.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A place where a database is.
pub(crate) struct House {
    dir: TempDir,
}

/// One life of a server.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) app: App,
    pub(crate) client: Client,
    pub(crate) transport: LocalTransport,
    worker: Option<Worker>,
}

impl House {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A server over the database, with a worker.
    pub(crate) async fn open(&self) -> Server {
        let mut server = self.idle().await;
        server.worker = Some(server.engine.start().await.unwrap());
        server
    }

    /// A server over the database, without a worker.
    pub(crate) async fn idle(&self) -> Server {
        self.idle_with(Env::system()).await
    }

    /// The same with a clock of its own.
    pub(crate) async fn idle_with(&self, env: Env) -> Server {
        let options = StoreOptions::new(self.file("provost.db"));
        let store =
            Store::open(StoreOptions { env: env.clone(), check_transactions: true, ..options })
                .unwrap();
        let agents = |_: &AgentProfile, _: &Lease| {
            let model = ScriptedModel::answering(answer).forgetful();
            Ok(Agent::builder("default", model).tool(note()).build().unwrap())
        };
        let options = EngineOptions { poll: Duration::from_millis(20), ..EngineOptions::default() };
        let deps = EngineDeps::new(store, agents, env.clone());
        let engine = Engine::new(deps, options);
        let config = AgentConfig::default_for("default");
        for namespace in ["default", "other"] {
            let namespace: Namespace = namespace.parse().unwrap();
            engine.put_agent(&namespace, "default", None, config.clone()).await.unwrap();
        }
        let options = AppOptions {
            master_key: Some(MasterKey::new([7; 32])),
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
    pub(crate) async fn say(&self, session: &str, text: &str) -> Accepted {
        let session: SessionName = session.parse().unwrap();
        let task = NewTask { session: Some(session), ..NewTask::text(text) };
        self.client.submit(&task).await.unwrap()
    }

    /// Ends this life: runs are given back, streams break off.
    pub(crate) async fn stop(mut self) {
        self.app.drain();
        if let Some(worker) = self.worker.take() {
            worker.stop(Duration::from_millis(50)).await;
        }
    }

    /// A reader of a stream.
    pub(crate) async fn watch(&self, path: &str, cursor: Option<&str>) -> Reader {
        let (status, body) = self.get(path, cursor).await;
        assert_eq!(status, 200, "{path}");
        Reader { body, buffer: Vec::new(), piece: 0 }
    }

    /// The head and the body of an answer.
    pub(crate) async fn get(&self, path: &str, cursor: Option<&str>) -> (u16, Answers) {
        let mut request = Request::get(format!("/v1/namespaces/default/{path}"));
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        let answer = self.transport.send(request.body(Bytes::new()).unwrap()).await.unwrap();
        (answer.status().as_u16(), answer.into_body())
    }

    /// A JSON answer.
    pub(crate) async fn json(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.get(path, None).await;
        let body: Vec<_> = body.map(Result::unwrap).collect().await;
        (status, serde_json::from_slice(&body.concat()).unwrap())
    }
}

/// What is between two empty lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Block {
    pub(crate) raw: String,
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl Block {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.id.is_some()
    }
}

/// Reads a stream.
pub(crate) struct Reader {
    body: Answers,
    buffer: Vec<u8>,
    piece: usize,
}

impl Reader {
    /// The next event; nothing once the stream is closed.
    pub(crate) async fn next(&mut self) -> Option<Block> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let rest = self.buffer.split_off(end + 2);
                let raw = String::from_utf8(std::mem::replace(&mut self.buffer, rest)).unwrap();
                let mut block = Block { raw: raw.clone(), ..Block::default() };
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
            let piece = tokio::time::timeout(LONG, self.body.next()).await.expect("a piece")?;
            self.piece += 1;
            self.buffer.extend_from_slice(&piece.ok()?);
        }
    }

    /// Events until the stream is closed.
    pub(crate) async fn rest(mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        while let Some(block) = self.next().await {
            blocks.push(block);
        }
        blocks
    }

    /// The next durable event of this kind.
    pub(crate) async fn until(&mut self, kind: &str) -> Block {
        loop {
            let block = self.next().await.expect("more events");
            if block.event == kind {
                return block;
            }
        }
    }
}

/// The durable events as bytes.
pub(crate) fn durable(blocks: &[Block]) -> String {
    blocks.iter().filter(|block| block.is_durable()).map(|block| block.raw.as_str()).collect()
}

/// What the model says: `work 3` calls a tool three times, `hang` begins an answer and never ends it, `chatter` says much.
fn answer(request: &ChatRequest, _: usize) -> Turn {
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
            Turn::default().deltas(pieces).call("note", json!({"text": "x"}))
        }
        "hang" => Turn::default().deltas(["once ", "upon ", "a time"]).hang(),
        _ => Turn::default().deltas(["do", "ne"]),
    }
}

fn note() -> FnTool {
    let spec = ToolSpec::new("note", "Notes something.", json!({"type": "object"})).unwrap();
    FnTool::new(spec.effect(EffectClass::Pure), |permit, _: ToolCx| {
        let text = permit.arguments().to_string();
        Box::pin(async move { Ok::<_, ToolError>(ToolOutput::text(text)) })
    })
}
