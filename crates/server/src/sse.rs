//! Streams of server-sent events: first what is stored, then what happens, without a gap and without a repetition.
//!
//! A stream holds its cursor and nothing else that grows: it asks the database for a page only when the connection has taken
//! the last one, and it follows the [live events](crate::live) once nothing is left to read. What it misses there it reads
//! again from the database.

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
pub(crate) use self::source::{Source, Start};
use crate::app::App;
use crate::live::{Frame, Seated, Taken, Wants, What};

/// A comment is sent after this much silence, so that proxies do not take the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
const HEARTBEAT_BYTES: Bytes = Bytes::from_static(b":\n\n");
/// Events of the first page.
const PAGE_FIRST: u64 = 128;
/// Events of a page at most.
const PAGE_MAX: u64 = 2048;
/// How often a snapshot is taken anew because the log has overtaken it.
const SNAPSHOT_ATTEMPTS_MAX: u32 = 16;
/// The size that a page should have: what one client that does not read on holds in memory.
const PAGE_BYTES: usize = 192 * 1024;

/// Opens a stream from a place on, as the body of a response. It ends between two events when the server stops or its time is
/// over.
pub(crate) async fn open(app: App, source: Source, start: Start, deltas: bool) -> Body {
    let wants = if deltas { Wants::Everything } else { Wants::Events };
    let subscription = app.live().join(app.engine(), source.topic(), wants).await;
    let open = app.metrics().stream();
    let over = over(&app);
    let reader = Reader {
        subscription,
        generation: start.generation,
        at: start.after,
        page_size: PAGE_FIRST,
        epoch: 0,
        turn: None,
        snapshot: None,
        state: start.ended.map_or(State::Open, State::Ended),
        source,
        app,
    };
    let events = reader.events(start).take_until(over);
    Body::from_stream(events.map(move |bytes| {
        // Counted as open as long as the body exists.
        let _open = &open;
        Ok::<_, Infallible>(bytes)
    }))
}

/// Waits until a stream that begins now must end.
fn over(app: &App) -> impl Future<Output = ()> + Send + 'static {
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

/// One client of a stream.
struct Reader {
    app: App,
    source: Source,
    subscription: Seated,
    generation: u64,
    /// Everything up to here was sent: a number of the run, or a position.
    at: u64,
    /// Events of the next page.
    page_size: u64,
    /// The newest epoch of the run that was seen; deltas of older ones are not sent.
    epoch: u64,
    /// The newest model call that was read as finished: its run and its number.
    turn: Option<(RunId, u32)>,
    /// The deltas that were sent with the snapshot.
    snapshot: Option<SnapshotEnd>,
    state: State,
}

/// Whether more can come.
enum State {
    Open,
    /// The run of the stream ended like this.
    Ended(RunStatus),
    /// The log cannot be read.
    Failed,
}

/// Which deltas a snapshot held.
struct SnapshotEnd {
    run: RunId,
    epoch: u64,
    /// The number of the first delta that it did not hold.
    next: u64,
}

/// A page of the log, encoded.
struct Page {
    bytes: Bytes,
    more: bool,
}

/// What to do with a frame.
enum Accepted {
    Send,
    Skip,
    /// Events before it are missing: read the database.
    Gap,
}

impl Reader {
    /// The whole stream.
    fn events(mut self, start: Start) -> impl Stream<Item = Bytes> + Send {
        let events = stream! {
            yield start.bytes(&self.source);
            for await bytes in self.replay() {
                yield bytes;
            }
            for await bytes in self.follow() {
                yield bytes;
            }
            if let State::Ended(status) = self.state {
                yield end(self.source.run(), status);
            }
        };
        events.filter(|bytes| std::future::ready(!bytes.is_empty()))
    }

    /// What is stored. Behind it comes a snapshot of the turn in progress, if deltas are wanted.
    fn replay(&mut self) -> impl Stream<Item = Bytes> + Send {
        stream! {
            let mut attempts = 0;
            while self.is_open() {
                let page = self.read_page().await;
                if page.more || !self.is_open() || !self.subscription.wants_live() {
                    yield page.bytes;
                    if page.more {
                        continue;
                    }
                    return;
                }
                // From here on a client that does not read on is told how many deltas it misses.
                self.subscription.listen();
                let snapshot = snapshot::take(&self.app, &self.source).await;
                // What was committed before the snapshot was taken goes first.
                let late = self.read_page().await;
                yield [page.bytes, late.bytes].concat().into();
                if late.more || !self.is_open() {
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

    /// New events, as they come.
    fn follow(&mut self) -> impl Stream<Item = Bytes> + Send {
        stream! {
            let mut must_read = false;
            while self.is_open() {
                if must_read {
                    let page = self.read_page().await;
                    yield page.bytes;
                    must_read = page.more;
                    continue;
                }
                match self.subscription.take() {
                    Taken::Frame(frame) => match self.accept(&frame) {
                        Accepted::Send => yield frame.bytes.clone(),
                        Accepted::Skip => {}
                        Accepted::Gap => must_read = true,
                    },
                    Taken::Missed(deltas) => yield lagged(deltas),
                    Taken::Behind => must_read = true,
                    Taken::Nothing => {
                        if timeout(HEARTBEAT, self.subscription.changed()).await.is_err() {
                            yield HEARTBEAT_BYTES;
                        }
                    }
                }
                if must_read {
                    self.subscription.begin();
                }
            }
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Reads one page of the log. If the database cannot be read, the stream ends, and the client reconnects with its cursor.
    async fn read_page(&mut self) -> Page {
        match self.source.page(self.app.engine(), self.at, self.page_size).await {
            Ok(page) => self.apply_page(&page),
            Err(error) => {
                tracing::warn!(%error, "a stream ends because the log cannot be read");
                self.state = State::Failed;
                Page { bytes: Bytes::new(), more: false }
            }
        }
    }

    fn apply_page(&mut self, page: &LogPage) -> Page {
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
        self.state = ended.map_or(State::Open, State::Ended);
        Page { bytes, more: page.more }
    }

    /// Decides about a frame: it may have been sent before, or be of no use.
    fn accept(&mut self, frame: &Frame) -> Accepted {
        let is_run = self.source.run().is_some();
        match frame.what {
            What::Event { at, .. } if at <= self.at => Accepted::Skip,
            // Live events have no gaps. If there were one, the database has the events.
            What::Event { at, .. } if is_run && at > self.at + 1 => Accepted::Gap,
            What::Event { at, epoch, end } => {
                self.at = at;
                if is_run {
                    self.epoch = self.epoch.max(epoch);
                    self.state = end.map_or(State::Open, State::Ended);
                }
                Accepted::Send
            }
            What::Live { epoch, .. } if epoch < self.epoch => Accepted::Skip,
            What::Live { run, epoch, number } => {
                let sent = self.snapshot.as_ref().is_some_and(|snapshot| {
                    (snapshot.run, snapshot.epoch) == (run, epoch) && number < snapshot.next
                });
                if sent { Accepted::Skip } else { Accepted::Send }
            }
        }
    }
}

impl Start {
    fn bytes(&self, source: &Source) -> Bytes {
        let mut text = "retry: 1000\n\n".to_owned();
        if self.reset {
            text.push_str("event: reset\ndata: {}\n\n");
        }
        if self.from_end {
            // No event: only the cursor, for a client that disconnects before the first one comes.
            text.push_str(&position(source.cursor(self.generation, self.after)));
        }
        text.into()
    }
}
