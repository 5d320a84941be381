//! Approvals of several people, or of certain ones, and policies that change while people think.

use std::sync::{Arc, Mutex};

use provost_agent::{Agent, ApprovalMode, RunOutcome};
use provost_core::resource::Approvers;
use provost_core::{ApprovalDecision, ApprovalRequest};
use provost_model::{ScriptedModel, text};
use provost_tool::{CallOrigin, ToolError, tool_fn};
use serde_json::json;

use super::{Policy, Shifting, one_call, paid_so_often, pay};

fn two_others() -> Policy {
    let approvers = json!({"required": 2, "of": ["ada", "bob", "eve"], "not_requester": true});
    Policy { approvers: Some(approvers), ..Policy::rule("approval_required") }
}

fn by(names: &[&str]) -> ApprovalDecision {
    ApprovalDecision::ApprovedBy { by: names.iter().map(|name| (*name).to_owned()).collect() }
}

fn started_by(principal: &str) -> CallOrigin {
    CallOrigin { principal: principal.to_owned(), ..CallOrigin::default() }
}

/// Remembers what was asked and always says the same.
fn answering(decision: ApprovalDecision) -> (ApprovalMode, Arc<Mutex<Vec<ApprovalRequest>>>) {
    let asked: Arc<Mutex<Vec<ApprovalRequest>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let ask = ApprovalMode::callback(move |request| {
        seen.lock().unwrap().push(request);
        std::future::ready(Ok(decision.clone()))
    });
    (ask, asked)
}

#[tokio::test]
async fn a_yes_counts_if_enough_different_people_who_count_gave_it() {
    for (decision, requester, times) in [
        (by(&["bob", "eve"]), "ada", 1),
        (by(&["Bob", "EVE", "ada"]), "ada", 1),
        (by(&["ada", "bob"]), "ada", 0),
        (by(&["bob", " BOB "]), "ada", 0),
        (by(&["bob", "joe"]), "ada", 0),
        (by(&[]), "ada", 0),
        (ApprovalDecision::Approve, "ada", 0),
        // Nobody knows who started it, so nobody is known to be somebody else.
        (by(&["bob", "eve"]), "", 0),
    ] {
        let (house, paid) = (Shifting::new([two_others()]), Arc::default());
        let (ask, asked) = answering(decision.clone());
        let run = house.agent(&paid, one_call()).run("pay").origin(started_by(requester));
        let run = run.approvals(ask).await.unwrap();
        assert_eq!(paid_so_often(&paid), times, "{decision:?} {requester}");
        let asked = asked.lock().unwrap();
        let approvers = asked[0].approvers.as_deref().unwrap();
        assert_eq!((asked.len(), approvers.required, approvers.exclude_requester), (1, 2, true));
        assert_eq!(run.text, "done");
        let told = run.messages.iter().flat_map(|message| message.tool_results()).next().unwrap();
        let refusal = "it needs the approval of 2 of `ada`, `bob`, `eve`";
        assert_eq!(told.to_text().contains(refusal), times == 0, "{}", told.to_text());
    }
}

#[tokio::test]
async fn one_yes_of_anybody_is_asked_for_as_it_always_was() {
    let (house, paid) = (Shifting::new([Policy::rule("approval_required")]), Arc::default());
    let (ask, asked) = answering(ApprovalDecision::Approve);
    house.agent(&paid, one_call()).run("pay").approvals(ask).await.unwrap();
    assert_eq!(paid_so_often(&paid), 1);
    let asked = serde_json::to_value(&asked.lock().unwrap()[0]).unwrap();
    assert_eq!(asked.get("approvers"), None, "{asked}");
    let plain = Approvers::default();
    assert!(plain.is_default());
}

#[tokio::test]
async fn a_suspended_run_goes_on_when_enough_have_said_yes() {
    for (decision, goes_on) in
        [(by(&["bob", "eve"]), true), (by(&["bob"]), false), (ApprovalDecision::Approve, false)]
    {
        let (house, paid) = (Shifting::new([two_others()]), Arc::default());
        let agent = house.agent(&paid, one_call());
        let run = agent.run("pay").origin(started_by("ada")).approvals(ApprovalMode::Suspend);
        let RunOutcome::Suspended(waits) = run.outcome().await.unwrap() else {
            panic!("no question")
        };
        let question = waits.approvals()[0].id;
        let waits = waits.decide(question, decision.clone()).unwrap();
        let run = agent.resume(waits).origin(started_by("ada")).approvals(ApprovalMode::Suspend);
        let asked_again = matches!(run.outcome().await.unwrap(), RunOutcome::Suspended(_));
        assert_eq!(asked_again, !goes_on, "{decision:?}");
        assert_eq!(paid_so_often(&paid), u32::from(goes_on), "{decision:?}");
    }
}

#[tokio::test]
async fn m8_the_policy_is_read_again_before_an_approved_call_runs() {
    let asks = || Policy::rule("approval_required");
    for (next, questions, times) in [
        (asks(), 1, 1),
        (asks().revision("2"), 2, 1),
        (Policy::rule("allow").revision("2"), 1, 1),
        (Policy::rule("deny").revision("2"), 1, 0),
        (Policy::unreadable(), 1, 0),
        // It must have another revision if it says something else; it counts even where it has not.
        (Policy::rule("deny"), 1, 0),
    ] {
        let house = Shifting::new([asks(), next.clone()]);
        let paid = Arc::default();
        let (ask, asked) = answering(ApprovalDecision::Approve);
        let agent = house.agent(&paid, one_call());
        agent.run("pay").approvals(ask).await.unwrap();
        let asked = asked.lock().unwrap();
        assert_eq!((asked.len(), paid_so_often(&paid)), (questions, times), "{next:?}");
        if let Some(again) = asked.get(1) {
            assert_eq!(again.policy_revision.as_deref(), Some("2"));
            assert_ne!(again.id, asked[0].id);
        }
    }
}

#[tokio::test]
async fn m8_a_policy_that_changes_with_every_answer_lets_nothing_through() {
    let revisions = (0..100).map(|n| Policy::rule("approval_required").revision(&n.to_string()));
    let (house, paid) = (Shifting::new(revisions), Arc::default());
    let (ask, asked) = answering(ApprovalDecision::Approve);
    house.agent(&paid, one_call()).run("pay").approvals(ask).await.unwrap();
    assert_eq!((asked.lock().unwrap().len(), paid_so_often(&paid)), (16, 0));
}

#[tokio::test]
async fn m8_a_tool_that_asked_people_does_not_go_on_under_a_policy_that_denies_it() {
    for (next, tries) in [("allow", 2), ("deny", 1)] {
        let house = Shifting::new([
            Policy::rule("allow"),
            Policy::rule(next).revision(if next == "allow" { "1" } else { "2" }),
        ]);
        let tried: Arc<Mutex<u32>> = Arc::default();
        let count = Arc::clone(&tried);
        let tool = tool_fn("pay", "Pays", move |_cx, (): ()| {
            *count.lock().unwrap() += 1;
            let first = *count.lock().unwrap() == 1;
            async move {
                match first {
                    true => Err(ToolError::NeedsApproval { hint: "really?".into(), payload: None }),
                    false => Ok("paid"),
                }
            }
        });
        let (ask, asked) = answering(ApprovalDecision::Approve);
        let agent = Agent::builder("clerk", one_call()).tool(tool.unwrap());
        let agent = agent.guard_services(house.guard_services()).build().unwrap();
        agent.run("pay").approvals(ask).await.unwrap();
        assert_eq!((asked.lock().unwrap().len(), *tried.lock().unwrap()), (1, tries), "{next}");
    }
}

#[tokio::test]
async fn the_newest_answer_to_what_was_asked_again_counts() {
    let asks = |revision| Policy::rule("approval_required").revision(revision);
    let paid = Arc::default();
    let start = Shifting::new([asks("1")]).agent(&paid, one_call());
    let run = start.run("pay").approvals(ApprovalMode::Suspend).outcome().await.unwrap();
    let RunOutcome::Suspended(waits) = run else { panic!("no question") };
    let later = Shifting::new([asks("2")]);
    let model = ScriptedModel::new().turn(text("done"));
    let later =
        Agent::builder("clerk", model).tool(pay(&paid)).guard_services(later.guard_services());
    let later = later.build().unwrap();
    let again = later.resume(waits.approve_all()).approvals(ApprovalMode::Suspend);
    let RunOutcome::Suspended(waits) = again.outcome().await.unwrap() else { panic!("not asked") };
    let ended = later.resume(waits.reject_all("no")).approvals(ApprovalMode::Suspend);
    let RunOutcome::Completed(ended) = ended.outcome().await.unwrap() else {
        panic!("asked once more")
    };
    assert_eq!((ended.text.as_str(), paid_so_often(&paid)), ("done", 0));
}
