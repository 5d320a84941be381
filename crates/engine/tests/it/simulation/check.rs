//! What must hold at the end of every history.

use std::collections::BTreeMap;

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::recovery::EffectClass;
use provost_engine::{Engine, EngineError, SubmitReceipt};
use provost_store::params;
use provost_testkit::history::{self, Record};

use super::world::Ledger;

type Answer<T> = Result<T, EngineError>;

/// Runs and tasks that have not come to an end.
pub(crate) async fn unfinished(engine: &Engine) -> Vec<String> {
    let read = engine.store().read(|tx| -> Answer<Vec<String>> {
        let runs: Vec<(String, String, Option<String>)> = tx.fetch_all(
            "SELECT id, phase, detail FROM run WHERE phase <> 'done' ORDER BY id LIMIT 100",
            params![],
        )?;
        let inputs: Vec<(String, String)> = tx.fetch_all(
            "SELECT id, state FROM input WHERE state IN ('pending', 'claimed') ORDER BY id LIMIT 100",
            params![],
        )?;
        let runs = runs.into_iter().map(|(id, phase, detail)| format!("{id} {phase} {detail:?}"));
        let inputs = inputs.into_iter().map(|(id, state)| format!("{id} {state}"));
        Ok(runs.chain(inputs).collect())
    });
    read.await.expect("the database answers")
}

/// No effect happened twice that must not.
pub(crate) fn effects(ledger: &Ledger) -> Vec<String> {
    let once = [EffectClass::Opaque, EffectClass::Provable];
    let ledger = ledger.lock().unwrap();
    let doubled = ledger.iter().filter(|(_, (class, count))| once.contains(class) && *count > 1);
    doubled
        .map(|(key, (class, count))| format!("{class} effect {key} happened {count} times"))
        .collect()
}

/// Rows, counters and the log agree.
pub(crate) async fn rows(engine: &Engine) -> Vec<String> {
    let records = records(engine).await;
    let terminal = |kind: &str| matches!(kind, "finished" | "failed" | "cancelled" | "timed_out");
    let mut broken: Vec<String> =
        history::check(&records, terminal).iter().map(ToString::to_string).collect();
    let counters = [
        (
            "a class counts runs that do not work",
            "SELECT count(*) FROM exec_class WHERE running <> 0",
        ),
        (
            "a session is held by nobody",
            "SELECT count(*) FROM session WHERE holder_run_id IS NOT NULL",
        ),
        (
            "a run holds its session after its end",
            "SELECT count(*) FROM run WHERE phase = 'done' AND (holds_session = 1 OR ready = 1 OR lease_owner IS NOT NULL)",
        ),
        (
            "a step is open after the end",
            "SELECT count(*) FROM run_step s JOIN run r ON r.id = s.run_id WHERE r.phase = 'done' AND s.state IN ('planned', 'started', 'unknown')",
        ),
        (
            "an approval is open after the end",
            "SELECT count(*) FROM approval a JOIN run r ON r.id = a.run_id WHERE r.phase = 'done' AND a.state = 'pending'",
        ),
        ("an attempt did not end", "SELECT count(*) FROM attempt WHERE ended IS NULL"),
        (
            "a counter is not one above the last number",
            "SELECT count(*) FROM run WHERE next_seq <> 1 + (SELECT count(*) FROM run_event e WHERE e.run_id = run.id)",
        ),
        ("money stays set aside", "SELECT count(*) FROM budget WHERE reserved_micros <> 0"),
        (
            "a task is open though all its runs ended",
            "SELECT count(*) FROM task WHERE state IN ('queued', 'running', 'sleeping')",
        ),
    ];
    for (what, sql) in counters {
        let count: u64 = engine
            .store()
            .read(move |tx| -> Answer<u64> { Ok(tx.fetch_one(sql, params![])?) })
            .await
            .expect("the database answers");
        if count > 0 {
            broken.push(format!("{what}: {count}"));
        }
    }
    broken
}

/// Everything that was accepted is there, once: said again, it is known.
pub(crate) async fn accepted(
    engine: &Engine,
    namespace: &Namespace,
    accepted: &BTreeMap<String, (TaskRequest, SubmitReceipt)>,
) -> Vec<String> {
    let mut broken = Vec::new();
    for (key, (command, first)) in accepted {
        match engine.submit(namespace, command.clone()).await {
            Ok(again) if again.deduped && again.task == first.task && again.run == first.run => {}
            other => broken.push(format!("command {key} was {first:?}, and is now {other:?}")),
        }
    }
    broken
}

/// The history as text.
pub(crate) async fn told(engine: &Engine) -> Vec<String> {
    let records = records(engine).await;
    records
        .iter()
        .map(|record| {
            format!("{} {} {} {} {}", record.run, record.seq, record.epoch, record.kind, record.at)
        })
        .collect()
}

async fn records(engine: &Engine) -> Vec<Record> {
    let read = engine.store().read(|tx| -> Answer<Vec<Record>> {
        let rows: Vec<(String, u64, u64, String, i64)> = tx.fetch_all(
            "SELECT run_id, seq, epoch, kind, at FROM run_event ORDER BY run_id, seq",
            params![],
        )?;
        let record = |(run, seq, epoch, kind, at)| Record { run, seq, epoch, kind, at };
        Ok(rows.into_iter().map(record).collect())
    });
    read.await.expect("the database answers")
}
