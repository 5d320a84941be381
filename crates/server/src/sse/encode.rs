//! Events as they are sent. Stored texts are copied as they are, neither read nor written anew.

use bytes::Bytes;
use provost_core::work::RunStatus;
use provost_engine::LogEntry;
use serde::Deserialize;

use super::source::Source;

/// What an event takes besides its texts.
const HEAD_BYTES: usize = 256;

/// How a run ended, if this kind of event is the last one of a run.
pub(crate) fn terminal(kind: &str) -> Option<RunStatus> {
    match kind {
        "finished" => Some(RunStatus::Ok),
        "failed" => Some(RunStatus::Error),
        "timed_out" => Some(RunStatus::Timeout),
        "cancelled" => Some(RunStatus::Cancelled),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Turn {
    turn: u32,
}

/// The model call that an event has ended, if it is such an event.
pub(crate) fn ended_turn(entry: &LogEntry) -> Option<u32> {
    let body = entry.body.as_deref().filter(|_| entry.kind == "turn_finished")?;
    serde_json::from_str::<Turn>(body).ok().map(|turn| turn.turn)
}

/// One durable event as it is sent, with its cursor: of its run, or of the whole log.
pub(crate) fn event_frame(generation: u64, entry: &LogEntry, is_run: bool) -> Bytes {
    let mut out = Vec::with_capacity(HEAD_BYTES + texts(entry));
    frame(&mut out, generation, entry, is_run);
    out.into()
}

/// Many events as they are sent.
pub(super) fn events(generation: u64, entries: &[LogEntry], is_run: bool) -> Bytes {
    let room = entries.iter().map(|entry| HEAD_BYTES + texts(entry)).sum();
    let mut out = Vec::with_capacity(room);
    for entry in entries {
        frame(&mut out, generation, entry, is_run);
    }
    out.into()
}

/// One durable event as JSON: a [`RunEvent`](provost_api::RunEvent).
pub(crate) fn event_json(out: &mut Vec<u8>, entry: &LogEntry) {
    out.extend_from_slice(b"{\"run\":\"");
    out.extend_from_slice(entry.run.to_string().as_bytes());
    out.extend_from_slice(b"\",\"seq\":");
    number(out, entry.seq);
    out.extend_from_slice(b",\"epoch\":");
    number(out, entry.epoch);
    out.extend_from_slice(b",\"attempt\":");
    number(out, entry.attempt_no);
    if let Some(below) = &entry.below {
        text(out, "agent", &below.agent);
        text(out, "call_id", &below.call_id);
    }
    // Kinds are words of the engine: nothing in them needs to be escaped.
    out.extend_from_slice(b",\"kind\":\"");
    out.extend_from_slice(entry.kind.as_bytes());
    out.extend_from_slice(b"\",\"at\":\"");
    out.extend_from_slice(entry.at.to_rfc3339().as_bytes());
    out.push(b'"');
    let parts = [("data", &entry.body), ("message", &entry.message), ("result", &entry.result)];
    for (name, text) in parts {
        if let Some(text) = text {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            one_line(out, text);
        }
    }
    out.push(b'}');
}

/// A field whose text may need to be escaped.
fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(serde_json::Value::from(value).to_string().as_bytes());
}

/// Says that live pieces were left out.
pub(super) fn lagged(pieces: u64) -> Bytes {
    format!("event: lagged\ndata: {{\"missed\":{pieces}}}\n\n").into()
}

/// Says that the run is over and nothing follows.
pub(super) fn end(source: &Source, status: RunStatus) -> Bytes {
    let run = source.run().map(|run| format!("\"run\":\"{run}\",")).unwrap_or_default();
    format!("event: end\ndata: {{{run}\"status\":\"{}\"}}\n\n", status.as_str()).into()
}

/// Only a cursor: the reader remembers it, and nothing else happens.
pub(super) fn position(generation: u64, at: u64, is_run: bool) -> Vec<u8> {
    let mut out = b"id: ".to_vec();
    cursor(&mut out, generation, at, is_run);
    out.extend_from_slice(b"\n\n");
    out
}

fn frame(out: &mut Vec<u8>, generation: u64, entry: &LogEntry, is_run: bool) {
    out.extend_from_slice(b"id: ");
    cursor(out, generation, if is_run { entry.seq } else { entry.pos }, is_run);
    out.extend_from_slice(b"\nevent: ");
    out.extend_from_slice(entry.kind.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    event_json(out, entry);
    out.extend_from_slice(b"\n\n");
}

/// A [`Cursor`](provost_api::Cursor) as text.
fn cursor(out: &mut Vec<u8>, generation: u64, at: u64, is_run: bool) {
    number(out, generation);
    out.extend_from_slice(if is_run { b"-" } else { b"-p" });
    number(out, at);
}

fn texts(entry: &LogEntry) -> usize {
    let texts = [&entry.body, &entry.message, &entry.result];
    texts.into_iter().flatten().map(String::len).sum()
}

/// JSON in one line. Only white space between values can hold a line's end, and we write none ourselves.
fn one_line(out: &mut Vec<u8>, json: &str) {
    let begin = out.len();
    out.extend_from_slice(json.as_bytes());
    if memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some() {
        for byte in &mut out[begin..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

fn number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use provost_api::{Cursor, Place, RunEvent};
    use provost_core::{RunId, Timestamp};

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
            below: None,
        }
    }

    #[test]
    fn an_event_is_one_line_and_reads_as_what_the_api_promises() {
        let text = String::from_utf8(event_frame(3, &entry(), true).to_vec()).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines[..2], ["id: 3-0", "event: tool_finished"]);
        assert_eq!(lines[3..], ["", ""]);
        let event: RunEvent =
            serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((event.seq, event.epoch, event.attempt), (0, 10, 2));
        assert_eq!(event.data.unwrap()["a"], "\n");
        assert_eq!(event.result.unwrap().name, "t");
        assert_eq!(event.at.to_string(), "2023-11-14T22:13:20.123Z");
        let wide = event_frame(3, &entry(), false);
        assert!(wide.starts_with(format!("id: 3-p{}\n", u64::MAX).as_bytes()));
        let cursor = Cursor { generation: 3, place: Place::Pos(u64::MAX) };
        assert!(wide.starts_with(format!("id: {cursor}\n").as_bytes()));
    }
}
