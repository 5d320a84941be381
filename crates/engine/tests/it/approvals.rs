//! Questions to people: by id, the first answer wins, bound to the plan, always settled.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{ApprovalState, GrantScope, RunPhase, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::{ApprovalDecision, ApprovalId, Env, RunId};
use provost_engine::EngineOptions;
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::governance::approval_grant::GrantKey;
use serde_json::json;

use crate::cluster::{Cluster, NEVER, last_result, quick};
use crate::harness::{command, text};

const HALF_HOUR: Duration = Duration::from_secs(1800);
const DAYS: Duration = Duration::from_secs(3 * 24 * 3600);

/// An agent that calls one tool and then says what it was told.
async fn calls(tool: &'static str) -> Cluster {
    Cluster::answering(move |request, _| match last_result(request).as_str() {
        "" => scripted::call(tool, json!({"amount": 1, "to": "me"})),
        result => scripted::text(format!("told: {result}")),
    })
    .await
}

fn deny(reason: &str) -> ApprovalDecision {
    ApprovalDecision::Deny { reason: reason.to_owned() }
}

async fn asked(cluster: &Cluster, run: RunId) -> ApprovalId {
    cluster.parked(run).await;
    let questions = cluster.questions().await;
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert_eq!(questions[0].run_id, run);
    questions[0].id
}

#[tokio::test(flavor = "multi_thread")]
async fn g31_an_answer_after_days_and_a_restart_runs_the_same_plan() {
    let cluster = calls("risky").await;
    let patient = EngineOptions { approval_expiry: Some(10 * DAYS), ..quick() };
    let worker = cluster.node(patient).start().await.unwrap();
    let accepted =
        cluster.accept(TaskRequest { timeout_ms: Some(0), ..command("chat", "go") }).await;
    let run = cluster.parked(accepted.run).await;
    assert_eq!((run.lease_owner, cluster.class().await.running), (None, 0), "nothing is held");
    assert!(run.holds_session, "but the conversation, which is in the middle of a turn");
    let plan = cluster.questions().await.remove(0);
    worker.stop(NEVER).await;
    let cluster = cluster.restart().await;
    cluster.clock.advance(DAYS);
    let id = plan.id;
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "told: risky did it"));
    assert_eq!((cluster.rooms.calls("risky"), cluster.rooms.model_calls()), (1, 2));
    let settled =
        query::approval::get(cluster.engine.store(), &cluster.namespace, id).await.unwrap();
    assert_eq!((settled.plan_hash, settled.state.as_str()), (plan.plan_hash, "approved"));
    assert_eq!(settled.decided_by.as_deref(), Some("me"));
}

#[tokio::test(flavor = "multi_thread")]
async fn g32_the_first_answer_wins_and_the_second_hears_of_it() {
    let cluster = calls("risky").await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let id = asked(&cluster, accepted.run).await;
    let first = cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, deny("too dear"), "first")
        .await
        .unwrap();
    assert_eq!((first.state, first.is_recorded), (ApprovalState::Denied, true));
    let second = cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "second")
        .await
        .unwrap();
    assert_eq!((second.state, second.is_recorded), (ApprovalState::Denied, false));
    assert_eq!(second.by.as_deref(), Some("first"));
    let run = cluster.ended(accepted.run).await;
    assert!(text(&run).contains("too dear"), "{}", text(&run));
    assert_eq!(cluster.rooms.calls("risky"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g32_an_answer_counts_for_its_own_question_only() {
    let cluster = calls("risky").await;
    let _worker = cluster.engine.start().await.unwrap();
    let first = cluster.say("first", "go").await;
    let id = asked(&cluster, first.run).await;
    let second = cluster.say("second", "go").await;
    cluster.parked(second.run).await;
    let later = cluster.questions().await.into_iter().find(|asked| asked.id != id).unwrap();
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, later.id, deny("no"), "me")
        .await
        .unwrap();
    assert!(text(&cluster.ended(second.run).await).contains("not approved: no"));
    assert_eq!(cluster.run(first.run).await.phase, RunPhase::Parked);
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    assert_eq!(text(&cluster.ended(first.run).await), "told: risky did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn g33_silence_is_a_no_after_half_an_hour() {
    let cluster = calls("risky").await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted =
        cluster.accept(TaskRequest { timeout_ms: Some(0), ..command("chat", "go") }).await;
    let id = asked(&cluster, accepted.run).await;
    cluster.clock.advance(HALF_HOUR - Duration::from_millis(1));
    cluster.engine.maintenance().reconcile().await.unwrap();
    assert_eq!(cluster.run(accepted.run).await.phase, RunPhase::Parked);
    cluster.clock.advance(Duration::from_millis(1));
    let run = cluster.ended(accepted.run).await;
    assert!(text(&run).contains("no approver answered in time"), "{}", text(&run));
    let late = cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await;
    assert_eq!(late.unwrap().state, ApprovalState::Expired);
    assert_eq!(cluster.rooms.calls("risky"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g33_where_nobody_can_answer_it_is_settled_at_once() {
    let cluster = calls("risky").await;
    cluster.agent("default", json!({"policy": {"interactive": false}})).await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let run = cluster.ended(accepted.run).await;
    assert_eq!(run.status, RunStatus::Ok);
    assert!(text(&run).contains("no approver answered in time"), "{}", text(&run));
    assert_eq!(cluster.questions().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn g34_another_plan_than_the_approved_one_is_refused() {
    let cluster = calls("risky").await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let id = asked(&cluster, accepted.run).await;
    // Somebody changes what will run while a person looks at what was asked.
    cluster
        .meddle(
            "UPDATE run_step SET body = replace(body, '\\\"amount\\\":1', '\\\"amount\\\":1000')
              WHERE body LIKE '%approval_needed%'",
        )
        .await;
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    let run = cluster.ended(accepted.run).await;
    assert!(text(&run).contains("the plan changed after it was approved"), "{}", text(&run));
    assert_eq!(cluster.rooms.calls("risky"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g35_the_approval_of_a_cancelled_run_is_recorded_and_not_carried_out() {
    let cluster = calls("risky").await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let id = asked(&cluster, accepted.run).await;
    cluster.engine.runs().cancel(&cluster.namespace, accepted.run).await.unwrap();
    let run = cluster.run(accepted.run).await;
    let answered = cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    assert_eq!((answered.state, answered.is_recorded), (ApprovalState::Cancelled, false));
    assert_eq!(cluster.run(accepted.run).await, run, "g47");
    assert_eq!((run.status.as_str(), cluster.rooms.calls("risky")), ("cancelled", 0));
    let other = cluster.say("other", "go").await;
    cluster.parked(other.run).await;
    assert_eq!(cluster.rooms.calls("risky"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_08_a_start_that_needs_approval_can_be_approved_and_denied() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let config = json!({"approve_start": true, "policy": {"interactive": true}});
    cluster.agent("default", config).await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let id = asked(&cluster, accepted.run).await;
    assert_eq!(cluster.run(accepted.run).await.claim_count, 0);
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    assert_eq!(text(&cluster.ended(accepted.run).await), "hello");
    let denied = cluster.say("other", "go").await;
    let id = asked(&cluster, denied.run).await;
    cluster.engine.approvals().answer(&cluster.namespace, id, deny("not now"), "me").await.unwrap();
    let run = cluster.ended(denied.run).await;
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("approval_denied"));
    assert_eq!((run.detail.as_deref(), run.claim_count), (Some("not now"), 0));
    let ignored = cluster.say("third", "go").await;
    cluster.parked(ignored.run).await;
    cluster.clock.advance(HALF_HOUR);
    let run = cluster.ended(ignored.run).await;
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("approval_expired"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_asks_while_it_runs_is_begun_again_after_the_answer() {
    let cluster = calls("careful").await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let id = asked(&cluster, accepted.run).await;
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    let run = cluster.ended(accepted.run).await;
    assert_eq!(text(&run), "told: careful did it", "it had done nothing, so nothing is unknown");
    assert_eq!(cluster.rooms.calls("careful"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_reach_as_far_as_they_say() {
    for (grant, run_asks, session_asks, other_asks) in [
        (GrantScope::Once, true, true, true),
        (GrantScope::Run, false, true, true),
        (GrantScope::Session, false, false, true),
        (GrantScope::Always, false, false, false),
    ] {
        let twice = vec![
            scripted::call("risky", json!({"a": 1, "b": 2})),
            scripted::call("risky", json!({"b": 2, "a": 1})),
        ];
        let cluster = Cluster::new(twice).await;
        let _worker = cluster.engine.start().await.unwrap();
        let accepted = cluster.say("chat", "go").await;
        let id = asked(&cluster, accepted.run).await;
        cluster.engine.approvals().approve(&cluster.namespace, id, grant, "me").await.unwrap();
        assert_eq!(answer_all(&cluster, accepted.run).await > 0, run_asks, "{grant}");
        let again = cluster.say("chat", "go on").await;
        assert_eq!(answer_all(&cluster, again.run).await > 0, session_asks, "{grant}");
        let other = cluster.say("other", "go").await;
        assert_eq!(answer_all(&cluster, other.run).await > 0, other_asks, "{grant}");
        assert_eq!(cluster.rooms.calls("risky"), 6);
    }
}

/// Approves whatever a run asks, once each, until it ends; tells how often it asked.
async fn answer_all(cluster: &Cluster, run: RunId) -> usize {
    let mut answers = 0;
    while cluster
        .until(run, |row| matches!(row.phase, RunPhase::Done | RunPhase::Parked))
        .await
        .phase
        != RunPhase::Done
    {
        for question in cluster.questions().await {
            cluster
                .engine
                .approvals()
                .approve(&cluster.namespace, question.id, GrantScope::Once, "me")
                .await
                .unwrap();
            answers += 1;
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_for_the_same_arguments_and_can_be_taken_back() {
    let cluster = Cluster::answering(|request, _| {
        let said = request.messages.last().map(|message| message.text()).unwrap_or_default();
        match last_result(request).as_str() {
            "" => scripted::call("risky", json!({"to": said})),
            result => scripted::text(format!("told: {result}")),
        }
    })
    .await;
    let _worker = cluster.engine.start().await.unwrap();
    let first = cluster.say("a", "me").await;
    let id = asked(&cluster, first.run).await;
    cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, id, GrantScope::Always, "me")
        .await
        .unwrap();
    cluster.ended(first.run).await;
    let other = cluster.say("b", "somebody else").await;
    let id = asked(&cluster, other.run).await;
    cluster.engine.approvals().answer(&cluster.namespace, id, deny("no"), "me").await.unwrap();
    let same = cluster.say("c", "me").await;
    assert_eq!(text(&cluster.ended(same.run).await), "told: risky did it");
    let grants = query::approval::grants(
        cluster.engine.store(),
        &cluster.namespace,
        GrantKey { scope: "", call_key: "" },
        10,
    )
    .await
    .unwrap();
    assert_eq!((grants.len(), grants[0].scope.as_str()), (1, "agent:default"));
    let (scope, key) = (grants[0].scope.as_str(), grants[0].call_key.as_str());
    cluster.engine.approvals().revoke_grant(&cluster.namespace, scope, key).await.unwrap();
    let again =
        cluster.engine.approvals().revoke_grant(&cluster.namespace, scope, key).await.unwrap_err();
    assert_eq!(again.code(), "not_found");
    let asks = cluster.say("d", "me").await;
    asked(&cluster, asks.run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_answers_are_refused_with_a_code() {
    let cluster = calls("risky").await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let id = asked(&cluster, accepted.run).await;
    let stranger: Namespace = "stranger".parse().unwrap();
    let unknown: ApprovalId = Env::system().id();
    for (namespace, id) in [(&stranger, id), (&cluster.namespace, unknown)] {
        let refused =
            cluster.engine.approvals().answer(namespace, id, ApprovalDecision::Approve, "me").await;
        assert_eq!(refused.unwrap_err().code(), "not_found");
        assert_eq!(
            query::approval::get(cluster.engine.store(), namespace, id).await.unwrap_err().code(),
            "not_found"
        );
    }
    let words = cluster
        .engine
        .approvals()
        .answer_text(&cluster.namespace, id, "yes", "me")
        .await
        .unwrap_err();
    assert_eq!(words.code(), "invalid");
    assert!(words.to_string().contains("approve or deny"), "{words}");
    let long = "x".repeat(2 << 20);
    let long = cluster
        .engine
        .approvals()
        .answer_text(&cluster.namespace, id, &long, "me")
        .await
        .unwrap_err();
    assert_eq!(long.code(), "payload_too_large");
    assert_eq!(cluster.run(accepted.run).await.phase, RunPhase::Parked, "nothing happened");
}
