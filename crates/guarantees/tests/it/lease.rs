//! Who may write: exactly one, and nobody who was away too long.

use std::fs;

use futures::future::join_all;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_store::params;
use provost_testkit::{EffectKind, history};

use crate::harness::{Harness, LONG, SHORT_LEASE, in_session, text};

#[tokio::test]
async fn g06_a_kill_after_the_claim_is_found_and_the_run_claimed_again() {
    for place in ["claim.committed", "attempt.claimed"] {
        let harness = Harness::new().await;
        let run = harness.say("do keyed:a; say done").await;
        harness.worker_dies_at(place).await;
        let row = harness.row(run).await;
        assert_eq!((row.phase.as_str(), row.epoch, row.claim_count), ("leased", 1, 1), "{place}");
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done");
        let row = harness.row(run).await;
        assert_eq!((row.epoch, row.claim_count), (2, 2), "{place}");
        let attempts = harness.attempts(run).await;
        assert_eq!(
            attempts[0].outcome_code.map(OutcomeCode::as_str),
            Some("worker_lost"),
            "{place}"
        );
        assert_eq!(harness.effect_server.calls("a"), 1);
    }
}

#[tokio::test]
async fn g06_a_worker_that_cannot_be_proven_dead_loses_its_claim_when_the_lease_ends() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; say done").await;
    let (_frozen, _gate) = harness.worker_frozen_at("attempt.claimed").await;
    let until = harness.row(run).await.lease_until.unwrap();
    let _worker = harness.worker_with(&SHORT_LEASE, "").await;
    assert_eq!(harness.answer(run).await, "done");
    let attempts = harness.attempts(run).await;
    assert_eq!(attempts.len(), 2);
    assert!(attempts[1].started >= until, "not before the end of the lease");
}

/// Freezes a worker at a place, lets another finish, thaws the first: it must not leave a trace.
async fn outlived(place: &str) {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; say done").await;
    let (frozen, gate) = harness.worker_frozen_at(place).await;
    let _worker = harness.worker_with(&SHORT_LEASE, "").await;
    assert_eq!(harness.answer(run).await, "done", "{place}");
    let (events, steps) = (harness.events(run).await, harness.steps(run).await);
    let (row, calls) = (harness.row(run).await, harness.effect_server.calls("a"));
    fs::write(gate, "").unwrap();
    frozen.thaw().unwrap();
    // It ends only after everything that it had under way has come to an end.
    frozen.terminate().unwrap();
    frozen.wait_for_line("stopped", LONG).await.unwrap();
    assert_eq!(harness.events(run).await, events, "{place}: an event of the old epoch");
    assert_eq!(harness.steps(run).await, steps, "{place}: a step of the old epoch");
    assert_eq!(harness.row(run).await, row, "{place}");
    assert_eq!(harness.effect_server.calls("a"), calls, "{place}: a call without a record");
    assert_eq!(harness.effect_server.effects("a"), 1, "{place}");
    harness.assert_history(&[run]).await;
}

#[tokio::test]
async fn g07_a_worker_that_was_frozen_past_its_lease_writes_nothing_more() {
    let places = [
        "attempt.claimed",
        "model.before_begin",
        "model.answered",
        "tool.before_begin",
        "tool.finished",
        "attempt.before_settle",
    ];
    join_all(places.map(outlived)).await;
}

#[tokio::test]
async fn g08_a_session_has_one_writer_however_many_workers_there_are() {
    let harness = Harness::new().await;
    let mut runs = Vec::new();
    for n in 0..12 {
        let plan = format!("do keyed:k{n}; pure:p{n}; say {n}");
        let command = in_session(&format!("session-{}", n % 3), &plan);
        let command = TaskRequest { new_task: n % 2 == 0, ..command };
        runs.push(harness.accept(command).await.run);
    }
    let _workers = join_all((0..3).map(|_| harness.worker())).await;
    runs.sort();
    runs.dedup();
    for run in &runs {
        harness.wait(*run).await;
    }
    // Messages that came while a run was at work are answered by runs of their own.
    let mut runs: Vec<_> = harness.all_runs().await;
    runs.sort_by_key(|run| run.id);
    let mut leases = Vec::new();
    for run in &runs {
        let row = harness.wait(run.id).await;
        assert_eq!(row.status, RunStatus::Ok);
        for attempt in harness.attempts(run.id).await {
            leases.push(history::Lease {
                session: run.session_id.clone(),
                run: run.id.to_string(),
                epoch: attempt.epoch,
                from: attempt.started.as_millis(),
                until: attempt.ended.map(|ended| ended.as_millis()),
            });
        }
    }
    history::assert_holds(&history::leases(&leases));
    let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
    harness.assert_history(&ids).await;
    for n in 0..12 {
        assert_eq!(harness.effect_server.calls(&format!("k{n}")), 1);
    }
}

#[tokio::test]
async fn g10_a_wrong_clock_of_a_worker_ends_no_lease_early() {
    for (owner, other) in
        [("--clock-ms=-300000", "--clock-ms=300000"), ("--clock-ms=300000", "--clock-ms=-300000")]
    {
        let harness = Harness::new().await;
        let run = harness.say("do opaque:a; say done").await;
        harness.effect_server.pause_responses(EffectKind::Opaque);
        let _owner = harness.worker_with(&[owner, "--lease-ms", "5000"], "").await;
        harness.effect_server.wait_for_calls(1).await;
        let _other = harness.worker_with(&[other, "--lease-ms", "5000"], "").await;
        // The other one looks after lost leases as soon as it starts, and then works.
        let second = harness.say("do pure:b; pure:b; pure:b; say second").await;
        assert_eq!(harness.answer(second).await, "second");
        let row = harness.row(run).await;
        let left =
            row.lease_until.unwrap().as_millis() - provost_core::Env::system().now().as_millis();
        assert!((0..=5000).contains(&left), "{left} ms by the clock of the database");
        assert_eq!((row.epoch, row.phase.as_str()), (1, "leased"));
        harness.effect_server.resume_responses();
        assert_eq!(harness.answer(run).await, "done");
        assert_eq!(harness.attempts(run).await.len(), 1);
    }
}

#[tokio::test]
async fn g11_a_worker_that_loses_a_lease_stops_the_tool_and_starts_nothing_more() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; keyed:b; say done").await;
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let loser = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    // Somebody else has the run from now on.
    let taken = harness.engine.store().write(move |tx| {
        tx.execute(
            "UPDATE run SET epoch = epoch + 1, lease_owner = NULL WHERE id = ?1",
            params![run],
        )
    });
    taken.await.unwrap();
    let events = harness.events(run).await;
    // Its next heartbeat tells it, and it drops the call.
    harness.effect_server_pauses(0).await;
    harness.effect_server.resume_responses();
    loser.terminate().unwrap();
    loser.wait_for_line("stopped", LONG).await.unwrap();
    assert_eq!(harness.events(run).await, events);
    assert_eq!((harness.effect_server.calls("a"), harness.effect_server.calls("b")), (1, 0));
    assert_eq!(harness.provider.request_count(), 1);
}

#[tokio::test]
async fn g12_a_run_that_kills_its_worker_again_and_again_is_stopped() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; say done").await;
    for _ in 0..5 {
        harness.worker_dies_at("attempt.claimed").await;
    }
    let _worker = harness.worker().await;
    let row = harness.wait(run).await;
    assert_eq!(
        (row.status.as_str(), row.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("crash_loop"))
    );
    assert_eq!((row.claim_count, harness.effect_server.calls("a")), (5, 0));
    harness.assert_history(&[run]).await;
}

#[tokio::test]
async fn g12_progress_resets_the_count_of_crashes() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; keyed:b; say done").await;
    for (turn, crashes) in [(1, 4), (2, 3)] {
        for _ in 0..crashes {
            harness.worker_dies_at("attempt.claimed").await;
        }
        // A step further, and dead again: the first crash of the next five.
        harness.worker_dies_with(&[], "model.begun=kill@2").await;
        assert_eq!(harness.row(run).await.crash_count, 0, "turn {turn}");
    }
    let _worker = harness.worker().await;
    let row = harness.wait(run).await;
    assert_eq!((row.status.as_str(), text(&row).as_str()), ("ok", "done"));
    assert_eq!(row.claim_count, 10);
}
