//! Durable events on the wire.

use provost_api::{Problem, RunEvent, Time};
use provost_store::query::event_log::LogEntry;

use super::stored;

/// A durable event.
pub(crate) fn view(entry: &LogEntry) -> Result<RunEvent, Problem> {
    let below = entry.below.as_deref();
    Ok(RunEvent {
        run: entry.run,
        seq: entry.seq,
        epoch: entry.epoch,
        attempt: entry.attempt_no,
        agent: below.map(|below| below.agent.clone()),
        call_id: below.map(|below| below.call_id.clone()),
        kind: entry.kind.clone(),
        at: Time(entry.at),
        data: entry.body.as_deref().map(stored).transpose()?,
        message: entry.message.as_deref().map(stored).transpose()?,
        result: entry.result.as_deref().map(stored).transpose()?,
    })
}
