//! The table of decisions, the rules, and a corpus of lines that try to get around them.

mod corpus;

use super::*;
use corpus::CORPUS;

const RULES: &[&str] = &[
    "ls",
    "cat",
    "grep",
    "echo",
    "wc",
    "head",
    "sort",
    "find",
    "date",
    "printf",
    "git status",
    "git log",
    "git diff",
    "=make check",
    "=cargo test",
    "/opt/tools/*",
];

fn policy(mode: ExecMode, ask: AskPolicy) -> ExecPolicy {
    let rules = RULES.iter().map(|text| CommandRule::parse(text).unwrap()).collect();
    ExecPolicy { mode, ask, rules }
}

#[test]
fn no_line_of_the_corpus_gets_around_the_list_and_no_twin_is_refused() {
    assert!(CORPUS.len() >= 150, "{}", CORPUS.len());
    let strict = policy(ExecMode::Allowlist, AskPolicy::Off);
    let asking = policy(ExecMode::Allowlist, AskPolicy::OnMiss);
    let mut wrong = Vec::new();
    for (bypass, benign) in CORPUS {
        if !matches!(strict.decide(bypass), ExecDecision::Deny { .. }) {
            wrong.push(format!("runs: {bypass:?}"));
        }
        if !matches!(asking.decide(bypass), ExecDecision::Ask { .. }) {
            wrong.push(format!("is not asked about: {bypass:?}"));
        }
        if let ExecDecision::Deny { reason } | ExecDecision::Ask { reason } = strict.decide(benign)
        {
            wrong.push(format!("is refused: {benign:?}: {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_combination_decides_as_the_table_says() {
    #[derive(Debug, PartialEq)]
    enum Is {
        Run,
        AskPolicy,
        Deny,
    }
    let is = |mode, ask, line| match policy(mode, ask).decide(line) {
        ExecDecision::Run { .. } => Is::Run,
        ExecDecision::Ask { .. } => Is::AskPolicy,
        ExecDecision::Deny { .. } => Is::Deny,
    };
    let asks = [AskPolicy::Off, AskPolicy::OnMiss, AskPolicy::Always];
    for (mode, line, expected) in [
        (ExecMode::Deny, "ls", [Is::Deny, Is::Deny, Is::Deny]),
        (ExecMode::Deny, "rm x", [Is::Deny, Is::Deny, Is::Deny]),
        (ExecMode::Allowlist, "ls", [Is::Run, Is::Run, Is::AskPolicy]),
        (ExecMode::Allowlist, "rm x", [Is::Deny, Is::AskPolicy, Is::AskPolicy]),
        (ExecMode::Allowlist, "$(x)", [Is::Deny, Is::AskPolicy, Is::AskPolicy]),
        (ExecMode::Full, "rm x", [Is::Run, Is::Run, Is::AskPolicy]),
        (ExecMode::Full, "$(x)", [Is::Run, Is::Run, Is::AskPolicy]),
    ] {
        for (ask, expected) in asks.into_iter().zip(expected) {
            assert_eq!(is(mode, ask, line), expected, "{mode:?} {ask:?} {line}");
        }
    }
}

#[test]
fn what_matches_runs_as_it_was_understood() {
    let strict = policy(ExecMode::Allowlist, AskPolicy::Off);
    for (line, expected) in [
        ("l's'  -l", "ls -l"),
        ("echo 'a;rm x'", "echo a';'rm' 'x"),
        ("cat a|sort", "cat a | sort"),
        ("ls *.rs 2>/dev/null", "ls *.rs 2>/dev/null"),
        ("echo it\\'s \"\"", "echo it\\'s ''"),
    ] {
        match strict.decide(line) {
            ExecDecision::Run { line, .. } => assert_eq!(line, expected),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn the_effect_of_a_line_is_that_of_its_gravest_command() {
    let rules = vec![
        CommandRule::parse("pure: ls").unwrap(),
        CommandRule::parse("touch").unwrap().effect(EffectClass::Idempotent),
        CommandRule::parse("mail").unwrap(),
    ];
    let strict = ExecPolicy { mode: ExecMode::Allowlist, ask: AskPolicy::Off, rules };
    for (line, expected) in [
        ("ls", EffectClass::Pure),
        ("ls && touch x", EffectClass::Idempotent),
        ("ls | mail x", EffectClass::Opaque),
    ] {
        assert!(
            matches!(strict.decide(line), ExecDecision::Run { effect, .. } if effect == expected),
            "{line}"
        );
        assert_eq!(strict.effect_for(line), expected, "{line}");
        // A line that somebody was asked about runs as it was given, and nothing is known of it.
        let asking = ExecPolicy { ask: AskPolicy::Always, ..strict.clone() };
        assert_eq!(asking.effect_for(line), EffectClass::Opaque, "{line}");
        let on_a_miss = ExecPolicy { ask: AskPolicy::OnMiss, ..strict.clone() };
        assert_eq!(on_a_miss.effect_for(line), expected, "{line}");
    }
    assert_eq!(strict.effect_for("ls; rm x"), EffectClass::Opaque, "it does not run");
    let less_repeatable = ExecPolicy { rules: vec![CommandRule::parse("ls").unwrap()], ..strict };
    assert_eq!(strict.stricter(&less_repeatable).effect_for("ls"), EffectClass::Opaque);
    assert_eq!(strict.effect(), EffectClass::Opaque);
    let reads = ExecPolicy { rules: strict.rules[..1].to_vec(), ..strict.clone() };
    assert_eq!(reads.effect(), EffectClass::Pure);
    assert_eq!(
        ExecPolicy { ask: AskPolicy::OnMiss, ..reads.clone() }.effect(),
        EffectClass::Opaque
    );
    assert_eq!(ExecPolicy { mode: ExecMode::Full, ..reads }.effect(), EffectClass::Opaque);
}

#[test]
fn two_policies_give_the_stricter() {
    let full = ExecPolicy { mode: ExecMode::Full, ask: AskPolicy::Off, rules: Vec::new() };
    let list = policy(ExecMode::Allowlist, AskPolicy::OnMiss);
    let both = full.stricter(&list);
    assert_eq!(
        (both.mode, both.ask, both.rules.len()),
        (ExecMode::Allowlist, AskPolicy::OnMiss, RULES.len())
    );
    let other = ExecPolicy {
        rules: vec![CommandRule::parse("ls").unwrap(), CommandRule::parse("rm").unwrap()],
        ..list
    };
    let both = list.stricter(&other);
    assert!(matches!(both.decide("ls"), ExecDecision::Run { .. }));
    assert!(matches!(both.decide("rm x"), ExecDecision::Ask { .. }));
    assert!(matches!(both.decide("cat x"), ExecDecision::Ask { .. }));
    let deny = ExecPolicy { mode: ExecMode::Deny, ..ExecPolicy::default() };
    assert!(matches!(full.stricter(&deny).decide("ls"), ExecDecision::Deny { .. }));
}

#[test]
fn a_rule_that_says_nothing_clear_is_refused() {
    let exact = CommandRule::parse("idempotent: =make check").unwrap();
    assert!(matches!(&exact.args, ArgMatcher::Exact(args) if *args == ["check"]));
    assert_eq!(exact.effect, EffectClass::Idempotent);
    // What is no effect class is the name of a program.
    assert_eq!(CommandRule::parse("pure").unwrap().effect, EffectClass::Opaque);
    for wrong in [
        "",
        "pure: ",
        "pure: ls | cat",
        "ls | cat",
        "a; b",
        "$x",
        "ls > x",
        "A=1 ls",
        "./ls",
        "x/y",
    ] {
        assert!(CommandRule::parse(wrong).is_err(), "{wrong}");
    }
}
