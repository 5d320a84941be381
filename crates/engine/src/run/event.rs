//! Appends events to the log of a run.

use provost_core::MessageId;
use provost_core::durable::DurableEvent;
use provost_store::table::work::journal;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{StoredText, Tx, Wakeup};

use crate::error::EngineError;

/// An event and the message to which it refers.
pub(crate) struct NamedEvent<'a> {
    pub(crate) event: &'a DurableEvent,
    pub(crate) message_id: Option<MessageId>,
}

/// Appends an event to a stored run. Advances the event counter in the database and in `run`.
pub(crate) fn append_event(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    event: DurableEvent,
) -> Result<(), EngineError> {
    append_events(tx, run, &[event])
}

/// Appends several events to a stored run like [`append_event`].
pub(crate) fn append_events(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    events: &[DurableEvent],
) -> Result<(), EngineError> {
    if events.is_empty() {
        return Ok(());
    }
    let count = events.len() as u64;
    let seq = run::take_event_numbers(tx, run.id, count)?
        .ok_or_else(|| EngineError::bug(format!("{} is not stored", run.id)))?;
    let place =
        journal::EventHeader { run: run.id, epoch: run.epoch, attempt: run.attempt_no, seq };
    append_at(tx, place, events.iter().map(|event| NamedEvent { event, message_id: None }))?;
    run.next_seq = seq + count;
    tx.wake(Wakeup::Events(run.id));
    Ok(())
}

/// Appends events whose sequence numbers are already allocated. Does not wake their readers.
pub(crate) fn append_at<'a>(
    tx: &mut Tx<'_>,
    place: journal::EventHeader,
    events: impl Iterator<Item = NamedEvent<'a>>,
) -> Result<(), EngineError> {
    let mut bodies = Vec::new();
    for named in events {
        bodies.push((StoredText::new(named.event.body()?)?, named));
    }
    let rows: Vec<journal::NewEvent<'_>> = bodies
        .iter()
        .map(|(body, NamedEvent { event, message_id })| journal::NewEvent {
            kind: event.kind(),
            body,
            message_id: *message_id,
        })
        .collect();
    Ok(journal::append_events(tx, place, &rows)?)
}
