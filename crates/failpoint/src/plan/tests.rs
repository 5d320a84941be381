//! Tests of rules as text.

use super::*;

fn one(text: &str) -> (String, Action, HitCondition) {
    let mut rules = parse(text).unwrap();
    assert_eq!(rules.len(), 1, "{rules:?}");
    let rule = rules.remove(0);
    (rule.name, rule.action, rule.when)
}

#[test]
fn every_action_can_be_written() {
    let pause = |path: &str| Action::Pause(path.into());
    for (text, action, when) in [
        ("a.b=kill", Action::Kill, HitCondition::At(1)),
        ("a.b=freeze@1", Action::Freeze, HitCondition::At(1)),
        ("a.b=exit@12", Action::Exit, HitCondition::At(12)),
        ("a.b=panic@3+", Action::Panic, HitCondition::From(3)),
        ("a.b=error", Action::Error, HitCondition::At(1)),
        ("a.b=pause:/tmp/go", pause("/tmp/go"), HitCondition::At(1)),
        ("a.b=pause:/tmp/go@2", pause("/tmp/go"), HitCondition::At(2)),
        ("a.b=pause:/tmp/me@home/go", pause("/tmp/me@home/go"), HitCondition::At(1)),
        (" a.b=pause:/tmp/x=y ", pause("/tmp/x=y"), HitCondition::At(1)),
    ] {
        assert_eq!(one(text), ("a.b".to_owned(), action, when), "{text}");
    }
}

#[test]
fn rules_are_separated_by_semicolons() {
    assert_eq!(parse("").unwrap(), []);
    let rules = parse("a=error@1;; b-2=kill@2;a=kill@3;").unwrap();
    assert_eq!(rules.len(), 3);
    assert_eq!(decide(&rules, "a", 1), Some(Action::Error));
    assert_eq!(decide(&rules, "a", 2), None);
    assert_eq!(decide(&rules, "a", 3), Some(Action::Kill));
    assert_eq!(decide(&rules, "b-2", 1), None);
    assert_eq!(decide(&rules, "b-2", 2), Some(Action::Kill));
    assert_eq!(decide(&rules, "c", 1), None);
}

#[test]
fn from_a_hit_on_it_stays() {
    let rules = parse("a=error@2+").unwrap();
    let fails: Vec<_> = (1..=4).map(|hit| decide(&rules, "a", hit).is_some()).collect();
    assert_eq!(fails, [false, true, true, true]);
}

#[test]
fn what_cannot_be_read_is_named() {
    for (text, problem) in [
        ("a", "no `=`"),
        ("=kill", "a name consists of"),
        ("A=kill", "a name consists of"),
        ("a b=kill", "a name consists of"),
        ("a=", "the actions are"),
        ("a=die", "the actions are"),
        ("a=Kill", "the actions are"),
        ("a=pause", "the actions are"),
        ("a=pause:", "pause needs the path"),
        ("a=kill@", "after `@`"),
        ("a=kill@x", "after `@`"),
        ("a=kill@-1", "after `@`"),
        ("a=kill@0", "counted from 1"),
        ("a=kill@0+", "counted from 1"),
        ("a=kill@99999999999999999999", "too big"),
    ] {
        let message = parse(&format!("ok=kill;{text}")).unwrap_err().to_string();
        assert!(message.contains(problem), "{text}: {message}");
        assert!(message.contains(&format!("{text:?}")), "{text}: {message}");
    }
}
