//! How a running attempt gets what was said to its run.

use std::sync::Arc;

use provost_core::{InputId, Message, MessageId};
use provost_failpoint::failpoint;
use provost_store::table::work::input;
use provost_store::{Store, Tx};

use crate::error::EngineError;
use crate::run::settle;
use crate::worker::lease::Lease;
use provost_store::table::work::stored_message as message;

/// What an attempt takes into its conversation: the input, its message, and what that says.
pub(crate) type Taken = (InputId, MessageId, Arc<Message>);

/// Takes what waits for the run of an attempt, in order. From then on its sender cannot take it back; if the attempt is lost
/// before it has written it down, the next one takes it again.
pub(crate) async fn take(store: &Store, lease: Arc<Lease>) -> Result<Vec<Taken>, EngineError> {
    let run = lease.run;
    let waits = store.read(move |tx| Ok::<_, EngineError>(input::waits_for_run(tx, run)?)).await?;
    if !waits {
        return Ok(Vec::new());
    }
    failpoint!("input.before_take");
    let taken = store.write(move |tx| taken(tx, &lease)).await;
    failpoint!("input.taken");
    taken
}

fn taken(tx: &mut Tx<'_>, lease: &Lease) -> Result<Vec<Taken>, EngineError> {
    settle::held(tx, lease)?;
    let rows = input::waiting_for_run(tx, lease.run)?;
    input::take(tx, lease.run, lease.epoch)?;
    let mut taken = Vec::with_capacity(rows.len());
    for row in rows {
        taken.push((row.id, row.message_id, message::get(tx, row.message_id)?));
    }
    Ok(taken)
}

/// True if something was said that takes the place of what the run does.
pub(crate) fn interrupts(tx: &mut Tx<'_>, lease: &Lease) -> Result<bool, EngineError> {
    Ok(input::has_interrupts(tx, lease.run)?)
}
