//! Streams of server-sent events: first what is stored, then what happens, without a gap and without a repetition.
//!
//! A reader owns its cursor and nothing else that grows: it asks the database for a page only when the connection has taken the
//! last one, and it follows the [hub](crate::live) once nothing is left to read. Whatever it misses there it reads again.

pub(crate) mod encode;
mod snapshot;
mod source;
mod wait;

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use provost_core::RunId;
use provost_core::work::RunStatus;
use provost_engine::LogPage;

use self::encode::{end, ended_turn, events, lagged, position, terminal};
pub(crate) use self::source::{Source, Start};
pub(crate) use self::wait::{Whom, wait};
use crate::app::App;
use crate::live::{Frame, Seated, Taken, Wants, What};

/// A comment is sent after this much silence, so that nobody on the way takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events of the first page.
const PAGE_FIRST: u64 = 128;
/// Events of a page at most.
const PAGE_MAX: u64 = 2048;
/// How often a draft is taken anew because the log has overtaken it.
const DRAFTS_MAX: u32 = 16;
/// The size that a page should have: what one viewer who does not read on holds in memory.
const PAGE_BYTES: usize = 192 * 1024;

/// One viewer.
struct Reader {
    app: App,
    source: Source,
    seat: Seated,
    generation: u64,
    /// Everything up to here was sent: a number of the run, or a position.
    at: u64,
    phase: Phase,
    page: u64,
    /// The newest epoch of the run that was seen; pieces of older ones are not sent.
    epoch: u64,
    /// The newest model call that was read as ended: whose, and its number.
    turn: Option<(RunId, u32)>,
    /// How often the draft was taken.
    tries: u32,
    /// Pieces that were sent with the draft: whose, of which epoch, and the number of the first that was not.
    drafted: Option<(RunId, u64, u64)>,
}

/// What a reader does next.
enum Phase {
    /// Says how to come back, and whether the cursor was good.
    Open(Start),
    /// Reads what is stored, for the first time.
    CatchUp,
    /// Reads what it missed.
    Heal,
    /// Follows the hub.
    Follow,
    /// Says that nothing follows.
    End(RunStatus),
    Over,
}

/// A stream from a place on, as the body of an answer.
pub(crate) async fn open(app: App, source: Source, start: Start, deltas: bool) -> Body {
    let wants = if deltas { Wants::Everything } else { Wants::Events };
    let seat = app.shared.hub.join(app.engine(), source.topic(), wants).await;
    let reader = Box::new(Reader {
        source,
        seat,
        generation: start.generation,
        at: start.after,
        phase: Phase::Open(start),
        page: PAGE_FIRST,
        epoch: 0,
        turn: None,
        tries: 0,
        drafted: None,
        app,
    });
    Body::from_stream(stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<_, Infallible>(bytes), reader))
    }))
}

impl Reader {
    /// What is sent next; nothing if the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.app.shared.hub.is_closed() {
                return None;
            }
            let bytes = match &self.phase {
                Phase::Open(start) => {
                    let bytes = start.bytes(self.seat.topic().is_run());
                    self.phase = start.ended.map_or(Phase::CatchUp, Phase::End);
                    Some(bytes)
                }
                Phase::CatchUp => self.catch_up().await?,
                Phase::Heal => self.heal().await?,
                Phase::Follow => match self.seat.take() {
                    Taken::Frame(frame) => self.pass(&frame),
                    Taken::Missed(pieces) => Some(lagged(pieces)),
                    Taken::Behind => {
                        self.seat.begin();
                        self.phase = Phase::Heal;
                        None
                    }
                    Taken::Nothing => {
                        let changed = tokio::time::timeout(HEARTBEAT, self.seat.changed()).await;
                        changed.is_err().then(|| Bytes::from_static(b":\n\n"))
                    }
                },
                Phase::End(status) => {
                    let bytes = end(&self.source, *status);
                    self.phase = Phase::Over;
                    Some(bytes)
                }
                Phase::Over => return None,
            };
            if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                return Some(bytes);
            }
        }
    }

    /// The first way through the log. At its end the draft of what goes on now is sent, behind every event that came before it.
    async fn catch_up(&mut self) -> Option<Option<Bytes>> {
        let (bytes, more) = self.read().await?;
        if more || !matches!(self.phase, Phase::CatchUp) {
            return Some(Some(bytes));
        }
        if !self.seat.wants_live() {
            self.phase = Phase::Follow;
            return Some(Some(bytes));
        }
        self.seat.listen();
        let draft = snapshot::take(&self.app, &self.source).await;
        // What was committed before the draft was taken goes first.
        let (late, more) = self.read().await?;
        let mut bytes = [bytes, late].concat();
        if matches!(self.phase, Phase::CatchUp) {
            let told = draft.as_ref().is_some_and(|draft| draft.is_told(self.turn));
            if more || (told && self.tries < DRAFTS_MAX) {
                // The log has overtaken the draft: once more.
                self.tries += 1;
                return Some(Some(bytes.into()));
            }
            self.phase = Phase::Follow;
            if let Some(draft) = draft {
                if !told {
                    draft.write(&mut bytes);
                }
                self.drafted = Some((draft.run, draft.epoch, draft.next));
            }
        }
        Some(Some(bytes.into()))
    }

    /// Reads what the hub left out.
    async fn heal(&mut self) -> Option<Option<Bytes>> {
        let (bytes, more) = self.read().await?;
        if !more && matches!(self.phase, Phase::Heal) {
            self.phase = Phase::Follow;
        }
        Some(Some(bytes))
    }

    /// One page of the log as bytes, and whether there is more. Nothing if the database cannot be read: the viewer comes back
    /// with its cursor.
    async fn read(&mut self) -> Option<(Bytes, bool)> {
        let page = match self.source.page(self.app.engine(), self.at, self.page).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "a stream ends because the log cannot be read");
                return None;
            }
        };
        Some((self.take_page(&page), page.more))
    }

    fn take_page(&mut self, page: &LogPage) -> Bytes {
        let is_run = self.seat.topic().is_run();
        let bytes = events(self.generation, &page.entries, is_run);
        self.at = page.next;
        self.page = match bytes.len() {
            0..PAGE_BYTES => (self.page * 2).min(PAGE_MAX),
            _ => (self.page / 2).max(1),
        };
        if let Some(last) = page.entries.last() {
            self.epoch = if is_run { last.epoch } else { 0 };
            let told = page
                .entries
                .iter()
                .rev()
                .find_map(|entry| ended_turn(entry).map(|turn| (entry.run, turn)));
            self.turn = told.or(self.turn);
            if let Some(status) = terminal(&last.kind).filter(|_| is_run) {
                self.phase = Phase::End(status);
            }
        }
        bytes
    }

    /// A frame of the hub, unless it was sent before or is of no use.
    fn pass(&mut self, frame: &Frame) -> Option<Bytes> {
        let is_run = self.seat.topic().is_run();
        match frame.what {
            What::Event { at, .. } if at <= self.at => return None,
            What::Event { at, .. } if is_run && at > self.at + 1 => {
                // It cannot happen as long as the hub keeps its word; the database knows in any case.
                self.seat.begin();
                self.phase = Phase::Heal;
                return None;
            }
            What::Event { at, epoch, end } => {
                self.at = at;
                if is_run {
                    self.epoch = self.epoch.max(epoch);
                    self.phase = end.map_or(Phase::Follow, Phase::End);
                }
            }
            What::Live { epoch, .. } if epoch < self.epoch => return None,
            What::Live { run, epoch, number } => {
                let is_in = |(whose, of, next): (RunId, u64, u64)| {
                    (whose, of) == (run, epoch) && number < next
                };
                if self.drafted.is_some_and(is_in) {
                    return None;
                }
            }
        }
        Some(frame.bytes.clone())
    }
}

impl Start {
    fn bytes(&self, is_run: bool) -> Bytes {
        let mut bytes = b"retry: 1000\n\n".to_vec();
        if self.reset {
            bytes.extend_from_slice(b"event: reset\ndata: {}\n\n");
        }
        if self.from_end {
            // No event: only the cursor, for whoever goes before the first one comes.
            bytes.extend_from_slice(&position(self.generation, self.after, is_run));
        }
        bytes.into()
    }
}
