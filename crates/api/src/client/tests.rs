//! The client over a transport with scripted responses.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use futures::StreamExt;
use http::StatusCode;
use provost_core::{Env, RunId};
use serde_json::{Value, json};

use super::*;
use crate::{AgentChange, NewTask, StreamItem, WatchOptions};

/// A scripted response.
enum Scripted {
    Json(u16, Value),
    /// A stream of these chunks that then fails.
    Events(Vec<Vec<u8>>),
    /// A stream of these chunks that then stays open.
    Silent(Vec<Vec<u8>>),
    Text(u16, &'static str),
    Gone,
}

#[derive(Default)]
struct Script {
    responses: Mutex<VecDeque<Scripted>>,
    requests: Mutex<Vec<Request<Bytes>>>,
}

#[async_trait::async_trait]
impl Transport for Arc<Script> {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<BodyStream>, TransportError> {
        self.requests.lock().unwrap().push(request);
        let scripted = self.responses.lock().unwrap().pop_front().expect("an unexpected request");
        let gone = || TransportError { kind: ErrorKind::Unavailable, message: "gone".to_owned() };
        let (status, kind, body): (u16, &str, BodyStream) = match scripted {
            Scripted::Gone => return Err(gone()),
            Scripted::Json(status, json) => {
                let body = Bytes::from(json.to_string());
                (status, "application/json", Box::pin(futures::stream::iter([Ok(body)])))
            }
            Scripted::Text(status, text) => {
                let body = Bytes::from_static(text.as_bytes());
                (status, "text/plain", Box::pin(futures::stream::iter([Ok(body)])))
            }
            Scripted::Events(pieces) => {
                let pieces = pieces.into_iter().map(|piece| Ok(Bytes::from(piece)));
                let body = futures::stream::iter(pieces.chain([Err(gone())]));
                (200, "text/event-stream", Box::pin(body))
            }
            Scripted::Silent(pieces) => {
                let pieces = pieces.into_iter().map(|piece| Ok(Bytes::from(piece)));
                let body = futures::stream::iter(pieces).chain(futures::stream::pending());
                (200, "text/event-stream; charset=utf-8", Box::pin(body))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert(CONTENT_TYPE, kind.parse().unwrap());
        Ok(response)
    }
}

fn client(responses: impl IntoIterator<Item = Scripted>) -> (Client, Arc<Script>) {
    let script = Arc::new(Script::default());
    script.responses.lock().unwrap().extend(responses);
    let client = Client::new(Arc::clone(&script), "team".parse().unwrap());
    (client.with_token("prv_x").unwrap(), script)
}

impl Script {
    fn targets(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|request| format!("{} {}", request.method(), request.uri())).collect()
    }
}

fn run_id() -> RunId {
    Env::system().id()
}

fn event(run: RunId, seq: u64) -> Vec<u8> {
    let data = json!({
        "run": run, "seq": seq, "epoch": 1, "attempt": 1, "kind": "accepted",
        "at": "2026-03-01T10:00:00.000Z",
    });
    format!("id: 1-{seq}\nevent: accepted\ndata: {data}\n\n").into_bytes()
}

fn cursors(items: &[StreamItem]) -> Vec<&str> {
    fn cursor(item: &StreamItem) -> &str {
        match item {
            StreamItem::Event { cursor, .. } => cursor,
            StreamItem::Delta(_) => "delta",
            StreamItem::Reset => "reset",
            StreamItem::Lagged => "lagged",
            StreamItem::End => "end",
        }
    }
    items.iter().map(cursor).collect()
}

async fn all(mut stream: crate::EventStream) -> Result<Vec<StreamItem>, ApiError> {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await? {
        items.push(item);
    }
    Ok(items)
}

#[tokio::test]
async fn a_call_has_its_path_its_token_its_key_and_its_body() {
    let run = run_id();
    let accepted = json!({
        "task": "task_01jd0000000000000000000000", "run": run,
        "input": "inp_01jd0000000000000000000000", "session": "s", "outcome": "queued",
        "deduped": false,
    });
    let (client, script) = client([Scripted::Json(201, accepted)]);
    let task = NewTask { idempotency_key: Some("k1".to_owned()), ..NewTask::text("hi") };
    let result = client.submit(&task).await;
    let requests = script.requests.lock().unwrap();
    let request = &requests[0];
    assert_eq!(request.uri(), "/v1/namespaces/team/tasks");
    assert_eq!(request.headers()[AUTHORIZATION], "Bearer prv_x");
    assert!(request.headers()[AUTHORIZATION].is_sensitive());
    assert_eq!(request.headers()["idempotency-key"], "k1");
    let body: Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(body["message"], "hi");
    assert_eq!(result.unwrap().run, run);
}

#[tokio::test]
async fn names_are_encoded_and_revisions_guard() {
    let agent = json!({"name": "a/b", "revision": 8, "config": {}});
    let (client, script) = client([Scripted::Json(200, agent), Scripted::Json(204, Value::Null)]);
    let change = AgentChange { title: Some("A".to_owned()), ..AgentChange::default() };
    client.update_agent("a/b", &change, Some(7)).await.unwrap();
    client.delete_agent("ä?").await.unwrap();
    let targets = script.targets();
    assert_eq!(targets[0], "PATCH /v1/namespaces/team/agents/a%2Fb");
    assert_eq!(targets[1], "DELETE /v1/namespaces/team/agents/%C3%A4%3F");
    assert_eq!(script.requests.lock().unwrap()[0].headers()["if-match"], "\"7\"");
    assert_eq!(client.agent("..").await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_refusal_is_its_problem_and_what_is_foreign_says_so() {
    let problem = Problem::new(ErrorKind::NotFound, "not_found", "there is no such run");
    let (client, _) = client([
        Scripted::Json(404, serde_json::to_value(&problem).unwrap()),
        Scripted::Text(502, "<html>"),
        Scripted::Text(418, "teapot"),
        Scripted::Text(200, "not json"),
    ]);
    let error = client.run(run_id()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::NotFound, "not_found"));
    assert_eq!(client.run(run_id()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(client.run(run_id()).await.unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(client.run(run_id()).await.unwrap_err().code(), "unreadable");
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_behind_the_last_event_whatever_the_connection_does() {
    let run = run_id();
    let whole: Vec<u8> =
        [b"retry: 1000\n\n".to_vec(), event(run, 1), event(run, 2), b": beat\n\n".to_vec()]
            .concat();
    // The third event is cut in its middle.
    let torn = [event(run, 3), event(run, 4)].concat();
    let (first, second) = torn.split_at(torn.len() - 9);
    let pieces = whole.chunks(7).map(<[u8]>::to_vec).collect();
    let end = b"event: end\ndata: {}\n\nevent: delta\ndata: garbage\n\n".to_vec();
    let (client, script) = client([
        Scripted::Events(pieces),
        Scripted::Gone,
        Scripted::Text(503, "restarting"),
        Scripted::Events(vec![first.to_vec()]),
        Scripted::Events(vec![event(run, 4), end]),
    ]);
    assert!(!second.is_empty());
    let watch = WatchOptions { deltas: false, ..WatchOptions::default() };
    let items = all(client.watch_run(run, watch)).await.unwrap();
    assert_eq!(cursors(&items), ["1-1", "1-2", "1-3", "1-4", "end"]);
    let base = format!("GET /v1/namespaces/team/runs/{run}/stream");
    assert_eq!(
        script.targets(),
        [
            format!("{base}?deltas=false"),
            format!("{base}?after=1-2&deltas=false"),
            format!("{base}?after=1-2&deltas=false"),
            format!("{base}?after=1-2&deltas=false"),
            format!("{base}?after=1-3&deltas=false"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn reset_lagged_and_what_is_unknown_are_told_as_what_they_are() {
    let run = run_id();
    let delta = json!({"run": run, "epoch": 1, "type": "text_delta", "text": "hi"});
    let live = format!(
        "event: reset\ndata: {{}}\n\nevent: lagged\ndata: {{}}\n\nevent: new_thing\ndata: 1\n\n\
         event: delta\ndata: {delta}\n\n"
    );
    let (client, script) = client([
        Scripted::Events(vec![live.into_bytes()]),
        Scripted::Events(vec![event(run, 1), b"event: end\ndata: {}\n\n".to_vec()]),
    ]);
    let watch = WatchOptions { after: Some("9-9".to_owned()), ..WatchOptions::default() };
    let items = all(client.watch_run(run, watch)).await.unwrap();
    assert_eq!(cursors(&items), ["reset", "lagged", "delta", "1-1", "end"]);
    let StreamItem::Delta(delta) = &items[2] else { panic!("{items:?}") };
    assert_eq!(delta.event["text"], "hi");
    // After the reset nothing is left of the old cursor.
    assert!(!script.targets()[1].contains("after"), "{:?}", script.targets());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_makes_no_sense_ends_with_an_error_and_stays_ended() {
    let run = run_id();
    for garbage in [
        Scripted::Events(vec![b"id: 1-1\ndata: {\n\n".to_vec()]),
        Scripted::Events(vec![b"data: \xff\n\n".to_vec()]),
        Scripted::Text(200, "<html>"),
    ] {
        let (client, _) = client([garbage]);
        let mut stream = client.watch_run(run, WatchOptions::default());
        assert_eq!(stream.next().await.unwrap_err().kind(), ErrorKind::Malformed);
        assert_eq!(stream.next().await.unwrap(), None);
    }
    // What came before the garbage is not lost.
    let mixed = [event(run, 1), b"id: 1-2\ndata: {\n\n".to_vec()].concat();
    let (one, _) = client([Scripted::Events(vec![mixed])]);
    let mut stream = one.watch_run(run, WatchOptions::default());
    assert!(matches!(stream.next().await, Ok(Some(StreamItem::Event { .. }))));
    assert_eq!(stream.next().await.unwrap_err().kind(), ErrorKind::Malformed);

    let denied = Problem::new(ErrorKind::Denied, "scope", "this token may not");
    let (client, _) = client([Scripted::Json(403, serde_json::to_value(&denied).unwrap())]);
    let error = all(client.watch_run(run, WatchOptions::default())).await.unwrap_err();
    assert_eq!(error.code(), "scope");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up_and_a_silent_one_is_left() {
    let run = run_id();
    let (gone, script) = client((0..4).map(|_| Scripted::Gone));
    let watch = WatchOptions { failures_max: 3, ..WatchOptions::default() };
    let error = all(gone.watch_run(run, watch)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(script.targets().len(), 4);

    let (silent, script) = client([
        Scripted::Silent(vec![event(run, 1)]),
        Scripted::Events(vec![b"event: end\ndata: {}\n\n".to_vec()]),
    ]);
    let items = all(silent.watch_run(run, WatchOptions::default())).await.unwrap();
    assert_eq!(cursors(&items), ["1-1", "end"]);
    assert!(script.targets()[1].ends_with("?after=1-1"), "{:?}", script.targets());
}

#[tokio::test(start_paused = true)]
async fn a_place_without_an_event_is_remembered() {
    let (client, script) = client([
        Scripted::Events(vec![b"id: 1-p9\n\n".to_vec()]),
        Scripted::Events(vec![b"event: end\ndata: {}\n\n".to_vec()]),
    ]);
    let items = all(client.watch_namespace(WatchOptions::default())).await.unwrap();
    assert_eq!(cursors(&items), ["end"]);
    let path = "GET /v1/namespaces/team/stream";
    assert_eq!(script.targets(), [path.to_owned(), format!("{path}?after=1-p9")]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_looks_away_loses_nothing() {
    let run = run_id();
    let pieces: Vec<Vec<u8>> = (1..=3).map(|seq| event(run, seq)).collect();
    let (client, _) = client([
        Scripted::Gone,
        Scripted::Events(pieces),
        Scripted::Events(vec![b"event: end\ndata: {}\n\n".to_vec()]),
    ]);
    let mut stream = client.watch_run(run, WatchOptions::default());
    let mut items = Vec::new();
    // Each look is shorter than the pauses between connections.
    for _ in 0..1000 {
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
            item = stream.next() => match item.unwrap() {
                Some(item) => items.push(item),
                None => break,
            },
        }
    }
    assert_eq!(cursors(&items), ["1-1", "1-2", "1-3", "end"]);
    assert_eq!(stream.cursor(), Some("1-3"));
}
