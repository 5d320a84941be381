//! A database that does not take anything: nothing happens that is not written down.

use std::fs;

use crate::harness::{Harness, LONG, SHORT_LEASE};

#[tokio::test]
async fn g56_no_effect_happens_that_could_not_be_written_down_first() {
    for (place, requests) in [("tool.before_begin", 1), ("model.before_begin", 0)] {
        let harness = Harness::new().await;
        let (full, gate) = (harness.gate("full"), harness.gate("gate"));
        let options = [&SHORT_LEASE[..], &["--full-while", full.to_str().unwrap()]].concat();
        let run = harness.say("do opaque:a; say done").await;
        let pause = format!("{place}=pause:{}", gate.display());
        let worker = harness.worker_with(&options, &pause).await;
        worker
            .wait_for_line(if requests == 1 { "turn_finished" } else { "user_message" }, LONG)
            .await
            .unwrap();
        fs::write(&full, "").unwrap();
        fs::write(&gate, "").unwrap();
        worker.wait_for_line("could not be settled", LONG).await.unwrap();
        assert_eq!(
            (harness.effect_server.call_count(), harness.provider.request_count()),
            (0, requests),
            "{place}"
        );
        fs::remove_file(&full).unwrap();
        assert_eq!(harness.answer(run).await, "done", "{place}: {worker:?}");
        assert_eq!(
            (harness.effect_server.calls("a"), harness.provider.request_count()),
            (1, 2),
            "{place}"
        );
    }
}

#[tokio::test]
async fn g56_what_was_acknowledged_outlives_a_full_disk() {
    let harness = Harness::new().await;
    let full = harness.gate("full");
    let options = ["--full-while", full.to_str().unwrap()];
    let run = harness.say("do keyed:a; say done").await;
    fs::write(&full, "").unwrap();
    let command =
        serde_json::json!({"message": [{"type": "text", "text": "do say other"}]}).to_string();
    let refused = [&options[..], &["accept", &command]].concat();
    let node = provost_testkit::Process::start(harness.node(&refused, "")).unwrap();
    assert!(!node.wait(LONG).await.unwrap().success(), "{node:?}");
    node.wait_for_line("no room left", LONG).await.unwrap();
    assert_eq!(harness.rows("task").await, 1, "what was refused is not there");
    fs::remove_file(&full).unwrap();
    let _worker = harness.worker_with(&options, "").await;
    assert_eq!(harness.answer(run).await, "done");
}
