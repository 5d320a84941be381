//! Answers on their way out, and questions that were settled.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::command::{RoutingContext, TaskRequest};
use provost_core::lifecycle::{ChannelCapabilities, GrantScope};
use provost_core::{DeliveryId, Message, RunId};
use provost_engine::{DeliveryAdapter, DeliveryTarget, EngineOptions, SendError, SendReceipt};
use provost_model as scripted;
use provost_store::query;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{commands, named, named_by, until};
use crate::cluster::{Cluster, quick};
use crate::harness::command;

/// A channel that answers as it is told, and waits while it is not told anything.
#[derive(Clone, Default)]
struct Mail {
    answers: Arc<Mutex<Vec<Result<SendReceipt, SendError>>>>,
    asked: Arc<Mutex<Option<Arc<Semaphore>>>>,
}

impl DeliveryAdapter for Mail {
    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities::default()
    }

    fn send<'a>(
        &'a self,
        _key: &'a str,
        _target: &'a DeliveryTarget,
        _message: &'a Message,
    ) -> BoxFuture<'a, Result<SendReceipt, SendError>> {
        if let Some(asked) = &*self.asked.lock().unwrap() {
            asked.add_permits(1);
        }
        match self.answers.lock().unwrap().pop() {
            Some(answer) => std::future::ready(answer).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}

fn not_now() -> Result<SendReceipt, SendError> {
    Err(SendError::Transient { problem: "the channel is down".to_owned(), retry_after: None })
}

/// A run whose answer goes out over `mail`, and the delivery that was planned.
async fn answered(cluster: &Cluster, session: &str) -> (RunId, DeliveryId) {
    let routing = RoutingContext {
        channel: Some("mail".to_owned()),
        to: Some("ann".to_owned()),
        ..RoutingContext::default()
    };
    let asked = TaskRequest { deliver: true, routing, ..command(session, "go") };
    let run = cluster.accept(asked).await.run;
    cluster.ended(run).await;
    let deliveries =
        query::delivery::of_run(cluster.engine.store(), &cluster.namespace, run).await.unwrap();
    (run, deliveries[0].id)
}

async fn cluster() -> Cluster {
    Cluster::new(vec![scripted::text("hello")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_no_channel_here_or_nobody_sends_it() {
    let mut cluster = cluster().await;
    let worker = cluster.engine.start().await.unwrap();
    let (run, id) = answered(&cluster, "chat").await;
    let names: [&dyn std::fmt::Display; 3] = [&id, &"`mail`", &"it has none"];
    let told = named(&cluster, id, "delivery_no_channel", &names).await;
    assert_eq!(told.related, [run.to_string()]);
    let told = named(&cluster, run, "ended_ok", &[&run]).await;
    assert!(told.related.contains(&id.to_string()), "its answer is still here: {told:#?}");
    worker.stop(Duration::ZERO).await;
    cluster.engine = cluster.node_with_channel("mail", Mail::default());
    named(&cluster, id, "delivery_no_worker", &[&id, &"`mail`", &"no worker is alive"]).await;
    cluster.clock.advance(Duration::from_secs(30 * 24 * 3600));
    named(&cluster, id, "delivery_overdue", &[&id, &"given up"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_due_then_sent_then_its_sender_is_lost() {
    let cluster = cluster().await;
    let plain = cluster.engine.start().await.unwrap();
    let (_, id) = answered(&cluster, "chat").await;
    plain.stop(Duration::ZERO).await;
    // One engine knows the channel and does not work; the other works and does not know it.
    let (mail, asked) = (Mail::default(), Arc::new(Semaphore::new(0)));
    *mail.asked.lock().unwrap() = Some(Arc::clone(&asked));
    let knows = cluster.node_with_channel("mail", mail);
    let _worker = cluster.engine.start().await.unwrap();
    named_by(&knows, id, "delivery_due", &[&id, &"`mail`", &"will be sent"]).await;
    let _sender = knows.start().await.unwrap();
    asked.acquire().await.unwrap().forget();
    named_by(&knows, id, "delivery_sending", &[&id, &"`mail`", &"try 1"]).await;
    cluster.meddle("UPDATE delivery SET claimed_until = NULL, next_at = next_at + 9000").await;
    named_by(&knows, id, "delivery_sender_lost", &[&id, &"whether it arrived", &"in 9 s"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_tried_again_refused_or_delivered() {
    let mut cluster = cluster().await;
    let mail = Mail::default();
    cluster.engine = cluster.node_with_channel("mail", mail.clone());
    let _worker = cluster.engine.start().await.unwrap();
    mail.answers.lock().unwrap().push(not_now());
    let (_, id) = answered(&cluster, "waits").await;
    until(&cluster.engine, id, "delivery_retry_wait").await;
    let names: [&dyn std::fmt::Display; 4] = [&id, &"the channel is down", &"try 2", &"`mail`"];
    named(&cluster, id, "delivery_retry_wait", &names).await;
    cluster.engine.deliveries().dismiss(&cluster.namespace, id).await.unwrap();
    named(&cluster, id, "delivery_dismissed", &[&id, &"dismissed"]).await;
    mail.answers.lock().unwrap().push(Err(SendError::Permanent("no such person".to_owned())));
    let (_, id) = answered(&cluster, "refused").await;
    until(&cluster.engine, id, "delivery_refused").await;
    let told = named(&cluster, id, "delivery_refused", &[&id, &"no such person"]).await;
    assert_eq!(commands(&told)[0], format!("provost delivery retry {id}"));
    mail.answers.lock().unwrap().push(Err(SendError::Uncertain("it hung up".to_owned())));
    let (_, id) = answered(&cluster, "unsure").await;
    until(&cluster.engine, id, "delivery_uncertain").await;
    named(&cluster, id, "delivery_uncertain", &[&id, &"it hung up", &"may have arrived"]).await;
    mail.answers.lock().unwrap().push(Ok(SendReceipt("nr 7".to_owned())));
    let (_, id) = answered(&cluster, "arrives").await;
    until(&cluster.engine, id, "delivery_delivered").await;
    let told = named(&cluster, id, "delivery_delivered", &[&id, &"1 try"]).await;
    assert!(told.evidence.iter().any(|seen| seen.value == "nr 7"), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_was_given_up() {
    let mut cluster = cluster().await;
    let mail = Mail::default();
    cluster.engine = cluster.node_with_channel("mail", mail.clone());
    let _worker = cluster.engine.start().await.unwrap();
    mail.answers.lock().unwrap().push(not_now());
    let (_, id) = answered(&cluster, "chat").await;
    until(&cluster.engine, id, "delivery_retry_wait").await;
    cluster.clock.advance(Duration::from_secs(30 * 24 * 3600));
    until(&cluster.engine, id, "delivery_given_up").await;
    named(&cluster, id, "delivery_given_up", &[&id, &"1 try", &"the channel is down"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_was_approved_granted_expired_or_is_needless() {
    let risky = || scripted::call("risky", json!({"a": 1}));
    let cluster = Cluster::new(vec![risky(), risky()]).await;
    let worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.parked(run).await;
    let asked = cluster.questions().await[0].id;
    cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, asked, GrantScope::Run, "ann")
        .await
        .unwrap();
    named(&cluster, asked, "approval_approved", &[&"ann approved", &run, &"`risky`"]).await;
    cluster.ended(run).await;
    let of_run = cluster
        .store
        .read(move |tx| provost_store::table::governance::approval::of_run(tx, run))
        .await;
    let granted = of_run.unwrap().into_iter().find(|row| row.id != asked).unwrap().id;
    named(&cluster, granted, "approval_granted", &[&run, &"a standing approval"]).await;
    let run = cluster.say("void", "go").await.run;
    cluster.parked(run).await;
    let asked = cluster.questions().await[0].id;
    cluster.engine.runs().cancel(&cluster.namespace, run).await.unwrap();
    named(&cluster, asked, "approval_void", &[&run, &"cancelled"]).await;
    worker.stop(Duration::ZERO).await;
    let soon = EngineOptions { approval_expiry: Some(Duration::from_secs(60)), ..quick() };
    let _worker = cluster.node(soon).start().await.unwrap();
    let run = cluster.say("late", "go").await.run;
    cluster.parked(run).await;
    let asked = cluster.questions().await[0].id;
    cluster.clock.advance(Duration::from_secs(60));
    until(&cluster.engine, asked, "approval_expired").await;
    named(&cluster, asked, "approval_expired", &[&run, &"it counts as denied"]).await;
}
