//! Ending runs from outside: by people and by the clock.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::{Env, RunId};
use provost_engine::Cancelled;
use provost_testkit::EffectPath;
use rustix::process::{Pid, test_kill_process_group};

use crate::stage::{LONG, SHORT_LEASE, Stage, in_session};

async fn cancel(stage: &Stage, run: RunId) -> Cancelled {
    stage.engine.runs().cancel(&stage.namespace, run).await.unwrap()
}

async fn assert_cancelled(stage: &Stage, run: RunId) {
    let row = stage.wait(run).await;
    assert_eq!(
        (row.status.as_str(), row.outcome_code.as_deref()),
        ("cancelled", Some("cancelled_by_user"))
    );
    stage.assert_history(&[run]).await;
}

#[tokio::test]
async fn g36_a_queued_run_that_is_cancelled_never_starts() {
    let stage = Stage::new().await;
    let run = stage.say("do keyed:a; say done").await;
    assert_eq!(cancel(&stage, run).await, Cancelled::Now);
    assert_eq!(cancel(&stage, run).await, Cancelled::AlreadyTerminal);
    let other = stage.say("do say other").await;
    let _worker = stage.worker().await;
    assert_eq!(stage.answer(other).await, "other");
    assert_cancelled(&stage, run).await;
    assert_eq!((stage.attempts(run).await.len(), stage.provider.request_count()), (0, 1));
}

#[tokio::test]
async fn g36_cancelling_twice_is_cancelling_once() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Opaque);
    let run = stage.say("do opaque:a; say done").await;
    let _worker = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    assert_eq!(cancel(&stage, run).await, Cancelled::Requested);
    let again = cancel(&stage, run).await;
    assert!(matches!(again, Cancelled::Requested | Cancelled::AlreadyTerminal), "{again:?}");
    assert_cancelled(&stage, run).await;
    assert_eq!(stage.count(run, "cancel_requested").await, 1);
    assert_eq!(cancel(&stage, run).await, Cancelled::AlreadyTerminal);
}

#[tokio::test]
async fn g37_a_cancelled_run_of_a_dead_worker_ends_at_once() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Opaque);
    let run = stage.say("do opaque:a; say done").await;
    let worker = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    worker.kill().await.unwrap();
    assert_eq!(cancel(&stage, run).await, Cancelled::Requested);
    let _worker = stage.worker().await;
    assert_cancelled(&stage, run).await;
    assert_eq!(stage.attempts(run).await.len(), 1, "nobody took it up again");
}

#[tokio::test]
async fn g37_a_cancelled_run_of_a_silent_worker_ends_with_its_lease() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Opaque);
    let run = stage.say("do opaque:a; say done").await;
    let frozen = stage.worker_with(&SHORT_LEASE, "").await;
    stage.ledger.wait_for_calls(1).await;
    stage.freeze(&frozen).await;
    let until = stage.row(run).await.lease_until.unwrap();
    assert_eq!(cancel(&stage, run).await, Cancelled::Requested);
    let _worker = stage.worker_with(&SHORT_LEASE, "").await;
    assert_cancelled(&stage, run).await;
    let row = stage.row(run).await;
    assert!(row.ended.unwrap() >= until, "not before the end of the lease");
    assert_eq!(stage.attempts(run).await.len(), 1);
    frozen.thaw().unwrap();
    frozen.terminate().unwrap();
    frozen.wait_for_line("stopped", LONG).await.unwrap();
    assert_eq!(stage.row(run).await, row);
    stage.assert_history(&[run]).await;
}

#[tokio::test]
async fn g38_cancelling_ends_the_tool_and_every_process_it_started() {
    let stage = Stage::new().await;
    let run = stage.say("do process:p; say done").await;
    let _worker = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    let key = stage.ledger.log()[0].key.clone();
    let id: i32 = key.strip_prefix("p=").unwrap().parse().unwrap();
    let group = Pid::from_raw(id).unwrap();
    assert!(test_kill_process_group(group).is_ok(), "it runs");
    let cancelled = stage.once(&["cancel", &run.to_string()], "").await.unwrap();
    assert_eq!(cancelled["cancelled"], "Requested");
    assert_cancelled(&stage, run).await;
    let gone = async {
        while test_kill_process_group(group).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("no process is left");
}

#[tokio::test]
async fn g39_a_cancel_that_was_stored_needs_nobody_to_tell() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Opaque);
    let run = stage.say("do opaque:a; say done").await;
    let _worker = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    assert_eq!(stage.once(&["cancel", &run.to_string()], "cancel.committed=kill").await, None);
    assert_cancelled(&stage, run).await;
    stage.ledger_holds(0).await;
    assert_eq!(stage.ledger.calls("a"), 1);
}

#[tokio::test]
async fn g39_a_cancel_killed_before_its_commit_is_none() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Opaque);
    let run = stage.say("do opaque:a; say done").await;
    let _worker = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    assert_eq!(stage.once(&["cancel", &run.to_string()], "cancel.before=kill").await, None);
    stage.ledger.release();
    assert_eq!(stage.answer(run).await, "done");
}

#[tokio::test]
async fn g40_a_deadline_ends_what_is_queued_or_parked_after_restarts_too() {
    let stage = Stage::new().await;
    let deadline = Some(Env::system().now().after(Duration::from_secs(2)));
    let timed = |session: &str, text: &str| TaskRequest {
        deadline,
        new_task: true,
        ..in_session(session, text)
    };
    stage.ledger.hold(EffectPath::Keyed);
    // The first holds its session, so the second is queued; the third waits for a person.
    let holder = stage.accept(in_session("a", "do keyed:a; say done")).await.run;
    let queued = stage.accept(timed("a", "do provable:b; say done")).await.run;
    let parked = stage.accept(timed("b", "do ask:c; say done")).await.run;
    let worker = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    stage.until(parked, |row| row.phase == "parked").await;
    worker.kill().await.unwrap();
    let _worker = stage.worker().await;
    for run in [queued, parked] {
        let row = stage.wait(run).await;
        assert_eq!(
            (row.status.as_str(), row.outcome_code.as_deref()),
            ("timeout", Some("deadline"))
        );
        let late = row.ended.unwrap().as_millis() - row.deadline.unwrap().as_millis();
        assert!((0..=1_000).contains(&late), "{late} ms late");
    }
    stage.assert_history(&[queued, parked]).await;
    stage.ledger.release();
    stage.wait(holder).await;
    assert_eq!((stage.ledger.calls("b"), stage.ledger.calls("c")), (0, 0));
}

#[tokio::test]
async fn g40_a_deadline_that_passed_while_nobody_was_there_is_found_at_the_start() {
    let stage = Stage::new().await;
    let deadline = Some(Env::system().now().after(Duration::from_secs(60)));
    let command = TaskRequest { deadline, ..TaskRequest::text("do keyed:a; say done") };
    let run = stage.accept(command).await.run;
    let _worker = stage.worker_with(&["--database-clock-ms", "61000"], "").await;
    let row = stage.wait(run).await;
    assert_eq!((row.status.as_str(), row.outcome_code.as_deref()), ("timeout", Some("deadline")));
    assert_eq!((stage.ledger.calls("a"), row.claim_count), (0, 0), "it never started");
}
