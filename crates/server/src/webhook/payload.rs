//! What is posted.

use provost_api::Time;
use provost_store::query::event_log::{LogEntry, RunPlace};
use serde::Serialize;

use crate::sse::encode::EventJson;

#[derive(Serialize)]
struct Payload<'a> {
    r#type: &'a str,
    timestamp: Time,
    data: EventJson<'a>,
}

/// Returns the body of a post about an event: type, time and the event itself.
pub(super) fn payload(entry: &LogEntry, _: &RunPlace) -> String {
    let data = EventJson::new(entry);
    let payload = Payload { r#type: &entry.kind, timestamp: Time(entry.at), data };
    serde_json::to_string(&payload).unwrap_or_else(|error| {
        tracing::error!(%error, "a post cannot be written");
        String::new()
    })
}
