//! Streams of server-sent events: first the stored events, then new ones, without gaps and without duplicates.
//!
//! A stream buffers only one page of events. It reads the next page after the connection has accepted the previous one, and
//! follows the [live events](crate::live) at the end of the log. Events that it misses there are read from the database.

pub(crate) mod encode;
mod snapshot;
mod source;

use std::convert::Infallible;
use std::time::Duration;

use async_stream::stream;
use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use provost_core::RunId;
use provost_core::lifecycle::RunStatus;
use provost_store::query::event_log::LogPage;
use tokio::time::{sleep, timeout};

use self::encode::{end, finished_turn, lagged, position, terminal_status};
pub(crate) use self::source::{StreamSource, StreamStart};
use crate::app::App;
use crate::live::{Frame, FrameKind, Interest, LiveSubscription, Received};

/// Interval of comments on an idle stream, so that proxies do not close the connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
const HEARTBEAT_BYTES: Bytes = Bytes::from_static(b":\n\n");
/// Number of events in the first page.
const PAGE_FIRST: u64 = 128;
/// Maximum number of events in a page.
const PAGE_MAX: u64 = 2048;
/// Maximum number of snapshots that are replaced because a durable event already contains them.
const SNAPSHOT_ATTEMPTS_MAX: u32 = 16;
/// Target size of a page in bytes. It bounds the memory of a client that stops reading.
const PAGE_BYTES: usize = 192 * 1024;

/// Opens a stream as the body of a response: stored events first, then new events. The stream ends between two events
/// when the server shuts down or its time limit is reached.
pub(crate) async fn open(app: App, source: StreamSource, start: StreamStart, deltas: bool) -> Body {
    let interest = if deltas { Interest::EventsAndDeltas } else { Interest::Events };
    let subscription = app.live().subscribe(app.engine(), source.topic(), interest).await;
    let open = app.metrics().stream();
    let stream_end = stream_end(&app);
    let reader = EventReader {
        subscription,
        generation: start.generation,
        at: start.after,
        page_size: PAGE_FIRST,
        epoch: 0,
        turn: None,
        snapshot: None,
        state: start.ended.map_or(StreamState::Open, StreamState::Ended),
        source,
        app,
    };
    let events = reader.events(start).take_until(stream_end);
    Body::from_stream(events.map(move |bytes| {
        // The stream counts as open until the body is dropped.
        let _open = &open;
        Ok::<_, Infallible>(bytes)
    }))
}

/// Waits until the server shuts down or the time limit of a stream that starts now is reached.
fn stream_end(app: &App) -> impl Future<Output = ()> + Send + 'static {
    let shutdown = app.shutdown().clone();
    let timeout = app.options().limits.stream_timeout;
    async move {
        let timed_out = async {
            match timeout {
                Some(timeout) => sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = timed_out => {}
        }
    }
}

/// State of one stream: its position in the log, and its subscription to new events.
struct EventReader {
    app: App,
    source: StreamSource,
    subscription: LiveSubscription,
    generation: u64,
    /// Position of the last sent event: its number in the run, or its position in the log.
    at: u64,
    /// Maximum number of events in the next page.
    page_size: u64,
    /// Newest observed epoch of the run. Deltas of older epochs are not sent.
    epoch: u64,
    /// Run and number of the last finished turn.
    turn: Option<(RunId, u32)>,
    /// End of the snapshot that was sent.
    snapshot: Option<SnapshotEnd>,
    state: StreamState,
}

/// State of a stream.
enum StreamState {
    Open,
    /// The run has ended with this status.
    Ended(RunStatus),
    /// The log could not be read.
    Failed,
}

/// Position of the last delta in a snapshot.
struct SnapshotEnd {
    run: RunId,
    epoch: u64,
    /// Number of the first delta after the snapshot.
    next: u64,
}

/// An encoded page of the log.
struct EventPage {
    bytes: Bytes,
    has_more: bool,
}

/// What to do with a frame of a new event.
enum FrameAction {
    Send,
    Skip,
    /// Preceding events are missing and must be read from the database.
    Gap,
}

impl EventReader {
    /// Returns the complete stream.
    fn events(mut self, start: StreamStart) -> impl Stream<Item = Bytes> + Send {
        let events = stream! {
            yield start.bytes(&self.source);
            for await bytes in self.replay() {
                yield bytes;
            }
            for await bytes in self.follow() {
                yield bytes;
            }
            if let StreamState::Ended(status) = self.state {
                yield end(self.source.run(), status);
            }
        };
        events.filter(|bytes| std::future::ready(!bytes.is_empty()))
    }

    /// Sends the stored events, followed by a snapshot of the turn in progress if the client wants deltas.
    fn replay(&mut self) -> impl Stream<Item = Bytes> + Send {
        stream! {
            let mut attempts = 0;
            while self.is_open() {
                let page = self.read_page().await;
                if page.has_more || !self.is_open() || !self.subscription.wants_deltas() {
                    yield page.bytes;
                    if page.has_more {
                        continue;
                    }
                    return;
                }
                // From now on, a slow client receives the number of dropped deltas.
                self.subscription.start_deltas();
                let snapshot = snapshot::take(&self.app, &self.source).await;
                // Events that were committed before the snapshot precede it.
                let late = self.read_page().await;
                yield [page.bytes, late.bytes].concat().into();
                if late.has_more || !self.is_open() {
                    continue;
                }
                let Some(snapshot) = snapshot else { return };
                let is_committed = snapshot.is_committed(self.turn);
                if is_committed && attempts < SNAPSHOT_ATTEMPTS_MAX {
                    attempts += 1;
                    continue;
                }
                if !is_committed {
                    yield snapshot.bytes();
                }
                self.snapshot = Some(snapshot.end());
                return;
            }
        }
    }

    /// Sends new events as they are committed. Reads the log after a gap.
    fn follow(&mut self) -> impl Stream<Item = Bytes> + Send {
        stream! {
            let mut must_read = false;
            while self.is_open() {
                if must_read {
                    let page = self.read_page().await;
                    yield page.bytes;
                    must_read = page.has_more;
                    continue;
                }
                match self.subscription.receive() {
                    Received::Frame(frame) => match self.accept(&frame) {
                        FrameAction::Send => yield frame.bytes.clone(),
                        FrameAction::Skip => {}
                        FrameAction::Gap => must_read = true,
                    },
                    Received::DeltasDropped(deltas) => yield lagged(deltas),
                    Received::Lagged => must_read = true,
                    Received::Empty => {
                        if timeout(HEARTBEAT, self.subscription.changed()).await.is_err() {
                            yield HEARTBEAT_BYTES;
                        }
                    }
                }
                if must_read {
                    self.subscription.resume();
                }
            }
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.state, StreamState::Open)
    }

    /// Reads a page of the log and encodes it. If the read fails, the stream ends, and the client reconnects with its
    /// cursor.
    async fn read_page(&mut self) -> EventPage {
        match self.source.page(self.app.engine(), self.at, self.page_size).await {
            Ok(page) => self.apply_page(&page),
            Err(error) => {
                tracing::warn!(%error, "a stream ends because the log cannot be read");
                self.state = StreamState::Failed;
                EventPage { bytes: Bytes::new(), has_more: false }
            }
        }
    }

    /// Encodes a page, and advances the position of the stream. Adapts the size of the next page.
    fn apply_page(&mut self, page: &LogPage) -> EventPage {
        let kind = self.source.cursor_kind();
        let frames = page.entries.iter().map(|entry| encode::event(self.generation, entry, kind));
        let bytes: Bytes = frames.collect::<Vec<_>>().concat().into();
        self.at = page.next;
        self.page_size = match bytes.len() {
            0..PAGE_BYTES => (self.page_size * 2).min(PAGE_MAX),
            _ => (self.page_size / 2).max(1),
        };
        let is_run = self.source.run().is_some();
        let last = page.entries.last();
        if let Some(last) = last.filter(|_| is_run) {
            self.epoch = last.epoch;
        }
        let mut entries = page.entries.iter().rev();
        let turn = entries.find_map(|entry| Some((entry.run, finished_turn(entry)?)));
        self.turn = turn.or(self.turn);
        let ended = last.filter(|_| is_run).and_then(|last| terminal_status(&last.kind));
        self.state = ended.map_or(StreamState::Open, StreamState::Ended);
        EventPage { bytes, has_more: page.has_more }
    }

    /// Decides whether to send a frame, and advances the position. Skips frames that were sent before or are stale; a
    /// gap makes the stream read the log.
    fn accept(&mut self, frame: &Frame) -> FrameAction {
        let is_run = self.source.run().is_some();
        match frame.kind {
            FrameKind::Durable { at, .. } if at <= self.at => FrameAction::Skip,
            // Live events have no gaps. If there is a gap, the database contains the missing events.
            FrameKind::Durable { at, .. } if is_run && at > self.at + 1 => FrameAction::Gap,
            FrameKind::Durable { at, epoch, end } => {
                self.at = at;
                if is_run {
                    self.epoch = self.epoch.max(epoch);
                    self.state = end.map_or(StreamState::Open, StreamState::Ended);
                }
                FrameAction::Send
            }
            FrameKind::Delta { epoch, .. } if epoch < self.epoch => FrameAction::Skip,
            FrameKind::Delta { run, epoch, number } => {
                let is_in_snapshot = self.snapshot.as_ref().is_some_and(|snapshot| {
                    (snapshot.run, snapshot.epoch) == (run, epoch) && number < snapshot.next
                });
                if is_in_snapshot { FrameAction::Skip } else { FrameAction::Send }
            }
        }
    }
}

impl StreamStart {
    fn bytes(&self, source: &StreamSource) -> Bytes {
        let mut text = "retry: 1000\n\n".to_owned();
        if self.reset {
            text.push_str("event: reset\ndata: {}\n\n");
        }
        if self.from_end {
            // A cursor without an event, for a client that disconnects before the first event.
            text.push_str(&position(source.cursor(self.generation, self.after)));
        }
        text.into()
    }
}
