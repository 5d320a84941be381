//! What can be read of a run: numbered without gaps, one end, the same for everybody.

use futures::future::join_all;
use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_engine::Cancelled;

use crate::stage::{LONG, Stage, in_session};

#[tokio::test]
async fn g43_events_are_numbered_in_the_order_of_their_commits_whoever_wrote_them() {
    let stage = Stage::new().await;
    let run = stage.say("do keyed:a, pure:b; provable:c; say done").await;
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
        stage.worker_dies_with(&[], &format!("{place}=kill@{hit}")).await;
        let events = stage.events(run).await;
        assert_eq!(events[..seen.len()], seen[..], "{place}: what was read is not changed");
        assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at), "{place}");
        seen = events;
    }
    let _worker = stage.worker().await;
    assert_eq!(stage.answer(run).await, "done");
    assert_eq!(stage.events(run).await[..seen.len()], seen[..]);
    assert_eq!(stage.row(run).await.next_seq, stage.events(run).await.len() as u64 + 1);
}

#[tokio::test]
async fn g46_everybody_who_waits_gets_the_same_end() {
    let stage = Stage::new().await;
    let run = stage.say("do keyed:a; say done").await;
    let waiting = join_all((0..8).map(|_| stage.wait(run)));
    let working = async {
        stage.worker_dies_at("tool.finished").await;
        stage.worker().await
    };
    let (rows, _worker) = tokio::join!(waiting, working);
    assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
    assert_eq!(stage.wait(run).await, rows[0], "and whoever comes later");
    stage.assert_history(&[run]).await;
}

#[tokio::test]
async fn g46_a_kill_around_the_end_leaves_one_end() {
    // The last answer is stored together with the end: killed before that, it may have to be asked for once more.
    for (place, requests_max) in [("attempt.before_settle", 3), ("attempt.settled", 2)] {
        let stage = Stage::new().await;
        let run = stage.say("do keyed:a; say done").await;
        stage.worker_dies_at(place).await;
        let _worker = stage.worker().await;
        assert_eq!(stage.answer(run).await, "done", "{place}");
        assert!((2..=requests_max).contains(&stage.provider.request_count()), "{place}");
        assert_eq!(stage.ledger.calls("a"), 1, "{place}");
        stage.assert_history(&[run]).await;
    }
}

#[tokio::test]
async fn g47_an_end_is_never_changed() {
    let stage = Stage::new().await;
    let worker = stage.worker().await;
    let run = stage.accept(in_session("s", "do ask:a; say done")).await.run;
    stage.until(run, |row| row.phase == "parked").await;
    let question = stage.question(run).await;
    assert_eq!(stage.engine.runs().cancel(&stage.namespace, run).await.unwrap(), Cancelled::Now);
    let row = stage.wait(run).await;
    let events = stage.events(run).await;

    let id = question.parse().unwrap();
    let answered = stage
        .engine
        .approvals()
        .answer(&stage.namespace, id, ApprovalDecision::Approve, "late")
        .await;
    assert!(answered.map_or(true, |answered| !answered.counted), "the answer comes too late");
    let again = stage.engine.runs().cancel(&stage.namespace, run).await.unwrap();
    assert_eq!(again, Cancelled::AlreadyTerminal);
    let next = stage.accept(TaskRequest { ..in_session("s", "do say next") }).await;
    assert_ne!(next.run, run, "what is said later is another run");
    assert_eq!(stage.answer(next.run).await, "next");
    worker.terminate().unwrap();
    worker.wait_for_line("stopped", LONG).await.unwrap();
    let _worker = stage.worker().await;
    let last = stage.say("do say last").await;
    assert_eq!(stage.answer(last).await, "last");

    assert_eq!((stage.row(run).await, stage.events(run).await), (row, events));
    assert_eq!(stage.ledger.calls("a"), 0);
}
