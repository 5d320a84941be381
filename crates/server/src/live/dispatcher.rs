//! Reading the log as it grows.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use provost_core::RunId;
use provost_engine::{Engine, EngineError, LogEntry};
use provost_store::Hint;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Instant;

use super::delta::{Piece, Waiting};
use super::registry::Board;
use super::run_cache::{Placed, during};
use super::subscriber::{Frame, What};
use crate::sse::encode::{self, finished_turn, terminal_status};

/// Events of one page.
const PAGE: u64 = 500;
/// With more viewers than this, handing out one event takes so long that others must get a turn in between.
const CROWD: usize = 256;
/// Other processes write to the same file and send no hints.
const POLL: Duration = Duration::from_secs(1);
/// How long to wait after the database could not be read.
const PAUSE: Duration = Duration::from_millis(250);

/// Where the log is read.
struct Tail {
    engine: Engine,
    board: Arc<Board>,
    generation: u64,
    pos: u64,
    /// Live pieces that wait for the durable events that came before them.
    held: Vec<Piece>,
    /// Live pieces for which there was no place.
    lost: u64,
    round: u64,
}

/// Reads the log as long as somebody watches, and rests as long as nobody does.
pub(super) async fn run(engine: Engine, board: Arc<Board>) {
    loop {
        while board.viewers() == 0 {
            board.wake.notified().await;
        }
        // Before the position is read, so that no hint about what comes after it is missed.
        let hints = engine.store().hints();
        match engine.log_bounds().await {
            Ok(bounds) => {
                let (engine, board) = (engine.clone(), Arc::clone(&board));
                let (generation, pos) = (bounds.generation, bounds.last);
                let (held, lost, round) = (Vec::new(), 0, 0);
                Tail { engine, board, generation, pos, held, lost, round }.follow(hints).await;
            }
            Err(error) => pause(&error).await,
        }
    }
}

async fn pause(error: &EngineError) {
    tracing::warn!(%error, "the log cannot be read; viewers wait");
    tokio::time::sleep(PAUSE).await;
}

impl Tail {
    /// Hands out what is new until nobody watches.
    async fn follow(mut self, mut hints: Receiver<Hint>) {
        self.board.stand();
        let mut next_poll = Instant::now() + POLL;
        loop {
            let mut read = false;
            tokio::select! {
                biased;
                // Pieces that came while the log was read want the next look at it.
                () = std::future::ready(()), if !self.held.is_empty() => {}
                hint = hints.recv() => {
                    read = tells_of_events(&hint);
                    if matches!(hint, Err(RecvError::Closed)) {
                        // The store is going; until it has, polling does.
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                () = self.board.wake.notified() => {}
                () = tokio::time::sleep_until(next_poll) => read = true,
            }
            read |= drain(&mut hints);
            self.round += 1;
            self.gather(self.round);
            if read || self.held.iter().any(|piece| piece.follows) {
                next_poll = Instant::now() + POLL;
                if let Err(error) = self.read().await {
                    pause(&error).await;
                    next_poll = Instant::now();
                }
            }
            let round = self.round;
            self.pass_on(|piece| piece.round <= round);
            if self.board.rest() {
                return;
            }
        }
    }

    /// Takes the live pieces that have come.
    fn gather(&mut self, round: u64) {
        let mut waiting = self.board.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting { pieces, lost } = std::mem::take(&mut *waiting);
        drop(waiting);
        self.lost += lost;
        self.held.extend(pieces.into_iter().map(|piece| Piece { round, ..piece }));
    }

    /// Hands out all events after the position.
    async fn read(&mut self) -> Result<(), EngineError> {
        loop {
            let page = self.engine.log_tail(self.pos, PAGE).await?;
            let places = self.places(&page.entries).await?;
            // Among what came meanwhile are the pieces that were said before these events were committed.
            self.gather(self.round + 1);
            for entry in &page.entries {
                // A run that was removed meanwhile belongs nowhere.
                let Some(placed) = places.get(&entry.run) else { continue };
                placed.see(entry.epoch);
                self.pass_on_before(entry, placed);
                self.board.hand(&placed.topics, |topic| {
                    let kind = topic.cursor_kind();
                    let (at, end) = (kind.place_of(entry), terminal_status(&entry.kind));
                    Frame {
                        bytes: encode::event(self.generation, entry, kind),
                        what: What::Event { at, epoch: entry.epoch, end },
                    }
                });
                if self.board.viewers() > CROWD {
                    // So that they can take it before the next one comes.
                    tokio::task::yield_now().await;
                }
            }
            self.pos = page.next;
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Hands out the pieces of a run that were said before an event of it.
    fn pass_on_before(&mut self, entry: &LogEntry, placed: &Placed) {
        let turn = finished_turn(entry);
        let stage = match turn {
            Some(turn) => during(turn),
            None if terminal_status(&entry.kind).is_some() => u64::MAX,
            None => placed.told(),
        };
        let (run, epoch) = (entry.run, entry.epoch);
        self.pass_on(|piece| (piece.run, piece.epoch) == (run, epoch) && piece.stage <= stage);
        if let Some(turn) = turn {
            placed.tell(turn);
        }
    }

    /// Hands out some of the pieces, in the order in which they came.
    fn pass_on(&mut self, which: impl Fn(&Piece) -> bool) {
        if self.lost > 0 {
            self.board.lost(std::mem::take(&mut self.lost));
        }
        if self.held.is_empty() {
            return;
        }
        for piece in self.held.extract_if(.., |piece| which(piece)) {
            if !piece.placed.is_stale(piece.epoch) {
                self.board.hand_same(&piece.placed.topics, &piece.frame);
            }
        }
    }

    async fn places(
        &self,
        entries: &[LogEntry],
    ) -> Result<HashMap<RunId, Arc<Placed>>, EngineError> {
        let mut known = HashMap::new();
        let mut unknown = Vec::new();
        {
            let mut places = self.board.places.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in entries {
                if known.contains_key(&entry.run) || unknown.contains(&entry.run) {
                    continue;
                }
                match places.get(entry.run) {
                    Some(placed) => drop(known.insert(entry.run, placed)),
                    None => unknown.push(entry.run),
                }
            }
        }
        if unknown.is_empty() {
            return Ok(known);
        }
        let found = self.engine.places_of(unknown).await?;
        let mut places = self.board.places.lock().unwrap_or_else(PoisonError::into_inner);
        for (run, place) in found {
            known.insert(run, places.put(run, &place));
        }
        Ok(known)
    }
}

fn tells_of_events(hint: &Result<Hint, RecvError>) -> bool {
    match hint {
        Ok(hint) => matches!(hint, Hint::Events(_)),
        Err(RecvError::Lagged(_) | RecvError::Closed) => true,
    }
}

/// Takes all hints that are there: one look at the log answers all of them.
fn drain(hints: &mut Receiver<Hint>) -> bool {
    let mut read = false;
    loop {
        match hints.try_recv() {
            Ok(hint) => read |= matches!(hint, Hint::Events(_)),
            Err(TryRecvError::Lagged(_)) => read = true,
            Err(TryRecvError::Empty | TryRecvError::Closed) => return read,
        }
    }
}
