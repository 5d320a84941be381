//! Ending runs from outside: by people and by the clock.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;
use provost_core::recovery::OutcomeCode;
use provost_core::{Env, RunId};
use provost_engine::CancelResult;
use provost_testkit::EffectKind;
use rustix::process::{Pid, test_kill_process_group};

use crate::harness::{Harness, LONG, SHORT_LEASE, in_session};

async fn cancel(harness: &Harness, run: RunId) -> CancelResult {
    harness.engine.runs().cancel(&harness.namespace, run).await.unwrap()
}

async fn assert_cancelled(harness: &Harness, run: RunId) {
    let row = harness.wait(run).await;
    assert_eq!(
        (row.status.as_str(), row.outcome_code.map(OutcomeCode::as_str)),
        ("cancelled", Some("cancelled_by_user"))
    );
    harness.assert_history(&[run]).await;
}

#[tokio::test]
async fn g36_a_queued_run_that_is_cancelled_never_starts() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; say done").await;
    assert_eq!(cancel(&harness, run).await, CancelResult::Ended);
    assert_eq!(cancel(&harness, run).await, CancelResult::AlreadyEnded);
    let other = harness.say("do say other").await;
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(other).await, "other");
    assert_cancelled(&harness, run).await;
    assert_eq!((harness.attempts(run).await.len(), harness.provider.request_count()), (0, 1));
}

#[tokio::test]
async fn g36_cancelling_twice_is_cancelling_once() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let run = harness.say("do opaque:a; say done").await;
    let _worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    assert_eq!(cancel(&harness, run).await, CancelResult::Requested);
    let again = cancel(&harness, run).await;
    assert!(matches!(again, CancelResult::Requested | CancelResult::AlreadyEnded), "{again:?}");
    assert_cancelled(&harness, run).await;
    assert_eq!(harness.count(run, "cancel_requested").await, 1);
    assert_eq!(cancel(&harness, run).await, CancelResult::AlreadyEnded);
}

#[tokio::test]
async fn g37_a_cancelled_run_of_a_dead_worker_ends_at_once() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let run = harness.say("do opaque:a; say done").await;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    worker.kill().await.unwrap();
    assert_eq!(cancel(&harness, run).await, CancelResult::Requested);
    let _worker = harness.worker().await;
    assert_cancelled(&harness, run).await;
    assert_eq!(harness.attempts(run).await.len(), 1, "nobody took it up again");
}

#[tokio::test]
async fn g37_a_cancelled_run_of_a_silent_worker_ends_with_its_lease() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let run = harness.say("do opaque:a; say done").await;
    let frozen = harness.worker_with(&SHORT_LEASE, "").await;
    harness.effect_server.wait_for_calls(1).await;
    harness.freeze(&frozen).await;
    let until = harness.row(run).await.lease_until.unwrap();
    assert_eq!(cancel(&harness, run).await, CancelResult::Requested);
    let _worker = harness.worker_with(&SHORT_LEASE, "").await;
    assert_cancelled(&harness, run).await;
    let row = harness.row(run).await;
    assert!(row.ended.unwrap() >= until, "not before the end of the lease");
    assert_eq!(harness.attempts(run).await.len(), 1);
    frozen.thaw().unwrap();
    frozen.terminate().unwrap();
    frozen.wait_for_line("stopped", LONG).await.unwrap();
    assert_eq!(harness.row(run).await, row);
    harness.assert_history(&[run]).await;
}

#[tokio::test]
async fn g38_cancelling_ends_the_tool_and_every_process_it_started() {
    let harness = Harness::new().await;
    let run = harness.say("do process:p; say done").await;
    let _worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    let key = harness.effect_server.log()[0].key.clone();
    let id: i32 = key.strip_prefix("p=").unwrap().parse().unwrap();
    let group = Pid::from_raw(id).unwrap();
    assert!(test_kill_process_group(group).is_ok(), "it runs");
    let cancelled = harness.once(&["cancel", &run.to_string()], "").await.unwrap();
    assert_eq!(cancelled["cancelled"], "Requested");
    assert_cancelled(&harness, run).await;
    let gone = async {
        while test_kill_process_group(group).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("no process is left");
}

#[tokio::test]
async fn g39_a_cancel_that_was_stored_needs_nobody_to_tell() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let run = harness.say("do opaque:a; say done").await;
    let _worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    assert_eq!(harness.once(&["cancel", &run.to_string()], "cancel.committed=kill").await, None);
    assert_cancelled(&harness, run).await;
    harness.effect_server_pauses(0).await;
    assert_eq!(harness.effect_server.calls("a"), 1);
}

#[tokio::test]
async fn g39_a_cancel_killed_before_its_commit_is_none() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let run = harness.say("do opaque:a; say done").await;
    let _worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    assert_eq!(harness.once(&["cancel", &run.to_string()], "cancel.before=kill").await, None);
    harness.effect_server.resume_responses();
    assert_eq!(harness.answer(run).await, "done");
}

#[tokio::test]
async fn g40_a_deadline_ends_what_is_queued_or_parked_after_restarts_too() {
    let harness = Harness::new().await;
    let deadline = Some(Env::system().now().after(Duration::from_secs(2)));
    let timed = |session: &str, text: &str| TaskRequest {
        deadline,
        new_task: true,
        ..in_session(session, text)
    };
    harness.effect_server.pause_responses(EffectKind::Keyed);
    // The first holds its session, so the second is queued; the third waits for a person.
    let holder = harness.accept(in_session("a", "do keyed:a; say done")).await.run;
    let queued = harness.accept(timed("a", "do provable:b; say done")).await.run;
    let parked = harness.accept(timed("b", "do ask:c; say done")).await.run;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    harness.until(parked, |row| row.phase == RunPhase::Parked).await;
    worker.kill().await.unwrap();
    let _worker = harness.worker().await;
    for run in [queued, parked] {
        let row = harness.wait(run).await;
        assert_eq!(
            (row.status.as_str(), row.outcome_code.map(OutcomeCode::as_str)),
            ("timeout", Some("deadline"))
        );
        let late = row.ended.unwrap().as_millis() - row.deadline.unwrap().as_millis();
        assert!((0..=1_000).contains(&late), "{late} ms late");
    }
    harness.assert_history(&[queued, parked]).await;
    harness.effect_server.resume_responses();
    harness.wait(holder).await;
    assert_eq!((harness.effect_server.calls("b"), harness.effect_server.calls("c")), (0, 0));
}

#[tokio::test]
async fn g40_a_deadline_that_passed_while_nobody_was_there_is_found_at_the_start() {
    let harness = Harness::new().await;
    let deadline = Some(Env::system().now().after(Duration::from_secs(60)));
    let command = TaskRequest { deadline, ..TaskRequest::text("do keyed:a; say done") };
    let run = harness.accept(command).await.run;
    let _worker = harness.worker_with(&["--database-clock-ms", "61000"], "").await;
    let row = harness.wait(run).await;
    assert_eq!(
        (row.status.as_str(), row.outcome_code.map(OutcomeCode::as_str)),
        ("timeout", Some("deadline"))
    );
    assert_eq!((harness.effect_server.calls("a"), row.claim_count), (0, 0), "it never started");
}
