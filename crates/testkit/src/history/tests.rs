//! Histories that hold, and each way in which one can break.

use super::*;

/// Returns a run written as `seq/epoch/kind` words.
fn run(name: &str, failure_texts: &str) -> Vec<Record> {
    let record = |(at, word): (i64, &str)| {
        let mut parts = word.split('/');
        let mut number = || parts.next().unwrap().parse().unwrap();
        let (seq, epoch) = (number(), number());
        Record { run: name.to_owned(), seq, epoch, kind: parts.next().unwrap().to_owned(), at }
    };
    (0..).zip(failure_texts.split_whitespace()).map(record).collect()
}

fn is_terminal(kind: &str) -> bool {
    matches!(kind, "done" | "failed")
}

fn sentences(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn expect(failure_texts: &str, wanted: &[&str]) {
    assert_eq!(sentences(&check(&run("r", failure_texts), is_terminal)), wanted, "{failure_texts}");
}

#[test]
fn a_good_history_holds() {
    expect("", &[]);
    expect("1/1/done", &[]);
    expect("1/1/start 2/1/step 3/2/step 4/4/failed", &[]);
    let mixed = run("a", "1/1/start 2/1/done").into_iter().zip(run("b", "1/7/start 2/7/failed"));
    let mixed: Vec<_> = mixed.flat_map(|(a, b)| [a, b]).collect();
    assert_holds(&check(&mixed, is_terminal));
}

#[test]
fn numbers_have_no_gap_and_no_repeat() {
    expect("0/1/done", &["run r: event 0 came after a higher one"]);
    expect("2/1/done", &["run r: event 2 follows where 1 was due"]);
    expect("1/1/a 4/1/b 5/1/done", &["run r: event 4 follows where 2 was due"]);
    expect("1/1/a 1/1/a 2/1/done", &["run r: event 1 came twice"]);
    expect(
        "1/1/a 3/1/done 2/1/b",
        &["run r: event 3 follows where 2 was due", "run r: event 2 came after a higher one"],
    );
}

#[test]
fn epochs_never_go_down() {
    expect("1/1/a 2/2/b 3/1/c 4/2/done", &["run r: event 3 has epoch 1 after one of epoch 2"]);
    let twice = [
        "run r: event 2 has epoch 1 after one of epoch 3",
        "run r: event 3 has epoch 2 after one of epoch 3",
    ];
    expect("1/3/a 2/1/b 3/2/done", &twice);
}

#[test]
fn there_is_one_end_and_it_is_the_last() {
    expect("1/1/a 2/1/b", &["run r: no end, the last event is b"]);
    expect("1/1/done 2/1/b", &["run r: event 2 (b) came after the end at 1"]);
    expect("1/1/a 2/1/done 3/1/failed", &["run r: event 3 (failed) came after the end at 2"]);
    let both = [run("a", "1/1/done"), run("b", "1/1/x")].concat();
    assert_eq!(sentences(&endings(&both, is_terminal)), ["run b: no end, the last event is x"]);
}

#[test]
fn a_run_without_events_is_lost() {
    let records = run("a", "1/1/done");
    assert_eq!(lost(&records, ["a"]), []);
    assert_eq!(lost(&records, ["a", "b"]), [Violation::Lost { run: "b".to_owned() }]);
}

fn lease(session: &str, run: &str, epoch: u64, from: i64, until: impl Into<Option<i64>>) -> Lease {
    Lease { session: session.to_owned(), run: run.to_owned(), epoch, from, until: until.into() }
}

#[test]
fn leases_of_one_session_follow_each_other() {
    let good = [
        lease("s", "b", 1, 10, 20),
        lease("s", "a", 1, 0, 10),
        lease("s", "b", 2, 20, None),
        lease("t", "c", 1, 5, None),
        lease("s", "d", 1, 7, 7),
    ];
    assert_holds(&leases(&good));
}

#[test]
fn two_owners_at_one_instant_are_found() {
    let first = lease("s", "a", 1, 0, 10);
    for second in [
        lease("s", "b", 1, 9, 10),
        lease("s", "b", 1, 3, 4),
        lease("s", "a", 2, 9, None),
        lease("s", "b", 1, 0, 30),
    ] {
        let found = leases(&[second.clone(), first.clone()]);
        assert_eq!(found.len(), 1, "{second}");
        assert!(matches!(&found[0], Violation::TwoOwners { .. }), "{second}");
    }
    let open = lease("s", "a", 1, 0, None);
    let found = leases(&[open, lease("s", "b", 3, 100, 101)]);
    let wanted = "session s: run b epoch 3 from 100 until 101 although run a epoch 1 from 0 on";
    assert_eq!(sentences(&found), [wanted]);
}

#[test]
fn a_long_lease_is_held_against_all_that_follow() {
    let found =
        leases(&[lease("s", "a", 1, 0, 100), lease("s", "b", 1, 1, 2), lease("s", "c", 1, 50, 60)]);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_lease_that_ends_before_it_begins_is_found() {
    let found = leases(&[lease("s", "a", 1, 5, 4)]);
    let wanted = "session s: run a epoch 1 from 5 until 4 ends before it begins";
    assert_eq!(sentences(&found), [wanted]);
}

#[test]
#[should_panic(expected = "the history has 1 violations:\nrun r: event 2 follows where 1 was due")]
fn violations_fail_a_test() {
    assert_holds(&sequences(&run("r", "2/1/done")));
}
