//! Appending lifecycle events to a run whose row is at hand.

use provost_core::MessageId;
use provost_store::row::journal;
use provost_store::row::run::{self, RunRow};
use provost_store::{Body, Hint, Tx};
use serde_json::Value;

use crate::error::EngineError;

/// Appends an event to a run that is stored, and raises the counter of events in the database and in the given row.
pub(crate) fn push(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    kind: &str,
    body: Value,
) -> Result<(), EngineError> {
    push_with(tx, run, kind, body, None)
}

/// Like [`push`], with a body that is JSON already.
pub(crate) fn push_text(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    kind: &str,
    body: String,
) -> Result<(), EngineError> {
    let body = Body::new(body)?;
    append(tx, run, &[journal::NewEvent { kind, body: &body, message_id: None }])
}

/// Like [`push`], for several events of a kind with bodies that are JSON already.
pub(crate) fn push_all(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    kind: &str,
    bodies: Vec<String>,
) -> Result<(), EngineError> {
    if bodies.is_empty() {
        return Ok(());
    }
    let bodies: Vec<Body> = bodies.into_iter().map(Body::new).collect::<Result<_, _>>()?;
    let new = |body| journal::NewEvent { kind, body, message_id: None };
    let events: Vec<_> = bodies.iter().map(new).collect();
    append(tx, run, &events)
}

/// Like [`push`], about a message.
pub(crate) fn push_with(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    kind: &str,
    body: Value,
    message_id: Option<MessageId>,
) -> Result<(), EngineError> {
    let body = Body::new(body.to_string())?;
    append(tx, run, &[journal::NewEvent { kind, body: &body, message_id }])
}

fn append(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    events: &[journal::NewEvent<'_>],
) -> Result<(), EngineError> {
    let count = events.len() as u64;
    let seq = run::take_event_numbers(tx, run.id, count)?
        .ok_or_else(|| EngineError::bug(format!("{} is not stored", run.id)))?;
    let place = journal::EventPlace { run: run.id, epoch: run.epoch, attempt: run.attempt_no, seq };
    journal::append_events(tx, place, events)?;
    run.next_seq = seq + count;
    tx.hint(Hint::Events(run.id));
    Ok(())
}
