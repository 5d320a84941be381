//! Receiving inputs in a running attempt.

use std::sync::Arc;

use provost_core::{InputId, Message, MessageId};
use provost_failpoint::failpoint;
use provost_store::table::work::input;
use provost_store::{Store, Tx};

use crate::error::EngineError;
use crate::run::settle;
use crate::worker::lease::Lease;
use provost_store::table::work::stored_message as message;

/// A received input: its id, the id of its message, and the message.
pub(crate) type ReceivedInput = (InputId, MessageId, Arc<Message>);

/// Receives the pending inputs of a run, in order. Their sender cannot withdraw them afterwards. If the attempt is lost
/// before it has recorded them, the next attempt receives them again.
pub(crate) async fn receive(
    store: &Store,
    lease: Arc<Lease>,
) -> Result<Vec<ReceivedInput>, EngineError> {
    let run = lease.run;
    let waits = store.read(move |tx| Ok::<_, EngineError>(input::has_pending(tx, run)?)).await?;
    if !waits {
        return Ok(Vec::new());
    }
    failpoint!("input.before_take");
    let receive_in_tx = store.write(move |tx| receive_in_tx(tx, &lease)).await;
    failpoint!("input.taken");
    receive_in_tx
}

/// Claims and loads the pending inputs inside a transaction. Fails if another attempt has the run.
fn receive_in_tx(tx: &mut Tx<'_>, lease: &Lease) -> Result<Vec<ReceivedInput>, EngineError> {
    settle::lock_leased_run(tx, lease)?;
    let rows = input::pending_of_run(tx, lease.run)?;
    input::claim_pending(tx, lease.run, lease.epoch)?;
    let mut received = Vec::with_capacity(rows.len());
    for row in rows {
        received.push((row.id, row.message_id, message::get(tx, row.message_id)?));
    }
    Ok(received)
}

/// Returns true if a pending input interrupts the run.
pub(crate) fn interrupts(tx: &mut Tx<'_>, lease: &Lease) -> Result<bool, EngineError> {
    Ok(input::has_interrupts(tx, lease.run)?)
}
