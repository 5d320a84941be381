//! Answers on their way out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_bus::{
    Bus, BusMessage, DELIVERY_SETTLED, LocalBus, Notice, PublishError, RUN_ENDED, Subscription,
    Topic,
};
use provost_core::command::{RoutingContext, TaskRequest};
use provost_core::lifecycle::{ChannelCapabilities, DeliveryState, RequestError, RunStatus};
use provost_core::{DeliveryId, Env, Message, RunId};
use provost_engine::{
    DeliveryAdapter, DeliveryTarget, Engine, EngineDeps, EngineError, EngineOptions, SendError,
    SendReceipt,
};
use provost_model::{self as scripted, ScriptedModel};
use provost_store::query;
use provost_store::table::outbound::delivery::DeliveryRow;
use provost_store::{Store, StoreOptions, params};
use provost_tool::GuardServices;

use crate::harness::{Harness, command, options, with_channel};
use crate::worker_crash;

/// A channel that writes what it is sent to a file, one line each: what has happened stays when the sender dies.
struct FileChannel {
    path: PathBuf,
    capabilities: ChannelCapabilities,
}

impl FileChannel {
    fn arrived(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl DeliveryAdapter for FileChannel {
    fn capabilities(&self) -> ChannelCapabilities {
        self.capabilities
    }

    fn send<'a>(
        &'a self,
        key: &'a str,
        target: &'a DeliveryTarget,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<SendReceipt, SendError>> {
        async move {
            let mut lines = Self::arrived(&self.path);
            let line = format!("{key} {} {}", target.to.as_deref().unwrap_or("-"), message.text());
            if !(self.capabilities.accepts_key && lines.contains(&line)) {
                lines.push(line);
            }
            std::fs::write(&self.path, lines.join("\n")).unwrap();
            Ok(SendReceipt(format!("message {}", lines.len())))
        }
        .boxed()
    }

    fn lookup<'a>(
        &'a self,
        key: &'a str,
        _target: &'a DeliveryTarget,
    ) -> BoxFuture<'a, Result<Option<SendReceipt>, SendError>> {
        let found = Self::arrived(&self.path).into_iter().position(|line| line.starts_with(key));
        std::future::ready(Ok(found.map(|place| SendReceipt(format!("found {place}"))))).boxed()
    }
}

/// A channel that answers as it is told.
#[derive(Clone, Default)]
struct Fickle {
    answers: Arc<Mutex<Vec<Result<SendReceipt, SendError>>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

impl DeliveryAdapter for Fickle {
    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities::default()
    }

    fn send<'a>(
        &'a self,
        key: &'a str,
        _target: &'a DeliveryTarget,
        _message: &'a Message,
    ) -> BoxFuture<'a, Result<SendReceipt, SendError>> {
        self.keys.lock().unwrap().push(key.to_owned());
        let answer = self.answers.lock().unwrap().pop();
        std::future::ready(answer.unwrap_or_else(|| Err(not_now()))).boxed()
    }
}

fn not_now() -> SendError {
    SendError::Transient { problem: "the channel is down".to_owned(), retry_after: None }
}

fn deliver(text: &str) -> TaskRequest {
    let routing = RoutingContext {
        channel: Some("mail".to_owned()),
        to: Some("ann".to_owned()),
        ..RoutingContext::default()
    };
    TaskRequest { deliver: true, routing, ..command("chat", text) }
}

async fn accept(harness: &Harness, text: &str) -> RunId {
    harness.engine.submit(&harness.namespace, deliver(text)).await.unwrap().run
}

async fn the_delivery(harness: &Harness, run: RunId) -> DeliveryRow {
    let mut rows =
        query::delivery::of_run(harness.engine.store(), &harness.namespace, run).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// Waits until the delivery of a run is in a state; the clock of the stage goes on to when it is tried next.
async fn until_state(harness: &Harness, run: RunId, state: DeliveryState) -> DeliveryRow {
    let looking = async {
        loop {
            let row = the_delivery(harness, run).await;
            if row.state == state {
                return row;
            }
            if row.state.as_str() == "pending" {
                harness.env.advance(row.next_at.since(harness.env.now()));
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it comes to the state")
}

fn echo() -> impl Fn(&provost_model::ChatRequest, usize) -> provost_model::ScriptedTurn + Send + Sync
{
    |request, _| scripted::text(request.messages.last().unwrap().text())
}

async fn simulated(seed: u64, complete: impl FnOnce(EngineDeps) -> EngineDeps) -> Harness {
    let agents = |_: &provost_engine::AgentRevision, _: &provost_engine::Lease| {
        Ok(provost_agent::Agent::builder("default", ScriptedModel::from_fn(echo()))
            .build()
            .unwrap())
    };
    Harness::of_deps(options(), Env::simulated(seed), agents, complete).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_sent_where_it_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sent");
    let channel = FileChannel { path: path.clone(), capabilities: ChannelCapabilities::default() };
    let harness = Harness::with_deps(options(), echo(), with_channel("mail", channel)).await;
    let _worker = harness.worker().await;
    let run = accept(&harness, "hello").await;
    harness.wait(run).await;
    let sent = until_state(&harness, run, DeliveryState::Delivered).await;
    assert_eq!(sent.receipt.as_deref(), Some("message 1"));
    assert_eq!(FileChannel::arrived(&path), [format!("{} ann hello", sent.send_key)]);
    let quiet = accept(&harness, " NO_REPLY\n").await;
    harness.wait(quiet).await;
    assert!(
        query::delivery::of_run(harness.engine.store(), &harness.namespace, quiet)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_go_nowhere_is_refused_before_it_is_asked_for() {
    let harness = Harness::new(echo()).await;
    let _worker = harness.worker().await;
    let lost = TaskRequest { routing: RoutingContext::default(), ..deliver("hello") };
    let refused = harness.engine.submit(&harness.namespace, lost.clone()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Request(RequestError::Invalid { .. })), "{refused}");
    let tried = TaskRequest { best_effort_deliver: true, ..lost };
    let accepted = harness.engine.submit(&harness.namespace, tried).await.unwrap();
    assert_eq!(harness.wait(accepted.run).await.status, RunStatus::Ok);
    assert!(
        query::delivery::of_run(harness.engine.store(), &harness.namespace, accepted.run)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn g50_a_run_stays_ok_whatever_becomes_of_its_delivery() {
    let channel = Fickle::default();
    let harness = simulated(1, with_channel("mail", channel.clone())).await;
    let _worker = harness.worker().await;
    let run = accept(&harness, "hello").await;
    harness.wait(run).await;
    let began = harness.env.now();
    let blocked = until_state(&harness, run, DeliveryState::Blocked).await;
    let tried_for = blocked.updated.since(began);
    assert!(tried_for <= Duration::from_secs(30 * 60), "{tried_for:?}");
    // The waits grow from 15 s to 5 min, so in half an hour there are a handful of tries, all with one key.
    assert!((6..=14).contains(&blocked.tries), "{} tries in {tried_for:?}", blocked.tries);
    let keys: HashSet<_> = channel.keys.lock().unwrap().iter().cloned().collect();
    assert_eq!(keys.len(), 1);
    assert_eq!(
        query::run::get(harness.engine.store(), &harness.namespace, run).await.unwrap().status,
        RunStatus::Ok
    );
    // An operator lets it be sent anew: the result was kept, and the key is another one.
    channel.answers.lock().unwrap().push(Ok(SendReceipt("at last".to_owned())));
    harness.engine.deliveries().retry(&harness.namespace, blocked.id).await.unwrap();
    let sent = until_state(&harness, run, DeliveryState::Delivered).await;
    assert_eq!((sent.generation, sent.receipt.as_deref()), (2, Some("at last")));
    assert_ne!(sent.send_key, blocked.send_key);
    let again =
        harness.engine.deliveries().dismiss(&harness.namespace, blocked.id).await.unwrap_err();
    assert_eq!(again.code(), "already_terminal", "what has arrived cannot be put away");
    let unknown: DeliveryId = harness.env.id();
    let missing = harness.engine.deliveries().retry(&harness.namespace, unknown).await.unwrap_err();
    assert_eq!(missing.code(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn g50_a_channel_that_refuses_is_not_asked_again() {
    let channel = Fickle::default();
    let harness = simulated(2, with_channel("mail", channel.clone())).await;
    channel.answers.lock().unwrap().push(Err(SendError::Permanent("no such address".to_owned())));
    let _worker = harness.worker().await;
    let run = accept(&harness, "hello").await;
    harness.wait(run).await;
    let failed = until_state(&harness, run, DeliveryState::Failed).await;
    assert_eq!((failed.tries, failed.last_error.as_deref()), (1, Some("no such address")));
    let listed = query::delivery::in_state(
        harness.engine.store(),
        &harness.namespace,
        DeliveryState::Failed,
        9,
    )
    .await
    .unwrap();
    assert_eq!(listed.len(), 1);
    let gone = harness.engine.deliveries().dismiss(&harness.namespace, failed.id).await.unwrap();
    assert_eq!(gone.state.as_str(), "dismissed");
}

#[tokio::test(flavor = "multi_thread")]
async fn g49_an_answer_nobody_knows_about_is_not_sent_again_by_itself() {
    let channel = Fickle::default();
    let harness = simulated(3, with_channel("mail", channel.clone())).await;
    channel
        .answers
        .lock()
        .unwrap()
        .push(Err(SendError::Uncertain("the connection ended".to_owned())));
    let _worker = harness.worker().await;
    let run = accept(&harness, "hello").await;
    harness.wait(run).await;
    let unknown = until_state(&harness, run, DeliveryState::Unknown).await;
    harness.env.advance(Duration::from_secs(3600));
    // The sender has looked again by the time it sends another one.
    channel.answers.lock().unwrap().push(Ok(SendReceipt("1".to_owned())));
    let other = accept(&harness, "again").await;
    harness.wait(other).await;
    until_state(&harness, other, DeliveryState::Delivered).await;
    assert_eq!(the_delivery(&harness, run).await, unknown);
    assert_eq!(channel.keys.lock().unwrap().len(), 2);
}

/// The process that dies while it sends: the place is in its environment, what its channel can do in a file.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_that_delivers() {
    let Some(dir) = worker_crash::dir() else { return };
    let (engine, _worker) = open(&dir, Duration::from_secs(30)).await;
    let namespace = Default::default();
    let accepted = engine.submit(&namespace, deliver("hello")).await.unwrap();
    engine.runs().wait(&namespace, accepted.run).await.unwrap();
    std::fs::write(dir.join("run"), accepted.run.to_string()).unwrap();
    std::future::pending::<()>().await;
}

/// An engine on a directory with a channel whose abilities are in a file there.
async fn open(dir: &Path, lease: Duration) -> (Engine, provost_engine::Worker) {
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let agents = |_: &provost_engine::AgentRevision, _: &provost_engine::Lease| {
        Ok(provost_agent::Agent::builder("default", ScriptedModel::from_fn(echo()))
            .build()
            .unwrap())
    };
    let options = EngineOptions { lease, ..options() };
    let word = std::fs::read_to_string(dir.join("abilities")).unwrap();
    let capabilities = ChannelCapabilities {
        accepts_key: word == "accepts_key",
        can_lookup: word == "can_lookup",
    };
    let mail = with_channel("mail", FileChannel { path: dir.join("sent"), capabilities });
    let engine = Engine::new(
        mail(EngineDeps::new(store, agents, GuardServices::default(), Env::system())),
        options,
    );
    engine.put_agent(&Default::default(), "default", None, Default::default()).await.unwrap();
    let worker = engine.start().await.unwrap();
    (engine, worker)
}

async fn sender_dies(capabilities: &str, place: &str) -> (DeliveryRow, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("abilities"), capabilities).unwrap();
    worker_crash::killed_at("node_that_delivers", dir.path(), place).await;
    // The claim of the dead sender ends with the lease it had.
    let ended = {
        let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
        let ended = store
            .write(|tx| tx.execute_fenced("UPDATE delivery SET claimed_until = 0", params![]))
            .await;
        store.close().await;
        ended.unwrap()
    };
    assert_eq!(ended, 1, "the delivery is there");
    let (engine, _worker) = open(dir.path(), Duration::from_secs(5)).await;
    let looking = async {
        loop {
            let read = engine
                .store()
                .read(|tx| tx.fetch_all::<DeliveryId>("SELECT id FROM delivery", params![]));
            let id = read.await.unwrap()[0];
            let row = engine
                .store()
                .read(move |tx| provost_store::table::outbound::delivery::get(tx, id))
                .await;
            let row = row.unwrap().unwrap();
            if row.state.as_str() != "pending" && row.state.as_str() != "sending" {
                return row;
            }
            tokio::task::yield_now().await;
        }
    };
    let row = tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it is settled");
    (row, FileChannel::arrived(&dir.path().join("sent")))
}

#[tokio::test(flavor = "multi_thread")]
async fn g49_a_sender_that_dies_after_the_channel_accepted_does_not_send_twice() {
    for (capabilities, state) in
        [("accepts_key", "delivered"), ("can_lookup", "delivered"), ("nothing", "unknown")]
    {
        let (row, arrived) = sender_dies(capabilities, "delivery.sent").await;
        assert_eq!((row.state.as_str(), arrived.len()), (state, 1), "{capabilities}: {arrived:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g49_a_sender_that_dies_before_the_channel_heard_sends_once_or_says_so() {
    for (capabilities, state, sent) in
        [("accepts_key", "delivered", 1), ("can_lookup", "delivered", 1), ("nothing", "unknown", 0)]
    {
        let (row, arrived) = sender_dies(capabilities, "delivery.claimed").await;
        assert_eq!(
            (row.state.as_str(), arrived.len()),
            (state, sent),
            "{capabilities}: {arrived:?}"
        );
    }
}

/// A bus to the outside: it records the notices it accepts, and refuses the first one.
#[derive(Debug, Clone, Default)]
struct OutsideBus {
    local: Arc<LocalBus>,
    accepted: Arc<Mutex<Vec<Notice>>>,
    tries: Arc<Mutex<usize>>,
}

impl Bus for OutsideBus {
    fn send(&self, message: BusMessage) {
        self.local.send(message);
    }

    fn subscribe(&self, topic: Topic) -> Subscription {
        self.local.subscribe(topic)
    }

    fn may_have_subscribers(&self, topic: Topic) -> bool {
        topic == Topic::Notices || self.local.may_have_subscribers(topic)
    }

    fn publish<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), PublishError>> {
        let mut tries = self.tries.lock().unwrap();
        *tries += 1;
        let published = if *tries == 1 {
            Err(PublishError("no connection".to_owned()))
        } else {
            self.accepted.lock().unwrap().push(notice.clone());
            Ok(())
        };
        std::future::ready(published).boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_published_at_least_once_with_a_key() {
    let (outside, channel) = (OutsideBus::default(), Fickle::default());
    channel.answers.lock().unwrap().push(Ok(SendReceipt("1".to_owned())));
    let bus = Arc::new(outside.clone());
    let harness = simulated(4, |deps| {
        let options = StoreOptions::new(deps.store.path());
        let options = StoreOptions { env: deps.env.clone(), bus, ..options };
        let store = Store::open(options).unwrap();
        EngineDeps { store, ..with_channel("mail", channel)(deps) }
    })
    .await;
    let _worker = harness.worker().await;
    let run = accept(&harness, "hello").await;
    harness.wait(run).await;
    let looking = async {
        while outside.accepted.lock().unwrap().len() < 2 {
            harness.env.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("both are told");
    let told = outside.accepted.lock().unwrap().clone();
    let topics: HashSet<_> = told.iter().map(|notice| notice.topic.as_str()).collect();
    assert_eq!(topics, HashSet::from([RUN_ENDED, DELIVERY_SETTLED]));
    let ended = told.iter().find(|notice| notice.topic == RUN_ENDED).unwrap();
    assert_eq!(ended.key, format!("run.ended:{run}"));
    assert_eq!(
        (ended.body["status"].as_str(), ended.body["run"].as_str()),
        (Some("ok"), Some(run.to_string().as_str()))
    );
    // What was told is forgotten after a while, and nothing else is; that it was told may be written only now.
    let mut forgotten = 0;
    while forgotten < 2 {
        harness.env.advance(Duration::from_secs(25 * 3600));
        forgotten += harness.engine.maintenance().collect_garbage().await.unwrap();
        tokio::task::yield_now().await;
    }
}
