//! Backup, restore, check, size.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use provost_core::{RunId, Timestamp};
use provost_store::table::scheduling::worker::{self, WorkerRow};
use provost_store::table::state::meta;
use provost_store::table::work::{journal, run};
use provost_store::{
    INLINE_BYTES_MAX, RestoreOptions, SCHEMA_VERSION, Store, StoreError, StoreOptions, StoredText,
    ThreadMode, params, restore,
};
use rusqlite::Connection;

use crate::fixture::{Fixture, advance, event, ids, put, put_run};

fn restore_options(fixture: &Fixture, from: PathBuf, replace: bool) -> RestoreOptions {
    RestoreOptions { from, to: fixture.options().path, replace, env: fixture.env.clone() }
}

#[tokio::test]
async fn a_backup_is_one_state_of_the_database_while_writers_go_on() {
    let fixture = Fixture::sqlite();
    let store = fixture.open();
    let filler = |number: u64| format!("{number:0400}");
    for number in 0..3000 {
        let pending = store.write(move |tx| put(tx, &filler(number)));
        if number % 500 == 499 { pending.await.unwrap() } else { pending.detach() }
    }
    let written = Arc::new(AtomicU64::new(3000));
    let copy = fixture.dir.path().join("copy.db");
    let (writer, count) = (store.clone(), Arc::clone(&written));
    // Between any two parts of the copy, something is written.
    let progress = move |at: provost_store::CopyProgress| {
        assert!(at.pages <= at.pages_total);
        let number = count.fetch_add(1, Ordering::SeqCst);
        writer.write(move |tx| put(tx, &filler(number))).wait().unwrap();
    };
    let report = store.backup(&copy, progress).await.unwrap();
    assert_eq!(report.bytes, fs::metadata(&copy).unwrap().len());
    assert!(written.load(Ordering::SeqCst) > 3001, "the copy came in parts");
    assert!(!fixture.dir.path().join("copy.db-wal").exists(), "it is a single file");
    let again = store.backup(&copy, |_| {}).await.unwrap_err();
    assert_eq!(again, StoreError::Exists { path: copy.clone() });

    let opened = Store::open(StoreOptions { path: copy, ..fixture.options() }).unwrap();
    assert_eq!(ids(&opened).await.len(), 3000, "the state when the backup began");
    assert!(opened.check().await.unwrap().is_ok());
}

#[tokio::test]
async fn g58_a_restored_backup_fences_what_was_leased_when_it_was_taken() {
    let fixture = Fixture::sqlite();
    let store = fixture.open();
    let run = put_run(&store, &fixture.env).await;
    let owner = WorkerRow {
        id: fixture.env.id(),
        host: "here".into(),
        pid: 1,
        build: 1,
        lock_path: "none".into(),
        started: fixture.env.now(),
        last_heartbeat: fixture.env.now(),
        stopped: None,
        pool: "default".into(),
        capacity: 1,
        session_filter: None,
        claims_paused_until: None,
        draining: None,
    };
    let (id, worker_id) = (run.id, owner.id);
    let leased = store.write(move |tx| {
        owner.insert_new(tx)?;
        let sql = "UPDATE run SET phase = 'leased', epoch = 3, lease_owner = ?2, lease_until = ?3 WHERE id = ?1";
        tx.execute(sql, params![id, worker_id, Timestamp::from_millis(i64::MAX)])
    });
    leased.await.unwrap();
    let copy = fixture.dir.path().join("copy.db");
    store.backup(&copy, |_| {}).await.unwrap();

    let in_use = restore(&restore_options(&fixture, copy.clone(), true)).unwrap_err();
    assert_eq!(in_use.code(), "store_locked");
    store
        .write(move |tx| tx.execute("UPDATE run SET epoch = 9 WHERE id = ?1", params![id]))
        .await
        .unwrap();
    store.close().await;
    let taken = restore(&restore_options(&fixture, copy.clone(), false)).unwrap_err();
    assert_eq!(taken.code(), "store_exists");
    let report = restore(&restore_options(&fixture, copy.clone(), true)).unwrap();
    assert_eq!((report.generation, report.schema_version), (1, SCHEMA_VERSION));

    let store = fixture.open();
    let (row, expired, floor, live, stale) = store
        .write(move |tx| {
            let row = run::get(tx, id)?.unwrap();
            let expired = run::expired_leases(tx, 9)?.len();
            let floor = meta::epoch_floor(tx)?;
            // Neither the epoch of the backup nor one of the lost history writes anything.
            let stale = [3, 9].map(|epoch| journal::update_progress(tx, &advance(id, epoch, 1)));
            Ok::<_, StoreError>((row, expired, floor, worker::live(tx)?.len(), stale))
        })
        .await
        .unwrap();
    assert_eq!((expired, live, stale), (1, 0, [Ok(None), Ok(None)]));
    assert!(row.epoch >= floor && floor > 1_000_000, "{} {floor}", row.epoch);
    assert_eq!(store.size().await.unwrap().generation, 1);
    let left: Vec<_> =
        fs::read_dir(fixture.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().contains("re")
            && name.to_string_lossy() != "provost.db.workers"),
        "nothing stays behind: {left:?}"
    );
    store.close().await;
    assert_eq!(
        restore(&restore_options(&fixture, copy, true)).unwrap().generation,
        1,
        "of the copy"
    );
}

#[tokio::test]
async fn a_backup_that_is_not_whole_is_refused_and_the_database_stays() {
    let fixture = Fixture::sqlite();
    let store = fixture.open();
    for number in 0..300 {
        store.write(move |tx| put(tx, &format!("{number:0200}"))).await.unwrap();
    }
    let copy = fixture.dir.path().join("copy.db");
    store.backup(&copy, |_| {}).await.unwrap();
    store.close().await;
    let code = |from: &PathBuf| {
        restore(&restore_options(&fixture, from.clone(), true)).unwrap_err().code()
    };
    let whole = fs::read(&copy).unwrap();
    let mut broken = whole.clone();
    let last = broken.len() - 4096;
    broken[last..].fill(0xa5);
    fs::write(&copy, broken).unwrap();
    assert_eq!(code(&copy), "store_damaged");
    fs::write(&copy, "no database ".repeat(1000)).unwrap();
    assert_eq!(code(&copy), "store_not_a_database");
    fs::write(&copy, "").unwrap();
    assert_eq!(code(&copy), "store_not_a_database");
    assert_eq!(code(&fixture.dir.path().join("missing.db")), "store_not_a_database");
    fs::write(&copy, whole).unwrap();
    let raw = Connection::open(&copy).unwrap();
    raw.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    raw.close().unwrap();
    assert_eq!(code(&copy), "store_newer_schema");
    assert_eq!(ids(&fixture.open()).await.len(), 300);
}

#[tokio::test]
async fn a_check_finds_what_is_not_as_it_must_be() {
    let fixture = Fixture::sqlite();
    let store = fixture.open();
    let run = put_run(&store, &fixture.env).await;
    let filled = {
        let run = run.clone();
        store.write(move |tx| {
            run::take_event_numbers(tx, run.id, 5)?;
            (1..=5).try_for_each(|seq| event(&run, seq).insert(tx))?;
            StoredText::new("b".repeat(INLINE_BYTES_MAX + 1))?.store(tx)
        })
    };
    filled.await.unwrap();
    assert_eq!(store.check().await.unwrap().failures, []);

    let breaks: [(&str, &'static str); 9] = [
        ("event_gap", "DELETE FROM run_event WHERE seq = 3"),
        ("event_counter", "UPDATE run SET next_seq = 8"),
        ("event_missing", "DELETE FROM run_event WHERE seq = 1"),
        ("reference_missing", "UPDATE run SET task_id = 'task_nowhere'"),
        ("class_slots", "UPDATE exec_class SET running = 1"),
        ("session_held", "UPDATE run SET holds_session = 1"),
        ("session_holder", "UPDATE session SET holder_run_id = 'run_nobody'"),
        ("blob_missing", "UPDATE run_event SET blob = 'nothing', body = NULL WHERE seq = 2"),
        ("blob_damaged", "UPDATE blob SET data = x'00'"),
    ];
    store.close().await;
    for (code, sql) in breaks {
        // A copy is broken by hand, the way no program does.
        let path = fixture.dir.path().join(format!("{code}.db"));
        fs::copy(fixture.options().path, &path).unwrap();
        let raw = Connection::open(&path).unwrap();
        raw.pragma_update(None, "foreign_keys", false).unwrap();
        assert!(raw.execute(sql, []).unwrap() > 0);
        raw.close().unwrap();
        let options = StoreOptions { path, thread_mode: ThreadMode::Inline, ..fixture.options() };
        let report = Store::open(options).unwrap().check().await.unwrap();
        let codes: Vec<_> = report.failures.iter().map(|problem| problem.code).collect();
        assert_eq!(codes, [code], "{report:?}");
        let id: RunId = run.id;
        if code == "event_gap" {
            let detail = &report.failures[0].detail;
            assert_eq!(*detail, format!("{id} has 4 events numbered 1 to 5"));
        }
    }
}

#[tokio::test]
async fn a_vacuum_gives_back_what_nothing_uses() {
    let fixture = Fixture::sqlite();
    let store = fixture.open();
    for number in 0..500 {
        store.write(move |tx| put(tx, &format!("{number:01000}"))).detach();
    }
    store.write(|tx| tx.execute("DELETE FROM boot", params![])).await.unwrap();
    store.write(|tx| put(tx, "kept")).await.unwrap();
    let before = store.size().await.unwrap();
    assert!(before.free_bytes > 400_000 && before.log_bytes > 0, "{before:?}");
    let boots = before.tables.iter().find(|table| table.name == "boot").unwrap();
    assert_eq!(boots.rows, 1);
    store.vacuum().await.unwrap();
    let after = store.size().await.unwrap();
    assert_eq!(after.free_bytes, 0);
    assert!(after.bytes + 400_000 < before.bytes, "{} {}", after.bytes, before.bytes);
    assert_eq!(ids(&store).await, ["kept"]);
}
