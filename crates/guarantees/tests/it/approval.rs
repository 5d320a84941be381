//! Waiting for people: through the end of every process, and through days.

use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;

use crate::harness::{Harness, in_session};

/// Three days, in milliseconds.
const LATER: &str = "259200000";

#[tokio::test]
async fn g31_a_question_outlives_every_process_and_three_days() {
    let harness = Harness::new().await;
    // Neither the run nor the question has a time that is over by then.
    let command = TaskRequest { timeout_ms: Some(0), ..in_session("s", "do ask:a; say done") };
    let run = harness.accept(command).await.run;
    let worker = harness.worker_with(&["--approval-expiry-ms", "604800000"], "").await;
    harness.until(run, |row| row.phase == RunPhase::Parked).await;
    worker.kill().await.unwrap();
    let row = harness.row(run).await;
    assert_eq!((row.lease_owner, row.lease_until), (None, None), "nobody waits with it");
    assert_eq!(harness.one("SELECT SUM(running) FROM exec_class").await, 0, "no slot is held");
    let question = harness.question(run).await;
    let later = ["--database-clock-ms", LATER];
    let worker = harness.worker_with(&later, "").await;
    let answer = ["--database-clock-ms", LATER, "answer", &question, "approve"];
    let answered = harness.once(&answer, "").await.unwrap();
    assert_eq!(answered["counted"], true, "{answered}");
    assert_eq!(harness.answer(run).await, "done", "{worker:?}");
    assert_eq!((harness.effect_server.calls("a"), harness.provider.request_count()), (1, 2));
    assert_eq!(harness.attempts(run).await.len(), 2);
    let again = harness.once(&answer, "").await.unwrap();
    assert_eq!(again["counted"], false, "the first answer counts");
}

#[tokio::test]
async fn g31_a_kill_around_the_parking_asks_once() {
    // The answer that asks for the call is stored together with the parking: killed before that, it may have to be asked for
    // once more.
    for (place, requests_max) in [("attempt.before_settle", 3), ("attempt.settled", 2)] {
        let harness = Harness::new().await;
        let run = harness.accept(in_session("s", "do ask:a; say done")).await.run;
        harness.worker_dies_at(place).await;
        let _worker = harness.worker().await;
        harness.until(run, |row| row.phase == RunPhase::Parked).await;
        let question = harness.question(run).await;
        harness.once(&["answer", &question, "approve"], "").await.unwrap();
        assert_eq!(harness.answer(run).await, "done", "{place}");
        assert!((2..=requests_max).contains(&harness.provider.request_count()), "{place}");
        assert_eq!(
            (harness.effect_server.calls("a"), harness.rows("approval").await),
            (1, 1),
            "{place}"
        );
    }
}
