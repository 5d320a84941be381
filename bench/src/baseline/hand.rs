//! The floor of durable work: a journal that somebody writes by hand, and the floor's loop through it.
//!
//! One table, one thread that writes, one commit for everything that waits. Each effect is written down before it happens; its
//! outcome is committed together with the next one. There are no leases, no fences, no events, no queue and no way to resume:
//! it only leaves behind what a resume would need.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use rusqlite::{Connection, params};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::Result;
use crate::baseline::floor::{Call, Floor, opening};
use crate::baseline::sqlite;

/// Batches that share a commit at most.
const GROUP_MAX: usize = 256;
const SCHEMA: &str =
    "CREATE TABLE journal (task INTEGER NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL,
     intent TEXT NOT NULL, outcome TEXT, PRIMARY KEY (task, step)) WITHOUT ROWID";

/// A journal and the loop that goes through it. Clones share both.
#[derive(Clone)]
pub(crate) struct Hand {
    floor: Floor,
    batches: mpsc::Sender<Batch>,
    tasks: Arc<AtomicI64>,
    commits: Arc<AtomicU64>,
}

/// What a task writes at once, and who waits for it.
struct Batch {
    lines: Vec<Line>,
    done: oneshot::Sender<Result<(), String>>,
}

/// One line of the journal.
struct Line {
    task: i64,
    step: i64,
    write: Write,
}

enum Write {
    Begin { kind: &'static str, intent: String },
    Record { outcome: String },
}

impl Hand {
    /// Opens a journal in a directory and starts its writer.
    pub(crate) fn open(dir: &Path, floor: Floor) -> Result<Self> {
        let connection = sqlite::open(&dir.join("hand.db"))?;
        connection.execute_batch(SCHEMA)?;
        let (batches, waiting) = mpsc::channel();
        let commits = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&commits);
        thread::spawn(move || serve(connection, &waiting, &counted));
        Ok(Self { floor, batches, tasks: Arc::default(), commits })
    }

    /// How often it committed so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Does one task. Gives the tokens used.
    pub(crate) async fn run(&self, prompt: &str) -> Result<u64> {
        let task = self.tasks.fetch_add(1, Ordering::Relaxed);
        let mut pen = Pen { hand: self, task, steps: 0, lines: Vec::new() };
        let accepted = pen.begin("task", prompt.to_owned());
        pen.commit().await?;
        let mut messages = opening(prompt);
        let mut tokens = 0;
        loop {
            let asked = pen.begin("model", messages.len().to_string());
            pen.commit().await?;
            let answer = self.floor.ask(&messages, &mut |_| ()).await?;
            tokens += answer.tokens;
            let message = answer.to_message();
            pen.record(asked, message.to_string());
            if answer.calls.is_empty() {
                pen.record(accepted, message.to_string());
                pen.commit().await?;
                return Ok(tokens);
            }
            messages.push(message);
            messages.extend(call_tools(&mut pen, &answer.calls).await?);
        }
    }
}

/// Runs the calls of one answer; all of them are written down in one commit before the first runs.
async fn call_tools(pen: &mut Pen<'_>, calls: &[Call]) -> Result<Vec<Value>> {
    let steps: Vec<i64> =
        calls.iter().map(|call| pen.begin("tool", call.to_json().to_string())).collect();
    pen.commit().await?;
    let mut results = Vec::with_capacity(calls.len());
    for (step, call) in steps.into_iter().zip(calls) {
        let result = call.run().await?;
        pen.record(step, result.to_string());
        results.push(result);
    }
    Ok(results)
}

/// Writes for one task. What it records waits for the next commit.
struct Pen<'a> {
    hand: &'a Hand,
    task: i64,
    steps: i64,
    lines: Vec<Line>,
}

impl Pen<'_> {
    fn begin(&mut self, kind: &'static str, intent: String) -> i64 {
        let step = self.steps;
        self.steps += 1;
        self.lines.push(Line { task: self.task, step, write: Write::Begin { kind, intent } });
        step
    }

    fn record(&mut self, step: i64, outcome: String) {
        self.lines.push(Line { task: self.task, step, write: Write::Record { outcome } });
    }

    /// Waits until everything so far is on disk.
    async fn commit(&mut self) -> Result<()> {
        let (done, committed) = oneshot::channel();
        self.hand.batches.send(Batch { lines: std::mem::take(&mut self.lines), done })?;
        Ok(committed.await??)
    }
}

/// Commits whatever waits, again and again.
fn serve(mut connection: Connection, waiting: &mpsc::Receiver<Batch>, commits: &AtomicU64) {
    while let Ok(first) = waiting.recv() {
        let more = waiting.try_iter().take(GROUP_MAX - 1);
        let group: Vec<Batch> = std::iter::once(first).chain(more).collect();
        let outcome = commit(&mut connection, &group).map_err(|error| error.to_string());
        commits.fetch_add(1, Ordering::Relaxed);
        for batch in group {
            // Whoever does not wait any more need not be told.
            let _told = batch.done.send(outcome.clone()).is_ok();
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
