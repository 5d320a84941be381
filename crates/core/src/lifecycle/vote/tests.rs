//! Who counts, and when it is settled.

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn ballot(required: u32, of: &[&str], requesters: &[&str]) -> ApprovalVotes {
    let names = |given: &[&str]| given.iter().map(|name| (*name).to_owned()).collect();
    let not_requester = !requesters.is_empty();
    ApprovalVotes::new(
        Approvers { required, of: names(of), exclude_requester: not_requester },
        names(requesters),
    )
}

#[test]
fn enough_different_people_approve() {
    let mut ballot = ballot(2, &[], &[]);
    assert_eq!((ballot.result(), ballot.missing_approvals()), (VoteResult::Pending, 2));
    assert_eq!(ballot.cast("ada", true, at(1)), Ok(VoteResult::Pending));
    assert_eq!(ballot.cast(" ADA ", true, at(2)), Ok(VoteResult::Pending), "she counts once");
    assert_eq!((ballot.votes.len(), ballot.votes[0].at), (1, at(1)), "the first word counts");
    assert_eq!(ballot.cast("bob", true, at(3)), Ok(VoteResult::Approved));
    assert_eq!(ballot.approved_by(), ["ada", "bob"]);
}

#[test]
fn one_no_is_enough() {
    let mut ballot = ballot(3, &[], &[]);
    ballot.cast("ada", true, at(1)).unwrap();
    assert_eq!(ballot.cast("bob", false, at(2)), Ok(VoteResult::Denied));
    assert_eq!(ballot.approved_by(), ["ada"]);
}

#[test]
fn another_word_of_the_same_one_is_refused_and_changes_nothing() {
    let mut ballot = ballot(2, &[], &[]);
    ballot.cast("ada", true, at(1)).unwrap();
    let before = ballot.clone();
    let refused = ballot.cast("Ada", false, at(2)).unwrap_err();
    assert_eq!(refused.code(), "vote_conflict");
    assert_eq!(refused.to_string(), "`ada` has voted yes already: the first vote counts");
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
    assert_eq!(ballot.pending_approvers(), ["ada", "bob"]);
    assert_eq!(ballot.cast("Bob", true, at(2)), Ok(VoteResult::Approved));
    assert_eq!(ballot.pending_approvers(), ["ada"]);
    let nameless =
        ApprovalVotes::new(Approvers { required: 2, ..Approvers::default() }, Vec::new());
    assert_eq!(nameless.check_voter("  ").unwrap_err().code(), "not_an_approver");
}

#[test]
fn whoever_started_the_run_does_not_count_where_the_rule_says_so() {
    let mut ballot = ballot(1, &[], &["ada"]);
    for approves in [true, false] {
        let refused = ballot.cast("ADA", approves, at(1)).unwrap_err();
        assert_eq!(refused.code(), "own_approval");
        assert_eq!(
            refused.to_string(),
            "`ADA` requested the run and may not decide this: another approver must"
        );
    }
    ballot.approvers.exclude_requester = false;
    assert_eq!(ballot.cast("ada", true, at(2)), Ok(VoteResult::Approved));
}

#[test]
fn what_nobody_can_approve_is_known_at_once() {
    assert_eq!(ballot(2, &["ada", "bob"], &[]).unsatisfiable_reason(), None);
    assert_eq!(ballot(1, &["ada", "bob"], &["ada"]).unsatisfiable_reason(), None);
    assert_eq!(ballot(9, &[], &["ada"]).unsatisfiable_reason(), None, "anybody counts");
    let few = ballot(2, &["ada", "bob"], &["ada"]).unsatisfiable_reason().unwrap();
    assert!(few.contains("2 of `ada`, `bob`"), "{few}");
    let mut unknown = ballot(1, &[], &["ada"]);
    unknown.requesters.clear();
    assert!(unknown.unsatisfiable_reason().unwrap().contains("the requester is unknown"));
}

#[test]
fn enough_names_are_different_names_that_count() {
    let people = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let two =
        Approvers { required: 2, of: people(&["ada", "bob", "eve"]), exclude_requester: true };
    assert!(two.is_satisfied_by(&people(&["Ada", "bob"]), &[]));
    assert!(!two.is_satisfied_by(&people(&["ada", " ADA"]), &[]), "one person");
    assert!(!two.is_satisfied_by(&people(&["ada", "joe", ""]), &[]), "not named");
    assert!(!two.is_satisfied_by(&people(&["ada", "bob"]), &people(&["BOB"])), "excluded");
    assert!(two.is_satisfied_by(&people(&["ada", "bob", "eve"]), &people(&["bob"])));
    let anybody = Approvers { required: 1, ..Approvers::default() };
    assert!(anybody.is_default() && anybody.is_satisfied_by(&people(&["x"]), &[]));
    assert!(!anybody.is_satisfied_by(&[], &[]));
}
