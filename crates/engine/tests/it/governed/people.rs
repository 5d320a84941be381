//! Several people decide, or certain ones.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::{ApprovalKind, ApprovalState, GrantScope, RunPhase};
use provost_core::recovery::UnknownEffectPolicy;
use provost_core::scheduling::InputMode;
use provost_engine::{EngineOptions, InputRequest};
use provost_model as scripted;
use provost_store::query;
use provost_store::query::explain_facts::Subject;
use provost_store::table::governance::approval;
use serde_json::{Value, json};

use super::{Law, Policy, approve, asked, asks, deny, governed};
use crate::cluster::{Cluster, last_result, quick};
use crate::explain::explain;
use crate::harness::{command, text};

fn two_of_three() -> Policy {
    Policy::asking(json!({"required": 2, "of": ["ada", "bob", "eve"], "not_requester": true}))
}

fn bodies(events: &[provost_store::table::work::run_event::RunEventRow], kind: &str) -> Vec<Value> {
    let wanted = events.iter().filter(|event| event.kind == kind);
    wanted.map(|event| serde_json::from_str(event.body.as_deref().unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_when_enough_different_people_have_said_yes() {
    let (cluster, _law) = governed(two_of_three()).await;
    let worker = cluster.node(quick()).start().await.unwrap();
    let run = asks(&cluster, Some("joe")).await.run;
    let question = asked(&cluster, run).await;
    let first = approve(&cluster, question.id, "ada").await.unwrap();
    assert_eq!((first.state, first.is_recorded, first.by), (ApprovalState::Pending, true, None));
    assert_eq!(cluster.run(run).await.phase, RunPhase::Parked);
    // A vote outlives every process.
    drop(worker);
    let cluster = cluster.restart().await;
    let _worker = cluster.engine.start().await.unwrap();
    let again = approve(&cluster, question.id, "ADA").await.unwrap();
    assert_eq!((again.state, again.is_recorded), (ApprovalState::Pending, true), "she counts once");
    assert_eq!(cluster.rooms.calls("opaque"), 0);
    let second = approve(&cluster, question.id, "bob").await.unwrap();
    assert_eq!((second.state, second.by.as_deref()), (ApprovalState::Approved, Some("bob")));
    assert_eq!(text(&cluster.ended(run).await), "told: opaque did it");
    assert_eq!(cluster.rooms.calls("opaque"), 1);
    let row = query::approval::get(cluster.engine.store(), &cluster.namespace, question.id)
        .await
        .unwrap();
    let decision: Value = serde_json::from_str(row.decision.as_deref().unwrap()).unwrap();
    assert_eq!(decision, json!({"answer": "approved_by", "by": ["ada", "bob"]}));
    let events = cluster.events(run).await;
    let votes = bodies(&events, "approval_vote");
    let vote = |by, have| json!({"id": question.id, "by": by, "answer": "approve", "have": have, "needed": 2});
    assert_eq!(votes, [vote("ada", 1), vote("bob", 2)]);
    assert_eq!(bodies(&events, "approval_decided")[0]["by"], "bob");
    // What was said stays said.
    assert!(approve(&cluster, question.id, "ada").await.unwrap().is_recorded);
    assert!(!approve(&cluster, question.id, "eve").await.unwrap().is_recorded, "too late");
    let changed = deny(&cluster, question.id, "ada").await.unwrap_err();
    assert_eq!(changed.code(), "vote_conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_no_of_somebody_who_counts_is_enough() {
    let (cluster, _law) = governed(two_of_three()).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = asks(&cluster, Some("joe")).await.run;
    let question = asked(&cluster, run).await;
    approve(&cluster, question.id, "ada").await.unwrap();
    let changed = deny(&cluster, question.id, "ada").await.unwrap_err();
    assert_eq!((changed.code(), changed.kind().http_status()), ("vote_conflict", 409));
    let no = deny(&cluster, question.id, "eve").await.unwrap();
    assert_eq!((no.state, no.by.as_deref()), (ApprovalState::Denied, Some("eve")));
    assert!(text(&cluster.ended(run).await).contains("too dear"));
    assert_eq!(cluster.rooms.calls("opaque"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_count_is_refused_and_changes_nothing() {
    let (cluster, _law) = governed(two_of_three()).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = asks(&cluster, Some("Ada")).await.run;
    let question = asked(&cluster, run).await;
    for (by, code) in
        [("ada", "own_approval"), ("joe", "not_an_approver"), (" ", "not_an_approver")]
    {
        for refused in
            [approve(&cluster, question.id, by).await, deny(&cluster, question.id, by).await]
        {
            let refused = refused.unwrap_err();
            assert_eq!((refused.code(), refused.kind().http_status()), (code, 403), "{by}");
        }
    }
    let grant = cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, question.id, GrantScope::Always, "bob")
        .await;
    assert_eq!(grant.unwrap_err().code(), "invalid", "several people decide about one call");
    let words = cluster
        .engine
        .approvals()
        .answer_text(&cluster.namespace, question.id, "sure", "bob")
        .await;
    assert_eq!(words.unwrap_err().code(), "invalid");
    let row = query::approval::get(cluster.engine.store(), &cluster.namespace, question.id)
        .await
        .unwrap();
    assert_eq!(row, question, "nothing has changed");
    assert!(!cluster.kinds(run).await.contains(&"approval_vote".to_owned()));
    approve(&cluster, question.id, "bob").await.unwrap();
    approve(&cluster, question.id, "eve").await.unwrap();
    assert_eq!(text(&cluster.ended(run).await), "told: opaque did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_told_the_run_what_to_do_has_started_it() {
    let law = Law(Arc::new(Mutex::new(Policy::asking(json!({"not_requester": true})))));
    let cluster = Cluster::guarded(law.guard(), |request, _| match last_result(request).as_str() {
        "" => scripted::call("gate_pure", json!({})),
        "gate_pure did it" => scripted::call("opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = asks(&cluster, Some("ada")).await.run;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let more = InputRequest::text("and this").mode(InputMode::Steer);
    let more = InputRequest { by: Some("bob".to_owned()), ..more };
    assert_eq!(cluster.engine.inputs().send(&cluster.namespace, run, more).await.unwrap().run, run);
    gate.open(1);
    let question = asked(&cluster, run).await;
    for by in ["ada", "bob"] {
        assert_eq!(approve(&cluster, question.id, by).await.unwrap_err().code(), "own_approval");
    }
    approve(&cluster, question.id, "eve").await.unwrap();
    assert_eq!(text(&cluster.ended(run).await), "told: opaque did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_approve_does_not_wait() {
    let all = Policy::asking(json!({"required": 2, "of": ["ada", "bob"], "not_requester": true}));
    for (by, why) in [(Some("ada"), "2 of `ada`, `bob`"), (None, "the requester is unknown")] {
        let (cluster, _law) = governed(all.clone()).await;
        let _worker = cluster.engine.start().await.unwrap();
        let run = asks(&cluster, by).await.run;
        let told = text(&cluster.ended(run).await);
        assert!(told.contains(why), "{told}");
        assert_eq!(cluster.rooms.calls("opaque"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_in_time_is_a_no() {
    let (cluster, _law) = governed(two_of_three()).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = asks(&cluster, Some("joe")).await.run;
    let question = asked(&cluster, run).await;
    approve(&cluster, question.id, "ada").await.unwrap();
    cluster.clock.advance(Duration::from_secs(30 * 60));
    let told = text(&cluster.ended(run).await);
    assert!(told.contains("no approver answered in time"), "{told}");
    assert_eq!(cluster.rooms.calls("opaque"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_how_many_are_missing_and_who_may_be_asked() {
    let (cluster, _law) = governed(two_of_three()).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = asks(&cluster, Some("eve")).await.run;
    let question = asked(&cluster, run).await;
    approve(&cluster, question.id, "ada").await.unwrap();
    for subject in [Subject::Run(run), Subject::Approval(question.id)] {
        let told = explain(&cluster.engine, &cluster.namespace, subject.clone()).await.unwrap();
        let missing = "has 1 of 2 approvals (ada): 1 more must come from bob";
        assert!(told.cause.contains(missing), "{}", told.cause);
        let seen = |what: &str| {
            let found = told.evidence.iter().find(|seen| seen.what == what);
            found.map(|seen| seen.value.clone())
        };
        assert_eq!(seen("approvals").as_deref(), Some("1 of 2"), "{subject:?}");
        assert_eq!(seen("may approve").as_deref(), Some("bob"));
        assert_eq!(
            seen("may not approve (requesters of the run)").as_deref(),
            Some("eve"),
            "{told:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_yes_of_anybody_is_kept_as_it_always_was() {
    let (cluster, _law) = governed(Policy::asking(Value::Null)).await;
    let _worker = cluster.engine.start().await.unwrap();
    let plain = TaskRequest { requested_by: Some("ada".to_owned()), ..command("chat", "go") };
    let run = cluster.accept(plain).await.run;
    let question = asked(&cluster, run).await;
    assert_eq!(question.ballot, None);
    assert!(!question.request.contains("approvers"), "{}", question.request);
    approve(&cluster, question.id, "ada").await.unwrap();
    assert_eq!(text(&cluster.ended(run).await), "told: opaque did it");
    let rows = cluster.store.read(move |tx| approval::of_run(tx, run)).await.unwrap();
    assert_eq!(rows[0].decision.as_deref(), Some(r#"{"answer":"approve"}"#));
    assert!(!cluster.kinds(run).await.contains(&"approval_vote".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_an_approval_does_not_outlive_the_policy_that_asked_for_it() {
    let (cluster, law) = governed(two_of_three()).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = asks(&cluster, Some("joe")).await.run;
    let first = asked(&cluster, run).await;
    approve(&cluster, first.id, "ada").await.unwrap();
    law.becomes(Policy { revision: "2", ..Policy::asking(json!({"of": ["zoe"]})) });
    approve(&cluster, first.id, "bob").await.unwrap();
    let again = cluster.until(run, |row| row.phase == RunPhase::Parked && row.attempt_no > 1).await;
    let again = asked(&cluster, again.id).await;
    assert_ne!(again.id, first.id);
    assert!(again.plan.contains(r#""policy_revision":"2""#), "{}", again.plan);
    assert_eq!(cluster.rooms.calls("opaque"), 0);
    assert_eq!(approve(&cluster, again.id, "ada").await.unwrap_err().code(), "not_an_approver");
    approve(&cluster, again.id, "zoe").await.unwrap();
    assert_eq!(text(&cluster.ended(run).await), "told: opaque did it");
    assert_eq!(cluster.rooms.calls("opaque"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_what_the_policy_denies_meanwhile_does_not_run() {
    let (cluster, law) = governed(Policy::asking(Value::Null)).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = asks(&cluster, Some("joe")).await.run;
    let question = asked(&cluster, run).await;
    law.becomes(Policy { revision: "2", verdict: "deny", ..Policy::asking(Value::Null) });
    approve(&cluster, question.id, "ada").await.unwrap();
    let told = text(&cluster.ended(run).await);
    assert!(told.contains("rule `opaque` denies"), "{told}");
    assert_eq!(cluster.rooms.calls("opaque"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_let_a_call_run_decide_whether_it_runs_again() {
    let law = Law(Arc::new(Mutex::new(Policy { tool: "gate_opaque", ..two_of_three() })));
    let cluster = Cluster::guarded(law.guard(), |request, _| match last_result(request).as_str() {
        "" => scripted::call("gate_opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let node =
        cluster.node(EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() });
    let first = node.start().await.unwrap();
    let run = asks(&cluster, Some("joe")).await.run;
    let question = asked(&cluster, run).await;
    approve(&cluster, question.id, "ada").await.unwrap();
    approve(&cluster, question.id, "bob").await.unwrap();
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let _worker = node.start().await.unwrap();
    let again = asked(&cluster, run).await;
    assert_eq!(again.kind, ApprovalKind::EffectUnknown);
    assert_eq!(approve(&cluster, again.id, "joe").await.unwrap_err().code(), "not_an_approver");
    let one = approve(&cluster, again.id, "eve").await.unwrap();
    assert_eq!((one.state, cluster.rooms.calls("gate_opaque")), (ApprovalState::Pending, 1));
    approve(&cluster, again.id, "ada").await.unwrap();
    gate.entered().await;
    gate.open(1);
    assert_eq!(text(&cluster.ended(run).await), "told: gate_opaque did it");
    assert_eq!(cluster.rooms.calls("gate_opaque"), 2);
}
