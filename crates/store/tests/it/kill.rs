//! Killed processes and processes side by side: what was acknowledged is there, without a gap.

use std::collections::HashSet;
use std::path::Path;

use provost_core::Env;
use provost_store::table::work::run::{self, RunFilter};
use provost_store::table::work::run_event;
use provost_store::{Store, StoreError, StoreOptions};

use crate::child::{Process, say};
use crate::fixture::{Fixture, event, put_run};

/// Events in one transaction.
const EVENTS: u64 = 3;

/// The role of a process that appends events to a run of its own until it is killed, and says what is acknowledged.
pub(crate) fn append(dir: &Path) {
    append_events(dir, u64::MAX);
}

/// The same, a hundred times.
pub(crate) fn append_many(dir: &Path) {
    append_events(dir, 100);
}

fn append_events(dir: &Path, times: u64) {
    let store = Store::open(StoreOptions::in_dir(dir)).unwrap();
    let env = Env::system();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let run = put_run(&store, &env).await;
        say(run.id);
        for _ in 0..times {
            let run = run.clone();
            let appended = store.write(move |tx| {
                let first = run::take_event_numbers(tx, run.id, EVENTS)?.unwrap();
                for seq in first..first + EVENTS {
                    event(&run, seq).insert(tx)?;
                }
                Ok::<_, StoreError>(first + EVENTS - 1)
            });
            say(appended.await.unwrap());
        }
        store.close().await;
    });
}

/// Every run's log is whole: numbered from one to the last, as its counter says.
async fn check_logs(store: &Store) -> Vec<(String, u64)> {
    let report = store.check().await.unwrap();
    assert!(report.is_ok(), "{report:?}");
    let logs = store.read(|tx| {
        let runs = run::list(tx, "default", &RunFilter::default(), 100)?;
        let mut logs = Vec::new();
        for row in runs {
            let events = run_event::after(tx, row.id, 0, u64::MAX)?;
            assert!(events.iter().map(|event| event.seq).eq(1..row.next_seq), "{}", row.id);
            logs.push((row.id.to_string(), row.next_seq - 1));
        }
        Ok::<_, StoreError>(logs)
    });
    logs.await.unwrap()
}

#[tokio::test]
async fn g43_what_was_acknowledged_survives_a_kill_without_a_gap() {
    let fixture = Fixture::sqlite();
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        let mut process = Process::start("append", fixture.dir.path());
        let run = process.hear().unwrap();
        let mut said: Vec<String> = (0..10 + round * 7).map(|_| process.hear().unwrap()).collect();
        said.extend(process.kill());
        acknowledged.push((run, said.last().unwrap().parse::<u64>().unwrap()));
    }
    let logs = check_logs(&fixture.open()).await;
    for (run, last) in acknowledged {
        let (_, events) = logs.iter().find(|(id, _)| *id == run).unwrap();
        assert!(*events >= last, "{run}: {last} acknowledged, {events} there");
        assert!(*events <= last + EVENTS, "{run}: more than was ever under way");
    }
}

#[tokio::test]
async fn processes_open_and_write_one_database_side_by_side() {
    let fixture = Fixture::sqlite();
    // None is there yet: all of them create it at once.
    let mut processes: Vec<_> =
        (0..4).map(|_| Process::start("append-many", fixture.dir.path())).collect();
    let mut runs = HashSet::new();
    for process in &mut processes {
        runs.insert(process.hear().unwrap());
    }
    // This process is one more of them.
    let store = fixture.open();
    let own = put_run(&store, &Env::system()).await;
    for process in processes {
        let mut process = process;
        for _ in 0..100 {
            process.hear().unwrap();
        }
        process.finish();
    }
    let mut logs = check_logs(&store).await;
    logs.retain(|(id, _)| *id != own.id.to_string());
    assert_eq!(logs.len(), 4);
    for (run, events) in logs {
        assert!(runs.contains(&run));
        assert_eq!(events, 100 * EVENTS);
    }
}
