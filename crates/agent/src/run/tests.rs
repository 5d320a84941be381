//! The machine alone: no model, no tool, no runtime.

use std::time::Duration;

use provost_core::{
    ApprovalDecision, ApprovalRequest, Env, LimitKind, Part, RequestKind, ToolResult,
};
use provost_model::ModelResponse;
use serde_json::json;

use super::*;

fn asked(limits: Limits, at_limit: AtLimit) -> Run {
    let started = RunStarted {
        agent: "tester".into(),
        config: RunConfig {
            limits,
            at_limit,
            execute_tools: true,
            output: OutputPlan::Text,
            output_retries: 1,
            depth: 0,
            hand_offs_max: 10,
            transfers: Vec::new(),
        },
        mirrors_session: true,
        state: Map::new(),
        shared: Vec::new(),
        input: RunInput::Message { message: Arc::new(Message::user("hi")) },
        at: at(0),
    };
    Run::start(Env::simulated(1).id(), started, Vec::new()).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn tool_call(id: &str) -> ToolCall {
    ToolCall::new(id, "look", &json!({}))
}

fn calling(ids: &[&str]) -> ModelResponse {
    let mut response = ModelResponse::text("");
    response.message.parts = ids.iter().map(|id| Part::ToolCall(tool_call(id))).collect();
    response.stop = StopReason::ToolUse;
    response.usage = Usage::new(10, 1);
    response
}

/// Every step and feed must survive storage.
fn stored(run: &mut Run) {
    let text = serde_json::to_string(run).unwrap();
    let copy: Run = serde_json::from_str(&text).unwrap();
    assert_eq!(copy, *run);
    *run = copy;
}

#[test]
fn a_turn_with_tools_keeps_call_order_whatever_finishes_first() {
    let mut run = asked(Limits::default(), AtLimit::Stop);
    assert_eq!(run.next_step(at(0)), Step::CallModel { turn: 1, without_tools: false });
    run.model_answered(calling(&["a", "b"]), None, at(1)).unwrap();
    stored(&mut run);
    let Step::CallTools(tickets) = run.next_step(at(1)) else { panic!() };
    assert_eq!(tickets.len(), 2);
    assert!(!run.is_settled());
    run.tool_finished(ToolResult::text(&tool_call("b"), "2"), at(2)).unwrap();
    stored(&mut run);
    assert!(
        matches!(run.next_step(at(2)), Step::CallTools(left) if left.len() == 1 && left[0].call.id == "a")
    );
    run.tool_finished(ToolResult::text(&tool_call("a"), "1"), at(3)).unwrap();
    stored(&mut run);
    let results: Vec<_> = run.context()[2].tool_results().map(|r| r.call_id.as_str()).collect();
    assert_eq!(results, ["a", "b"]);
    run.model_answered(ModelResponse::text("done"), None, at(4)).unwrap();
    assert_eq!(run.next_step(at(9)), Step::Done);
    let summary = run.summary(at(9));
    assert_eq!((summary.text.as_str(), summary.turns, summary.tool_calls), ("done", 2, 2));
    assert_eq!(
        summary.duration,
        Duration::from_secs(4),
        "the end counts, not the moment of asking"
    );
}

#[test]
fn a_feed_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut run = asked(Limits::default(), AtLimit::Stop);
    let before = run.clone();
    let result = ToolResult::text(&tool_call("a"), "1");
    assert_eq!(run.tool_finished(result.clone(), at(1)), Err(FeedError::UnknownCall("a".into())));
    assert!(run.limit_decided(LimitDecision::Stop, at(1)).is_err());
    assert!(run.output_checked(Ok(()), at(1)).is_err());
    assert_eq!(run, before);
    run.model_answered(calling(&["a"]), None, at(1)).unwrap();
    assert!(run.model_answered(calling(&["b"]), None, at(1)).is_err());
    run.tool_finished(result.clone(), at(1)).unwrap();
    assert!(run.tool_finished(result, at(1)).is_err(), "a second result for one call");
}

#[test]
fn a_decision_is_good_for_one_question_once() {
    let env = Env::simulated(4);
    let mut run = asked(Limits::default(), AtLimit::Stop);
    run.model_answered(calling(&["a"]), None, at(1)).unwrap();
    let request = ApprovalRequest {
        id: env.id(),
        kind: RequestKind::Call,
        call: tool_call("a"),
        hint: None,
        payload: None,
        policy_revision: None,
        approvers: None,
    };
    run.tool_prepared("a", tool_call("a")).unwrap();
    run.tool_needs_approval(request.clone()).unwrap();
    stored(&mut run);
    assert_eq!(run.next_step(at(2)), Step::Wait(vec![request.clone()]));
    assert!(run.decide(env.id(), ApprovalDecision::Approve).is_err());
    run.decide(request.id, ApprovalDecision::Approve).unwrap();
    assert!(run.decide(request.id, ApprovalDecision::Approve).is_err());
    let Step::CallTools(tickets) = run.next_step(at(3)) else { panic!() };
    assert_eq!(tickets[0].decision(), Some(&ApprovalDecision::Approve));
    assert!(tickets[0].prepared);
}

#[test]
fn every_limit_stops_before_the_next_request() {
    let price: Money = Money::usd("0.5".parse().unwrap());
    let table: [(LimitKind, Limits); 5] = [
        (LimitKind::InputTokens, Limits { input_tokens: Some(10), ..Limits::unlimited() }),
        (LimitKind::OutputTokens, Limits { output_tokens: Some(1), ..Limits::unlimited() }),
        (LimitKind::TotalTokens, Limits::unlimited().total_tokens(11)),
        (LimitKind::Cost, Limits::unlimited().cost(price)),
        (LimitKind::Wall, Limits::unlimited().wall(Duration::from_secs(3))),
    ];
    for (kind, limits) in table {
        let mut run = asked(limits, AtLimit::FinalAnswer);
        run.model_answered(calling(&["a"]), Some(price), at(1)).unwrap();
        run.tool_finished(ToolResult::text(&tool_call("a"), "1"), at(3)).unwrap();
        assert_eq!(run.next_step(at(3)), Step::Done, "{kind:?}");
        let summary = run.summary(at(3));
        assert_eq!(summary.limit.unwrap().limit, kind);
        assert_eq!(summary.stop, StopReason::Limit);
        assert_eq!(summary.tool_results.len(), 1, "the partial result is usable");
    }
}

#[test]
fn extending_a_limit_gives_the_same_amount_again() {
    let mut run = asked(Limits::unlimited().total_tokens(11), AtLimit::Ask);
    for round in 1..=2 {
        run.model_answered(calling(&[&round.to_string()]), None, at(round)).unwrap();
        run.tool_finished(ToolResult::text(&tool_call(&round.to_string()), "1"), at(round))
            .unwrap();
        assert!(
            matches!(run.next_step(at(round)), Step::AskLimit(question) if question.calls.is_empty())
        );
        stored(&mut run);
        run.limit_decided(LimitDecision::Extend { message: None }, at(round)).unwrap();
        assert!(matches!(run.next_step(at(round)), Step::CallModel { .. }));
    }
}

#[test]
fn calls_without_ids_or_with_one_twice_get_their_own() {
    let mut run = asked(Limits::default(), AtLimit::Stop);
    let message = run.model_answered(calling(&["", "x", "x"]), None, at(1)).unwrap();
    let ids: Vec<_> = message.tool_calls().map(|call| call.id.clone()).collect();
    let run_end = run.id().to_string().split_off(20);
    assert_eq!(ids, [format!("call_{run_end}_1_1"), "x".into(), format!("call_{run_end}_1_3")]);
    for id in &ids {
        run.tool_finished(ToolResult::text(&tool_call(id), "1"), at(1)).unwrap();
    }
    let again = run.model_answered(calling(&["x"]), None, at(2)).unwrap();
    let again = &again.tool_calls().next().unwrap().id;
    assert!(!ids.contains(again), "an id of an earlier turn came back: {again}");
}

#[test]
fn stopping_anywhere_leaves_a_valid_conversation() {
    let mut run = asked(Limits::default(), AtLimit::Stop);
    run.model_answered(calling(&["a", "b"]), None, at(1)).unwrap();
    run.tool_finished(ToolResult::text(&tool_call("b"), "2"), at(2)).unwrap();
    run.user_said(Arc::new(Message::user("wait")));
    run.stop(None, None, StopReason::Cancelled, at(3));
    assert_eq!(run.next_step(at(3)), Step::Done);
    let (repaired, repairs) = crate::context::repair(run.context().to_vec());
    assert_eq!((repairs, repaired.len()), (0, 4), "{repaired:?}");
    assert!(run.context()[2].tool_results().next().unwrap().is_error);
    assert!(!run.ended_by_itself());
}

#[test]
fn two_currencies_are_never_added() {
    let mut run = asked(Limits::default(), AtLimit::Stop);
    let euro = Money { amount: "1".parse().unwrap(), currency: provost_core::Currency::EUR };
    for (id, cost) in [("a", Money::usd("1".parse().unwrap())), ("b", euro)] {
        run.model_answered(calling(&[id]), Some(cost), at(1)).unwrap();
        run.tool_finished(ToolResult::text(&tool_call(id), "1"), at(1)).unwrap();
    }
    let summary = run.summary(at(2));
    assert_eq!((summary.cost.unwrap().to_string().as_str(), summary.unpriced_calls), ("$1", 1));
}
