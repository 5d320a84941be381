//! Journal entries of runs that no worker holds.

use provost_agent::run::JournalEntry;
use provost_core::durable::{DurableEvent, ToolFinished};
use provost_store::table::work::journal;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Body, Tx};

use crate::error::EngineError;
use crate::journal::entry;
use crate::run::event;

/// Appends an entry to the journal of a parked run. The result of a call goes to the step of that call. The caller
/// stores the row.
pub(crate) fn feed_parked(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    feed: &JournalEntry,
) -> Result<(), EngineError> {
    let record = entry::encode_entry(feed)?;
    let fed = journal::next_fed(tx, run.id)?;
    let result = match feed {
        JournalEntry::ToolFinished { result, .. } => Some(result),
        _ => None,
    };
    let open = match result {
        Some(result) => journal::open_step_of(tx, run.id, &result.call_id)?,
        None => None,
    };
    let step = match open {
        Some(step) => step,
        None => take_step(tx, run)?,
    };
    let body = Body::new(record.body)?;
    let commit = journal::StepCommit {
        run: run.id,
        step,
        kind: record.kind.as_str(),
        epoch: run.epoch,
        fed,
        begun: open.is_some(),
        call_id: result.map(|result| result.call_id.as_str()),
        name: result.map(|result| result.name.as_str()),
        message_id: None,
        body: &body,
        saved: false,
    };
    journal::commit_step(tx, &commit)?;
    if let Some(result) = result {
        let call_id = result.call_id.clone();
        let finished = ToolFinished { step, call_id, duration_ms: None };
        event::append_event(tx, run, DurableEvent::ToolFinished(finished))?;
    }
    Ok(())
}

/// Takes the number of a new step of a run.
fn take_step(tx: &mut Tx<'_>, row: &mut RunRow) -> Result<u64, EngineError> {
    let step =
        run::take_step_number(tx, row.id)?.ok_or_else(|| EngineError::not_found("run", row.id))?;
    row.next_step = step + 1;
    Ok(step)
}
