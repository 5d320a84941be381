//! What can be read of a run: numbered without gaps, one end, the same for everybody.

use futures::future::join_all;
use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;
use provost_engine::CancelResult;

use crate::harness::{Harness, LONG, in_session};

#[tokio::test]
async fn g43_events_are_numbered_in_the_order_of_their_commits_whoever_wrote_them() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a, pure:b; provable:c; say done").await;
    let places = [
        "attempt.claimed",
        "model.begun",
        "tool.finished",
        "model.answered@2",
        "attempt.before_settle",
    ];
    let mut seen = Vec::new();
    for place in places {
        let (place, hit) = place.split_once('@').unwrap_or((place, "1"));
        harness.worker_dies_with(&[], &format!("{place}=kill@{hit}")).await;
        let events = harness.events(run).await;
        assert_eq!(events[..seen.len()], seen[..], "{place}: what was read is not changed");
        assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at), "{place}");
        seen = events;
    }
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!(harness.events(run).await[..seen.len()], seen[..]);
    assert_eq!(harness.row(run).await.next_seq, harness.events(run).await.len() as u64 + 1);
}

#[tokio::test]
async fn g46_everybody_who_waits_gets_the_same_end() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; say done").await;
    let waiting = join_all((0..8).map(|_| harness.wait(run)));
    let working = async {
        harness.worker_dies_at("tool.finished").await;
        harness.worker().await
    };
    let (rows, _worker) = tokio::join!(waiting, working);
    assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
    assert_eq!(harness.wait(run).await, rows[0], "and whoever comes later");
    harness.assert_history(&[run]).await;
}

#[tokio::test]
async fn g46_a_kill_around_the_end_leaves_one_end() {
    // The last answer is stored together with the end: killed before that, it may have to be asked for once more.
    for (place, requests_max) in [("attempt.before_settle", 3), ("attempt.settled", 2)] {
        let harness = Harness::new().await;
        let run = harness.say("do keyed:a; say done").await;
        harness.worker_dies_at(place).await;
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done", "{place}");
        assert!((2..=requests_max).contains(&harness.provider.request_count()), "{place}");
        assert_eq!(harness.effect_server.calls("a"), 1, "{place}");
        harness.assert_history(&[run]).await;
    }
}

#[tokio::test]
async fn g47_an_end_is_never_changed() {
    let harness = Harness::new().await;
    let worker = harness.worker().await;
    let run = harness.accept(in_session("s", "do ask:a; say done")).await.run;
    harness.until(run, |row| row.phase == RunPhase::Parked).await;
    let question = harness.question(run).await;
    assert_eq!(
        harness.engine.runs().cancel(&harness.namespace, run).await.unwrap(),
        CancelResult::Ended
    );
    let row = harness.wait(run).await;
    let events = harness.events(run).await;

    let id = question.parse().unwrap();
    let answered = harness
        .engine
        .approvals()
        .answer(&harness.namespace, id, ApprovalDecision::Approve, "late")
        .await;
    assert!(answered.map_or(true, |answered| !answered.is_recorded), "the answer comes too late");
    let again = harness.engine.runs().cancel(&harness.namespace, run).await.unwrap();
    assert_eq!(again, CancelResult::AlreadyEnded);
    let next = harness.accept(TaskRequest { ..in_session("s", "do say next") }).await;
    assert_ne!(next.run, run, "what is said later is another run");
    assert_eq!(harness.answer(next.run).await, "next");
    worker.terminate().unwrap();
    worker.wait_for_line("stopped", LONG).await.unwrap();
    let _worker = harness.worker().await;
    let last = harness.say("do say last").await;
    assert_eq!(harness.answer(last).await, "last");

    assert_eq!((harness.row(run).await, harness.events(run).await), (row, events));
    assert_eq!(harness.effect_server.calls("a"), 0);
}
