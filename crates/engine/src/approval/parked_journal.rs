//! Journal entries of parked runs, which no worker has leased.

use provost_agent::run::JournalEntry;
use provost_core::durable::{DurableEvent, ToolFinished};
use provost_store::table::work::journal;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{StoredText, Tx};

use crate::error::EngineError;
use crate::journal::entry;
use crate::run::event;

/// Appends an entry to the journal of a parked run. The result of a call goes to the step of that call. The caller
/// stores the row.
pub(crate) fn append_while_parked(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    journal_entry: &JournalEntry,
) -> Result<(), EngineError> {
    let encoded = entry::encode_entry(journal_entry)?;
    let entry_no = journal::next_entry_no(tx, run.id)?;
    let result = match journal_entry {
        JournalEntry::ToolFinished { result, .. } => Some(result),
        _ => None,
    };
    let open = match result {
        Some(result) => journal::open_step_of(tx, run.id, &result.call_id)?,
        None => None,
    };
    let step = match open {
        Some(step) => step,
        None => allocate_step(tx, run)?,
    };
    let body = StoredText::new(encoded.body)?;
    let commit = journal::CommitStep {
        run: run.id,
        step,
        kind: encoded.kind,
        epoch: run.epoch,
        entry_no,
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

/// Allocates the number of a new step of a run.
fn allocate_step(tx: &mut Tx<'_>, row: &mut RunRow) -> Result<u64, EngineError> {
    let step =
        run::take_step_number(tx, row.id)?.ok_or_else(|| EngineError::not_found("run", row.id))?;
    row.next_step = step + 1;
    Ok(step)
}
