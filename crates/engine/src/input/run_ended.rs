//! The end of a run, as its messages see it.

use provost_core::durable::{DurableEvent, RolledBack};
use provost_core::lifecycle::InputState;
use provost_core::recovery::OutcomeCode;
use provost_store::Tx;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::RunRow;
use provost_store::table::work::session;
use provost_store::table::work::session_entry::{self, SessionEntryRow};

use super::has_begun;
use crate::error::EngineError;
use crate::run::event;

/// Settles what a run had been given. What it has not answered is left for the next one, unless the run is taken out of the
/// session with all that was said to it. The caller stores the row.
pub(crate) fn run_ended(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    code: Option<OutcomeCode>,
) -> Result<(), EngineError> {
    input::settle_first(tx, run.id)?;
    if is_rolled_back(run) {
        return roll_back(tx, run);
    }
    let unread = !has_begun(run);
    let cancelled =
        matches!(code, Some(OutcomeCode::CancelledByUser | OutcomeCode::CancelledByParent));
    if unread || cancelled {
        // Nobody has read what it would have begun with; and whoever cancels a run means what was said to it as well.
        for row in input::unanswered(tx, run.id)? {
            settle(tx, &row, InputState::Cancelled)?;
        }
    }
    Ok(())
}

/// Only a rollback asks a run to end because of a message; an interrupt lets it go on.
fn is_rolled_back(run: &RunRow) -> bool {
    run.cancel_code.as_deref() == Some(OutcomeCode::CancelledByInterrupt.as_str())
}

/// The session becomes what it was before the run began.
fn roll_back(tx: &mut Tx<'_>, run: &mut RunRow) -> Result<(), EngineError> {
    for row in input::unanswered(tx, run.id)? {
        settle(tx, &row, InputState::Superseded)?;
    }
    let (Some(base), Some(mut row)) =
        (run.base_revision, session::lock(tx, &run.namespace, &run.session_id)?)
    else {
        return Ok(());
    };
    row.revision += 1;
    let session = run.session();
    let left = session_entry::retire_of_run(tx, session, run.id, row.revision)?;
    // What the run had replaced by a summary comes back.
    let gone = session_entry::gone_since(tx, session, base)?;
    let restored = gone.len();
    for entry in gone {
        let entry =
            SessionEntryRow { entry: row.next_entry, added: row.revision, gone: None, ..entry };
        entry.insert(tx)?;
        row.next_entry += 1;
    }
    row.updated = tx.now();
    row.save(tx)?;
    let rolled_back = RolledBack { left, restored: restored as u64 };
    event::append_event(tx, run, DurableEvent::RolledBack(rolled_back))
}

fn settle(tx: &mut Tx<'_>, row: &InputRow, state: InputState) -> Result<(), EngineError> {
    Ok(input::set_state(tx, row.id, state.as_str())?)
}
