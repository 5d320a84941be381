//! Who counts, and when it is settled.

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn ballot(required: u32, of: &[&str], requesters: &[&str]) -> Ballot {
    let names = |given: &[&str]| given.iter().map(|name| (*name).to_owned()).collect();
    let not_requester = !requesters.is_empty();
    Ballot::new(Approvers { required, of: names(of), not_requester }, names(requesters))
}

#[test]
fn enough_different_people_approve() {
    let mut ballot = ballot(2, &[], &[]);
    assert_eq!((ballot.poll(), ballot.missing()), (Poll::Open, 2));
    assert_eq!(ballot.cast("ada", true, at(1)), Ok(Poll::Open));
    assert_eq!(ballot.cast(" ADA ", true, at(2)), Ok(Poll::Open), "she counts once");
    assert_eq!((ballot.votes.len(), ballot.votes[0].at), (1, at(1)), "the first word counts");
    assert_eq!(ballot.cast("bob", true, at(3)), Ok(Poll::Approved));
    assert_eq!(ballot.yes(), ["ada", "bob"]);
}

#[test]
fn one_no_is_enough() {
    let mut ballot = ballot(3, &[], &[]);
    ballot.cast("ada", true, at(1)).unwrap();
    assert_eq!(ballot.cast("bob", false, at(2)), Ok(Poll::Denied));
    assert_eq!(ballot.yes(), ["ada"]);
}

#[test]
fn another_word_of_the_same_one_is_refused_and_changes_nothing() {
    let mut ballot = ballot(2, &[], &[]);
    ballot.cast("ada", true, at(1)).unwrap();
    let before = ballot.clone();
    let refused = ballot.cast("Ada", false, at(2)).unwrap_err();
    assert_eq!(refused.code(), "vote_conflict");
    assert_eq!(refused.to_string(), "`ada` has said yes already: the first word counts");
    assert_eq!(ballot, before);
}

#[test]
fn only_those_whom_the_rule_names_count() {
    let mut ballot = ballot(1, &["ada", "bob"], &[]);
    for approves in [true, false] {
        let refused = ballot.cast("eve", approves, at(1)).unwrap_err();
        assert_eq!(refused.code(), "not_an_approver");
        assert_eq!(refused.to_string(), "`eve` may not decide this: ask `ada`, `bob`");
    }
    assert_eq!(ballot.awaited(), ["ada", "bob"]);
    assert_eq!(ballot.cast("Bob", true, at(2)), Ok(Poll::Approved));
    assert_eq!(ballot.awaited(), ["ada"]);
    let nameless = Ballot::new(Approvers { required: 2, ..Approvers::default() }, Vec::new());
    assert_eq!(nameless.check("  ").unwrap_err().code(), "not_an_approver");
}

#[test]
fn whoever_started_the_run_does_not_count_where_the_rule_says_so() {
    let mut ballot = ballot(1, &[], &["ada"]);
    for approves in [true, false] {
        let refused = ballot.cast("ADA", approves, at(1)).unwrap_err();
        assert_eq!(refused.code(), "own_approval");
        assert_eq!(
            refused.to_string(),
            "`ADA` started the run and may not decide this: somebody else must"
        );
    }
    ballot.approvers.not_requester = false;
    assert_eq!(ballot.cast("ada", true, at(2)), Ok(Poll::Approved));
}

#[test]
fn what_nobody_can_approve_is_known_at_once() {
    assert_eq!(ballot(2, &["ada", "bob"], &[]).hopeless(), None);
    assert_eq!(ballot(1, &["ada", "bob"], &["ada"]).hopeless(), None);
    assert_eq!(ballot(9, &[], &["ada"]).hopeless(), None, "anybody counts");
    let few = ballot(2, &["ada", "bob"], &["ada"]).hopeless().unwrap();
    assert!(few.contains("2 of `ada`, `bob`"), "{few}");
    let mut unknown = ballot(1, &[], &["ada"]);
    unknown.requesters.clear();
    assert!(unknown.hopeless().unwrap().contains("nobody knows who started it"));
}

#[test]
fn enough_names_are_different_names_that_count() {
    let people = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let two = Approvers { required: 2, of: people(&["ada", "bob", "eve"]), not_requester: true };
    assert!(two.are_met_by(&people(&["Ada", "bob"]), &[]));
    assert!(!two.are_met_by(&people(&["ada", " ADA"]), &[]), "one person");
    assert!(!two.are_met_by(&people(&["ada", "joe", ""]), &[]), "not named");
    assert!(!two.are_met_by(&people(&["ada", "bob"]), &people(&["BOB"])), "excluded");
    assert!(two.are_met_by(&people(&["ada", "bob", "eve"]), &people(&["bob"])));
    let anybody = Approvers { required: 1, ..Approvers::default() };
    assert!(anybody.is_plain() && anybody.are_met_by(&people(&["x"]), &[]));
    assert!(!anybody.are_met_by(&[], &[]));
}
