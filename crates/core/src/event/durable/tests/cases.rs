//! The table of all kinds with their exact bodies.

use serde_json::json;

use super::super::*;
use crate::work::{DropPolicy, ParkedFor, Strategy};
use crate::{
    ApprovalDecision, ApprovalId, ApprovalRequest, InputId, RunId, StateChange, StopReason, TaskId,
    Timestamp, ToolCall, Usage, WorkerId,
};

pub(super) const ID: &str = "01jd0000000000000000000000";
const AT: Timestamp = Timestamp::from_millis(1_700_000_000_123);

fn run() -> RunId {
    format!("run_{ID}").parse().unwrap()
}

fn task() -> TaskId {
    format!("task_{ID}").parse().unwrap()
}

fn input() -> InputId {
    format!("inp_{ID}").parse().unwrap()
}

fn approval() -> ApprovalId {
    format!("appr_{ID}").parse().unwrap()
}

fn worker() -> WorkerId {
    format!("wrk_{ID}").parse().unwrap()
}

/// Stored name of the kind, event, and body, where `_ID` stands for the digits of an id.
type Case = (&'static str, DurableEvent, &'static str);

fn lifecycle() -> Vec<Case> {
    use DurableEvent as E;
    vec![
        (
            "accepted",
            E::Accepted(Accepted {
                inputs: vec![input()],
                ordinal: 2,
                session: "s".to_owned(),
                task: task(),
            }),
            r#"{"inputs":["inp_ID"],"ordinal":2,"session":"s","task":"task_ID"}"#,
        ),
        ("forked", E::Forked(Forked { from: run(), fed: Some(3) }), r#"{"from":"run_ID","fed":3}"#),
        ("forked", E::Forked(Forked { from: run(), fed: None }), r#"{"from":"run_ID","fed":null}"#),
        (
            "attempt_started",
            E::AttemptStarted(AttemptStarted {
                attempt: 1,
                strategy: Strategy::Primary,
                worker: worker(),
            }),
            r#"{"attempt":1,"strategy":"primary","worker":"wrk_ID"}"#,
        ),
        (
            "parked",
            E::Parked(Parked { waits_for: ParkedFor::Approval, code: None, detail: None }),
            r#"{"for":"approval"}"#,
        ),
        (
            "parked",
            E::Parked(Parked {
                waits_for: ParkedFor::Operator,
                code: Some(OutcomeCode::CrashLoop),
                detail: Some("d".to_owned()),
            }),
            r#"{"for":"operator","code":"crash_loop","detail":"d"}"#,
        ),
        ("resumed", E::Resumed(Resumed { by: "me".to_owned() }), r#"{"by":"me"}"#),
    ]
}

fn attempts() -> Vec<Case> {
    use DurableEvent as E;
    vec![
        (
            "handed_over",
            E::HandedOver(HandedOver { attempt: 1, detail: "d".to_owned() }),
            r#"{"attempt":1,"detail":"d"}"#,
        ),
        (
            "retry_scheduled",
            E::RetryScheduled(RetryScheduled {
                code: OutcomeCode::ToolTimeout,
                detail: "d \"q\"".to_owned(),
                at: AT,
                failures: 2,
            }),
            r#"{"code":"tool_timeout","detail":"d \"q\"","at":1700000000123,"failures":2}"#,
        ),
        (
            "worker_lost",
            E::WorkerLost(WorkerLost { attempt: 1, crashes: 2, at: AT }),
            r#"{"attempt":1,"crashes":2,"at":1700000000123}"#,
        ),
        (
            "cancel_requested",
            E::CancelRequested(CancelRequested { code: OutcomeCode::Deadline }),
            r#"{"code":"deadline"}"#,
        ),
        (
            "workspace_reset",
            E::WorkspaceReset(WorkspaceReset { attempt: 2, reason: "r".to_owned() }),
            r#"{"attempt":2,"reason":"r"}"#,
        ),
        (
            "state_changed",
            E::StateChanged(StateChanged {
                changes: vec![
                    StateChange {
                        name: "app:a".to_owned(),
                        value: Some(json!({"z": 1, "a": 2.0})),
                    },
                    StateChange { name: "user:b".to_owned(), value: None },
                ],
            }),
            r#"{"changes":[{"name":"app:a","value":{"z":1,"a":2.0}},{"name":"user:b","value":null}]}"#,
        ),
        ("limit_found", E::LimitFound(LimitFound { step: 4 }), r#"{"step":4}"#),
        (
            "stopped",
            E::Stopped(Stopped { reason: StopReason::Cancelled }),
            r#"{"reason":"cancelled"}"#,
        ),
    ]
}

pub(super) fn ended(code: Option<OutcomeCode>, status: RunStatus) -> DurableEvent {
    let detail = code.map(|_| "d".to_owned());
    let result = code.is_none().then(|| r#"{"text":"t", "usage":{"input":1e2}}"#.to_owned());
    let result = result.map(|text| StoredJson::new(text).unwrap());
    DurableEvent::end(RunEnded { code, detail, result, status })
}

fn ends() -> Vec<Case> {
    vec![
        (
            "finished",
            ended(None, RunStatus::Ok),
            r#"{"code":null,"detail":null,"result":{"text":"t", "usage":{"input":1e2}},"status":"ok"}"#,
        ),
        (
            "failed",
            ended(Some(OutcomeCode::Internal), RunStatus::Error),
            r#"{"code":"internal","detail":"d","result":null,"status":"error"}"#,
        ),
        (
            "timed_out",
            ended(Some(OutcomeCode::Deadline), RunStatus::Timeout),
            r#"{"code":"deadline","detail":"d","result":null,"status":"timeout"}"#,
        ),
        (
            "cancelled",
            ended(Some(OutcomeCode::CancelledByUser), RunStatus::Cancelled),
            r#"{"code":"cancelled_by_user","detail":"d","result":null,"status":"cancelled"}"#,
        ),
    ]
}

fn turns() -> Vec<Case> {
    use DurableEvent as E;
    let usage = Usage { input: 7, output: 3, ..Usage::default() };
    vec![
        ("user_message", E::UserMessage(UserMessage {}), "{}"),
        ("turn_started", E::TurnStarted(TurnStarted { turn: 1 }), r#"{"turn":1}"#),
        (
            "turn_finished",
            E::TurnFinished(TurnFinished { turn: 1, stop: StopReason::ToolUse, usage }),
            r#"{"turn":1,"stop":"tool_use","usage":{"input":7,"output":3}}"#,
        ),
        (
            "draft_discarded",
            E::DraftDiscarded(DraftDiscarded { turn: 1, lost_try: 2 }),
            r#"{"turn":1,"try":2}"#,
        ),
        (
            "compaction_started",
            E::CompactionStarted(CompactionStarted { turn: 3 }),
            r#"{"turn":3}"#,
        ),
        ("compacted", E::Compacted(Compacted { step: 5, pieces: 4 }), r#"{"step":5,"pieces":4}"#),
        (
            "output_rejected",
            E::OutputRejected(OutputRejected { reason: "missing field".to_owned() }),
            r#"{"reason":"missing field"}"#,
        ),
        (
            "handed_off",
            E::HandedOff(HandOff { from: "a".to_owned(), to: "b".to_owned(), reason: None }),
            r#"{"from":"a","to":"b"}"#,
        ),
        (
            "handed_off",
            E::HandedOff(HandOff {
                from: "a".to_owned(),
                to: "b".to_owned(),
                reason: Some("r".to_owned()),
            }),
            r#"{"from":"a","to":"b","reason":"r"}"#,
        ),
        (
            "tool_started",
            E::ToolStarted(ToolStarted {
                call_id: "c".to_owned(),
                name: "shell".to_owned(),
                step: 6,
            }),
            r#"{"call_id":"c","name":"shell","step":6}"#,
        ),
        (
            "tool_finished",
            E::ToolFinished(ToolFinished { step: 6, call_id: "c".to_owned() }),
            r#"{"step":6,"call_id":"c"}"#,
        ),
        (
            "waiting_started",
            E::WaitingStarted(WaitingStarted { step: 6, call_id: "c".to_owned() }),
            r#"{"step":6,"call_id":"c"}"#,
        ),
    ]
}

fn approvals() -> Vec<Case> {
    use DurableEvent as E;
    let request = ApprovalRequest {
        id: approval(),
        call: ToolCall::new("c", "shell", &json!({"b": 1, "a": 2})),
        hint: Some("h".to_owned()),
        payload: None,
        policy_revision: None,
        approvers: None,
    };
    vec![
        (
            "approval_needed",
            E::ApprovalNeeded(ApprovalNeeded { request: Box::new(request) }),
            r#"{"request":{"id":"appr_ID","call":{"id":"c","name":"shell","arguments":"{\"b\":1,\"a\":2}"},"hint":"h"}}"#,
        ),
        (
            "approval_decided",
            E::ApprovalDecided(ApprovalDecided {
                id: approval(),
                decision: ApprovalDecision::Approve,
                by: None,
            }),
            r#"{"id":"appr_ID","decision":{"answer":"approve"}}"#,
        ),
        (
            "approval_decided",
            E::ApprovalDecided(ApprovalDecided {
                id: approval(),
                decision: ApprovalDecision::Deny { reason: "no".to_owned() },
                by: Some("me".to_owned()),
            }),
            r#"{"id":"appr_ID","decision":{"answer":"deny","reason":"no"},"by":"me"}"#,
        ),
        (
            "approval_vote",
            E::ApprovalVote(ApprovalVote {
                id: approval(),
                by: "me".to_owned(),
                answer: Vote::Approve,
                have: 1,
                needed: 2,
            }),
            r#"{"id":"appr_ID","by":"me","answer":"approve","have":1,"needed":2}"#,
        ),
    ]
}

fn inputs() -> Vec<Case> {
    use DurableEvent as E;
    let interrupt = InterruptRequested { input: input(), superseded: vec![input()] };
    vec![
        (
            "input_steered",
            E::InputSteered(InputSteered { input: input() }),
            r#"{"input":"inp_ID"}"#,
        ),
        (
            "input_received",
            E::InputReceived(InputReceived { input: input() }),
            r#"{"input":"inp_ID"}"#,
        ),
        (
            "inputs_dropped",
            E::InputsDropped(InputsDropped {
                inputs: vec![input()],
                policy: DropPolicy::Old,
                cap: 20,
            }),
            r#"{"inputs":["inp_ID"],"policy":"old","cap":20}"#,
        ),
        (
            "steer_fallback",
            E::SteerFallback(SteerFallback::Redirected { input: input(), run: run() }),
            r#"{"input":"inp_ID","run":"run_ID"}"#,
        ),
        (
            "steer_fallback",
            E::SteerFallback(SteerFallback::TakenOver { from: run() }),
            r#"{"from":"run_ID"}"#,
        ),
        (
            "interrupt_requested",
            E::InterruptRequested(interrupt.clone()),
            r#"{"input":"inp_ID","superseded":["inp_ID"]}"#,
        ),
        (
            "interrupted",
            E::Interrupted(Interrupted::BeforeStart(interrupt)),
            r#"{"input":"inp_ID","superseded":["inp_ID"]}"#,
        ),
        ("interrupted", E::Interrupted(Interrupted::Attempt { attempt: 2 }), r#"{"attempt":2}"#),
        (
            "rollback_requested",
            E::RollbackRequested(RollbackRequested {
                input: input(),
                run: run(),
                superseded: Vec::new(),
            }),
            r#"{"input":"inp_ID","run":"run_ID","superseded":[]}"#,
        ),
        (
            "rolled_back",
            E::RolledBack(RolledBack { left: 3, restored: 1 }),
            r#"{"left":3,"restored":1}"#,
        ),
    ]
}

fn children() -> Vec<Case> {
    use DurableEvent as E;
    let member = |result: Option<&str>, error: Option<&str>| MemberChanged {
        team: "t".to_owned(),
        member: "m".to_owned(),
        task: "do it".to_owned(),
        result: result.map(str::to_owned),
        error: error.map(str::to_owned),
    };
    vec![
        (
            "child_started",
            E::ChildStarted(ChildStarted::Detached {
                run: run(),
                task: task(),
                label: None,
                step: 7,
            }),
            r#"{"run":"run_ID","task":"task_ID","label":null,"step":7}"#,
        ),
        (
            "child_started",
            E::ChildStarted(ChildStarted::OfCall {
                run: run(),
                task: task(),
                agent: "a".to_owned(),
                call_id: "c".to_owned(),
                index: 0,
                step: 7,
            }),
            r#"{"run":"run_ID","task":"task_ID","agent":"a","call_id":"c","index":0,"step":7}"#,
        ),
        (
            "teammate_spawned",
            E::TeammateSpawned(member(None, None)),
            r#"{"team":"t","member":"m","task":"do it","result":null,"error":null}"#,
        ),
        (
            "teammate_complete",
            E::TeammateComplete(member(Some("r"), None)),
            r#"{"team":"t","member":"m","task":"do it","result":"r","error":null}"#,
        ),
        (
            "teammate_error",
            E::TeammateError(member(None, Some("e"))),
            r#"{"team":"t","member":"m","task":"do it","result":null,"error":"e"}"#,
        ),
        (
            "teammate_stopped",
            E::TeammateStopped(member(None, Some("e"))),
            r#"{"team":"t","member":"m","task":"do it","result":null,"error":"e"}"#,
        ),
        (
            "team_message",
            E::TeamMessage(TeamMessage {
                id: "msg-1".to_owned(),
                from: "a".to_owned(),
                to: "*".to_owned(),
                content: "hello".to_owned(),
                at: AT,
            }),
            r#"{"id":"msg-1","from":"a","to":"*","content":"hello","at":1700000000123}"#,
        ),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    [lifecycle(), attempts(), ends(), turns(), approvals(), inputs(), children()].concat()
}
