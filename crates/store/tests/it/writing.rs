//! The writer: order, groups, failures, wakeups. For every database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use provost_bus::{BusMessage, Subscription, Topic};
use provost_core::RunId;
use provost_store::{FaultInjector, FaultPoint, Store, StoreError, StoreOptions, Wakeup, params};

use crate::fixture::{Fixture, Gate, Outcome, ids, put};

pub(crate) async fn wakeup(wakeups: &mut Subscription) -> Wakeup {
    match wakeups.recv().await {
        Ok(BusMessage::Wakeup(wakeup)) => wakeup,
        other => panic!("no wake-up: {other:?}"),
    }
}

pub(crate) async fn jobs_are_applied_in_the_order_of_the_calls(fixture: Fixture) {
    let store = fixture.open();
    let mut last = None;
    for number in 0..500u64 {
        last = Some(store.write(move |tx| {
            let before: u64 = tx.fetch_one("SELECT count(*) FROM boot", params![])?;
            put(tx, &format!("{number:03}"))?;
            Ok::<_, StoreError>(before)
        }));
    }
    // Only the last one is waited for: what was dropped ran all the same.
    assert_eq!(last.unwrap().await.unwrap(), 499);
    assert_eq!(ids(&store).await.len(), 500);
}

pub(crate) async fn what_waits_together_shares_one_commit(fixture: Fixture) {
    let store = fixture.open();
    let gate = Gate::close(&store);
    let commits_before = store.stats().commits;
    let waiting: Vec<_> =
        (0..31).map(|number| store.write(move |tx| put(tx, &number.to_string()))).collect();
    assert_eq!(store.stats().waiting, 31);
    gate.open().await.unwrap();
    for pending in waiting {
        pending.await.unwrap();
    }
    let stats = store.stats();
    // The gate may have a commit of its own, if it stood for long.
    assert!(stats.commits - commits_before <= 2, "{stats:?}");
    assert!((31..=32).contains(&stats.group_jobs_max), "{stats:?}");
    assert_eq!(stats.waiting, 0);
}

pub(crate) async fn what_nobody_waits_for_keeps_its_place_and_is_committed_all_the_same(
    fixture: Fixture,
) {
    let store = fixture.open();
    let first = store.write_deferred(|tx| put(tx, "a"));
    let second = store.write(|tx| {
        let before: u64 = tx.fetch_one("SELECT count(*) FROM boot", params![])?;
        put(tx, "b")?;
        Ok::<_, StoreError>(before)
    });
    assert_eq!(second.await.unwrap(), 1, "in the order of the calls");
    first.await.unwrap();
    // Alone it is committed, too: after a moment, or at once after a flush.
    store.write_deferred(|tx| put(tx, "c")).await.unwrap();
    let flushed = store.write_deferred(|tx| put(tx, "d"));
    store.flush();
    flushed.await.unwrap();
    assert_eq!(ids(&store).await, ["a", "b", "c", "d"]);
}

pub(crate) async fn a_job_that_fails_or_panics_leaves_nothing_and_the_others_commit(
    fixture: Fixture,
) {
    for broken in [0usize, 3, 7] {
        let fixture = fixture.another();
        let store = fixture.open();
        let gate = Gate::close(&store);
        let jobs: Vec<_> = (0..8)
            .map(|number| {
                store.write(move |tx| {
                    put(tx, &number.to_string())?;
                    tx.wake(Wakeup::Timer);
                    match number {
                        _ if number == broken => Err(StoreError::Closed),
                        _ if number == (broken + 1) % 8 => panic!("on purpose"),
                        _ => Ok(()),
                    }
                })
            })
            .collect();
        gate.open().await.unwrap();
        for (number, job) in jobs.into_iter().enumerate() {
            match job.await {
                Err(StoreError::Closed) => assert_eq!(number, broken),
                Err(StoreError::Bug { detail }) => {
                    assert_eq!(number, (broken + 1) % 8);
                    assert!(detail.contains("on purpose"), "{detail}");
                }
                other => assert_eq!(other, Ok(())),
            }
        }
        let left: Vec<_> = (0..8)
            .filter(|number| *number != broken && *number != (broken + 1) % 8)
            .map(|number| number.to_string())
            .collect();
        assert_eq!(ids(&store).await, left);
    }
}

pub(crate) async fn what_fails_half_way_is_taken_back_and_no_job_runs_twice(fixture: Fixture) {
    for half_way in [false, true] {
        let fixture = fixture.another();
        let store = fixture.open();
        let gate = Gate::close(&store);
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let good = store.write(move |tx| {
            counted.fetch_add(1, Ordering::SeqCst);
            tx.wake(Wakeup::Timer);
            put(tx, "good")
        });
        let bad = store.write(move |tx| {
            if half_way {
                put(tx, "bad")?;
            }
            tx.exists("SELECT 1 FROM boot WHERE id = 'good'", params![])
                .and_then(|seen| if seen { Err::<(), _>(StoreError::Closed) } else { Ok(()) })
        });
        let later = store.write(|tx| put(tx, "later"));
        let mut wakeups = store.bus().subscribe(Topic::Wakeups);
        gate.open().await.unwrap();
        good.await.unwrap();
        assert_eq!(bad.await, Err(StoreError::Closed), "it sees what came before it");
        later.await.unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(ids(&store).await, ["good", "later"]);
        assert_eq!(wakeup(&mut wakeups).await, Wakeup::Timer);
        assert!(wakeups.try_recv().is_none(), "each hint comes once");
    }
}

pub(crate) async fn a_broken_rule_is_told_and_nothing_of_its_job_stays(fixture: Fixture) {
    let store = fixture.open();
    store.write(|tx| put(tx, "taken")).await.unwrap();
    let job = store.write(|tx| {
        put(tx, "new")?;
        put(tx, "taken")
    });
    let error = job.await.unwrap_err();
    assert!(error.is_duplicate(), "{error}");
    assert_eq!(error.code(), "store_constraint");
    assert_eq!(ids(&store).await, ["taken"]);
}

pub(crate) async fn readers_see_committed_state_only_and_ones_own_awaited_writes(fixture: Fixture) {
    let store = fixture.open();
    let gate = Gate::close(&store);
    let first = store.write(|tx| put(tx, "first"));
    let second = store.write(|tx| tx.exists("SELECT 1 FROM boot WHERE id = 'first'", params![]));
    assert_eq!(ids(&store).await, [""; 0]);
    gate.open().await.unwrap();
    first.await.unwrap();
    assert!(second.await.unwrap(), "a job sees the jobs before it");
    assert_eq!(ids(&store).await, ["first"]);
}

pub(crate) async fn a_read_sees_one_state_and_cannot_write(fixture: Fixture) {
    let store = fixture.open();
    let writer = store.clone();
    let counts = store.read(move |tx| {
        let before: u64 = tx.fetch_one("SELECT count(*) FROM boot", params![])?;
        writer.write(|tx| put(tx, "meanwhile")).wait()?;
        let after: u64 = tx.fetch_one("SELECT count(*) FROM boot", params![])?;
        Ok::<_, StoreError>((before, after))
    });
    assert_eq!(counts.await.unwrap(), (0, 0));
    let refused: Outcome = store.read(|tx| put(tx, "read")).await;
    assert_eq!(refused.unwrap_err().code(), "store_read_only");
    let panicked: Outcome = store.read(|_| panic!("on purpose")).await;
    assert_eq!(panicked.unwrap_err().code(), "store_bug");
    assert_eq!(ids(&store).await, ["meanwhile"]);
}

pub(crate) async fn hints_come_after_the_commit_once_and_only_from_jobs_that_were_kept(
    fixture: Fixture,
) {
    let store = fixture.open();
    let mut wakeups = store.bus().subscribe(Topic::Wakeups);
    let run: RunId = fixture.env.id();
    let gate = Gate::close(&store);
    for number in 0..3 {
        let job = move |tx: &mut provost_store::Tx<'_>| {
            put(tx, &number.to_string())?;
            tx.wake(Wakeup::RunReady);
            tx.wake(Wakeup::Events(run));
            Ok::<_, StoreError>(())
        };
        store.write(job).detach();
    }
    let failing = store.write(|tx| {
        tx.wake(Wakeup::Delivery);
        Err::<(), _>(StoreError::Closed)
    });
    assert!(wakeups.try_recv().is_none(), "nothing is committed yet");
    gate.open().await.unwrap();
    failing.await.unwrap_err();
    assert_eq!(wakeup(&mut wakeups).await, Wakeup::RunReady);
    assert_eq!(wakeup(&mut wakeups).await, Wakeup::Events(run));
    store
        .write(|tx| {
            tx.wake(Wakeup::Timer);
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
    assert_eq!(wakeup(&mut wakeups).await, Wakeup::Timer, "nothing came from the job that failed");
    assert_eq!(ids(&store).await.len(), 3);
}

/// Options whose store fails at `point` while the switch is on.
fn failing(fixture: &Fixture, point: FaultPoint) -> (StoreOptions, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(false));
    let on = Arc::clone(&switch);
    let faults = FaultInjector::new(move |at| {
        let full = || StoreError::DiskFull { detail: "on purpose".into() };
        (at == point && on.load(Ordering::SeqCst)).then(full)
    });
    (StoreOptions { faults: Some(faults), ..fixture.options() }, switch)
}

pub(crate) async fn g56_a_commit_that_fails_fails_its_whole_group_and_the_writer_goes_on(
    fixture: Fixture,
) {
    let (options, switch) = failing(&fixture, FaultPoint::Commit);
    let store = Store::open(options).unwrap();
    let mut wakeups = store.bus().subscribe(Topic::Wakeups);
    let gate = Gate::close(&store);
    let good = store.write(|tx| {
        tx.wake(Wakeup::Timer);
        put(tx, "good")
    });
    let bad =
        store.write(|tx| match tx.exists("SELECT 1 FROM boot WHERE id = 'good'", params![])? {
            true => Err::<(), _>(StoreError::Closed),
            false => Ok(()),
        });
    switch.store(true, Ordering::SeqCst);
    assert_eq!(gate.open().await.unwrap_err().code(), "store_full");
    assert_eq!(good.await.unwrap_err().code(), "store_full");
    // What it failed with rests on what was lost with the group, so it must not be told.
    assert_eq!(bad.await.unwrap_err().code(), "store_full");
    assert!(wakeups.try_recv().is_none());
    switch.store(false, Ordering::SeqCst);
    store.write(|tx| put(tx, "later")).await.unwrap();
    assert_eq!(ids(&store).await, ["later"]);
}

pub(crate) async fn a_transaction_that_cannot_start_fails_its_jobs_and_the_writer_goes_on(
    fixture: Fixture,
) {
    let (options, switch) = failing(&fixture, FaultPoint::Begin);
    let store = Store::open(options).unwrap();
    switch.store(true, Ordering::SeqCst);
    assert_eq!(store.write(|tx| put(tx, "refused")).await.unwrap_err().code(), "store_full");
    switch.store(false, Ordering::SeqCst);
    store.write(|tx| put(tx, "later")).await.unwrap();
    assert_eq!(ids(&store).await, ["later"]);
}

pub(crate) async fn a_job_that_ends_the_transaction_takes_nobody_along_in_silence(
    fixture: Fixture,
) {
    let store = fixture.open();
    let gate = Gate::close(&store);
    let before = store.write(|tx| put(tx, "before"));
    let ending = store.write(|tx| tx.execute("ROLLBACK", params![]));
    let after = store.write(|tx| put(tx, "after"));
    // The gate may stand in the group that is lost.
    gate.open().await.ok();
    let kept = before.await;
    assert_eq!(ending.await.unwrap_err().code(), "store_bug");
    after.await.unwrap();
    let there = ids(&store).await;
    assert_eq!(there.contains(&"before".to_owned()), kept.is_ok(), "{there:?} {kept:?}");
    assert!(there.contains(&"after".to_owned()));
}

pub(crate) async fn an_answer_can_be_lost_while_the_change_is_there(fixture: Fixture) {
    let (options, switch) = failing(&fixture, FaultPoint::AfterCommit);
    let store = Store::open(options).unwrap();
    switch.store(true, Ordering::SeqCst);
    assert_eq!(store.write(|tx| put(tx, "there")).await.unwrap_err().code(), "store_full");
    assert_eq!(ids(&store).await, ["there"]);
}

pub(crate) async fn urgent_jobs_go_before_what_waits(fixture: Fixture) {
    let store = fixture.open();
    let gate = Gate::close(&store);
    let seen = |tx: &mut provost_store::Tx<'_>| tx.exists("SELECT 1 FROM boot", params![]);
    let normal = store.write(|tx| put(tx, "normal"));
    let late = store.write(seen);
    let urgent = store.write_high_priority(seen);
    gate.open().await.unwrap();
    normal.await.unwrap();
    assert!(late.await.unwrap());
    assert!(!urgent.await.unwrap());
}

pub(crate) async fn a_full_queue_refuses_work_but_not_renewals(fixture: Fixture) {
    let store = fixture.open();
    let gate = Gate::close(&store);
    let waiting: Vec<_> = (0..4096).map(|_| store.write(|_| Ok::<_, StoreError>(()))).collect();
    let refused = store.write(|tx| put(tx, "refused")).await;
    assert_eq!(refused.unwrap_err().code(), "store_busy");
    let renewal = store.write_high_priority(|tx| put(tx, "renewed"));
    gate.open().await.unwrap();
    renewal.await.unwrap();
    for pending in waiting {
        pending.await.unwrap();
    }
    assert_eq!(ids(&store).await, ["renewed"]);
}

pub(crate) async fn closing_finishes_what_was_enqueued_and_refuses_the_rest(fixture: Fixture) {
    let store = fixture.open();
    let gate = Gate::close(&store);
    let enqueued = store.write(|tx| put(tx, "enqueued"));
    let (clone, opened) = (store.clone(), gate.open());
    let ((), passed) = tokio::join!(clone.close(), opened);
    passed.unwrap();
    enqueued.await.unwrap();
    assert_eq!(store.write(|tx| put(tx, "late")).await.unwrap_err(), StoreError::Closed);
    let read: Outcome = store.read(|_| Ok(())).await;
    assert_eq!(read.unwrap_err(), StoreError::Closed);
    assert_eq!(store.check().await.unwrap_err(), StoreError::Closed);
    assert_eq!(ids(&fixture.open()).await, ["enqueued"]);
}

pub(crate) async fn the_time_is_the_stores_and_stands_still_within_a_transaction(fixture: Fixture) {
    let store = fixture.open();
    let env = fixture.env.clone();
    let start = env.now();
    let times = store.write(move |tx| {
        let before = tx.now();
        env.advance(Duration::from_secs(1));
        Ok::<_, StoreError>((before, tx.now()))
    });
    assert_eq!(times.await.unwrap(), (start, start));
    let later = store.write(|tx| Ok::<_, StoreError>(tx.now())).await.unwrap();
    assert_eq!(later.since(start), Duration::from_secs(1));
}
