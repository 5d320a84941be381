//! Runs that a worker has: what they do, and why they do not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_agent::Agent;
use provost_agent::context::{CompactionInput, CompactionResult, ContextError, ContextStrategy};
use provost_core::Env;
use provost_core::scheduling::InputMode;
use provost_engine::{Accepted, AgentProfile, InputRequest, Lease, Worker};
use provost_model::{self as scripted, ScriptedModel};
use provost_store::{Store, StoreOptions};
use tokio::sync::Semaphore;

use super::queued::gated;
use super::{commands, named, named_by, until};
use crate::house::{House, LEASE, frozen, quick};
use crate::stage::{Stage, options};

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_running() {
    let house = gated().await;
    let worker = house.engine.start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    house.rooms.gate("gate_pure").entered().await;
    house.clock.advance(Duration::from_secs(20));
    let names: [&dyn std::fmt::Display; 4] = [&run, &"`gate_pure`", &"20 s", &"try 1"];
    let told = named(&house, run, "tool_running", &names).await;
    assert_eq!(told.state, "running");
    let seen = |what: &str| told.evidence.iter().find(|seen| seen.what == what).unwrap();
    assert_eq!(seen("effect class").value, "pure");
    assert_eq!(seen("worker").value, worker.id().to_string());
    assert!(commands(&told).contains(&format!("provost runs cancel {run}").as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_answering() {
    let house = House::new(vec![scripted::text("never").hang()]).await;
    let _worker = house.engine.start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    until(&house.engine, run, "model_running").await;
    house.clock.advance(Duration::from_secs(5));
    named(&house, run, "model_running", &[&run, &"scripted", &"5 s ago"]).await;
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
    let agents = move |_: &AgentProfile, _: &Lease| {
        let model = ScriptedModel::answering(|_, _| scripted::text("hello"));
        let agent = Agent::builder("default", model).context(Slow(Arc::clone(&inside)));
        Ok(agent.context_tokens(10).context_reserve(1).build().unwrap())
    };
    let stage = Stage::of(options(), Env::simulated(1), agents).await;
    let _worker = stage.worker().await;
    let run = stage.say("chat", &"many words ".repeat(100)).await.run;
    begun.acquire().await.unwrap().forget();
    named_by(&stage.engine, run, "compacting", &[&run, &"compacting its context"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_gets_ready_and_it_is_between_steps() {
    let house = gated().await;
    house.rooms.door_closed.store(true, Ordering::SeqCst);
    let worker = house.engine.start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    house.rooms.door.entered().await;
    named(&house, run, "starting", &[&run, &"its agent is being built"]).await;
    house.rooms.door.open(1);
    house.rooms.gate("gate_pure").entered().await;
    worker.stop(Duration::from_millis(1)).await;
    let _again = house.engine.start().await.unwrap();
    house.rooms.door.entered().await;
    named(&house, run, "between_steps", &[&run, &"between two steps"]).await;
}

/// Another process on the same database that hears nothing of what this one does, and carries a run.
async fn deaf(house: &House) -> (Worker, Accepted) {
    let options = StoreOptions {
        env: house.clock.clone(),
        check_transactions: true,
        ..StoreOptions::new(house.store.path())
    };
    let node = house.node_on(&Store::open(options).unwrap(), frozen(), Env::system());
    let accepted = house.say("chat", "go").await;
    let worker = node.start().await.unwrap();
    house.rooms.gate("gate_pure").entered().await;
    (worker, accepted)
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_cancelled_it_and_its_worker_has_not_heard() {
    let house = gated().await;
    let (_worker, accepted) = deaf(&house).await;
    let run = accepted.run;
    house.engine.runs().cancel(&house.namespace, run).await.unwrap();
    named(&house, run, "stopping", &[&run, &"a user cancelled it", &"in 20 s"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_being_stopped_by_whoever_asked() {
    let house = gated().await;
    let _worker = house.node(frozen()).start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    house.rooms.gate("gate_pure").entered().await;
    let until = format!("in {} s", quick().grace.as_secs());
    for (code, who) in [
        ("cancelled_by_user", "a user cancelled it"),
        ("cancelled_by_parent", "its parent run ended"),
        ("cancelled_by_interrupt", "a newer message"),
        ("deadline", "its deadline passed"),
    ] {
        // Nobody hears of it: a worker that does stops the run before anybody can look.
        let (sql, now) =
            ("UPDATE run SET cancel_requested = ?1, cancel_code = ?2", house.clock.now());
        let asked =
            house.store.write(move |tx| tx.execute_fenced(sql, provost_store::params![now, code]));
        asked.await.unwrap();
        named(&house, run, "stopping", &[&run, &who, &until]).await;
    }
    house.clock.advance(Duration::from_secs(25));
    named(&house, run, "stopping", &[&run, &"5 s ago"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_message_takes_the_place_of_what_it_does() {
    let house = gated().await;
    let (_worker, accepted) = deaf(&house).await;
    let run = accepted.run;
    let instead = InputRequest::text("instead").mode(InputMode::Interrupt);
    let said = house.engine.inputs().send(&house.namespace, accepted.task, instead).await.unwrap();
    let told = named(&house, run, "interrupting", &[&run, &"a newer message"]).await;
    assert!(told.evidence.iter().any(|seen| seen.value == said.input.to_string()), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_worker_said_nothing_for_too_long() {
    let house = gated().await;
    let worker = house.node(frozen()).start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    house.rooms.gate("gate_pure").entered().await;
    house.clock.advance(LEASE + Duration::from_secs(4));
    let id = worker.id();
    let names: [&dyn std::fmt::Display; 4] = [&run, &id, &"no heartbeat for 34 s", &"4 s ago"];
    let told = named(&house, run, "lease_expired", &names).await;
    assert_eq!(told.related, [id.to_string()]);
    assert_eq!(commands(&told)[0], "provost serve", "there is nobody else");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_worker_is_dead() {
    let house = gated().await;
    let worker = house.engine.start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let id = worker.id();
    drop(worker);
    gate.stopped().await;
    until(&house.engine, run, "worker_gone").await;
    let names: [&dyn std::fmt::Display; 3] = [&run, &id, &"no other worker is alive"];
    named(&house, run, "worker_gone", &names).await;
    house.meddle("UPDATE run SET status = 'ok'").await;
    named(&house, run, "run_in_no_state", &[&run, &"`ok`", &"`leased`"]).await;
}
