//! Replay: rebuilds a run from its journal and compares the result with the stored run, events and usage. It changes
//! nothing and repeats no effect.

use std::collections::BTreeMap;

use provost_agent::run::{JournalEntry, Run};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunStatus, StepKind};
use provost_core::{DurableEventKind, RunId};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_event::{self, RunEventRow};
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::{Tx, load_text};
use serde_json::Value;

use crate::attempt::restore::{self, ReplayFrom};
use crate::error::EngineError;
use crate::journal::entry;
use crate::run::Runs;
use provost_store::table::work::stored_message as message;

/// Rows that are read per query.
const PAGE: u64 = 500;
/// Events with exactly one source: the commit of a step of this kind. Other events have several sources.
const EVENT_SOURCES: &[(DurableEventKind, StepKind)] = &[
    (DurableEventKind::TurnFinished, StepKind::ModelCall),
    (DurableEventKind::ToolFinished, StepKind::ToolCall),
    (DurableEventKind::Compacted, StepKind::Compact),
];
/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayReport {
    /// Number of journal entries.
    pub entries: u64,
    /// Number of events.
    pub events: u64,
    /// Model calls of the run, including those it shares with the run that it was forked from.
    pub turns: u32,
    /// Output of the run according to its journal.
    pub answer: String,
    /// Differences in plain text; empty if the replay is consistent.
    pub differences: Vec<String>,
}

impl ReplayReport {
    /// Returns true if there are no differences.
    pub fn is_consistent(&self) -> bool {
        self.differences.is_empty()
    }

    /// Adds a difference to the report if the values differ.
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, stored: T, replayed: T) {
        if stored != replayed {
            self.differences.push(format!("{what}: stored {stored:?}, replayed {replayed:?}"));
        }
    }
}

impl Runs<'_> {
    /// Rebuilds a run from its journal and compares it with its row, its events and its usage. Changes nothing. Fails
    /// if the run does not exist.
    pub async fn replay(
        self,
        namespace: &Namespace,
        id: RunId,
    ) -> Result<ReplayReport, EngineError> {
        let (namespace, env) = (namespace.clone(), self.engine.inner.env.clone());
        let replayed = self.engine.inner.store.read(move |tx| {
            let row = run::find(tx, namespace.as_str(), id)?;
            let row = row.ok_or_else(|| EngineError::not_found("run", id))?;
            let mut journal = crate::journal::JournalState::new(env);
            let whole = restore::rebuild(tx, &row, None, ReplayFrom::Beginning, &mut journal)?;
            let short = restore::rebuild(tx, &row, None, ReplayFrom::Snapshot, &mut journal)?;
            let mut report = ReplayReport::default();
            if whole != short {
                report.differences.push("the snapshot differs from the journal".to_owned());
            }
            let steps = steps(tx, id)?;
            check_steps(tx, &row, &steps, &mut report)?;
            check_events(&row, &events(tx, id)?, &steps, &mut report)?;
            if let Some(machine) = &whole {
                check_result(&row, machine, &mut report)?;
            }
            Ok::<_, EngineError>(report)
        });
        replayed.await
    }
}

/// Reads all steps of a run.
fn steps(tx: &mut Tx<'_>, id: RunId) -> Result<Vec<RunStepRow>, EngineError> {
    let mut rows: Vec<RunStepRow> = Vec::new();
    loop {
        let after = rows.last().map_or(0, |row| row.step);
        let page = run_step::after(tx, id, after, PAGE)?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}

/// Reads all events of a run.
fn events(tx: &mut Tx<'_>, id: RunId) -> Result<Vec<RunEventRow>, EngineError> {
    let mut rows: Vec<RunEventRow> = Vec::new();
    loop {
        let after = rows.last().map_or(0, |row| row.seq);
        let page = run_event::after(tx, id, after, PAGE)?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}

/// Reports duplicate entry numbers, in-flight steps of an ended run, and steps that cost more than the run.
fn check_steps(
    tx: &mut Tx<'_>,
    row: &RunRow,
    steps: &[RunStepRow],
    report: &mut ReplayReport,
) -> Result<(), EngineError> {
    let saved = steps.iter().filter(|step| step.saved).filter_map(RunStepRow::last_entry_no);
    let mut entry_numbers: Vec<u64> =
        steps.iter().filter_map(|step| step.entry_no).chain(saved).collect();
    entry_numbers.sort_unstable();
    report.entries = entry_numbers.len() as u64;
    let unique = entry_numbers.windows(2).all(|pair| pair[0] < pair[1]);
    report.compare("entry numbers are unique", unique, true);
    let beyond = steps.iter().filter(|step| step.step >= row.next_step).count();
    report.compare("steps beyond the counter", beyond, 0);
    let ended = row.status.is_terminal();
    let open = |step: &&RunStepRow| step.state.is_open();
    if ended {
        report.compare("in-flight steps of an ended run", steps.iter().filter(open).count(), 0);
    }
    let mut spent = 0;
    for step in steps.iter().filter(|step| step.entry_no.is_some()) {
        spent += cost_of(tx, step)?;
    }
    // A call of unknown cost is charged its reservation, so the run can have cost more than its steps, never less.
    if spent > row.cost_micros {
        report.compare("cost in millionths", row.cost_micros, spent);
    }
    Ok(())
}

/// Returns the cost of a step in millionths. 0 if it has no known cost.
fn cost_of(tx: &mut Tx<'_>, step: &RunStepRow) -> Result<i64, EngineError> {
    let kind: StepKind = step.kind;
    if !matches!(kind, StepKind::ModelCall | StepKind::Compact | StepKind::Finish) {
        return Ok(0);
    }
    let body = load_text(tx, step.body.clone(), step.blob.as_deref())?.unwrap_or_default();
    let message = step.message_id.map(|id| message::get(tx, id)).transpose()?;
    let cost = match entry::decode_entry(kind, &body, message)? {
        JournalEntry::ModelResponded { cost, .. }
        | JournalEntry::ContextCompacted { cost, .. }
        | JournalEntry::Stopped { cost, .. } => cost,
        _ => None,
    };
    Ok(cost.map_or(0, |cost| cost.micros()))
}

/// Reports gaps in the event numbers, and an ended run without exactly one terminal event at the end.
fn check_events(
    row: &RunRow,
    events: &[RunEventRow],
    steps: &[RunStepRow],
    report: &mut ReplayReport,
) -> Result<(), EngineError> {
    report.events = events.len() as u64;
    // Retention removes the events of a run that ended long ago, except for the last one.
    let only_end = matches!(events, [end] if end.seq > 1 && end.seq + 1 == row.next_seq);
    if !only_end {
        let gapless = (1..).zip(events).all(|(seq, event)| event.seq == seq);
        report.compare("event numbers have no gap", gapless, true);
        report.compare("the number of the next event", row.next_seq, events.len() as u64 + 1);
        check_event_counts(events, steps, report);
    }
    let ordered = events.windows(2).all(|pair| pair[0].epoch <= pair[1].epoch);
    report.compare("events are ordered by epoch", ordered, true);
    let status: RunStatus = row.status;
    let kinds = events.iter().map(|event| event.kind.as_str());
    let is_end =
        |kind: &&str| DurableEventKind::from_name(kind).is_some_and(DurableEventKind::is_terminal);
    let ends: Vec<&str> = kinds.filter(is_end).collect();
    if let Some(expected) = DurableEventKind::of_end(status) {
        let expected = expected.as_str();
        report.compare("terminal events", ends, vec![expected]);
        let last = events.last().map_or("", |event| event.kind.as_str());
        report.compare("the last event", last, expected);
    } else {
        report.compare("terminal events", ends.len(), 0);
    }
    Ok(())
}

/// Reports kinds of steps whose number differs from that of their events.
fn check_event_counts(events: &[RunEventRow], steps: &[RunStepRow], report: &mut ReplayReport) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        *counts.entry(event.kind.as_str()).or_default() += 1;
    }
    for (event, kind) in EVENT_SOURCES {
        let steps_of_kind =
            steps.iter().filter(|step| step.entry_no.is_some() && step.kind == *kind);
        let counts = counts.get(event.as_str()).copied().unwrap_or(0);
        report.compare(&format!("{event} events"), counts, steps_of_kind.count());
    }
}

/// Reports a stored result or usage that differs from the state machine.
fn check_result(row: &RunRow, machine: &Run, report: &mut ReplayReport) -> Result<(), EngineError> {
    report.turns = machine.turns();
    report.answer = machine.output().to_owned();
    if row.status != RunStatus::Ok {
        return Ok(());
    }
    report.compare("a successful run is done", true, machine.is_done());
    let result: Value = serde_json::from_str(row.result.as_deref().unwrap_or("{}"))?;
    let summary = machine.summary(row.ended.unwrap_or_default());
    report.compare("the output", result["text"].as_str(), Some(machine.output()));
    report.compare("the turns", result["turns"].as_u64(), Some(u64::from(summary.turns)));
    report.compare(
        "the tool calls",
        result["tool_calls"].as_u64(),
        Some(u64::from(summary.tool_calls)),
    );
    let usage = serde_json::to_value(summary.usage)?;
    report.compare("the tokens", &result["usage"], &usage);
    report.compare("the reason to stop", &result["stop"], &serde_json::to_value(summary.stop)?);
    Ok(())
}
