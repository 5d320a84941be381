//! Body of a delivery.

use provost_api::DateTime;
use provost_store::query::event_log::{LogEntry, RunScope};
use serde::Serialize;

use crate::sse::encode::EventJson;

#[derive(Serialize)]
struct Payload<'a> {
    r#type: &'a str,
    timestamp: DateTime,
    data: EventJson<'a>,
}

/// Returns the body of a delivery: type, time and data of the event. An event that cannot be serialized is logged and
/// has an empty body.
pub(super) fn payload(entry: &LogEntry, _: &RunScope) -> String {
    let data = EventJson::new(entry);
    let payload = Payload { r#type: &entry.kind, timestamp: DateTime(entry.at), data };
    serde_json::to_string(&payload).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot serialize a delivery");
        String::new()
    })
}
