//! Webhooks: told at least once, in their namespace only, whoever dies on the way.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use provost_core::Env;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::WebhookDeliveryState;
use provost_core::resource::AgentSpec;
use provost_engine::{
    ClaimedWebhookDelivery, Engine, EngineDeps, EngineOptions, NewWebhook, Webhook,
    WebhookClaimLimits, WebhookDeliveryResult,
};
use provost_model::ScriptedModel;
use provost_model::{self as scripted};
use provost_store::query::event_log::{LogEntry, RunScope};
use provost_store::table::outbound::webhook_delivery::{WebhookDeliveryFilter, WebhookDeliveryRow};
use provost_store::{Store, StoreOptions, params};
use provost_tool::GuardServices;

use crate::conversations::Conversation;
use crate::harness::command;
use crate::worker_crash;

const CLAIM: WebhookClaimLimits =
    WebhookClaimLimits { limit: 100, per_webhook: 100, duration: Duration::from_secs(30) };

fn hook(url: &str, kinds: &[&str]) -> NewWebhook {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    NewWebhook { url: url.to_owned(), kinds }
}

fn body(entry: &LogEntry, place: &RunScope) -> String {
    format!("{} {} {}", place.session, entry.kind, entry.seq)
}

async fn fan_out(engine: &Engine) -> u64 {
    let mut deliveries = 0;
    loop {
        let filled = engine.webhooks().fan_out(100, body).await.unwrap();
        deliveries += filled.deliveries;
        if !filled.more {
            return deliveries;
        }
    }
}

fn failed(status: u16) -> WebhookDeliveryResult {
    WebhookDeliveryResult::Failed {
        status: Some(status),
        error: "no".to_owned(),
        retry_after: None,
    }
}

async fn deliveries(conversation: &Conversation, webhook: &Webhook) -> Vec<WebhookDeliveryRow> {
    let page = conversation
        .engine
        .webhooks()
        .deliveries(&conversation.namespace, webhook.id, WebhookDeliveryFilter::default(), 500)
        .await;
    page.unwrap().items
}

/// A post of a webhook that is told of everything, claimed.
async fn one_post(conversation: &Conversation) -> (Webhook, ClaimedWebhookDelivery) {
    let webhook = conversation
        .engine
        .webhooks()
        .create(&conversation.namespace, hook("http://one", &[]))
        .await
        .unwrap();
    conversation.accept("chat", "hello").await;
    assert_eq!(fan_out(&conversation.engine).await, 1);
    let claimed = conversation.engine.webhooks().claim(CLAIM).await.unwrap().remove(0);
    (webhook, claimed)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_webhook_is_told_of_its_namespace_and_its_kinds_from_its_beginning() {
    let conversation = Conversation::new().await;
    let foreign: Namespace = "other".parse().unwrap();
    conversation.engine.put_agent(&foreign, "default", None, AgentSpec::default()).await.unwrap();
    let early = conversation.accept("early", "before").await;
    let (engine, ns) = (&conversation.engine, &conversation.namespace);
    let all = engine.webhooks().create(ns, hook("http://all", &[])).await.unwrap();
    let ends = engine.webhooks().create(ns, hook("http://ends", &["finished"])).await.unwrap();
    let theirs = engine.webhooks().create(&foreign, hook("http://theirs", &[])).await.unwrap();
    let _worker = conversation.worker().await;
    let accepted = conversation.accept("chat", "hello").await;
    let run = conversation.wait(accepted.run).await;
    conversation.wait(early.run).await;
    let other = engine.submit(&foreign, command("chat", "theirs")).await.unwrap();
    engine.runs().wait(&foreign, other.run).await.unwrap();
    fan_out(engine).await;
    assert_eq!(fan_out(engine).await, 0, "nothing is told twice");
    let told = deliveries(&conversation, &all).await;
    let of_run = told.iter().filter(|delivery| delivery.event_key.starts_with(&run.id.to_string()));
    assert_eq!(of_run.count() as u64, run.next_seq - 1);
    let bodies: Vec<_> =
        deliveries(&conversation, &ends).await.into_iter().map(|delivery| delivery.body).collect();
    assert_eq!(bodies.iter().filter(|body| body.starts_with("chat finished")).count(), 1);
    assert!(bodies.iter().all(|body| body.contains("finished")), "{bodies:?}");
    assert!(!told.iter().any(|delivery| delivery.body == "early accepted 1"), "it was before");
    let of_others = engine
        .webhooks()
        .deliveries(&foreign, theirs.id, WebhookDeliveryFilter::default(), 9)
        .await;
    assert!(of_others.unwrap().items.iter().any(|delivery| delivery.body == "chat accepted 1"));
    for refused in [
        engine.webhooks().get(ns, theirs.id).await.err(),
        engine.webhooks().delete(ns, theirs.id).await.err(),
        engine
            .webhooks()
            .deliveries(ns, theirs.id, WebhookDeliveryFilter::default(), 9)
            .await
            .err(),
        engine.webhooks().set_disabled(ns, theirs.id, true).await.err(),
        engine.webhooks().redeliver(ns, theirs.id, told[0].id).await.err(),
        engine.webhooks().redeliver(ns, ends.id, told[0].id).await.err(),
    ] {
        assert_eq!(refused.unwrap().code(), "not_found");
    }
    assert_eq!(engine.webhooks().list(ns, None, 9).await.unwrap().items.len(), 2);
    engine.webhooks().delete(ns, all.id).await.unwrap();
    assert_eq!(engine.webhooks().list(ns, None, 9).await.unwrap().items.len(), 1);
    assert_eq!(engine.webhooks().get(ns, all.id).await.unwrap_err().code(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_is_tried_for_a_day_with_one_id_and_can_be_sent_again() {
    let conversation = Conversation::simulated().await;
    let (webhook, mut claimed) = one_post(&conversation).await;
    let (engine, ns, id) = (&conversation.engine, &conversation.namespace, claimed.delivery.id);
    assert_eq!(claimed.url, "http://one");
    let began = conversation.env.now();
    let mut tries = 1;
    let last = loop {
        assert_eq!((claimed.delivery.id, claimed.delivery.tries), (id, tries));
        assert_eq!(engine.webhooks().claim(CLAIM).await.unwrap(), [], "somebody has it");
        let settled =
            engine.webhooks().record_result(&claimed.delivery, failed(503)).await.unwrap().unwrap();
        if settled.state.as_str() != "pending" {
            break settled;
        }
        assert_eq!(engine.webhooks().claim(CLAIM).await.unwrap(), [], "it is not due");
        assert_eq!(engine.webhooks().due_at().await.unwrap(), Some(settled.next_at));
        conversation.env.advance(settled.next_at.since(conversation.env.now()));
        claimed = engine.webhooks().claim(CLAIM).await.unwrap().remove(0);
        tries += 1;
    };
    let tried = conversation.env.now().since(began);
    assert!((22 * 3600..24 * 3600).contains(&tried.as_secs()), "{tried:?}");
    assert_eq!((last.state.as_str(), last.last_status), ("failed", Some(503)));
    assert_eq!(engine.webhooks().due_at().await.unwrap(), None);
    engine.webhooks().redeliver(ns, webhook.id, id).await.unwrap();
    let again = engine.webhooks().claim(CLAIM).await.unwrap().remove(0);
    assert_eq!(
        (again.delivery.id, again.delivery.tries, &again.delivery.body),
        (id, 1, &last.body)
    );
    let busy = engine.webhooks().redeliver(ns, webhook.id, id).await.unwrap_err();
    assert_eq!(busy.code(), "illegal_transition", "it is being sent");
    let late = engine.webhooks().record_result(&claimed.delivery, failed(500)).await.unwrap();
    assert_eq!(late, None, "what an earlier sender says does not count any more");
    let sent = WebhookDeliveryResult::Delivered { status: 204 };
    let sent = engine.webhooks().record_result(&again.delivery, sent).await.unwrap().unwrap();
    assert_eq!(
        (sent.state.as_str(), sent.last_status, sent.last_error),
        ("delivered", Some(204), None)
    );
    let settled = WebhookDeliveryFilter {
        state: Some(WebhookDeliveryState::Failed),
        ..WebhookDeliveryFilter::default()
    };
    assert_eq!(engine.webhooks().deliveries(ns, webhook.id, settled, 9).await.unwrap().items, []);
    conversation.env.advance(Duration::from_secs(8 * 24 * 3600));
    engine.maintenance().collect_garbage().await.unwrap();
    assert_eq!(deliveries(&conversation, &webhook).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sender_is_replaced_when_its_claim_ends() {
    let conversation = Conversation::simulated().await;
    let (_, lost) = one_post(&conversation).await;
    conversation.env.advance(CLAIM.duration);
    let taken = conversation.engine.webhooks().claim(CLAIM).await.unwrap().remove(0);
    assert_eq!((taken.delivery.id, taken.delivery.tries), (lost.delivery.id, 2));
    let sent = WebhookDeliveryResult::Delivered { status: 200 };
    assert_eq!(
        conversation.engine.webhooks().record_result(&lost.delivery, sent.clone()).await.unwrap(),
        None
    );
    assert!(
        conversation
            .engine
            .webhooks()
            .record_result(&taken.delivery, sent)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_wants_no_more_is_told_nothing_until_it_is_enabled() {
    let conversation = Conversation::simulated().await;
    let (webhook, claimed) = one_post(&conversation).await;
    let (engine, ns) = (&conversation.engine, &conversation.namespace);
    let gone = WebhookDeliveryResult::Gone { status: 410 };
    let delivery = engine.webhooks().record_result(&claimed.delivery, gone).await.unwrap().unwrap();
    assert_eq!((delivery.state.as_str(), delivery.last_status), ("failed", Some(410)));
    assert!(engine.webhooks().get(ns, webhook.id).await.unwrap().disabled.is_some());
    conversation.accept("chat", "missed").await;
    assert_eq!(fan_out(engine).await, 0);
    let enabled = engine.webhooks().set_disabled(ns, webhook.id, false).await.unwrap();
    assert_eq!(enabled.disabled, None);
    assert_eq!(fan_out(engine).await, 0, "it begins anew");
    conversation.accept("other", "told").await;
    assert_eq!(fan_out(engine).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_address_does_not_take_the_place_of_others() {
    let conversation = Conversation::simulated().await;
    let (engine, ns) = (&conversation.engine, &conversation.namespace);
    let slow = engine.webhooks().create(ns, hook("http://slow", &[])).await.unwrap();
    for number in 0..9 {
        conversation.accept(&format!("s{number}"), "hello").await;
    }
    fan_out(engine).await;
    let few = WebhookClaimLimits { limit: 4, per_webhook: 2, duration: Duration::from_secs(60) };
    let first = engine.webhooks().claim(few).await.unwrap();
    assert!(first.len() == 2 && first.iter().all(|one| one.delivery.webhook_id == slow.id));
    assert_eq!(engine.webhooks().claim(few).await.unwrap(), []);
    let quick = engine.webhooks().create(ns, hook("http://quick", &[])).await.unwrap();
    conversation.accept("more", "hello").await;
    fan_out(engine).await;
    let second = engine.webhooks().claim(few).await.unwrap();
    assert_eq!(second.iter().map(|one| one.delivery.webhook_id).collect::<Vec<_>>(), [quick.id]);
}

/// An engine on a directory, without a worker.
async fn open(dir: &Path) -> Engine {
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let agents = |_: &provost_engine::AgentRevision, _: &provost_engine::Lease| {
        let model = ScriptedModel::from_fn(|_, _| scripted::text("hi"));
        Ok(provost_agent::Agent::builder("default", model).build().unwrap())
    };
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        EngineOptions::default(),
    );
    engine.put_agent(&Namespace::default(), "default", None, Default::default()).await.unwrap();
    engine
}

/// Sends what is due: each post is a line in a file.
async fn send_all(engine: &Engine, dir: &Path) {
    fan_out(engine).await;
    for ClaimedWebhookDelivery { delivery, .. } in engine.webhooks().claim(CLAIM).await.unwrap() {
        let mut sent = std::fs::read_to_string(dir.join("sent")).unwrap_or_default();
        sent += &format!("{} {}\n", delivery.id, delivery.event_key);
        std::fs::write(dir.join("sent"), sent).unwrap();
        let outcome = WebhookDeliveryResult::Delivered { status: 200 };
        engine.webhooks().record_result(&delivery, outcome).await.unwrap();
    }
}

/// The process that dies while it tells: the place is in its environment.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_that_posts() {
    let Some(dir) = worker_crash::dir() else { return };
    let engine = open(&dir).await;
    let ns = Namespace::default();
    engine.webhooks().create(&ns, hook("http://one", &[])).await.unwrap();
    for number in 0..3 {
        engine.submit(&ns, command(&format!("s{number}"), "hello")).await.unwrap();
        send_all(&engine, &dir).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_anywhere_every_event_is_told_and_repeats_have_the_same_id() {
    for (place, accepted, repeats) in [
        ("webhook.before_fill", 1, 0),
        ("webhook.filled", 1, 0),
        ("webhook.claimed@2", 2, 0),
        ("webhook.sent@2", 2, 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        worker_crash::killed_at("node_that_posts", dir.path(), place).await;
        let engine = open(dir.path()).await;
        // The claim of the dead sender ends at once.
        let ended = engine.store().write(|tx| {
            tx.execute_fenced(
                "UPDATE webhook_post SET next_at = 0 WHERE state = 'sending'",
                params![],
            )
        });
        ended.await.unwrap();
        send_all(&engine, dir.path()).await;
        let sent = std::fs::read_to_string(dir.path().join("sent")).unwrap();
        let lines: Vec<&str> = sent.lines().collect();
        let different: HashSet<&str> = lines.iter().copied().collect();
        assert_eq!(different.len(), accepted, "{place}: {lines:?}");
        assert_eq!(lines.len() - different.len(), repeats, "{place}: {lines:?}");
    }
}
