//! Inputs at the end of their run.

use provost_core::durable::{DurableEvent, RolledBack};
use provost_core::lifecycle::InputTransition;
use provost_core::recovery::OutcomeCode;
use provost_store::Tx;
use provost_store::table::work::input;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::session;
use provost_store::table::work::session_entry::{self, SessionMessageRow};

use super::has_begun;
use crate::error::EngineError;
use crate::run::event;
use crate::run::lifecycle::transition_input;

/// Settles the inputs of a run that ends. Unanswered inputs stay for the next run, unless a rollback removes the run
/// and its inputs from the session. The caller stores the row.
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
        // A run that has not begun takes its first message with it. A cancellation of a run also cancels its inputs.
        for row in input::unconsumed(tx, run.id)? {
            transition_input(tx, &row, InputTransition::RunCancelled)?;
        }
    }
    Ok(())
}

/// Returns true if a rollback ends the run. An interrupt lets the run continue.
fn is_rolled_back(run: &RunRow) -> bool {
    run.cancel_code == Some(OutcomeCode::CancelledByInterrupt)
}

/// Restores the session as it was before the run began.
fn roll_back(tx: &mut Tx<'_>, run: &mut RunRow) -> Result<(), EngineError> {
    for row in input::unconsumed(tx, run.id)? {
        transition_input(tx, &row, InputTransition::RolledBack)?;
    }
    let (Some(base), Some(mut row)) =
        (run.base_revision, session::lock(tx, &run.namespace, &run.session_id)?)
    else {
        return Ok(());
    };
    row.revision += 1;
    let session = run.session();
    let retired = session_entry::remove_of_run(tx, session, run.id, row.revision)?;
    // Restores messages that the run had replaced by a summary.
    let removed = session_entry::removed_since(tx, session, base)?;
    let restored = removed.len();
    for entry in removed {
        let entry =
            SessionMessageRow { entry: row.next_entry, added: row.revision, gone: None, ..entry };
        entry.insert(tx)?;
        row.next_entry += 1;
    }
    row.updated = tx.now();
    row.save(tx)?;
    let rolled_back = RolledBack { left: retired, restored: restored as u64 };
    event::append_event(tx, run, DurableEvent::RolledBack(rolled_back))
}
