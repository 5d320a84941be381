//! What is posted.

use provost_engine::{LogEntry, RunPlace};

use crate::sse::encode::event_json;

/// The body of a post about an event: type, time and the event itself.
pub(super) fn payload(entry: &LogEntry, _: &RunPlace) -> String {
    let mut event = Vec::new();
    event_json(&mut event, entry);
    // It is made of texts, so it is one.
    let event = String::from_utf8_lossy(&event);
    let (kind, at) = (&entry.kind, entry.at.to_rfc3339());
    format!("{{\"type\":\"{kind}\",\"timestamp\":\"{at}\",\"data\":{event}}}")
}
