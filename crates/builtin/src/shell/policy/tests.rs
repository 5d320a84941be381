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

fn policy(security: Security, ask: Ask) -> ExecPolicy {
    let rules = RULES.iter().map(|text| Rule::read(text).unwrap()).collect();
    ExecPolicy { security, ask, rules }
}

#[test]
fn no_line_of_the_corpus_gets_around_the_list_and_no_twin_is_refused() {
    assert!(CORPUS.len() >= 150, "{}", CORPUS.len());
    let strict = policy(Security::Allowlist, Ask::Off);
    let asking = policy(Security::Allowlist, Ask::OnMiss);
    let mut wrong = Vec::new();
    for (bypass, benign) in CORPUS {
        if !matches!(strict.decide(bypass), Decision::Deny { .. }) {
            wrong.push(format!("runs: {bypass:?}"));
        }
        if !matches!(asking.decide(bypass), Decision::Ask { .. }) {
            wrong.push(format!("is not asked about: {bypass:?}"));
        }
        if let Decision::Deny { why } | Decision::Ask { why } = strict.decide(benign) {
            wrong.push(format!("is refused: {benign:?}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_combination_decides_as_the_table_says() {
    #[derive(Debug, PartialEq)]
    enum Is {
        Run,
        Ask,
        Deny,
    }
    let is = |security, ask, line| match policy(security, ask).decide(line) {
        Decision::Run { .. } => Is::Run,
        Decision::Ask { .. } => Is::Ask,
        Decision::Deny { .. } => Is::Deny,
    };
    let asks = [Ask::Off, Ask::OnMiss, Ask::Always];
    for (security, line, expected) in [
        (Security::Deny, "ls", [Is::Deny, Is::Deny, Is::Deny]),
        (Security::Deny, "rm x", [Is::Deny, Is::Deny, Is::Deny]),
        (Security::Allowlist, "ls", [Is::Run, Is::Run, Is::Ask]),
        (Security::Allowlist, "rm x", [Is::Deny, Is::Ask, Is::Ask]),
        (Security::Allowlist, "$(x)", [Is::Deny, Is::Ask, Is::Ask]),
        (Security::Full, "rm x", [Is::Run, Is::Run, Is::Ask]),
        (Security::Full, "$(x)", [Is::Run, Is::Run, Is::Ask]),
    ] {
        for (ask, expected) in asks.into_iter().zip(expected) {
            assert_eq!(is(security, ask, line), expected, "{security:?} {ask:?} {line}");
        }
    }
}

#[test]
fn what_matches_runs_as_it_was_understood() {
    let strict = policy(Security::Allowlist, Ask::Off);
    for (line, expected) in [
        ("l's'  -l", "ls -l"),
        ("echo 'a;rm x'", "echo a';'rm' 'x"),
        ("cat a|sort", "cat a | sort"),
        ("ls *.rs 2>/dev/null", "ls *.rs 2>/dev/null"),
        ("echo it\\'s \"\"", "echo it\\'s ''"),
    ] {
        match strict.decide(line) {
            Decision::Run { line, .. } => assert_eq!(line, expected),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn the_effect_of_a_line_is_that_of_its_gravest_command() {
    let rules = vec![
        Rule::read("pure: ls").unwrap(),
        Rule::read("touch").unwrap().effect(EffectClass::Idempotent),
        Rule::read("mail").unwrap(),
    ];
    let strict = ExecPolicy { security: Security::Allowlist, ask: Ask::Off, rules };
    for (line, expected) in [
        ("ls", EffectClass::Pure),
        ("ls && touch x", EffectClass::Idempotent),
        ("ls | mail x", EffectClass::Opaque),
    ] {
        assert!(
            matches!(strict.decide(line), Decision::Run { effect, .. } if effect == expected),
            "{line}"
        );
        assert_eq!(strict.effect_for(line), expected, "{line}");
        // A line that somebody was asked about runs as it was given, and nothing is known of it.
        let asking = ExecPolicy { ask: Ask::Always, ..strict.clone() };
        assert_eq!(asking.effect_for(line), EffectClass::Opaque, "{line}");
        let on_a_miss = ExecPolicy { ask: Ask::OnMiss, ..strict.clone() };
        assert_eq!(on_a_miss.effect_for(line), expected, "{line}");
    }
    assert_eq!(strict.effect_for("ls; rm x"), EffectClass::Opaque, "it does not run");
    let graver = ExecPolicy { rules: vec![Rule::read("ls").unwrap()], ..strict };
    assert_eq!(strict.stricter(&graver).effect_for("ls"), EffectClass::Opaque);
    assert_eq!(strict.effect(), EffectClass::Opaque);
    let reads = ExecPolicy { rules: strict.rules[..1].to_vec(), ..strict.clone() };
    assert_eq!(reads.effect(), EffectClass::Pure);
    assert_eq!(ExecPolicy { ask: Ask::OnMiss, ..reads.clone() }.effect(), EffectClass::Opaque);
    assert_eq!(ExecPolicy { security: Security::Full, ..reads }.effect(), EffectClass::Opaque);
}

#[test]
fn two_policies_give_the_stricter() {
    let full = ExecPolicy { security: Security::Full, ask: Ask::Off, rules: Vec::new() };
    let list = policy(Security::Allowlist, Ask::OnMiss);
    let both = full.stricter(&list);
    assert_eq!(
        (both.security, both.ask, both.rules.len()),
        (Security::Allowlist, Ask::OnMiss, RULES.len())
    );
    let other =
        ExecPolicy { rules: vec![Rule::read("ls").unwrap(), Rule::read("rm").unwrap()], ..list };
    let both = list.stricter(&other);
    assert!(matches!(both.decide("ls"), Decision::Run { .. }));
    assert!(matches!(both.decide("rm x"), Decision::Ask { .. }));
    assert!(matches!(both.decide("cat x"), Decision::Ask { .. }));
    let deny = ExecPolicy { security: Security::Deny, ..ExecPolicy::default() };
    assert!(matches!(full.stricter(&deny).decide("ls"), Decision::Deny { .. }));
}

#[test]
fn a_rule_that_says_nothing_clear_is_refused() {
    let exact = Rule::read("idempotent: =make check").unwrap();
    assert!(matches!(&exact.args, Args::Exact(args) if *args == ["check"]));
    assert_eq!(exact.effect, EffectClass::Idempotent);
    // What is no effect class is the name of a program.
    assert_eq!(Rule::read("pure").unwrap().effect, EffectClass::Opaque);
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
        assert!(Rule::read(wrong).is_err(), "{wrong}");
    }
}
