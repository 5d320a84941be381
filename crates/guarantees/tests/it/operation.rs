//! Nodes that come and go while work is done: classes keep their bounds, schedules their ticks, and who leaves hands over.

use futures::future::join_all;
use provost_core::command::TaskRequest;
use provost_engine::{CatchUp, Overlap, Schedule, Timing};
use provost_testkit::EffectPath;

use crate::stage::{LONG, Stage};

/// Runs of one class that work at once unless somebody says otherwise.
const TARGET: i64 = 8;

#[tokio::test]
async fn g09_a_class_keeps_its_bound_through_kills_and_counts_nothing_when_idle() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Keyed);
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(stage.say(&format!("do keyed:k{n}; say done")).await);
    }
    let mut workers = join_all((0..2).map(|_| stage.worker())).await;
    stage.ledger.wait_for_calls(8).await;
    let leased = "SELECT COUNT(*) FROM run WHERE phase = 'leased'";
    let running = "SELECT SUM(running) FROM exec_class";
    for _ in 0..2 {
        assert_eq!((stage.one(leased).await, stage.one(running).await), (TARGET, TARGET));
        let (calls, held) = (stage.ledger.call_count(), stage.ledger.held());
        workers.remove(0).kill().await.unwrap();
        workers.push(stage.worker().await);
        // Those of the dead one are called again, and nothing beside them.
        stage.ledger_holds(held).await;
        assert!(stage.ledger.call_count() <= calls + held);
    }
    stage.ledger.release();
    let all = join_all(runs.iter().map(|run| stage.wait(*run)));
    let mut all = std::pin::pin!(all);
    loop {
        tokio::select! {
            _ = &mut all => break,
            working = stage.one(leased) => assert!(working <= TARGET, "{working} at work"),
        }
    }
    assert_eq!((stage.one(leased).await, stage.one(running).await), (0, 0));
    let effects: Vec<u64> = (0..20).map(|n| stage.ledger.effects(&format!("k{n}"))).collect();
    assert_eq!(effects, [1; 20]);
}

#[tokio::test]
async fn g53_every_tick_makes_one_task_whichever_scheduler_is_killed_at_it() {
    let stage = Stage::new().await;
    let schedule = Schedule {
        id: "tick".to_owned(),
        timing: Timing::EveryMs(1_000),
        zone: "UTC".to_owned(),
        command: TaskRequest::text("do keyed:t; say done"),
        catch_up: CatchUp::All { max: 100 },
        overlap: Overlap::Allow,
        jitter_ms: 0,
    };
    let first = stage.engine.schedules().put(&stage.namespace, schedule).await.unwrap();
    for place in ["schedule.due", "schedule.before_commit", "schedule.fired"] {
        stage.worker_dies_at(place).await;
    }
    let _workers = join_all((0..2).map(|_| stage.worker())).await;
    stage.ledger.wait_for_calls(4).await;
    let state = stage.engine.schedules().set_paused(&stage.namespace, "tick", true).await.unwrap();
    let runs = stage.all_runs().await;
    for run in &runs {
        stage.wait(run.id).await;
    }
    let ticks = stage.rows("idem WHERE idem_key LIKE 'schedule:tick:%'").await;
    assert_eq!((ticks, stage.rows("task").await), (runs.len() as i64, runs.len() as i64));
    let passed = state.last_at.unwrap().as_millis() - first.next_at.unwrap().as_millis();
    // Every tick since the first has its task: none is left out, none is doubled.
    assert_eq!(passed.div_euclid(1_000) + 1, ticks);
    assert_eq!(stage.ledger.calls("t"), runs.len());
}

#[tokio::test]
async fn g55_a_node_that_is_asked_to_end_hands_over_at_the_next_boundary() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Opaque);
    let run = stage.say("do opaque:a; opaque:b; say done").await;
    let leaving = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line("draining", LONG).await.unwrap();
    stage.ledger.release();
    leaving.wait_for_line("stopped", LONG).await.unwrap();
    assert!(leaving.wait(LONG).await.unwrap().success());
    let row = stage.row(run).await;
    assert_eq!((row.phase.as_str(), row.crash_count, row.failure_count), ("queued", 0, 0));
    assert_eq!((stage.ledger.calls("a"), stage.ledger.calls("b")), (1, 0));
    let _worker = stage.worker().await;
    assert_eq!(stage.answer(run).await, "done");
    assert_eq!((stage.ledger.calls("a"), stage.ledger.calls("b")), (1, 1), "nothing was cut off");
    assert_eq!(stage.provider.request_count(), 3);
}

#[tokio::test]
async fn g55_a_node_whose_patience_is_over_gives_back_what_it_could_not_finish() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Keyed);
    let run = stage.say("do keyed:a; say done").await;
    let leaving = stage.leaving_worker().await;
    stage.ledger.wait_for_calls(1).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line("stopped", LONG).await.unwrap();
    let row = stage.row(run).await;
    assert_eq!((row.phase.as_str(), row.crash_count, row.lease_owner), ("queued", 0, None));
    stage.ledger.release();
    let _worker = stage.worker().await;
    assert_eq!(stage.answer(run).await, "done");
    assert_eq!((stage.ledger.calls("a"), stage.ledger.effects("a")), (2, 1));
}
