//! Operations for operators: classes, budgets, schedules and deliveries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_agent::Agent;
use provost_api::{
    BudgetChange, BudgetKey, BudgetPeriod, DateTime, DeliveryQuery, NewTask, OverlapPolicy,
    PageQuery, ScheduleChange, ScheduleTiming,
};
use provost_core::command::RoutingContext;
use provost_core::lifecycle::{ChannelCapabilities, DeliveryState};
use provost_core::{Message, Money, Timestamp};
use provost_engine::{DeliveryAdapter, DeliveryTarget, EngineDeps, SendError, SendReceipt};
use provost_model::{self as scripted, ScriptedModel};
use serde_json::json;

use crate::test_app::TestApp;

#[tokio::test]
async fn a_class_is_paused_and_let_go_on() {
    let test_app = TestApp::idle(Vec::new()).await;
    test_app.submit_text("chat", "hi").await;
    let page = test_app
        .client
        .execution_classes(&PageQuery { limit: Some(1), cursor: None })
        .await
        .unwrap();
    let class = &page.items[0];
    let paused = test_app.client.set_concurrency_limit(&class.key, 0).await.unwrap();
    assert_eq!((paused.concurrency_limit, &paused.key), (0, &class.key));
    let next = PageQuery { cursor: page.next.clone(), ..PageQuery::default() };
    assert!(test_app.client.execution_classes(&next).await.unwrap().items.is_empty());
    let many = test_app.client.set_concurrency_limit(&class.key, 1_000_000).await.unwrap_err();
    assert_eq!(many.code(), "invalid");
    let unknown = format!("PUT classes/execclass_{}/target", "0".repeat(32));
    assert_eq!(
        test_app.send_json(&unknown, &json!({"desired": 1})).await.problem(),
        (404, "not_found")
    );
    let line = format!("PUT classes/{}/target", class.key);
    assert_eq!(test_app.send_json(&line, &json!({"desired": -1})).await.field(), "desired");
}

#[tokio::test]
async fn a_budget_is_set_changed_and_removed() {
    let test_app = TestApp::idle(Vec::new()).await;
    let change = |scope: &str, cap: i64| BudgetChange {
        scope: scope.to_owned(),
        cap: Money::from_micros(cap),
        period: Some(BudgetPeriod::Day),
    };
    let set = test_app.client.set_budget(&change("namespace", 2_500_000)).await.unwrap();
    assert_eq!(
        (set.cap, set.spent, set.period),
        (Money::from_micros(2_500_000), Money::ZERO, Some(BudgetPeriod::Day))
    );
    test_app.client.set_budget(&change("agent:default", 1)).await.unwrap();
    let page = PageQuery { limit: Some(1), cursor: None };
    let first = test_app.client.budgets(&page).await.unwrap();
    assert_eq!(first.items[0].scope, "agent:default");
    let second = test_app.client.budgets(&PageQuery { cursor: first.next, ..page }).await.unwrap();
    assert_eq!((second.items[0].scope.as_str(), second.next), ("namespace", None));
    let key = BudgetKey { scope: "namespace".to_owned() };
    test_app.client.remove_budget(&key).await.unwrap();
    assert_eq!(test_app.client.remove_budget(&key).await.unwrap_err().code(), "not_found");
    for (body, field) in [
        (json!({"scope": "nobody", "cap": {"amount": "1"}}), "scope"),
        (json!({"scope": "namespace", "cap": {"amount": "-1"}}), "cap"),
        (json!({"scope": "namespace", "cap": {"amount": "1", "currency": "usd"}}), "cap"),
        (json!({"scope": "namespace", "cap": {"amount": "1"}, "period": "year"}), "period"),
        (json!({"scope": "namespace"}), "cap"),
    ] {
        let refused = test_app.send_json("PUT budgets", &body).await;
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
        assert!(refused.field().starts_with(field), "{body}: {refused:?}");
    }
}

fn at_nine() -> ScheduleChange {
    ScheduleChange {
        timing: ScheduleTiming::Cron("0 9 * * *".to_owned()),
        zone: Some("Europe/Berlin".to_owned()),
        task: NewTask { label: Some("daily".to_owned()), ..NewTask::text("the news") },
        catch_up: Some("all:3".to_owned()),
        overlap: OverlapPolicy::Queue,
        jitter_ms: 1000,
    }
}

#[tokio::test]
async fn a_schedule_is_made_read_paused_and_removed() {
    let test_app = TestApp::idle(Vec::new()).await;
    let made = test_app.client.put_schedule("news", &at_nine()).await.unwrap();
    assert_eq!((made.id.as_str(), made.active), ("news", true));
    assert_eq!((&made.task, &made.timing), (&at_nine().task, &at_nine().timing));
    assert_eq!((made.catch_up.as_str(), made.overlap), ("all:3", OverlapPolicy::Queue));
    assert!(made.next_at.is_some());
    let far = DateTime(Timestamp::from_millis(4_000_000_000_000));
    let once = ScheduleChange { timing: ScheduleTiming::At(far), ..at_nine() };
    let once = test_app.client.put_schedule("once", &once).await.unwrap();
    assert_eq!(once.timing, ScheduleTiming::At(far));
    let page = PageQuery { limit: Some(1), cursor: None };
    let first = test_app.client.schedules(&page).await.unwrap();
    let second =
        test_app.client.schedules(&PageQuery { cursor: first.next, ..page }).await.unwrap();
    assert_eq!((first.items[0].id.as_str(), second.items[0].id.as_str()), ("news", "once"));
    let paused = test_app.client.pause_schedule("news", true).await.unwrap();
    assert_eq!((paused.active, paused.next_at), (false, None));
    assert!(test_app.client.pause_schedule("news", false).await.unwrap().active);
    assert_eq!(test_app.client.schedule("news").await.unwrap().id, "news");
    test_app.client.delete_schedule("news").await.unwrap();
    assert_eq!(test_app.client.schedule("news").await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn a_schedule_that_cannot_be_kept_is_refused_by_its_place() {
    let test_app = TestApp::idle(Vec::new()).await;
    let task = json!({"message": "hi"});
    for (body, field) in [
        (json!({"timing": {"cron": "never"}, "task": task}), "timing"),
        (json!({"timing": {"every_ms": 1}, "task": task}), "timing.every_ms"),
        (json!({"timing": {"weekly": 1}, "task": task}), "timing"),
        (json!({"timing": {"every_ms": 5000}, "zone": "Mars", "task": task}), "zone"),
        (json!({"timing": {"every_ms": 5000}, "task": {"message": ""}}), "message"),
        (json!({"timing": {"every_ms": 5000}, "task": task, "catch_up": "some"}), "catch_up"),
        (json!({"timing": {"every_ms": 5000}, "task": task, "overlap": "maybe"}), "overlap"),
        (json!({"timing": {"every_ms": 5000}, "task": task, "jitter_ms": -1}), "jitter_ms"),
    ] {
        let refused = test_app.send_json("PUT schedules/s", &body).await;
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
        assert!(refused.field().starts_with(field), "{body}: {refused:?}");
    }
    let good = json!({"timing": {"every_ms": 5000}, "task": task});
    for name in ["a%20b", "a%2Fb", "%2e%2e%2f", &"x".repeat(65)] {
        let refused = test_app.send_json(&format!("PUT schedules/{name}"), &good).await;
        assert_eq!((refused.problem(), refused.field()), ((400, "invalid"), "schedule"), "{name}");
    }
}

/// A channel that rejects deliveries until it is enabled.
struct Stubborn;

impl DeliveryAdapter for Stubborn {
    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities::default()
    }

    fn send<'a>(
        &'a self,
        _: &'a str,
        _: &'a DeliveryTarget,
        _: &'a Message,
    ) -> BoxFuture<'a, Result<SendReceipt, SendError>> {
        async { Err(SendError::Permanent("not here".to_owned())) }.boxed()
    }
}

#[tokio::test]
async fn an_answer_that_did_not_arrive_is_sent_again_or_put_away() {
    let model = ScriptedModel::new().turn(scripted::text("hello"));
    let agent = move || Agent::builder("default", model.clone());
    let channels: HashMap<String, Arc<dyn DeliveryAdapter>> =
        [("mail".to_owned(), Arc::new(Stubborn) as _)].into();
    let mut test_app = TestApp::with(agent, |deps| EngineDeps { channels, ..deps }).await;
    test_app.worker = Some(test_app.engine.start().await.unwrap());
    let routing = RoutingContext {
        channel: Some("mail".to_owned()),
        to: Some("me".to_owned()),
        ..RoutingContext::default()
    };
    let task = NewTask { deliver: true, routing, ..NewTask::text("hi") };
    let accepted = test_app.client.submit(&task).await.unwrap();
    test_app.ended(accepted.run).await;
    let failed = DeliveryQuery { state: Some(DeliveryState::Failed), ..DeliveryQuery::default() };
    let one = || async {
        loop {
            let found = test_app.client.deliveries(&failed).await.unwrap();
            if let Some(delivery) = found.items.into_iter().next() {
                return delivery;
            }
            tokio::task::yield_now().await;
        }
    };
    let sent = tokio::time::timeout(Duration::from_secs(20), one()).await.unwrap();
    assert_eq!((sent.run, sent.last_error.as_deref()), (accepted.run, Some("not here")));
    let of_run = test_app.client.run_deliveries(accepted.run, &PageQuery::default()).await.unwrap();
    assert_eq!(of_run.items, std::slice::from_ref(&sent));
    let again = test_app.client.retry_delivery(sent.id).await.unwrap();
    assert_eq!(again.generation, sent.generation + 1);
    let sent = tokio::time::timeout(Duration::from_secs(20), one()).await.unwrap();
    let away = test_app.client.dismiss_delivery(sent.id).await.unwrap();
    assert_eq!(away.state, DeliveryState::Dismissed);
    let late = test_app.request(&format!("POST deliveries/{}/retry", sent.id)).await;
    assert_eq!(late.problem().0, 409);
    let list =
        DeliveryQuery { run: Some(accepted.run), limit: Some(1), ..DeliveryQuery::default() };
    let first = test_app.client.deliveries(&list).await.unwrap();
    let next = DeliveryQuery { cursor: first.next, ..list };
    assert!(test_app.client.deliveries(&next).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn the_server_says_who_calls_and_what_runs_here() {
    let test_app = TestApp::idle(Vec::new()).await;
    let who = test_app.client.identity().await.unwrap();
    assert_eq!((who.name.as_str(), who.token), ("local", None));
    assert_eq!(test_app.client.version().await.unwrap().api, "v1");
}
