//! Who watches what.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use provost_core::RunId;
use tokio::sync::{Notify, watch};

use super::run_cache::RunTopicCache;
use super::subscriber::{Frame, Seat, Wants};
use super::topic::Topic;

/// All seats, and what the task that reads the log must know.
pub(super) struct Board {
    seats: RwLock<Seats>,
    /// Seats that want live pieces and are not for one run: then nobody can tell by the run alone.
    wide: AtomicUsize,
    /// True while the log is read, so that whatever is committed now will be handed out.
    stands: watch::Sender<bool>,
    /// Wakes the task that reads the log.
    pub(super) wake: Notify,
    pub(super) runs: Mutex<RunTopicCache>,
}

#[derive(Default)]
struct Seats {
    by_topic: HashMap<Topic, Vec<Arc<Seat>>>,
    count: usize,
}

impl Board {
    pub(super) fn new() -> Self {
        Self {
            seats: RwLock::default(),
            wide: AtomicUsize::new(0),
            stands: watch::Sender::new(false),
            wake: Notify::new(),
            runs: Mutex::default(),
        }
    }

    pub(super) fn seat(board: &Arc<Self>, topic: Topic, wants: Wants) -> Seated {
        let seat = Arc::new(Seat::new(wants));
        let mut seats = board.write();
        let row = seats.by_topic.entry(topic.clone()).or_default();
        seat.place.store(row.len(), Ordering::Relaxed);
        row.push(Arc::clone(&seat));
        seats.count += 1;
        if is_wide(&topic, wants) {
            board.wide.fetch_add(1, Ordering::Relaxed);
        }
        drop(seats);
        board.wake.notify_one();
        Seated { board: Arc::clone(board), topic, seat }
    }

    fn leave(&self, topic: &Topic, seat: &Seat) {
        let mut seats = self.write();
        let Entry::Occupied(mut row) = seats.by_topic.entry(topic.clone()) else {
            return;
        };
        let place = seat.place.load(Ordering::Relaxed);
        if place < row.get().len() {
            row.get_mut().swap_remove(place);
            if let Some(moved) = row.get().get(place) {
                moved.place.store(place, Ordering::Relaxed);
            }
        }
        if row.get().is_empty() {
            row.remove();
        }
        seats.count -= 1;
        if is_wide(topic, seat.wants) {
            self.wide.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn viewers(&self) -> usize {
        self.read().count
    }

    /// Waits until the log is read as it grows.
    pub(super) async fn tail_stands(&self) {
        // The other end is in this very board, so it cannot be gone.
        drop(self.stands.subscribe().wait_for(|stands| *stands).await);
    }

    /// Says that whatever is committed from now on is handed out.
    pub(super) fn stand(&self) {
        self.stands.send_replace(true);
    }

    /// Lets the log grow unread if nobody watches; false if somebody does. Under the lock, so that nobody who takes a seat
    /// meanwhile believes that it is read.
    pub(super) fn rest(&self) -> bool {
        let seats = self.write();
        if seats.count > 0 {
            return false;
        }
        self.stands.send_replace(false);
        true
    }

    /// True if somebody may want live pieces of a run. It is asked for each of them.
    pub(super) fn may_want(&self, run: RunId) -> bool {
        self.wide.load(Ordering::Relaxed) > 0 || self.read().by_topic.contains_key(&Topic::Run(run))
    }

    /// True if somebody wants live pieces of one of these topics.
    pub(super) fn wants_live(&self, topics: &[Topic]) -> bool {
        let seats = self.read();
        let mut rows = topics.iter().filter_map(|topic| seats.by_topic.get(topic));
        rows.any(|row| row.iter().any(|seat| seat.wants == Wants::Everything))
    }

    /// Hands a frame to everybody who watches one of these topics. It is made once for each of its two forms, and not at all
    /// if nobody is there.
    pub(super) fn hand(&self, topics: &[Topic], make: impl Fn(&Topic) -> Frame) {
        let seats = self.read();
        let mut forms: [Option<Arc<Frame>>; 2] = [None, None];
        for topic in topics {
            let Some(row) = seats.by_topic.get(topic) else {
                continue;
            };
            let form = &mut forms[usize::from(topic.is_run())];
            let frame = form.get_or_insert_with(|| Arc::new(make(topic)));
            for seat in row {
                seat.push(frame);
            }
        }
    }

    /// Hands the same frame to everybody who watches one of these topics.
    pub(super) fn hand_same(&self, topics: &[Topic], frame: &Arc<Frame>) {
        let seats = self.read();
        for seat in topics.iter().filter_map(|topic| seats.by_topic.get(topic)).flatten() {
            seat.push(frame);
        }
    }

    /// Tells everybody who may have wanted them that live pieces were lost.
    pub(super) fn lost(&self, pieces: u64) {
        for seat in self.read().by_topic.values().flatten() {
            seat.miss(pieces);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Seats> {
        self.seats.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Seats> {
        self.seats.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_wide(topic: &Topic, wants: Wants) -> bool {
    wants == Wants::Everything && !topic.is_run()
}

/// A seat that is given back when its viewer goes.
pub(crate) struct Seated {
    board: Arc<Board>,
    topic: Topic,
    seat: Arc<Seat>,
}

impl Deref for Seated {
    type Target = Seat;
    fn deref(&self) -> &Seat {
        &self.seat
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.board.leave(&self.topic, &self.seat);
    }
}
