//! The check of transaction functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use provost_bus::Topic;
use provost_core::RunId;
use provost_store::table::scheduling::process_start::ProcessStartRow;
use provost_store::table::work::run;
use provost_store::{Store, StoreError, StoreOptions, Wakeup, params};

use crate::fixture::{self, Fixture, at};
use crate::writing::wakeup;

fn open(fixture: &Fixture) -> Store {
    Store::open(StoreOptions { check_transactions: true, ..fixture.options() }).unwrap()
}

async fn with_run(fixture: &Fixture) -> (Store, RunId) {
    let store = open(fixture);
    let id = fixture::put_run(&store, &fixture.env).await.id;
    (store, id)
}

pub(crate) async fn an_update_of_a_row_that_is_not_locked_fails(fixture: Fixture) {
    let (store, id) = with_run(&fixture).await;
    let sql = "UPDATE run SET detail = 'changed' WHERE id = ?1";
    let refused = store.write(move |tx| {
        run::get(tx, id)?;
        tx.execute(sql, params![id])
    });
    let problem = refused.await.unwrap_err().to_string();
    assert!(problem.contains(&format!("the run `{id}`")) && problem.contains(sql), "{problem}");
    let changed = store.write(move |tx| {
        run::lock(tx, id)?;
        tx.execute(sql, params![id])
    });
    assert_eq!(changed.await.unwrap(), 1);
}

pub(crate) async fn a_run_is_made_ready_under_the_lock_of_its_session(fixture: Fixture) {
    let (store, id) = with_run(&fixture).await;
    let ready = store.write(move |tx| run::set_ready(tx, "default", "s", Some(id)));
    assert!(ready.await.unwrap_err().to_string().contains("the session `default / s`"));
    let ready = store.write(move |tx| {
        run::lock(tx, id)?;
        run::set_ready(tx, "default", "s", Some(id))
    });
    assert!(ready.await.unwrap(), "a run is locked after its session");
}

pub(crate) async fn a_statement_with_a_fence_locks_what_it_changes(fixture: Fixture) {
    let (store, id) = with_run(&fixture).await;
    let changed = store.write(move |tx| {
        let seq = run::take_event_numbers(tx, id, 2)?;
        tx.execute("UPDATE run SET detail = 'changed' WHERE id = ?1", params![id])?;
        Ok::<_, StoreError>(seq)
    });
    assert_eq!(changed.await.unwrap(), Some(1), "the first attempt took no number");
}

pub(crate) async fn a_transaction_that_does_something_else_again_fails(fixture: Fixture) {
    let store = open(&fixture);
    let count = Arc::new(AtomicU64::new(0));
    let refused = store.write(move |tx| {
        let id = count.fetch_add(1, Ordering::SeqCst).to_string();
        ProcessStartRow { id, started: at(0), clean_stop: None }.insert(tx)
    });
    let problem = refused.await.unwrap_err().to_string();
    assert!(problem.contains("cannot be repeated"), "{problem}");
    let first = Arc::new(AtomicU64::new(0));
    let refused = store.write(move |tx| match first.fetch_add(1, Ordering::SeqCst) {
        0 => fixture::put(tx, "a"),
        _ => Ok(()),
    });
    assert!(refused.await.unwrap_err().to_string().contains("its second `nothing`"));
    assert!(fixture::ids(&store).await.is_empty(), "nothing of them stays");
}

pub(crate) async fn ids_and_hints_are_those_of_one_attempt(fixture: Fixture) {
    let store = open(&fixture);
    let mut wakeups = store.bus().subscribe(Topic::Wakeups);
    let drawn = store.write(|tx| {
        let ids: [RunId; 2] = [tx.id(), tx.id()];
        fixture::put(tx, &ids[0].to_string())?;
        tx.wake(Wakeup::Ended(ids[1]));
        Ok::<_, StoreError>(ids)
    });
    let [first, second] = drawn.await.unwrap();
    assert_ne!(first, second);
    assert_eq!(fixture::ids(&store).await, [first.to_string()]);
    assert_eq!(wakeup(&mut wakeups).await, Wakeup::Ended(second));
    assert!(wakeups.try_recv().is_none(), "the first attempt woke nobody");
}

pub(crate) async fn a_locked_row_saves_only_what_was_changed(fixture: Fixture) {
    let (store, id) = with_run(&fixture).await;
    let saved = store.write(move |tx| {
        let mut mine = run::lock(tx, id)?.unwrap();
        let mut other = run::lock(tx, id)?.unwrap();
        mine.detail = Some("mine".to_owned());
        other.crash_count = 7;
        run::take_event_numbers(tx, id, 3)?;
        mine.save(tx)?;
        other.save(tx)?;
        Ok::<_, StoreError>(run::get(tx, id)?.unwrap())
    });
    let row = saved.await.unwrap();
    assert_eq!((row.detail.as_deref(), row.crash_count, row.next_seq), (Some("mine"), 7, 4));
}
