//! Event streams that reconnect: after a lost connection the stream continues after the last event.
//!
//! Invariant: dropping a future of [`EventStream::next`] loses no item, so the future can be used in a `select!`.

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

use super::sse::{EventParser, Frame};
use super::{ApiError, BodyStream, Client, RequestBuilder};
use crate::StreamItem;

/// First delay before a reconnect, unless the server specifies one. Each further delay is twice as long.
const RECONNECT_DELAY_FIRST: Duration = Duration::from_millis(250);
/// Maximum delay before a reconnect.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(10);
/// Maximum time without data on a connection: three heartbeats.
const IDLE_MAX: Duration = Duration::from_secs(45);
/// Default for [`WatchOptions::failures_max`].
const FAILURES_MAX: u32 = 10;

/// Start position and content of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// Cursor after which the stream starts. `None` starts at the oldest stored event.
    pub after: Option<String>,
    /// True includes live deltas.
    pub deltas: bool,
    /// Maximum number of consecutive connection failures. With zero, the first failure ends the stream.
    pub failures_max: u32,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { after: None, deltas: true, failures_max: FAILURES_MAX }
    }
}

/// Query of a stream request.
#[derive(Serialize)]
struct StreamQuery<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deltas: Option<bool>,
}

/// A stream of events. It ends with [`StreamItem::End`], or with an error if the server is unreachable or rejects the request.
///
/// ```
/// use provost_api::{ApiError, Client, StreamItem, WatchOptions};
/// use provost_core::RunId;
///
/// async fn follow(client: &Client, run: RunId) -> Result<u64, ApiError> {
///     let mut stream = client.watch_run(run, WatchOptions::default());
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
    options: WatchOptions,
    state: State,
    ready: VecDeque<StreamItem>,
    /// Error that ended the stream, until it is returned.
    error: Option<ApiError>,
    /// Number of consecutive connections without an item.
    failures: u32,
    reconnect_delay: Duration,
}

/// Connection state of the stream.
enum State {
    Idle,
    Delayed(Pin<Box<Sleep>>),
    Connecting(BoxFuture<'static, Result<Response<BodyStream>, ApiError>>),
    Open(Box<Connection>),
    Ended,
}

/// An open response with its parser and the timer that detects a silent server.
struct Connection {
    body: BodyStream,
    parser: EventParser,
    idle_timer: Pin<Box<Sleep>>,
}

impl EventStream {
    /// Creates a stream. It connects with the first call of [`EventStream::next`].
    pub(super) fn new(client: Client, path: String, options: WatchOptions) -> Self {
        Self {
            client,
            path,
            options,
            state: State::Idle,
            ready: VecDeque::new(),
            error: None,
            failures: 0,
            reconnect_delay: RECONNECT_DELAY_FIRST,
        }
    }

    /// Returns the cursor of the last durable event. `None` before the first one.
    pub fn cursor(&self) -> Option<&str> {
        self.options.after.as_deref()
    }

    /// Returns the next item, or `None` after [`StreamItem::End`]. Reconnects after a lost connection from the last
    /// cursor. Fails after several failures in a row.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, ApiError> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose()
    }

    /// Polls the current state once. New items are added to the queue.
    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        match &mut self.state {
            State::Idle => self.state = self.connect()?,
            State::Delayed(delay) => {
                ready!(delay.as_mut().poll(cx));
                self.state = self.connect()?;
            }
            State::Connecting(connecting) => {
                let connected = ready!(connecting.as_mut().poll(cx));
                self.state = match connected.and_then(open) {
                    Ok(connection) => State::Open(Box::new(connection)),
                    Err(error) => self.retry_after(error)?,
                };
            }
            State::Open(connection) => match ready!(connection.poll_frames(cx)) {
                Ok(frames) => self.accept_frames(frames)?,
                Err(error) => {
                    self.reconnect_delay = connection
                        .parser
                        .retry()
                        .unwrap_or(self.reconnect_delay)
                        .min(RECONNECT_DELAY_MAX);
                    self.state = self.retry_after(error)?;
                }
            },
            State::Ended => {}
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the state in which the stream waits for the response of a new request.
    fn connect(&self) -> Result<State, ApiError> {
        let query = StreamQuery {
            after: self.options.after.as_deref(),
            deltas: (!self.options.deltas).then_some(false),
        };
        let request = RequestBuilder::get(self.path.as_str()).query(&query)?;
        let request = request.header(ACCEPT, "text/event-stream")?;
        let client = self.client.clone();
        Ok(State::Connecting(Box::pin(async move { client.send(request).await })))
    }

    /// Schedules the next connection, or returns the error if the limit of failures is reached.
    fn retry_after(&mut self, error: ApiError) -> Result<State, ApiError> {
        if !error.kind().retryable() || self.failures >= self.options.failures_max {
            return Err(error);
        }
        let backoff = Backoff { first: self.reconnect_delay, max: RECONNECT_DELAY_MAX };
        let mut delay = backoff.wait(self.failures);
        if let ApiError::Problem(problem) = &error
            && let Some(wait) = problem.retry_after_ms
        {
            delay = delay.max(Duration::from_millis(wait)).min(RECONNECT_DELAY_MAX);
        }
        self.failures += 1;
        Ok(State::Delayed(Box::pin(sleep(delay))))
    }

    /// Converts frames into items, adds them to the queue and records the cursor. Ends the stream at
    /// [`StreamItem::End`].
    fn accept_frames(&mut self, frames: Vec<Frame>) -> Result<(), ApiError> {
        for frame in frames {
            let Some(item) = parse_frame(&frame)? else {
                self.options.after = frame.id.or(self.options.after.take());
                continue;
            };
            self.failures = 0;
            match &item {
                StreamItem::Event { cursor, .. } => self.options.after = Some(cursor.clone()),
                StreamItem::Reset => self.options.after = None,
                StreamItem::End => self.state = State::Ended,
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
            // Items that arrived before the error are returned first.
            if let Some(error) = self.error.take() {
                return Poll::Ready(Some(Err(error)));
            }
            if matches!(self.state, State::Ended) {
                return Poll::Ready(None);
            }
            if let Err(error) = ready!(self.poll_state(cx)) {
                self.state = State::Ended;
                self.error = Some(error);
            }
        }
    }
}

impl Connection {
    /// Returns the events of the next chunk. A connection that ends or stays silent for too long is lost.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Frame>, ApiError>> {
        let chunk = match self.body.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(chunk))) => chunk,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
            Poll::Ready(None) => {
                return Poll::Ready(Err(connection_lost("the server closed the stream")));
            }
            Poll::Pending => {
                ready!(self.idle_timer.as_mut().poll(cx));
                return Poll::Ready(Err(connection_lost("the server sent no data for too long")));
            }
        };
        self.idle_timer.as_mut().reset(Instant::now() + IDLE_MAX);
        let mut frames = Vec::new();
        let parsed = self.parser.push(&chunk, &mut |frame| frames.push(frame));
        Poll::Ready(match parsed {
            Ok(()) => Ok(frames),
            Err(error) => Err(ApiError::Unreadable(error.as_str().to_owned())),
        })
    }
}

/// Returns the connection of a response. Fails if it is not an event stream.
fn open(response: Response<BodyStream>) -> Result<Connection, ApiError> {
    if !is_event_stream(response.headers()) {
        return Err(ApiError::Unreadable("the response is not an event stream".to_owned()));
    }
    let idle_timer = Box::pin(sleep(IDLE_MAX));
    Ok(Connection { body: response.into_body(), parser: EventParser::default(), idle_timer })
}

/// Returns true for the content type `text/event-stream`.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim() == "text/event-stream")
}

/// Creates the error of a lost connection, which a retry can solve.
fn connection_lost(message: &str) -> ApiError {
    let kind = provost_core::ErrorKind::Unavailable;
    ApiError::Transport(super::TransportError { kind, message: message.to_owned() })
}

/// Converts a frame to an item. `None` if the frame only carries a cursor, or if it has a name that this version does not
/// know. A durable event is always returned, because it has an id.
fn parse_frame(frame: &Frame) -> Result<Option<StreamItem>, ApiError> {
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

/// Parses the data of a frame.
fn json<T: DeserializeOwned>(frame: &Frame) -> Result<T, ApiError> {
    serde_json::from_str(&frame.data).map_err(|error| {
        ApiError::Unreadable(format!("an event of the stream is invalid: {error}"))
    })
}
