//! Questions: the first answer wins, the plan is fixed, and silence settles.

use serde_json::json;

use super::*;
use crate::lifecycle::tests::{check_machine, reachable};

use ApprovalKind as K;
use ApprovalState as S;
use ApprovalTransition as E;

#[test]
fn the_machine_is_total_and_an_answer_is_final() {
    check_machine(S::ALL, E::ALL, S::apply, S::is_terminal);
    assert_eq!(reachable(S::Pending, E::ALL, S::apply).len(), S::ALL.len());
}

#[test]
fn g32_the_first_answer_wins_and_the_second_is_told_what_was_recorded() {
    for first in [E::Approve, E::Deny, E::Expire, E::Cancel] {
        let Ok(ApprovalResult::Applied(recorded)) = K::Tool.resolve(S::Pending, first) else {
            panic!("{first} is an answer");
        };
        for second in [E::Approve, E::Deny, E::Expire, E::Cancel] {
            let later = K::Tool.resolve(recorded, second);
            assert_eq!(
                later,
                Ok(ApprovalResult::AlreadyDecided(recorded)),
                "{first}, then {second}"
            );
        }
    }
}

#[test]
fn a_question_in_words_is_answered_in_words() {
    let answered = K::Question.resolve(S::Pending, E::Answer);
    assert_eq!(answered, Ok(ApprovalResult::Applied(S::Answered)));
    let error = K::Question.resolve(S::Pending, E::Approve).unwrap_err();
    assert!(error.to_string().contains("answer in words"), "{error}");
    for kind in [K::Start, K::Tool, K::BudgetRaise, K::Plan] {
        assert!(kind.resolve(S::Pending, E::Answer).is_err(), "{kind}");
        assert!(kind.resolve(S::Pending, E::Approve).is_ok());
    }
}

#[test]
fn g33_a_question_always_ends_and_at_once_where_nobody_can_answer() {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    for &kind in K::ALL {
        assert_eq!(kind.expiry(false, None), Duration::ZERO);
        assert_eq!(kind.expiry(false, Some(Duration::MAX)), Duration::ZERO);
        assert_eq!(kind.expiry(true, Some(Duration::MAX)), minutes(30 * 24 * 60));
        let default = if kind == K::Question { minutes(15) } else { minutes(30) };
        assert_eq!(kind.expiry(true, None), default, "{kind}");
    }
    assert_eq!(K::Tool.expiry(true, Some(minutes(3 * 24 * 60))), minutes(3 * 24 * 60));
}

#[test]
fn silence_means_what_the_fallback_says() {
    for (fallback, on_list, allows) in [
        (ApprovalTimeoutAction::Deny, true, false),
        (ApprovalTimeoutAction::Deny, false, false),
        (ApprovalTimeoutAction::Allowlist, true, true),
        (ApprovalTimeoutAction::Allowlist, false, false),
        (ApprovalTimeoutAction::Full, true, true),
        (ApprovalTimeoutAction::Full, false, true),
    ] {
        assert_eq!(fallback.allows(on_list), allows);
    }
    assert_eq!(ApprovalTimeoutAction::default(), ApprovalTimeoutAction::Deny);
}

#[test]
fn silence_never_repeats_an_effect_and_never_spends_more() {
    for &wanted in ApprovalTimeoutAction::ALL {
        for kind in [K::EffectUnknown, K::BudgetRaise, K::Question] {
            assert_eq!(kind.fallback(wanted), ApprovalTimeoutAction::Deny);
        }
        for kind in [K::Start, K::Tool, K::Plan] {
            assert_eq!(kind.fallback(wanted), wanted);
        }
    }
}

#[test]
fn a_grant_does_not_silence_one_who_always_asks() {
    for &grant in GrantScope::ALL {
        assert!(!grant.covers_later_calls(CommandApproval::Always), "{grant}");
        assert_eq!(grant.covers_later_calls(CommandApproval::OnMiss), grant != GrantScope::Once);
    }
}

#[test]
fn g34_an_approval_is_good_for_the_exact_plan() {
    let plan = json!({"argv": ["rm", "-r", "x"], "cwd": "/w", "agent": "a", "file": "9f"});
    let turned = json!({"file": "9f", "agent": "a", "cwd": "/w", "argv": ["rm", "-r", "x"]});
    let hash = plan_hash(&plan);
    assert_eq!(hash.len(), 64);
    assert_eq!(check_plan(&hash, &turned), Ok(()));
    for changed in [
        json!({"argv": ["rm", "-r", "y"], "cwd": "/w", "agent": "a", "file": "9f"}),
        json!({"argv": ["rm", "-r", "x"], "cwd": "/", "agent": "a", "file": "9f"}),
        json!({"argv": ["rm", "-r", "x"], "cwd": "/w", "agent": "b", "file": "9f"}),
        json!({"argv": ["rm", "-r", "x"], "cwd": "/w", "agent": "a", "file": "9e"}),
        json!({"argv": ["-r", "rm", "x"], "cwd": "/w", "agent": "a", "file": "9f"}),
        json!({"argv": ["rm", "-r", "x"], "cwd": "/w", "agent": "a", "file": "9f", "more": 1}),
    ] {
        assert_eq!(check_plan(&hash, &changed).unwrap_err().code(), "plan_changed");
    }
}
