//! Work is taken in once, and what was taken in is done.

use provost_core::RunId;
use serde_json::json;

use crate::harness::Harness;

fn keyed() -> String {
    json!({
        "message": [{"type": "text", "text": "do say done"}], "idempotency_key": "order-7",
    })
    .to_string()
}

#[tokio::test]
async fn g01_a_kill_after_the_commit_of_accept_leaves_one_task_and_the_retry_finds_it() {
    let harness = Harness::new().await;
    assert_eq!(harness.once(&["accept", &keyed()], "accept.committed=kill").await, None);
    assert_eq!(harness.rows("task").await, 1);
    let again = harness.once(&["accept", &keyed()], "").await.unwrap();
    assert_eq!(again["deduped"], true);
    assert_eq!((harness.rows("task").await, harness.rows("run").await), (1, 1));
    let run: RunId = again["accepted"]["run"].as_str().unwrap().parse().unwrap();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
}

#[tokio::test]
async fn g02_a_kill_before_the_commit_of_accept_leaves_nothing() {
    let harness = Harness::new().await;
    for place in ["accept.before=kill", "accept.before_commit=kill"] {
        assert_eq!(harness.once(&["accept", &keyed()], place).await, None);
        for table in
            ["task", "run", "run_event", "input", "message", "idem", "outbox", "session", "timer"]
        {
            assert_eq!(harness.rows(table).await, 0, "{place}: {table}");
        }
    }
    let accepted = harness.once(&["accept", &keyed()], "").await.unwrap();
    assert_eq!(accepted["deduped"], false);
}

#[tokio::test]
async fn g04_work_of_another_process_is_found_without_any_hint() {
    let harness = Harness::new().await;
    // Hints stay inside a process: what this test accepts, no worker hears of.
    let before = harness.say("do say before").await;
    let _worker = harness.worker_with(&["--poll-ms", "1000"], "").await;
    let meanwhile = harness.say("do say meanwhile").await;
    for (run, said) in [(before, "before"), (meanwhile, "meanwhile")] {
        assert_eq!(harness.answer(run).await, said);
        let row = harness.row(run).await;
        let waited = row.started.unwrap().as_millis() - row.created.as_millis();
        assert!(waited <= 2_000, "{said} waited {waited} ms");
    }
}
