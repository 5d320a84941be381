//! The database file: what is refused, what is set, what happens when the disk or another process is in the way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use provost_core::{InputId, MessageId, RunId, TaskId};
use provost_store::table::work::{input, run_event, run_step};
use provost_store::{
    Durability, SCHEMA_VERSION, Store, StoreError, StoreOptions, ThreadMode, params,
};
use rusqlite::Connection;

use crate::child::Process;
use crate::fixture::{Fixture, Gate, Outcome, ids, put};

#[tokio::test]
async fn only_the_owner_can_read_it() {
    let fixture = Fixture::sqlite();
    let path = fixture.dir.path().join("deep/er/provost.db");
    let store = Store::open(StoreOptions::new(&path)).unwrap();
    store.write(|tx| put(tx, "x")).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_extension("db-wal")), 0o600);
    assert_eq!(mode(&store.lock_dir()), 0o700);
}

#[tokio::test]
async fn the_settings_that_durability_rests_on_are_set() {
    let fixture = Fixture::sqlite();
    let options = StoreOptions { durability: Durability::PowerLoss, ..fixture.options() };
    let store = Store::open(options).unwrap();
    let settings = store.write(|tx| {
        let number = |tx: &mut provost_store::Tx<'_>, name: &str| -> Outcome<u64> {
            tx.fetch_one(&format!("PRAGMA {name}"), params![])
        };
        let journal: String = tx.fetch_one("PRAGMA journal_mode", params![])?;
        assert_eq!(journal, "wal");
        assert_eq!(number(tx, "foreign_keys")?, 1);
        assert_eq!(number(tx, "user_version")?, u64::from(SCHEMA_VERSION));
        number(tx, "synchronous")
    });
    assert_eq!(settings.await.unwrap(), 2, "FULL");
}

/// The whole file, to see that it was not touched.
fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

/// Opening is refused with the code, and the file stays as it is.
fn refused(options: &StoreOptions, code: &str) -> StoreError {
    let before = bytes(&options.path);
    let error = Store::open(options.clone()).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(bytes(&options.path) == before, "it was touched");
    error
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_untouched() {
    let fixture = Fixture::sqlite();
    fixture.open().close().await;
    let options = fixture.options();
    let raw = Connection::open(&options.path).unwrap();
    raw.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    raw.close().unwrap();
    let error = refused(&options, "store_newer_schema");
    assert_eq!(
        error,
        StoreError::SchemaTooNew { found: SCHEMA_VERSION + 1, known: SCHEMA_VERSION }
    );
    assert!(error.to_string().contains("use a newer program"), "{error}");
}

#[tokio::test]
async fn a_database_of_an_older_version_is_brought_up_to_date() {
    let fixture = Fixture::sqlite();
    let options = fixture.options();
    let raw = Connection::open(&options.path).unwrap();
    raw.execute_batch(include_str!("../../migrations/sqlite/0001_engine.sql")).unwrap();
    raw.execute_batch(
        "PRAGMA application_id = 0x50525653; PRAGMA user_version = 1;
         INSERT INTO boot (id, started) VALUES ('old', 1)",
    )
    .unwrap();
    let (env, task) = (&fixture.env, fixture.env.id::<TaskId>());
    let (said, message) = (env.id::<InputId>(), env.id::<MessageId>());
    raw.execute(
        "INSERT INTO input (id, namespace, task_id, seq, mode, kind, message_id, provenance, request_hash, idem_key,
           state, outcome, due, created, updated)
         VALUES (?1, 'n', ?2, 1, 'queue', 'message', ?3, '{}', '', 'accept:k', 'consumed', 'queued', 1, 2, 3)",
        [said.to_string(), task.to_string(), message.to_string()],
    )
    .unwrap();
    raw.execute(
        "INSERT INTO message (id, namespace, created) VALUES (?1, 'n', 1)",
        [message.to_string()],
    )
    .unwrap();
    raw.close().unwrap();
    let store = fixture.open();
    assert_eq!(ids(&store).await, ["old"]);
    let kept = store.read(move |tx| input::by_key(tx, task, "accept:k")).await.unwrap().unwrap();
    assert_eq!(
        (kept.id, kept.seq, kept.message_id, kept.updated.as_millis()),
        (said, 1, message, 3)
    );
    assert_eq!(store.size().await.unwrap().schema_version, u64::from(SCHEMA_VERSION));
    assert!(store.check().await.unwrap().is_ok());
}

/// Two runs of one task with an event and a step each, of which the later run wrote first.
const RUNS_WITHOUT_NUMBERS: &str = "
    INSERT INTO exec_class (key, namespace, desired, updated) VALUES ('c', 'default', 1, 1);
    INSERT INTO session (namespace, id, created, updated) VALUES ('default', 's', 1, 1);
    INSERT INTO task (id, namespace, agent, agent_revision, session_id, state, queue_mode, command, created, updated)
      VALUES ('task_00000000000000000000000001', 'default', 'a', 1, 's', 'done', 'followup', '{}', 1, 1);
    INSERT INTO run (id, namespace, task_id, ordinal, session_id, class_key, agent, agent_revision, policy, status, phase,
        rank, not_before, next_seq, next_step, created)
      VALUES ('run_00000000000000000000000001', 'default', 'task_00000000000000000000000001', 1, 's', 'c', 'a', 1, '{}', 'ok',
              'done', 1, 1, 2, 2, 1),
             ('run_00000000000000000000000002', 'default', 'task_00000000000000000000000001', 2, 's', 'c', 'a', 1, '{}', 'ok',
              'done', 1, 1, 2, 2, 1);
    INSERT INTO run_event (run_id, seq, epoch, attempt_no, kind, at)
      VALUES ('run_00000000000000000000000002', 1, 0, 0, 'second', 1), ('run_00000000000000000000000001', 1, 0, 0, 'first', 1);
    INSERT INTO run_step (run_id, step, kind, state, epoch, started)
      VALUES ('run_00000000000000000000000001', 1, 'note', 'committed', 0, 1),
             ('run_00000000000000000000000002', 1, 'finish', 'committed', 0, 1);";

#[tokio::test]
async fn steps_and_events_of_an_older_version_stay_with_their_runs() {
    let fixture = Fixture::sqlite();
    let raw = Connection::open(&fixture.options().path).unwrap();
    raw.execute_batch(include_str!("../../migrations/sqlite/0001_engine.sql")).unwrap();
    raw.execute_batch("PRAGMA application_id = 0x50525653; PRAGMA user_version = 1;").unwrap();
    raw.execute_batch(RUNS_WITHOUT_NUMBERS).unwrap();
    raw.close().unwrap();
    let store = fixture.open();
    let ids = ["run_00000000000000000000000001", "run_00000000000000000000000002"];
    let [first, second] = ids.map(|id| id.parse::<RunId>().unwrap());
    let read = store.read(move |tx| {
        let mut found = Vec::new();
        for id in [first, second] {
            let events = run_event::after(tx, id, 0, 10)?;
            let steps = run_step::after(tx, id, 0, 10)?;
            assert!(events.iter().all(|event| event.run_id == id));
            found.extend(events.into_iter().map(|event| (event.pos.get(), event.kind)));
            found.extend(steps.into_iter().map(|step| (step.step, step.kind.to_string())));
        }
        Ok::<_, StoreError>(found)
    });
    let found = read.await.unwrap();
    let found: Vec<_> = found.iter().map(|(number, kind)| (*number, kind.as_str())).collect();
    assert_eq!(found, [(2, "first"), (1, "note"), (1, "second"), (1, "finish")]);
    assert!(store.check().await.unwrap().is_ok());
}

#[test]
fn what_is_not_a_database_of_ours_is_refused_untouched() {
    let fixture = Fixture::sqlite();
    let options = fixture.options();
    fs::write(&options.path, "these are not the bytes of a database, ".repeat(100)).unwrap();
    refused(&options, "store_not_a_database");

    fs::remove_file(&options.path).unwrap();
    let foreign = Connection::open(&options.path).unwrap();
    foreign.execute_batch("CREATE TABLE address (name TEXT)").unwrap();
    foreign.close().unwrap();
    let error = refused(&options, "store_not_a_database");
    assert!(error.to_string().contains("another program"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_refused_or_found_out() {
    let fixture = Fixture::sqlite();
    let store = fixture.open();
    for number in 0..200 {
        store.write(move |tx| put(tx, &format!("{number:0200}"))).await.unwrap();
    }
    store.close().await;
    let options = fixture.options();
    let whole = bytes(&options.path);

    // Cut in the middle.
    fs::write(&options.path, &whole[..whole.len() / 2]).unwrap();
    refused(&options, "store_damaged");

    // The schema overwritten, behind a header that looks right.
    let mut broken = whole.clone();
    broken[100..4096].fill(0xa5);
    fs::write(&options.path, &broken).unwrap();
    refused(&options, "store_damaged");

    // Some page of a table overwritten: opening does not look there, using it does.
    let mut broken = whole;
    let last = broken.len() - 4096;
    broken[last..].fill(0xa5);
    fs::write(&options.path, &broken).unwrap();
    let store = fixture.open();
    let report = store.check().await.unwrap();
    assert!(report.failures.iter().any(|problem| problem.code == "damaged"), "{report:?}");
    let count = store.read(|tx| tx.fetch_all::<String>("SELECT id FROM boot", params![])).await;
    assert_eq!(count.unwrap_err().code(), "store_damaged");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let fixture = Fixture::sqlite();
    let dir = fixture.dir.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o555)).unwrap();
    let mut process = Process::start_unprivileged("open", dir);
    assert_eq!(process.hear().as_deref(), Some("store_read_only"));
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn another_process_that_writes_is_waited_for_and_then_named() {
    let fixture = Fixture::sqlite();
    let options = StoreOptions { busy_timeout: Duration::from_millis(200), ..fixture.options() };
    let store = Store::open(options).unwrap();
    store.write(|tx| put(tx, "before")).await.unwrap();
    let mut process = Process::start("hold-write-lock", fixture.dir.path());
    process.hear().unwrap();
    let started = std::time::Instant::now();
    let refused = [store.write(|tx| put(tx, "one")), store.write(|tx| put(tx, "two"))];
    for pending in refused {
        assert_eq!(pending.await.unwrap_err().code(), "store_busy");
    }
    assert!(started.elapsed() >= Duration::from_millis(200), "it was waited for");
    assert_eq!(ids(&store).await, ["before"], "readers are not in the way");
    process.finish();
    store.write(|tx| put(tx, "after")).await.unwrap();
    assert_eq!(ids(&store).await, ["after", "before"]);
}

#[tokio::test]
async fn g56_a_full_database_keeps_what_it_has_and_goes_on_when_there_is_room() {
    let fixture = Fixture::sqlite();
    let store = fixture.open();
    let size = store.size().await.unwrap();
    store.close().await;
    let bytes_max = Some(size.bytes + 16 * size.page_bytes);
    let store = Store::open(StoreOptions { bytes_max, ..fixture.options() }).unwrap();
    let mut written = 0;
    let error = loop {
        let row = store.write(move |tx| {
            tx.execute(
                "INSERT INTO meta (key, value) VALUES (?1, ?2)",
                params![format!("fill {written}"), "x".repeat(3000)],
            )
        });
        match row.await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "store_full");
    assert!(error.to_string().contains("free space"), "{error}");
    // The one that finds no room takes its group along, and everybody in it hears why.
    let gate = Gate::close(&store);
    let large = store.write(|tx| put(tx, &"x".repeat(100_000)));
    let small =
        store.write(|tx| tx.execute("UPDATE meta SET value = '' WHERE key = 'fill 0'", params![]));
    gate.open().await.ok();
    assert_eq!(large.await.unwrap_err().code(), "store_full");
    small.await.unwrap();
    let count = |store: &Store| {
        let store = store.clone();
        async move {
            let sql = "SELECT count(*) FROM meta WHERE key LIKE 'fill%'";
            store.read(move |tx| tx.fetch_one::<u64>(sql, params![])).await.unwrap()
        }
    };
    assert!(written > 0);
    assert_eq!(count(&store).await, written, "what was acknowledged is there");
    store.write(|tx| tx.execute("DELETE FROM meta WHERE key = 'fill 0'", params![])).await.unwrap();
    store.write(|tx| put(tx, "fits again")).await.unwrap();
    assert!(store.check().await.unwrap().is_ok());
}

#[tokio::test]
async fn g56_a_disk_that_refuses_a_commit_loses_nothing_that_was_acknowledged() {
    let fixture = Fixture::sqlite();
    fixture.open().close().await;
    // The log beside the database meets the limit, inside a commit.
    let mut process = Process::start_limited("fill", fixture.dir.path(), 2000);
    let written: u64 = process.hear().unwrap().parse().unwrap();
    let code = process.hear().unwrap();
    assert!(code == "store_io" || code == "store_full", "{code}");
    let rows: u64 = process.hear().unwrap().parse().unwrap();
    assert!(written > 10);
    assert_eq!(rows, written);
    let code = process.hear().unwrap();
    assert!(code == "store_io" || code == "store_full", "the probe writes for real: {code}");
    process.finish();
    let store = fixture.open();
    let sql = "SELECT count(*) FROM meta WHERE key LIKE 'fill%'";
    let left: u64 = store.read(move |tx| tx.fetch_one(sql, params![])).await.unwrap();
    assert_eq!(left, written);
    assert!(store.check().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn on_the_callers_thread_a_write_is_done_when_the_call_returns() {
    let fixture = Fixture::sqlite();
    let store =
        Store::open(StoreOptions { thread_mode: ThreadMode::Inline, ..fixture.options() }).unwrap();
    let started = tokio::time::Instant::now();
    store.write(|tx| put(tx, "done")).detach();
    let failed = store.write(|tx| {
        put(tx, "undone")?;
        Err::<(), _>(StoreError::Closed)
    });
    assert_eq!(ids(&store).await, ["done"]);
    assert_eq!(failed.await.unwrap_err(), StoreError::Closed);
    assert_eq!(started.elapsed(), Duration::ZERO, "paused time did not run away");
    store.close().await;
    assert_eq!(store.write(|tx| put(tx, "late")).await.unwrap_err(), StoreError::Closed);
}
