//! Nodes that come and go while work is done: classes keep their bounds, schedules their ticks, and who leaves hands over.

use futures::future::join_all;
use provost_core::command::TaskRequest;
use provost_engine::{MissedRunPolicy, OverlapPolicy, Schedule, ScheduleSpec};
use provost_testkit::EffectKind;

use crate::harness::{Harness, LONG};

/// Runs of one class that work at once unless somebody says otherwise.
const TARGET: i64 = 8;

#[tokio::test]
async fn g09_a_class_keeps_its_bound_through_kills_and_counts_nothing_when_idle() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(harness.say(&format!("do keyed:k{n}; say done")).await);
    }
    let mut workers = join_all((0..2).map(|_| harness.worker())).await;
    harness.effect_server.wait_for_calls(8).await;
    let leased = "SELECT COUNT(*) FROM run WHERE phase = 'leased'";
    let running = "SELECT SUM(running) FROM exec_class";
    for _ in 0..2 {
        assert_eq!((harness.one(leased).await, harness.one(running).await), (TARGET, TARGET));
        let (calls, paused_count) =
            (harness.effect_server.call_count(), harness.effect_server.paused_count());
        workers.remove(0).kill().await.unwrap();
        workers.push(harness.worker().await);
        // Those of the dead one are called again, and nothing beside them.
        harness.effect_server_pauses(paused_count).await;
        assert!(harness.effect_server.call_count() <= calls + paused_count);
    }
    harness.effect_server.resume_responses();
    let all = join_all(runs.iter().map(|run| harness.wait(*run)));
    let mut all = std::pin::pin!(all);
    loop {
        tokio::select! {
            _ = &mut all => break,
            working = harness.one(leased) => assert!(working <= TARGET, "{working} at work"),
        }
    }
    assert_eq!((harness.one(leased).await, harness.one(running).await), (0, 0));
    let effects: Vec<u64> =
        (0..20).map(|n| harness.effect_server.effects(&format!("k{n}"))).collect();
    assert_eq!(effects, [1; 20]);
}

#[tokio::test]
async fn g53_every_tick_makes_one_task_whichever_scheduler_is_killed_at_it() {
    let harness = Harness::new().await;
    let schedule = Schedule {
        id: "tick".to_owned(),
        timing: ScheduleSpec::EveryMs(1_000),
        zone: "UTC".to_owned(),
        command: TaskRequest::text("do keyed:t; say done"),
        catch_up: MissedRunPolicy::All { max: 100 },
        overlap: OverlapPolicy::Allow,
        jitter_ms: 0,
    };
    let first = harness.engine.schedules().put(&harness.namespace, schedule).await.unwrap();
    for place in ["schedule.due", "schedule.before_commit", "schedule.fired"] {
        harness.worker_dies_at(place).await;
    }
    let _workers = join_all((0..2).map(|_| harness.worker())).await;
    harness.effect_server.wait_for_calls(4).await;
    let state =
        harness.engine.schedules().set_paused(&harness.namespace, "tick", true).await.unwrap();
    let runs = harness.all_runs().await;
    for run in &runs {
        harness.wait(run.id).await;
    }
    let ticks = harness.rows("idem WHERE idem_key LIKE 'schedule:tick:%'").await;
    assert_eq!((ticks, harness.rows("task").await), (runs.len() as i64, runs.len() as i64));
    let passed = state.last_at.unwrap().as_millis() - first.next_at.unwrap().as_millis();
    // Every tick since the first has its task: none is left out, none is doubled.
    assert_eq!(passed.div_euclid(1_000) + 1, ticks);
    assert_eq!(harness.effect_server.calls("t"), runs.len());
}

#[tokio::test]
async fn g55_a_node_that_is_asked_to_end_hands_over_at_the_next_boundary() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let run = harness.say("do opaque:a; opaque:b; say done").await;
    let leaving = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line("draining", LONG).await.unwrap();
    harness.effect_server.resume_responses();
    leaving.wait_for_line("stopped", LONG).await.unwrap();
    assert!(leaving.wait(LONG).await.unwrap().success());
    let row = harness.row(run).await;
    assert_eq!((row.phase.as_str(), row.crash_count, row.failure_count), ("queued", 0, 0));
    assert_eq!((harness.effect_server.calls("a"), harness.effect_server.calls("b")), (1, 0));
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!(
        (harness.effect_server.calls("a"), harness.effect_server.calls("b")),
        (1, 1),
        "nothing was cut off"
    );
    assert_eq!(harness.provider.request_count(), 3);
}

#[tokio::test]
async fn g55_a_node_whose_patience_is_over_gives_back_what_it_could_not_finish() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let run = harness.say("do keyed:a; say done").await;
    let leaving = harness.leaving_worker().await;
    harness.effect_server.wait_for_calls(1).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line("stopped", LONG).await.unwrap();
    let row = harness.row(run).await;
    assert_eq!((row.phase.as_str(), row.crash_count, row.lease_owner), ("queued", 0, None));
    harness.effect_server.resume_responses();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!((harness.effect_server.calls("a"), harness.effect_server.effects("a")), (2, 1));
}
