//! Runs that a worker has: what they do, and why they do not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_agent::Agent;
use provost_agent::context::{
    CompactionInput, CompactionResult, ContextConfig, ContextError, ContextStrategy,
};
use provost_core::Env;
use provost_core::scheduling::InputMode;
use provost_engine::{AgentRevision, InputRequest, Lease, SubmitReceipt, Worker};
use provost_model::{self as scripted, ScriptedModel};
use provost_store::{Store, StoreOptions};
use tokio::sync::Semaphore;

use super::queued::gated;
use super::{commands, named, named_by, until};
use crate::cluster::{Cluster, LEASE, frozen, quick};
use crate::harness::{Harness, options};

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_running() {
    let cluster = gated().await;
    let worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.rooms.gate("gate_pure").entered().await;
    cluster.clock.advance(Duration::from_secs(20));
    let names: [&dyn std::fmt::Display; 4] = [&run, &"`gate_pure`", &"20 s", &"try 1"];
    let told = named(&cluster, run, "tool_running", &names).await;
    assert_eq!(told.state, "running");
    let seen = |what: &str| told.evidence.iter().find(|seen| seen.what == what).unwrap();
    assert_eq!(seen("effect class").value, "pure");
    assert_eq!(seen("worker").value, worker.id().to_string());
    assert!(commands(&told).contains(&format!("provost run cancel {run}").as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_answering() {
    let cluster = Cluster::new(vec![scripted::text("never").hang()]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    until(&cluster.engine, run, "model_running").await;
    cluster.clock.advance(Duration::from_secs(5));
    named(&cluster, run, "model_running", &[&run, &"scripted", &"5 s ago"]).await;
}

/// Makes conversations shorter once it may.
struct Slow(Arc<Semaphore>);

impl ContextStrategy for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn compact<'a>(
        &'a self,
        _input: CompactionInput<'a>,
    ) -> BoxFuture<'a, Result<CompactionResult, ContextError>> {
        self.0.add_permits(1);
        std::future::pending().boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_conversation_is_being_made_shorter() {
    let begun = Arc::new(Semaphore::new(0));
    let inside = Arc::clone(&begun);
    let agents = move |_: &AgentRevision, _: &Lease| {
        let model = ScriptedModel::from_fn(|_, _| scripted::text("hello"));
        let agent = Agent::builder("default", model)
            .context(ContextConfig::new(Slow(Arc::clone(&inside))).max_tokens(10).reserve(1));
        Ok(agent.build().unwrap())
    };
    let harness = Harness::of(options(), Env::simulated(1), agents).await;
    let _worker = harness.worker().await;
    let run = harness.say("chat", &"many words ".repeat(100)).await.run;
    begun.acquire().await.unwrap().forget();
    named_by(&harness.engine, run, "compacting", &[&run, &"compacting its context"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_gets_ready_and_it_is_between_steps() {
    let cluster = gated().await;
    cluster.rooms.door_closed.store(true, Ordering::SeqCst);
    let worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.rooms.door.entered().await;
    named(&cluster, run, "starting", &[&run, &"its agent is being built"]).await;
    cluster.rooms.door.open(1);
    cluster.rooms.gate("gate_pure").entered().await;
    worker.stop(Duration::from_millis(1)).await;
    let _again = cluster.engine.start().await.unwrap();
    cluster.rooms.door.entered().await;
    named(&cluster, run, "between_steps", &[&run, &"between two steps"]).await;
}

/// Another process on the same database that hears nothing of what this one does, and carries a run.
async fn deaf(cluster: &Cluster) -> (Worker, SubmitReceipt) {
    let options = StoreOptions {
        env: cluster.clock.clone(),
        check_transactions: true,
        ..StoreOptions::new(cluster.store.path())
    };
    let node = cluster.node_on(&Store::open(options).unwrap(), frozen(), Env::system());
    let accepted = cluster.say("chat", "go").await;
    let worker = node.start().await.unwrap();
    cluster.rooms.gate("gate_pure").entered().await;
    (worker, accepted)
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_cancelled_it_and_its_worker_has_not_heard() {
    let cluster = gated().await;
    let (_worker, accepted) = deaf(&cluster).await;
    let run = accepted.run;
    cluster.engine.runs().cancel(&cluster.namespace, run).await.unwrap();
    named(&cluster, run, "stopping", &[&run, &"a user cancelled it", &"in 20 s"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_being_stopped_by_whoever_asked() {
    let cluster = gated().await;
    let _worker = cluster.node(frozen()).start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.rooms.gate("gate_pure").entered().await;
    let until = format!("in {} s", quick().grace.as_secs());
    for (code, who) in [
        ("cancelled_by_user", "a user cancelled it"),
        ("cancelled_by_parent", "its parent run ended"),
        ("cancelled_by_interrupt", "a newer message"),
        ("deadline", "its deadline passed"),
    ] {
        // Nobody hears of it: a worker that does stops the run before anybody can look.
        let (sql, now) =
            ("UPDATE run SET cancel_requested = ?1, cancel_code = ?2", cluster.clock.now());
        let asked = cluster
            .store
            .write(move |tx| tx.execute_fenced(sql, provost_store::params![now, code]));
        asked.await.unwrap();
        named(&cluster, run, "stopping", &[&run, &who, &until]).await;
    }
    cluster.clock.advance(Duration::from_secs(25));
    named(&cluster, run, "stopping", &[&run, &"5 s ago"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_message_takes_the_place_of_what_it_does() {
    let cluster = gated().await;
    let (_worker, accepted) = deaf(&cluster).await;
    let run = accepted.run;
    let instead = InputRequest::text("instead").mode(InputMode::Interrupt);
    let said =
        cluster.engine.inputs().send(&cluster.namespace, accepted.task, instead).await.unwrap();
    let told = named(&cluster, run, "interrupting", &[&run, &"a newer message"]).await;
    assert!(told.evidence.iter().any(|seen| seen.value == said.input.to_string()), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_worker_said_nothing_for_too_long() {
    let cluster = gated().await;
    let worker = cluster.node(frozen()).start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.rooms.gate("gate_pure").entered().await;
    cluster.clock.advance(LEASE + Duration::from_secs(4));
    let id = worker.id();
    let names: [&dyn std::fmt::Display; 4] = [&run, &id, &"no heartbeat for 34 s", &"4 s ago"];
    let told = named(&cluster, run, "lease_expired", &names).await;
    assert_eq!(told.related, [id.to_string()]);
    assert_eq!(commands(&told)[0], "provost serve", "there is nobody else");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_worker_is_dead() {
    let cluster = gated().await;
    let worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let id = worker.id();
    drop(worker);
    gate.stopped().await;
    until(&cluster.engine, run, "worker_gone").await;
    let names: [&dyn std::fmt::Display; 3] = [&run, &id, &"no other worker is alive"];
    named(&cluster, run, "worker_gone", &names).await;
    cluster.meddle("UPDATE run SET status = 'ok'").await;
    named(&cluster, run, "run_in_no_state", &[&run, &"`ok`", &"`leased`"]).await;
}
