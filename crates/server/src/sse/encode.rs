//! Encodes server-sent events. Stored JSON is copied unchanged.

use bytes::Bytes;
use provost_api::{Cursor, CursorPosition, DateTime};
use provost_core::lifecycle::RunStatus;
use provost_core::{DurableEvent, DurableEventKind, RunId};
use provost_store::query::event_log::LogEntry;
use serde::Serialize;
use serde_json::value::RawValue;

/// Returns the final status of a run that this kind of event ends. `None` for other kinds.
pub(crate) fn terminal_status(kind: &str) -> Option<RunStatus> {
    DurableEventKind::from_name(kind)?.end_status()
}

/// Returns the number of the turn that an event finishes. `None` for other events.
pub(crate) fn finished_turn(entry: &LogEntry) -> Option<u32> {
    let is_end = entry.kind == DurableEventKind::TurnFinished.as_str();
    let body = entry.body.as_deref().filter(|_| is_end)?;
    DurableEvent::parse(&entry.kind, body).ok()?.ended_turn()
}

/// A durable event with the same JSON as [`RunEvent`](provost_api::RunEvent), borrowed from the log.
#[derive(Serialize)]
pub(crate) struct EventJson<'a> {
    run: RunId,
    seq: u64,
    epoch: u64,
    attempt: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    kind: &'a str,
    at: DateTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
}

impl<'a> EventJson<'a> {
    /// Creates the JSON of a log entry.
    pub(crate) fn new(entry: &'a LogEntry) -> Self {
        let below = entry.child.as_deref();
        Self {
            run: entry.run,
            seq: entry.seq,
            epoch: entry.epoch,
            attempt: entry.attempt_no,
            agent: below.map(|below| below.agent.as_str()),
            call_id: below.map(|below| below.call_id.as_str()),
            kind: &entry.kind,
            at: DateTime(entry.at),
            data: raw(entry.body.as_deref()),
            message: raw(entry.message.as_deref()),
            result: raw(entry.result.as_deref()),
        }
    }
}

/// Returns stored JSON without copying it. `None` if it is absent; invalid JSON is logged and omitted.
fn raw(text: Option<&str>) -> Option<&RawValue> {
    let read = serde_json::from_str(text?);
    read.inspect_err(|error| tracing::error!(%error, "cannot parse stored JSON")).ok()
}

/// Meaning of the numbers in the cursors of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorKind {
    /// Number of an event in its run.
    Sequence,
    /// Position of an event in the log.
    Position,
}

impl CursorKind {
    /// Returns the number of an event that this kind of cursor uses.
    pub(crate) fn number_of(self, entry: &LogEntry) -> u64 {
        match self {
            Self::Sequence => entry.seq,
            Self::Position => entry.pos,
        }
    }

    /// Returns the cursor of a number.
    pub(crate) fn cursor(self, generation: u64, at: u64) -> Cursor {
        let position = match self {
            Self::Sequence => CursorPosition::Sequence(at),
            Self::Position => CursorPosition::Offset(at),
        };
        Cursor { generation, position }
    }
}

/// Encodes a durable event with its cursor as id.
pub(crate) fn event(generation: u64, entry: &LogEntry, kind: CursorKind) -> Bytes {
    let cursor = kind.cursor(generation, kind.number_of(entry));
    let data = one_line(&EventJson::new(entry));
    format!("id: {cursor}\nevent: {}\ndata: {data}\n\n", entry.kind).into()
}

/// Encodes an event that has no cursor.
pub(crate) fn unnumbered(event: &str, data: &impl Serialize) -> Bytes {
    format!("event: {event}\ndata: {}\n\n", one_line(data)).into()
}

/// Encodes the notice that live deltas were dropped.
pub(super) fn lagged(missed: u64) -> Bytes {
    #[derive(Serialize)]
    struct Lagged {
        missed: u64,
    }
    unnumbered("lagged", &Lagged { missed })
}

/// Encodes the notice that the run has ended and nothing follows.
pub(super) fn end(run: Option<RunId>, status: RunStatus) -> Bytes {
    #[derive(Serialize)]
    struct End<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        status: &'a str,
    }
    unnumbered("end", &End { run, status: status.as_str() })
}

/// Encodes a cursor without an event: the client remembers it, and nothing else happens.
pub(super) fn position(cursor: Cursor) -> String {
    format!("id: {cursor}\n\n")
}

/// Serializes JSON on one line. Stored JSON can contain line breaks only between its values.
fn one_line(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot serialize an event");
        "{}".to_owned()
    });
    json.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use provost_api::RunEvent;
    use provost_core::Timestamp;

    use super::*;

    fn entry() -> LogEntry {
        LogEntry {
            pos: u64::MAX,
            run: "run_01jd0000000000000000000000".parse::<RunId>().unwrap(),
            seq: 0,
            epoch: 10,
            attempt_no: 2,
            kind: "tool_finished".to_owned(),
            at: Timestamp::from_millis(1_700_000_000_123),
            body: Some("{\n\"a\": \"\\n\"\r\n}".to_owned()),
            message: None,
            result: Some(r#"{"call_id":"c","name":"t","parts":[]}"#.to_owned()),
            child: None,
        }
    }

    #[test]
    fn an_event_is_one_line_and_reads_as_what_the_api_promises() {
        let text = String::from_utf8(event(3, &entry(), CursorKind::Sequence).to_vec()).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines[..2], ["id: 3-0", "event: tool_finished"]);
        assert_eq!(lines[3..], ["", ""]);
        let event_json = lines[2].strip_prefix("data: ").unwrap();
        let start = "{\"run\":\"run_01jd0000000000000000000000\",\"seq\":0,\"epoch\":10,\"attempt\":2,\
            \"kind\":\"tool_finished\",\"at\":\"2023-11-14T22:13:20.123Z\",\"data\":{ \"a\": \"\\n\"  },\
            \"result\":{\"call_id\":\"c\",\"name\":\"t\",\"parts\":[]}}";
        assert_eq!(event_json, start);
        let read: RunEvent = serde_json::from_str(event_json).unwrap();
        assert_eq!((read.seq, read.epoch, read.attempt), (0, 10, 2));
        assert_eq!(read.data.unwrap()["a"], "\n");
        assert_eq!(read.result.unwrap().name, "t");
        assert_eq!(read.at.to_string(), "2023-11-14T22:13:20.123Z");
        let by_position = event(3, &entry(), CursorKind::Position);
        assert!(by_position.starts_with(format!("id: 3-p{}\n", u64::MAX).as_bytes()));
        let cursor = Cursor { generation: 3, position: CursorPosition::Offset(u64::MAX) };
        assert!(by_position.starts_with(format!("id: {cursor}\n").as_bytes()));
    }
}
