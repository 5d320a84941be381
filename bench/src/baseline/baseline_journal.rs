//! Baseline of durable work: a minimal journal around the baseline loop.
//!
//! One table, one writer thread, and one commit for all waiting batches. Each effect is recorded before it happens. Its
//! outcome is committed together with the next effect. Leases, fences, events, a queue and recovery are missing. The
//! journal only contains the data that a recovery would need.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use rusqlite::{Connection, params};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::Result;
use crate::baseline::baseline_loop::{BaselineLoop, Call, opening};
use crate::baseline::sqlite;

/// Maximum number of batches that share a commit.
const GROUP_MAX: usize = 256;
const SCHEMA: &str =
    "CREATE TABLE journal (task INTEGER NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL,
     intent TEXT NOT NULL, outcome TEXT, PRIMARY KEY (task, step)) WITHOUT ROWID";

/// A journal and the loop that uses it. Clones share both.
#[derive(Clone)]
pub(crate) struct BaselineJournal {
    baseline: BaselineLoop,
    batches: mpsc::Sender<Batch>,
    tasks: Arc<AtomicI64>,
    commits: Arc<AtomicU64>,
}

/// Writes of a task, and the sender that reports their commit.
struct Batch {
    lines: Vec<Line>,
    done: oneshot::Sender<Result<(), String>>,
}

/// One row of the journal.
struct Line {
    task: i64,
    step: i64,
    write: Write,
}

enum Write {
    Begin { kind: &'static str, intent: String },
    Record { outcome: String },
}

impl BaselineJournal {
    /// Opens a journal in a directory and starts its writer.
    pub(crate) fn open(dir: &Path, baseline: BaselineLoop) -> Result<Self> {
        let connection = sqlite::open(&dir.join("hand.db"))?;
        connection.execute_batch(SCHEMA)?;
        let (batches, waiting) = mpsc::channel();
        let commits = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&commits);
        thread::spawn(move || serve(connection, &waiting, &counted));
        Ok(Self { baseline, batches, tasks: Arc::default(), commits })
    }

    /// Returns the number of commits.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Runs one task. Returns the used tokens.
    pub(crate) async fn run(&self, prompt: &str) -> Result<u64> {
        let task = self.tasks.fetch_add(1, Ordering::Relaxed);
        let mut writer = JournalWriter { baseline: self, task, steps: 0, lines: Vec::new() };
        let accepted = writer.begin("task", prompt.to_owned());
        writer.commit().await?;
        let mut messages = opening(prompt);
        let mut tokens = 0;
        loop {
            let asked = writer.begin("model", messages.len().to_string());
            writer.commit().await?;
            let answer = self.baseline.ask(&messages, &mut |_| ()).await?;
            tokens += answer.tokens;
            let message = answer.to_message();
            writer.record(asked, message.to_string());
            if answer.calls.is_empty() {
                writer.record(accepted, message.to_string());
                writer.commit().await?;
                return Ok(tokens);
            }
            messages.push(message);
            messages.extend(call_tools(&mut writer, &answer.calls).await?);
        }
    }
}

/// Runs the calls of one response. One commit records all of them before the first one runs.
async fn call_tools(writer: &mut JournalWriter<'_>, calls: &[Call]) -> Result<Vec<Value>> {
    let steps: Vec<i64> =
        calls.iter().map(|call| writer.begin("tool", call.to_json().to_string())).collect();
    writer.commit().await?;
    let mut results = Vec::with_capacity(calls.len());
    for (step, call) in steps.into_iter().zip(calls) {
        let result = call.run().await?;
        writer.record(step, result.to_string());
        results.push(result);
    }
    Ok(results)
}

/// Writer of one task. Its records wait for the next commit.
struct JournalWriter<'a> {
    baseline: &'a BaselineJournal,
    task: i64,
    steps: i64,
    lines: Vec<Line>,
}

impl JournalWriter<'_> {
    fn begin(&mut self, kind: &'static str, intent: String) -> i64 {
        let step = self.steps;
        self.steps += 1;
        self.lines.push(Line { task: self.task, step, write: Write::Begin { kind, intent } });
        step
    }

    fn record(&mut self, step: i64, outcome: String) {
        self.lines.push(Line { task: self.task, step, write: Write::Record { outcome } });
    }

    /// Waits until everything so far is persisted.
    async fn commit(&mut self) -> Result<()> {
        let (done, committed) = oneshot::channel();
        self.baseline.batches.send(Batch { lines: std::mem::take(&mut self.lines), done })?;
        Ok(committed.await??)
    }
}

/// Commits waiting batches until all senders are dropped.
fn serve(mut connection: Connection, waiting: &mpsc::Receiver<Batch>, commits: &AtomicU64) {
    while let Ok(first) = waiting.recv() {
        let more = waiting.try_iter().take(GROUP_MAX - 1);
        let group: Vec<Batch> = std::iter::once(first).chain(more).collect();
        let outcome = commit(&mut connection, &group).map_err(|error| error.to_string());
        commits.fetch_add(1, Ordering::Relaxed);
        for batch in group {
            // The receiver may have been dropped.
            let _sent = batch.done.send(outcome.clone()).is_ok();
        }
    }
}

fn commit(connection: &mut Connection, group: &[Batch]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for Line { task, step, write } in group.iter().flat_map(|batch| &batch.lines) {
        match write {
            Write::Begin { kind, intent } => transaction
                .prepare_cached(
                    "INSERT INTO journal (task, step, kind, intent) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![task, step, kind, intent])?,
            Write::Record { outcome } => transaction
                .prepare_cached("UPDATE journal SET outcome = ?3 WHERE task = ?1 AND step = ?2")?
                .execute(params![task, step, outcome])?,
        };
    }
    transaction.commit()
}
