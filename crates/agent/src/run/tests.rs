//! The machine alone: no model, no tool, no runtime.

use std::time::Duration;

use provost_core::{
    ApprovalDecision, ApprovalRequest, ApprovalRequestKind, ContentPart, Env, LimitKind, ToolResult,
};
use provost_model::ModelResponse;
use serde_json::json;

use super::*;

fn asked(limits: Limits, at_limit: LimitAction) -> Run {
    let started = RunStarted {
        agent: "tester".into(),
        config: RunConfig {
            limits,
            on_limit: at_limit,
            execute_tools: true,
            output: OutputMode::Text,
            output_retries: 1,
            depth: 0,
            max_handoffs: 10,
            handoff_targets: Vec::new(),
        },
        context_matches_session: true,
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
    response.message.parts = ids.iter().map(|id| ContentPart::ToolCall(tool_call(id))).collect();
    response.stop = StopReason::ToolUse;
    response.usage = Usage::new(10, 1);
    response
}

fn answer(
    run: &mut Run,
    mut response: ModelResponse,
    cost: Option<Money>,
    seconds: i64,
) -> Result<Arc<Message>, TransitionError> {
    let at = at(seconds);
    run.normalize_response(&mut response, at);
    match run.apply(JournalEntry::ModelResponded { response: Box::new(response), cost, at })? {
        ApplyResult::Response(message) => Ok(message),
        other => panic!("{other:?}"),
    }
}

fn finish(run: &mut Run, result: ToolResult, seconds: i64) -> Result<ApplyResult, TransitionError> {
    run.apply(JournalEntry::ToolFinished {
        result: Box::new(result),
        invalid_arguments: false,
        at: at(seconds),
    })
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
    let mut run = asked(Limits::default(), LimitAction::Stop);
    assert_eq!(run.next_step(at(0)), Step::CallModel { turn: 1, without_tools: false });
    answer(&mut run, calling(&["a", "b"]), None, 1).unwrap();
    stored(&mut run);
    let Step::CallTools(tickets) = run.next_step(at(1)) else { panic!() };
    assert_eq!(tickets.len(), 2);
    assert!(!run.is_checkpointable());
    finish(&mut run, ToolResult::text(&tool_call("b"), "2"), 2).unwrap();
    stored(&mut run);
    assert!(
        matches!(run.next_step(at(2)), Step::CallTools(left) if left.len() == 1 && left[0].call.id == "a")
    );
    finish(&mut run, ToolResult::text(&tool_call("a"), "1"), 3).unwrap();
    stored(&mut run);
    let results: Vec<_> = run.context()[2].tool_results().map(|r| r.call_id.as_str()).collect();
    assert_eq!(results, ["a", "b"]);
    answer(&mut run, ModelResponse::text("done"), None, 4).unwrap();
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
    let mut run = asked(Limits::default(), LimitAction::Stop);
    let before = run.clone();
    let result = ToolResult::text(&tool_call("a"), "1");
    assert_eq!(finish(&mut run, result.clone(), 1), Err(TransitionError::UnknownCall("a".into())));
    assert!(
        run.apply(JournalEntry::LimitDecided { decision: LimitDecision::Stop, at: at(1) }).is_err()
    );
    assert!(run.apply(JournalEntry::OutputChecked { problem: None, at: at(1) }).is_err());
    assert_eq!(run, before);
    answer(&mut run, calling(&["a"]), None, 1).unwrap();
    assert!(answer(&mut run, calling(&["b"]), None, 1).is_err());
    finish(&mut run, result.clone(), 1).unwrap();
    assert!(finish(&mut run, result, 1).is_err(), "a second result for one call");
}

#[test]
fn a_decision_is_good_for_one_question_once() {
    let env = Env::simulated(4);
    let mut run = asked(Limits::default(), LimitAction::Stop);
    answer(&mut run, calling(&["a"]), None, 1).unwrap();
    let request = ApprovalRequest {
        id: env.id(),
        kind: ApprovalRequestKind::Call,
        call: tool_call("a"),
        hint: None,
        payload: None,
        policy_revision: None,
        approvers: None,
    };
    let (effective, asked) = (Box::new(tool_call("a")), Box::new(request.clone()));
    run.apply(JournalEntry::ApprovalNeeded { prepared_call: effective, request: asked }).unwrap();
    stored(&mut run);
    assert_eq!(run.next_step(at(2)), Step::AwaitApprovals(vec![request.clone()]));
    let approve = |id| JournalEntry::ApprovalDecided { id, decision: ApprovalDecision::Approve };
    assert!(run.apply(approve(env.id())).is_err());
    run.apply(approve(request.id)).unwrap();
    assert!(run.apply(approve(request.id)).is_err());
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
        let mut run = asked(limits, LimitAction::FinalAnswer);
        answer(&mut run, calling(&["a"]), Some(price), 1).unwrap();
        finish(&mut run, ToolResult::text(&tool_call("a"), "1"), 3).unwrap();
        assert_eq!(run.next_step(at(3)), Step::Done, "{kind:?}");
        let summary = run.summary(at(3));
        assert_eq!(summary.limit.unwrap().limit, kind);
        assert_eq!(summary.stop, StopReason::Limit);
        assert_eq!(summary.tool_results.len(), 1, "the partial result is usable");
    }
}

#[test]
fn extending_a_limit_gives_the_same_amount_again() {
    let mut run = asked(Limits::unlimited().total_tokens(11), LimitAction::Ask);
    for round in 1..=2 {
        answer(&mut run, calling(&[&round.to_string()]), None, round).unwrap();
        finish(&mut run, ToolResult::text(&tool_call(&round.to_string()), "1"), round).unwrap();
        assert!(
            matches!(run.next_step(at(round)), Step::AskLimit(question) if question.calls.is_empty())
        );
        stored(&mut run);
        let decision = LimitDecision::Extend { message: None };
        run.apply(JournalEntry::LimitDecided { decision, at: at(round) }).unwrap();
        assert!(matches!(run.next_step(at(round)), Step::CallModel { .. }));
    }
}

#[test]
fn calls_without_ids_or_with_one_twice_get_their_own() {
    let mut run = asked(Limits::default(), LimitAction::Stop);
    let message = answer(&mut run, calling(&["", "x", "x"]), None, 1).unwrap();
    let ids: Vec<_> = message.tool_calls().map(|call| call.id.clone()).collect();
    let run_end = run.id().to_string().split_off(20);
    assert_eq!(ids, [format!("call_{run_end}_1_1"), "x".into(), format!("call_{run_end}_1_3")]);
    for id in &ids {
        finish(&mut run, ToolResult::text(&tool_call(id), "1"), 1).unwrap();
    }
    let again = answer(&mut run, calling(&["x"]), None, 2).unwrap();
    let again = &again.tool_calls().next().unwrap().id;
    assert!(!ids.contains(again), "an id of an earlier turn came back: {again}");
}

#[test]
fn stopping_anywhere_leaves_a_valid_conversation() {
    let mut run = asked(Limits::default(), LimitAction::Stop);
    answer(&mut run, calling(&["a", "b"]), None, 1).unwrap();
    finish(&mut run, ToolResult::text(&tool_call("b"), "2"), 2).unwrap();
    run.apply(JournalEntry::UserMessage { message: Arc::new(Message::user("wait")) }).unwrap();
    let reason = StopReason::Cancelled;
    let stopped =
        JournalEntry::Stopped { partial: None, cost: None, reason, limit: None, at: at(3) };
    run.apply(stopped).unwrap();
    assert_eq!(run.next_step(at(3)), Step::Done);
    let (repaired, repairs) = crate::context::repair(run.context().to_vec());
    assert_eq!((repairs, repaired.len()), (0, 4), "{repaired:?}");
    assert!(run.context()[2].tool_results().next().unwrap().is_error);
    assert!(!run.ended_normally());
}

#[test]
fn two_currencies_are_never_added() {
    let mut run = asked(Limits::default(), LimitAction::Stop);
    let euro = Money { amount: "1".parse().unwrap(), currency: provost_core::Currency::EUR };
    for (id, cost) in [("a", Money::usd("1".parse().unwrap())), ("b", euro)] {
        answer(&mut run, calling(&[id]), Some(cost), 1).unwrap();
        finish(&mut run, ToolResult::text(&tool_call(id), "1"), 1).unwrap();
    }
    let summary = run.summary(at(2));
    assert_eq!((summary.cost.unwrap().to_string().as_str(), summary.unpriced_calls), ("$1", 1));
}
