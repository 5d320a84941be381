//! People, models, tools and crashes, as a seed decides them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_agent::Agent;
use provost_core::command::TaskRequest;
use provost_core::id::name::{Namespace, SessionName};
use provost_core::lifecycle::ApprovalKind;
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::resource::AgentSpec;
use provost_core::scheduling::InputMode;
use provost_core::{ApprovalDecision, Env, Role};
use provost_engine::{AgentRevision, Engine, EngineError, Lease, SubmitReceipt};
use provost_model::{self as scripted, ChatRequest, ModelErrorClass, ScriptedModel, ScriptedTurn};
use provost_store::table::governance::approval;
use provost_tool::{
    Permit, ProbeOutcome, RequiresApproval, Tool, ToolContext, ToolError, ToolFuture, ToolOutput,
    ToolSpec,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::check;
use super::node::Node;
use crate::harness::patch;

/// Effects by key: how often each happened.
pub(crate) type Ledger = Arc<Mutex<BTreeMap<String, (EffectClass, u32)>>>;

/// How long things go wrong.
const TROUBLE: Duration = Duration::from_secs(8);
/// How long everything may take to come to its end once nothing goes wrong any more.
const PEACE: Duration = Duration::from_secs(300);
/// How the clock moves.
const TICK: Duration = Duration::from_millis(50);

/// One simulated world.
pub(crate) struct World {
    env: Env,
    namespace: Namespace,
    nodes: Vec<Node>,
    chaos: Arc<AtomicBool>,
    ledger: Ledger,
    accepted: BTreeMap<String, (TaskRequest, SubmitReceipt)>,
    _clock: tokio::task::JoinHandle<()>,
    _dir: TempDir,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let env = Env::simulated(seed);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("provost.db");
        let ledger = Ledger::default();
        let chaos = Arc::new(AtomicBool::new(false));
        let nodes: Vec<Node> = (0..2 + env.random() % 2)
            .map(|_| Node::new(&path, &env, agents(&env, &ledger, &chaos), &chaos))
            .collect();
        let clock = env.clone();
        let clock = tokio::spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                clock.advance(TICK);
            }
        });
        let namespace = Namespace::default();
        let config =
            AgentSpec { policy: patch(json!({"interactive": true})), ..Default::default() };
        nodes[0].engine.put_agent(&namespace, "default", None, config).await.expect("an agent");
        Self {
            env,
            namespace,
            nodes,
            chaos,
            ledger,
            accepted: BTreeMap::new(),
            _clock: clock,
            _dir: dir,
        }
    }

    fn roll(&self, sides: u64) -> u64 {
        self.env.random() % sides
    }

    fn engine(&self) -> Engine {
        self.nodes[self.roll(self.nodes.len() as u64) as usize].engine.clone()
    }

    /// The time in which things go wrong.
    pub(crate) async fn live(&mut self) {
        self.chaos.store(true, Ordering::SeqCst);
        let until = tokio::time::Instant::now() + TROUBLE;
        while tokio::time::Instant::now() < until {
            self.event().await;
            let pause = Duration::from_millis(self.roll(500));
            tokio::time::sleep(pause).await;
        }
    }

    async fn event(&mut self) {
        let node = self.roll(self.nodes.len() as u64) as usize;
        match self.roll(20) {
            0..=6 => self.say().await,
            7..=10 => self.nodes[node].start().await,
            11 | 12 => self.nodes[node].kill(),
            13 => self.nodes[node].cut_off(true),
            14 | 15 => self.nodes[node].cut_off(false),
            16 => self.cancel_one().await,
            _ => self.answer_all().await,
        }
    }

    /// Somebody says something, perhaps twice because the answer did not come.
    async fn say(&mut self) {
        if self.accepted.len() >= 10 {
            return;
        }
        let key = format!("k{}", self.accepted.len());
        let session: SessionName = format!("s{}", self.roll(4)).parse().expect("a name");
        let mode = InputMode::ALL[self.roll(InputMode::ALL.len() as u64) as usize];
        let command = TaskRequest {
            session_id: Some(session),
            idempotency_key: Some(key.clone()),
            queue_mode: Some(mode),
            new_task: self.roll(3) == 0,
            ..TaskRequest::text(format!("please {}", self.roll(1000)))
        };
        let namespace = self.namespace.clone();
        for _ in 0..20 {
            let engine = self.engine();
            match engine.submit(&namespace, command.clone()).await {
                Ok(accepted) => {
                    self.accepted.insert(key, (command, accepted));
                    return;
                }
                Err(EngineError::Store(_)) => tokio::time::sleep(TICK).await,
                // Refused as busy or full: nothing was accepted.
                Err(_) => return,
            }
        }
    }

    async fn cancel_one(&self) {
        let place = self.roll(self.accepted.len().max(1) as u64) as usize;
        if let Some((_, accepted)) = self.accepted.values().nth(place) {
            drop(self.engine().runs().cancel(&self.namespace, accepted.run).await);
        }
    }

    /// People answer what is open, now yes, now no.
    async fn answer_all(&self) {
        let engine = self.engine();
        let namespace = self.namespace.clone();
        let open = engine.store().read(move |tx| {
            Ok::<_, EngineError>(approval::open(tx, namespace.as_str(), None, 100)?)
        });
        for row in open.await.unwrap_or_default() {
            // Whoever lets a call run again that may have happened wants it twice; these people do not.
            let unknown = row.kind == ApprovalKind::EffectUnknown;
            let decision = match self.roll(3) {
                _ if unknown => ApprovalDecision::Deny { reason: "leave it".to_owned() },
                0 => ApprovalDecision::Deny { reason: "no".to_owned() },
                _ => ApprovalDecision::Approve,
            };
            drop(engine.approvals().answer(&self.namespace, row.id, decision, "somebody").await);
        }
    }

    /// Nothing goes wrong any more: everything must come to its end, and everything must be right.
    pub(crate) async fn settle(&mut self) -> Vec<String> {
        self.chaos.store(false, Ordering::SeqCst);
        for node in &mut self.nodes {
            node.cut_off(false);
            node.start().await;
        }
        let until = tokio::time::Instant::now() + PEACE;
        let engine = self.nodes[0].engine.clone();
        let mut open = check::unfinished(&engine).await;
        while !open.is_empty() && tokio::time::Instant::now() < until {
            self.answer_all().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            open = check::unfinished(&engine).await;
        }
        let mut broken: Vec<String> =
            open.iter().map(|what| format!("never ends: {what}")).collect();
        broken.extend(check::effects(&self.ledger));
        broken.extend(check::rows(&engine).await);
        broken.extend(check::accepted(&engine, &self.namespace, &self.accepted).await);
        broken
    }

    /// The history as text, to compare two of them.
    pub(crate) async fn told(&self) -> Vec<String> {
        check::told(&self.nodes[0].engine).await
    }
}

/// Agents whose model and tools do what the seed says.
fn agents(
    env: &Env,
    ledger: &Ledger,
    chaos: &Arc<AtomicBool>,
) -> impl Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static + use<> {
    let (env, ledger, chaos) = (env.clone(), Arc::clone(ledger), Arc::clone(chaos));
    move |_, _| {
        let (dice, trouble) = (env.clone(), Arc::clone(&chaos));
        let model = ScriptedModel::from_fn(move |request, _| answer(&dice, &trouble, request));
        let mut builder = Agent::builder("default", model).env(env.clone());
        for class in EffectClass::ALL {
            builder = builder.tool(SimTool::new(*class, false, &env, &ledger));
        }
        builder = builder.tool(SimTool::new(EffectClass::Opaque, true, &env, &ledger));
        builder.build().map_err(|error| EngineError::Bug(error.to_string()))
    }
}

fn answer(env: &Env, chaos: &AtomicBool, request: &ChatRequest) -> ScriptedTurn {
    let asked = request.messages.iter().rposition(|message| message.role == Role::User);
    let rounds = request.messages[asked.unwrap_or(0)..]
        .iter()
        .filter(|message| message.role == Role::Tool)
        .count() as u64;
    let delay = Duration::from_millis(env.random() % 1500);
    if chaos.load(Ordering::SeqCst) && env.random().is_multiple_of(12) {
        return scripted::fail(ModelErrorClass::Overloaded, "simulated").delay(delay);
    }
    if rounds >= 3 || env.random() % 3 < rounds {
        return scripted::text(format!("done after {rounds}")).delay(delay);
    }
    let names = ["pure", "idempotent", "keyed", "provable", "transactional", "opaque", "confirmed"];
    let calls: Vec<(&str, Value)> = (0..1 + env.random() % 3)
        .map(|_| {
            let name = names[(env.random() % names.len() as u64) as usize];
            (name, json!({"n": env.random() % 1000}))
        })
        .collect();
    scripted::calls(calls).delay(delay)
}

/// A tool that takes its time before and after its effect.
struct SimTool {
    spec: ToolSpec,
    class: EffectClass,
    env: Env,
    ledger: Ledger,
}

impl SimTool {
    fn new(class: EffectClass, confirmed: bool, env: &Env, ledger: &Ledger) -> Self {
        let name = if confirmed { "confirmed" } else { class.as_str() };
        let spec = ToolSpec::new(name, "An effect", json!({"type": "object"})).expect("a tool");
        let spec = spec.effect(class);
        let spec = if confirmed { spec.approval(RequiresApproval::Always) } else { spec };
        Self { spec, class, env: env.clone(), ledger: Arc::clone(ledger) }
    }
}

impl Tool for SimTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, _permit: Permit, cx: ToolContext) -> ToolFuture {
        let (class, ledger) = (self.class, Arc::clone(&self.ledger));
        let before = Duration::from_millis(self.env.random() % 800);
        let after = Duration::from_millis(self.env.random() % 800);
        Box::pin(async move {
            tokio::time::sleep(before).await;
            let key = cx.effect_key().to_string();
            ledger.lock().unwrap().entry(key).or_insert((class, 0)).1 += 1;
            tokio::time::sleep(after).await;
            Ok::<_, ToolError>(ToolOutput::text("did it"))
        })
    }

    fn probe(
        &self,
        key: EffectKey,
        _arguments: Value,
    ) -> futures::future::BoxFuture<'static, ProbeOutcome> {
        let done = self.ledger.lock().unwrap().contains_key(key.as_str());
        Box::pin(async move {
            if done {
                ProbeOutcome::Completed(ToolOutput::text("did it"))
            } else {
                ProbeOutcome::NotExecuted
            }
        })
    }
}
