//! Several people decide, or certain ones.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::{ApprovalState, GrantScope};
use provost_core::recovery::UnknownEffectPolicy;
use provost_core::scheduling::InputMode;
use provost_engine::{EngineOptions, InputRequest};
use provost_model as scripted;
use provost_store::query;
use provost_store::query::explain_facts::Subject;
use provost_store::table::governance::approval;
use serde_json::{Value, json};

use super::{Law, Policy, approve, asked, asks, deny, governed};
use crate::explain::explain;
use crate::house::{House, last_result, quick};
use crate::stage::{command, text};

fn two_of_three() -> Policy {
    Policy::asking(json!({"required": 2, "of": ["ada", "bob", "eve"], "not_requester": true}))
}

fn bodies(events: &[provost_store::table::work::run_event::RunEventRow], kind: &str) -> Vec<Value> {
    let wanted = events.iter().filter(|event| event.kind == kind);
    wanted.map(|event| serde_json::from_str(event.body.as_deref().unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_when_enough_different_people_have_said_yes() {
    let (house, _law) = governed(two_of_three()).await;
    let worker = house.node(quick()).start().await.unwrap();
    let run = asks(&house, Some("joe")).await.run;
    let question = asked(&house, run).await;
    let first = approve(&house, question.id, "ada").await.unwrap();
    assert_eq!((first.state, first.counted, first.by), (ApprovalState::Pending, true, None));
    assert_eq!(house.run(run).await.phase, "parked");
    // A vote outlives every process.
    drop(worker);
    let house = house.restart().await;
    let _worker = house.engine.start().await.unwrap();
    let again = approve(&house, question.id, "ADA").await.unwrap();
    assert_eq!((again.state, again.counted), (ApprovalState::Pending, true), "she counts once");
    assert_eq!(house.rooms.calls("opaque"), 0);
    let second = approve(&house, question.id, "bob").await.unwrap();
    assert_eq!((second.state, second.by.as_deref()), (ApprovalState::Approved, Some("bob")));
    assert_eq!(text(&house.ended(run).await), "told: opaque did it");
    assert_eq!(house.rooms.calls("opaque"), 1);
    let row =
        query::approval::get(house.engine.store(), &house.namespace, question.id).await.unwrap();
    let decision: Value = serde_json::from_str(row.decision.as_deref().unwrap()).unwrap();
    assert_eq!(decision, json!({"answer": "approved_by", "by": ["ada", "bob"]}));
    let events = house.events(run).await;
    let votes = bodies(&events, "approval_vote");
    let vote = |by, have| json!({"id": question.id, "by": by, "answer": "approve", "have": have, "needed": 2});
    assert_eq!(votes, [vote("ada", 1), vote("bob", 2)]);
    assert_eq!(bodies(&events, "approval_decided")[0]["by"], "bob");
    // What was said stays said.
    assert!(approve(&house, question.id, "ada").await.unwrap().counted);
    assert!(!approve(&house, question.id, "eve").await.unwrap().counted, "too late");
    let changed = deny(&house, question.id, "ada").await.unwrap_err();
    assert_eq!(changed.code(), "vote_conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_no_of_somebody_who_counts_is_enough() {
    let (house, _law) = governed(two_of_three()).await;
    let _worker = house.engine.start().await.unwrap();
    let run = asks(&house, Some("joe")).await.run;
    let question = asked(&house, run).await;
    approve(&house, question.id, "ada").await.unwrap();
    let changed = deny(&house, question.id, "ada").await.unwrap_err();
    assert_eq!((changed.code(), changed.kind().http_status()), ("vote_conflict", 409));
    let no = deny(&house, question.id, "eve").await.unwrap();
    assert_eq!((no.state, no.by.as_deref()), (ApprovalState::Denied, Some("eve")));
    assert!(text(&house.ended(run).await).contains("too dear"));
    assert_eq!(house.rooms.calls("opaque"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_count_is_refused_and_changes_nothing() {
    let (house, _law) = governed(two_of_three()).await;
    let _worker = house.engine.start().await.unwrap();
    let run = asks(&house, Some("Ada")).await.run;
    let question = asked(&house, run).await;
    for (by, code) in
        [("ada", "own_approval"), ("joe", "not_an_approver"), (" ", "not_an_approver")]
    {
        for refused in [approve(&house, question.id, by).await, deny(&house, question.id, by).await]
        {
            let refused = refused.unwrap_err();
            assert_eq!((refused.code(), refused.kind().http_status()), (code, 403), "{by}");
        }
    }
    let grant = house
        .engine
        .approvals()
        .approve(&house.namespace, question.id, GrantScope::Always, "bob")
        .await;
    assert_eq!(grant.unwrap_err().code(), "invalid", "several people decide about one call");
    let words =
        house.engine.approvals().answer_text(&house.namespace, question.id, "sure", "bob").await;
    assert_eq!(words.unwrap_err().code(), "invalid");
    let row =
        query::approval::get(house.engine.store(), &house.namespace, question.id).await.unwrap();
    assert_eq!(row, question, "nothing has changed");
    assert!(!house.kinds(run).await.contains(&"approval_vote".to_owned()));
    approve(&house, question.id, "bob").await.unwrap();
    approve(&house, question.id, "eve").await.unwrap();
    assert_eq!(text(&house.ended(run).await), "told: opaque did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_told_the_run_what_to_do_has_started_it() {
    let house = House::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("gate_pure", json!({})),
        "gate_pure did it" => scripted::call("opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let law = Law(Arc::new(Mutex::new(Policy::asking(json!({"not_requester": true})))));
    assert!(house.rooms.governor.set(Arc::new(law)).is_ok());
    let _worker = house.engine.start().await.unwrap();
    let run = asks(&house, Some("ada")).await.run;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let more = InputRequest::text("and this").mode(InputMode::Steer);
    let more = InputRequest { by: Some("bob".to_owned()), ..more };
    assert_eq!(house.engine.inputs().send(&house.namespace, run, more).await.unwrap().run, run);
    gate.open(1);
    let question = asked(&house, run).await;
    for by in ["ada", "bob"] {
        assert_eq!(approve(&house, question.id, by).await.unwrap_err().code(), "own_approval");
    }
    approve(&house, question.id, "eve").await.unwrap();
    assert_eq!(text(&house.ended(run).await), "told: opaque did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_approve_does_not_wait() {
    let all = Policy::asking(json!({"required": 2, "of": ["ada", "bob"], "not_requester": true}));
    for (by, why) in [(Some("ada"), "2 of `ada`, `bob`"), (None, "nobody knows who started it")] {
        let (house, _law) = governed(all.clone()).await;
        let _worker = house.engine.start().await.unwrap();
        let run = asks(&house, by).await.run;
        let told = text(&house.ended(run).await);
        assert!(told.contains(why), "{told}");
        assert_eq!(house.rooms.calls("opaque"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_in_time_is_a_no() {
    let (house, _law) = governed(two_of_three()).await;
    let _worker = house.engine.start().await.unwrap();
    let run = asks(&house, Some("joe")).await.run;
    let question = asked(&house, run).await;
    approve(&house, question.id, "ada").await.unwrap();
    house.clock.advance(Duration::from_secs(30 * 60));
    let told = text(&house.ended(run).await);
    assert!(told.contains("nobody answered in time"), "{told}");
    assert_eq!(house.rooms.calls("opaque"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_how_many_are_missing_and_who_may_be_asked() {
    let (house, _law) = governed(two_of_three()).await;
    let _worker = house.engine.start().await.unwrap();
    let run = asks(&house, Some("eve")).await.run;
    let question = asked(&house, run).await;
    approve(&house, question.id, "ada").await.unwrap();
    for subject in [Subject::Run(run), Subject::Approval(question.id)] {
        let told = explain(&house.engine, &house.namespace, subject.clone()).await.unwrap();
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
    let (house, _law) = governed(Policy::asking(Value::Null)).await;
    let _worker = house.engine.start().await.unwrap();
    let plain = TaskRequest { requested_by: Some("ada".to_owned()), ..command("chat", "go") };
    let run = house.accept(plain).await.run;
    let question = asked(&house, run).await;
    assert_eq!(question.ballot, None);
    assert!(!question.request.contains("approvers"), "{}", question.request);
    approve(&house, question.id, "ada").await.unwrap();
    assert_eq!(text(&house.ended(run).await), "told: opaque did it");
    let rows = house.store.read(move |tx| approval::of_run(tx, run)).await.unwrap();
    assert_eq!(rows[0].decision.as_deref(), Some(r#"{"answer":"approve"}"#));
    assert!(!house.kinds(run).await.contains(&"approval_vote".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_an_approval_does_not_outlive_the_policy_that_asked_for_it() {
    let (house, law) = governed(two_of_three()).await;
    let _worker = house.engine.start().await.unwrap();
    let run = asks(&house, Some("joe")).await.run;
    let first = asked(&house, run).await;
    approve(&house, first.id, "ada").await.unwrap();
    law.becomes(Policy { revision: "2", ..Policy::asking(json!({"of": ["zoe"]})) });
    approve(&house, first.id, "bob").await.unwrap();
    let again = house.until(run, |row| row.phase == "parked" && row.attempt_no > 1).await;
    let again = asked(&house, again.id).await;
    assert_ne!(again.id, first.id);
    assert!(again.plan.contains(r#""policy_revision":"2""#), "{}", again.plan);
    assert_eq!(house.rooms.calls("opaque"), 0);
    assert_eq!(approve(&house, again.id, "ada").await.unwrap_err().code(), "not_an_approver");
    approve(&house, again.id, "zoe").await.unwrap();
    assert_eq!(text(&house.ended(run).await), "told: opaque did it");
    assert_eq!(house.rooms.calls("opaque"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_what_the_policy_denies_meanwhile_does_not_run() {
    let (house, law) = governed(Policy::asking(Value::Null)).await;
    let _worker = house.engine.start().await.unwrap();
    let run = asks(&house, Some("joe")).await.run;
    let question = asked(&house, run).await;
    law.becomes(Policy { revision: "2", verdict: "deny", ..Policy::asking(Value::Null) });
    approve(&house, question.id, "ada").await.unwrap();
    let told = text(&house.ended(run).await);
    assert!(told.contains("rule `opaque` denies"), "{told}");
    assert_eq!(house.rooms.calls("opaque"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_let_a_call_run_decide_whether_it_runs_again() {
    let house = House::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("gate_opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let policy = Policy { tool: "gate_opaque", ..two_of_three() };
    assert!(house.rooms.governor.set(Arc::new(Law(Arc::new(Mutex::new(policy))))).is_ok());
    let node = house.node(EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() });
    let first = node.start().await.unwrap();
    let run = asks(&house, Some("joe")).await.run;
    let question = asked(&house, run).await;
    approve(&house, question.id, "ada").await.unwrap();
    approve(&house, question.id, "bob").await.unwrap();
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let _worker = node.start().await.unwrap();
    let again = asked(&house, run).await;
    assert_eq!(again.kind, "effect_unknown");
    assert_eq!(approve(&house, again.id, "joe").await.unwrap_err().code(), "not_an_approver");
    let one = approve(&house, again.id, "eve").await.unwrap();
    assert_eq!((one.state, house.rooms.calls("gate_opaque")), (ApprovalState::Pending, 1));
    approve(&house, again.id, "ada").await.unwrap();
    gate.entered().await;
    gate.open(1);
    assert_eq!(text(&house.ended(run).await), "told: gate_opaque did it");
    assert_eq!(house.rooms.calls("gate_opaque"), 2);
}
