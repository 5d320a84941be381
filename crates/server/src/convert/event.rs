//! Converts durable events.

use provost_api::{DateTime, Problem, RunEvent};
use provost_store::query::event_log::LogEntry;

use super::parse_json;

/// Converts a durable event.
pub(crate) fn view(entry: &LogEntry) -> Result<RunEvent, Problem> {
    let below = entry.child.as_deref();
    Ok(RunEvent {
        run: entry.run,
        seq: entry.seq,
        epoch: entry.epoch,
        attempt: entry.attempt_no,
        agent: below.map(|below| below.agent.clone()),
        call_id: below.map(|below| below.call_id.clone()),
        kind: entry.kind.clone(),
        at: DateTime(entry.at),
        data: entry.body.as_deref().map(parse_json).transpose()?,
        message: entry.message.as_deref().map(parse_json).transpose()?,
        result: entry.result.as_deref().map(parse_json).transpose()?,
    })
}
