//! The task table of the specification, and the rule of settlement.

use super::*;
use crate::Env;
use crate::lifecycle::tests::{check_machine, reachable};

use TaskState as S;
use TaskTransition as E;

/// From, event, to: every row of the table, and what the guarantees add to it.
const TABLE: &[(S, E, S)] = &[
    (S::Queued, E::Dispatched, S::Running),
    (S::Sleeping, E::Dispatched, S::Running),
    (S::Running, E::Dispatched, S::Running),
    (S::Queued, E::Dropped, S::Dropped),
    (S::Running, E::Dropped, S::Dropped),
    (S::Running, E::WaitingForInput, S::Waiting),
    (S::Waiting, E::WaitingForInput, S::Waiting),
    (S::Running, E::Delayed, S::Sleeping),
    (S::Running, E::Finished, S::Done),
    (S::Waiting, E::Finished, S::Done),
    (S::Queued, E::Failed, S::Error),
    (S::Sleeping, E::Failed, S::Error),
    (S::Running, E::Failed, S::Error),
    (S::Waiting, E::Failed, S::Error),
    (S::Waiting, E::InputDelivered, S::Running),
    (S::Running, E::InputDelivered, S::Running),
    (S::Queued, E::Requeued, S::Queued),
    (S::Running, E::Requeued, S::Queued),
    (S::Waiting, E::Requeued, S::Queued),
    (S::Sleeping, E::Requeued, S::Queued),
    (S::Queued, E::Cancelled, S::Cancelled),
    (S::Running, E::Cancelled, S::Cancelled),
    (S::Waiting, E::Cancelled, S::Cancelled),
    (S::Sleeping, E::Cancelled, S::Cancelled),
    (S::Done, E::Reopened, S::Queued),
    (S::Error, E::Reopened, S::Queued),
    (S::Dropped, E::Reopened, S::Queued),
    (S::Cancelled, E::Reopened, S::Queued),
    (S::Error, E::Retried, S::Queued),
    (S::Dropped, E::Retried, S::Queued),
];

#[test]
fn the_table_is_all_there_is() {
    for &from in S::ALL {
        for &event in E::ALL {
            let row = TABLE.iter().find(|(state, of, _)| (*state, *of) == (from, event));
            assert_eq!(from.apply(event).ok(), row.map(|row| row.2), "{from} {event}");
        }
    }
}

#[test]
fn an_end_is_left_only_by_a_new_message_or_a_retry() {
    let within: Vec<E> =
        E::ALL.iter().copied().filter(|event| !matches!(event, E::Reopened | E::Retried)).collect();
    check_machine(S::ALL, &within, S::apply, S::is_terminal);
}

#[test]
fn every_state_can_be_reached_from_an_accepted_task() {
    for delayed in [false, true] {
        assert_eq!(reachable(S::accepted(delayed), E::ALL, S::apply).len(), S::ALL.len());
    }
}

#[test]
fn archiving_is_for_what_ended_or_waits() {
    let allowed: Vec<_> = S::ALL.iter().filter(|state| state.can_archive()).collect();
    assert_eq!(allowed, [&S::Waiting, &S::Done, &S::Error, &S::Dropped, &S::Cancelled]);
}

fn ended(id: RunId, status: RunStatus) -> FinishedRun {
    FinishedRun { id, status }
}

#[test]
fn a_run_maps_to_its_task_as_the_spec_says() {
    let run: RunId = Env::simulated(1).id();
    for (status, state) in [
        (RunStatus::Ok, S::Done),
        (RunStatus::Cancelled, S::Cancelled),
        (RunStatus::Error, S::Error),
        (RunStatus::Timeout, S::Error),
    ] {
        assert_eq!(task_state_after_run(S::Running, Some(run), ended(run, status)), Some(state));
    }
    for status in [RunStatus::Accepted, RunStatus::Running] {
        assert_eq!(task_state_after_run(S::Running, Some(run), ended(run, status)), None);
    }
}

#[test]
fn settlement_ignores_an_older_run_and_a_repeat() {
    let env = Env::simulated(2);
    let (old, new): (RunId, RunId) = (env.id(), env.id());
    let late = ended(old, RunStatus::Error);
    assert_eq!(
        task_state_after_run(S::Running, Some(new), late),
        None,
        "another run answers for the task now"
    );
    assert_eq!(task_state_after_run(S::Running, None, late), None);
    let end = ended(new, RunStatus::Ok);
    let state = task_state_after_run(S::Running, Some(new), end).unwrap();
    assert_eq!(state, S::Done);
    for status in RunStatus::ALL {
        assert_eq!(task_state_after_run(state, Some(new), ended(new, *status)), None);
    }
}

#[test]
fn g05_a_shortage_of_capacity_leaves_a_task_queued_and_is_no_drop_reason() {
    for event in E::ALL {
        for word in ["capacity", "exhausted", "busy", "full"] {
            assert!(!event.as_str().contains(word), "{event}");
        }
    }
    let dropped =
        |from: S| E::ALL.iter().filter(move |event| from.apply(**event) == Ok(S::Dropped));
    for &from in S::ALL {
        assert!(dropped(from).all(|event| *event == E::Dropped), "{from}");
    }
}
