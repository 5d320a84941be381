//! Streams of events that cannot be lost: a lost connection is taken up again behind the last event.
//!
//! Invariant: dropping a future of [`EventStream::next`] loses nothing, so it may stand in a `select!`.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Response};
use provost_core::Backoff;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, Sleep, sleep};

use super::sse::{Frame, Sse};
use super::{Answers, ApiError, Call, Client};
use crate::StreamItem;

/// The first pause before the next connection, if the server asks for none; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long a connection may be silent: three heartbeats.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Failures in a row until the stream gives up.
const FAILURES_MAX: u32 = 10;

/// Where a stream begins and what it brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Behind this cursor; from the beginning of what is kept, if there is none.
    pub after: Option<String>,
    /// True brings live pieces, too.
    pub deltas: bool,
    /// Failures in a row until the stream gives up; zero takes the first one for the end.
    pub failures_max: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Self { after: None, deltas: true, failures_max: FAILURES_MAX }
    }
}

#[derive(Serialize)]
struct StreamQuery<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deltas: Option<bool>,
}

/// A stream of events. It ends with [`StreamItem::End`], or with an error when the server stays out of reach or says no.
///
/// ```
/// use provost_api::{ApiError, Client, StreamItem, Watch};
/// use provost_core::RunId;
///
/// async fn follow(client: &Client, run: RunId) -> Result<u64, ApiError> {
///     let mut stream = client.watch_run(run, Watch::default());
///     let mut events = 0;
///     while let Some(item) = stream.next().await? {
///         if let StreamItem::Event { .. } = item {
///             events += 1;
///         }
///     }
///     Ok(events)
/// }
/// ```
pub struct EventStream {
    client: Client,
    path: String,
    watch: Watch,
    state: State,
    ready: VecDeque<StreamItem>,
    /// Why it is over, until that is told.
    broken: Option<ApiError>,
    /// Connections in a row that brought nothing.
    failures: u32,
    pause: Duration,
}

enum State {
    Idle,
    Pausing(Pin<Box<Sleep>>),
    Connecting(BoxFuture<'static, Result<Response<Answers>, ApiError>>),
    Open(Box<Connection>),
    Over,
}

struct Connection {
    body: Answers,
    sse: Sse,
    silence: Pin<Box<Sleep>>,
}

impl EventStream {
    pub(super) fn new(client: Client, path: String, watch: Watch) -> Self {
        Self {
            client,
            path,
            watch,
            state: State::Idle,
            ready: VecDeque::new(),
            broken: None,
            failures: 0,
            pause: PAUSE_FIRST,
        }
    }

    /// Where the reader stands: behind the last durable event it got.
    pub fn cursor(&self) -> Option<&str> {
        self.watch.after.as_deref()
    }

    /// The next item; nothing after the end.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, ApiError> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose()
    }

    /// Moves on by one state; an item is handed out only when the queue has one.
    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        match &mut self.state {
            State::Idle => self.state = self.connect()?,
            State::Pausing(pause) => {
                ready!(pause.as_mut().poll(cx));
                self.state = self.connect()?;
            }
            State::Connecting(connecting) => {
                let connected = ready!(connecting.as_mut().poll(cx));
                self.state = match connected.and_then(open) {
                    Ok(connection) => State::Open(Box::new(connection)),
                    Err(error) => self.failed(error)?,
                };
            }
            State::Open(connection) => match ready!(connection.poll_frames(cx)) {
                Ok(frames) => self.take_frames(frames)?,
                Err(error) => {
                    self.pause = connection.sse.retry().unwrap_or(self.pause).min(PAUSE_MAX);
                    self.state = self.failed(error)?;
                }
            },
            State::Over => {}
        }
        Poll::Ready(Ok(()))
    }

    fn connect(&self) -> Result<State, ApiError> {
        let query = StreamQuery {
            after: self.watch.after.as_deref(),
            deltas: (!self.watch.deltas).then_some(false),
        };
        let call = Call::get(self.path.as_str()).query(&query)?;
        let call = call.header(ACCEPT, "text/event-stream")?;
        let client = self.client.clone();
        Ok(State::Connecting(Box::pin(async move { client.send(call).await })))
    }

    /// Pauses before the next connection, or gives up.
    fn failed(&mut self, error: ApiError) -> Result<State, ApiError> {
        if !error.kind().retryable() || self.failures >= self.watch.failures_max {
            return Err(error);
        }
        let backoff = Backoff { first: self.pause, max: PAUSE_MAX };
        let mut pause = backoff.wait(self.failures);
        if let ApiError::Problem(problem) = &error
            && let Some(wait) = problem.retry_after_ms
        {
            pause = pause.max(Duration::from_millis(wait)).min(PAUSE_MAX);
        }
        self.failures += 1;
        Ok(State::Pausing(Box::pin(sleep(pause))))
    }

    fn take_frames(&mut self, frames: Vec<Frame>) -> Result<(), ApiError> {
        for frame in frames {
            let Some(item) = understand(&frame)? else {
                self.watch.after = frame.id.or(self.watch.after.take());
                continue;
            };
            self.failures = 0;
            match &item {
                StreamItem::Event { cursor, .. } => self.watch.after = Some(cursor.clone()),
                StreamItem::Reset => self.watch.after = None,
                StreamItem::End => self.state = State::Over,
                StreamItem::Delta(_) | StreamItem::Lagged => {}
            }
            let is_end = item == StreamItem::End;
            self.ready.push_back(item);
            if is_end {
                break;
            }
        }
        Ok(())
    }
}

impl Stream for EventStream {
    type Item = Result<StreamItem, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            // What came before an error is told before it.
            if let Some(error) = self.broken.take() {
                return Poll::Ready(Some(Err(error)));
            }
            if matches!(self.state, State::Over) {
                return Poll::Ready(None);
            }
            if let Err(error) = ready!(self.poll_state(cx)) {
                self.state = State::Over;
                self.broken = Some(error);
            }
        }
    }
}

impl Connection {
    /// The events of the next piece. A connection that ends or is silent for too long is lost.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Frame>, ApiError>> {
        let piece = match self.body.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(piece))) => piece,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
            Poll::Ready(None) => return Poll::Ready(Err(lost("the server closed the stream"))),
            Poll::Pending => {
                ready!(self.silence.as_mut().poll(cx));
                return Poll::Ready(Err(lost("the server has fallen silent")));
            }
        };
        self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        let mut frames = Vec::new();
        let cut = self.sse.push(&piece, &mut |frame| frames.push(frame));
        Poll::Ready(match cut {
            Ok(()) => Ok(frames),
            Err(error) => Err(ApiError::Unreadable(error.as_str().to_owned())),
        })
    }
}

fn open(answer: Response<Answers>) -> Result<Connection, ApiError> {
    if !is_event_stream(answer.headers()) {
        return Err(ApiError::Unreadable("the answer is no stream of events".to_owned()));
    }
    let silence = Box::pin(sleep(SILENCE_MAX));
    Ok(Connection { body: answer.into_body(), sse: Sse::default(), silence })
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim() == "text/event-stream")
}

fn lost(message: &str) -> ApiError {
    let kind = provost_core::ErrorKind::Unavailable;
    ApiError::Transport(super::TransportError { kind, message: message.to_owned() })
}

/// A frame as an item; nothing if it only says where the reader stands. What a later version says beside durable events is left out; a durable event is never.
fn understand(frame: &Frame) -> Result<Option<StreamItem>, ApiError> {
    if let Some(cursor) = &frame.id {
        if frame.data.is_empty() {
            return Ok(None);
        }
        let event = json(frame)?;
        return Ok(Some(StreamItem::Event { cursor: cursor.clone(), event }));
    }
    Ok(match frame.event.as_str() {
        "delta" | "draft" => Some(StreamItem::Delta(json(frame)?)),
        "reset" => Some(StreamItem::Reset),
        "lagged" => Some(StreamItem::Lagged),
        "end" => Some(StreamItem::End),
        _ => None,
    })
}

fn json<T: DeserializeOwned>(frame: &Frame) -> Result<T, ApiError> {
    serde_json::from_str(&frame.data)
        .map_err(|error| ApiError::Unreadable(format!("an event of the stream: {error}")))
}
