//! Every closed set: its words are those of the specification, distinct, and the same in text and JSON.

use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::command::*;
use crate::execution_policy::*;
use crate::lifecycle::*;
use crate::recovery::*;
use crate::scheduling::*;

fn check<T>(all: &[T], words: &str)
where
    T: Copy + Eq + Debug + Display + FromStr<Err = ParseEnumError> + Serialize + DeserializeOwned,
{
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.join(" "), words);
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len());
    for (value, text) in all.iter().zip(&texts) {
        assert_eq!(text.parse::<T>().unwrap(), *value);
        assert_eq!(serde_json::to_value(value).unwrap(), *text);
        assert_eq!(serde_json::from_value::<T>(text.as_str().into()).unwrap(), *value);
    }
    for wrong in ["", "Queued", "nonsense", " ok"] {
        let error = wrong.parse::<T>().unwrap_err().to_string();
        assert!(error.ends_with(&format!("use one of {}", texts.join(", "))), "{error}");
    }
}

#[test]
fn the_words_of_states() {
    check(TaskState::ALL, "queued running waiting sleeping done error dropped cancelled");
    check(RunStatus::ALL, "accepted running ok error timeout cancelled");
    check(RunPhase::ALL, "queued leased parked done");
    check(WaitReason::ALL, "approval question child budget operator");
    check(AttemptStatus::ALL, "pending blocked running ok error timeout cancelled");
    check(AttemptReason::ALL, "primary retry failover resume");
    check(StepState::ALL, "planned started committed failed unknown");
    check(InputState::ALL, "pending claimed consumed superseded cancelled");
    check(ApprovalState::ALL, "pending approved denied expired cancelled answered");
    check(DeliveryState::ALL, "pending sending delivered failed unknown blocked dismissed");
    check(WebhookDeliveryState::ALL, "pending sending delivered failed");
    check(ClassHealth::ALL, "healthy warning degraded");
    check(InteractionState::ALL, "working waiting_for_input closed");
}

#[test]
fn the_words_of_choices() {
    check(
        StepKind::ALL,
        "drain_input model_call tool_call approval spawn await_child sleep compact deliver \
         checkpoint finish note",
    );
    check(EffectClass::ALL, "pure idempotent keyed provable transactional opaque");
    check(UnknownEffectPolicy::ALL, "surface park fail");
    check(InputMode::ALL, "queue followup collect steer interrupt reject rollback");
    check(OverflowPolicy::ALL, "old new summarize");
    check(
        InputOutcome::ALL,
        "direct queued interrupted restarted steered collected rejected duplicate",
    );
    check(ApprovalKind::ALL, "start tool effect_unknown question budget_raise plan");
    check(ApprovalTimeoutAction::ALL, "deny allowlist full");
    check(GrantScope::ALL, "once run session always");
    check(ExecutionHost::ALL, "sandbox node local");
    check(CommandPolicy::ALL, "deny allowlist full");
    check(CommandApproval::ALL, "off on-miss always");
    check(RuntimeType::ALL, "gvisor runc");
    check(WorkspaceAccess::ALL, "none ro rw");
    check(ProvenanceKind::ALL, "external_user inter_session internal_system");
    check(
        OutcomeCode::ALL,
        "provider_overloaded provider_rate_limited provider_auth provider_bad_request \
         context_overflow tool_error tool_timeout sandbox_start worker_lost fenced \
         cancelled_by_user cancelled_by_parent cancelled_by_interrupt deadline budget \
         policy_denied approval_denied approval_expired crash_loop internal",
    );
}

#[test]
fn the_words_of_events_and_inner_decisions() {
    check(
        TaskTransition::ALL,
        "dispatched requeued input_delivered awaits_input fell_asleep finished failed cancelled \
         dropped reopened retried",
    );
    check(
        InputTransition::ALL,
        "claimed consumed answered requeued superseded cancelled run_cancelled rolled_back",
    );
    check(StepTransition::ALL, "begun committed abandoned worker_lost reset");
    check(ApprovalTransition::ALL, "approve deny answer expire cancel");
    check(
        DeliveryTransition::ALL,
        "sending delivered failed_for_now failed send_again lost given_up retried dismissed",
    );
    check(WebhookDeliveryTransition::ALL, "sending delivered failed_for_now given_up resent");
    check(RetryClass::ALL, "never backoff after_wait failover compact resume");
    check(EffectRecovery::ALL, "run_again probe surface park fail");
    check(CommandDecision::ALL, "deny ask run");
}

#[test]
fn every_refusal_has_a_stable_code_and_a_sentence() {
    let epoch = Epoch::new(3);
    let policy = ExecutionPolicyPatch::parse(&serde_json::json!({"ask": "x"})).unwrap_err();
    let illegal = RunState::ACCEPTED.apply(RunTransition::Woken).unwrap_err();
    for (error, code, status) in [
        (RequestError::invalid("a", "b", "c"), "invalid", 400),
        (RequestError::TooLarge { path: "a".into(), bytes: 2, max: 1 }, "payload_too_large", 400),
        (RequestError::not_found("run", "run_0"), "not_found", 404),
        (RequestError::IdempotencyMismatch { key: "k".into() }, "idempotency_mismatch", 409),
        (RequestError::Busy { what: "session a".into(), until: None }, "busy", 409),
        (RequestError::LimitExceeded { what: "the queue", cap: 20 }, "full", 422),
        (RequestError::Fenced { held: epoch, current: epoch.next() }, "fenced", 409),
        (RequestError::Expired { what: "the approval" }, "expired", 409),
        (RequestError::ApprovalMismatch, "plan_changed", 409),
        (RequestError::not_approver("eve", &["ada".into()]), "not_an_approver", 403),
        (RequestError::self_approval("ada"), "own_approval", 403),
        (RequestError::VoteConflict { by: "ada".into(), previous: "yes" }, "vote_conflict", 409),
        (RequestError::Policy(policy), "policy_invalid", 400),
        (RequestError::InvalidTransition(illegal), "illegal_transition", 409),
    ] {
        assert_eq!((error.code(), error.kind().http_status()), (code, status));
        assert_eq!(error.info().code, code);
        let text = error.to_string();
        assert!(text.len() > 5 && !text.ends_with('.'), "{text}");
    }
}

#[test]
fn only_a_refusal_of_policy_is_remembered_under_a_key() {
    let policy = ExecutionPolicyPatch::parse(&serde_json::json!({"ask": "x"})).unwrap_err();
    assert!(RequestError::Policy(policy).is_cacheable());
    for passing in [
        RequestError::Busy { what: "session a".into(), until: None },
        RequestError::LimitExceeded { what: "the queue", cap: 20 },
    ] {
        assert!(!passing.is_cacheable());
    }
}
