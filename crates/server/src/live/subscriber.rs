//! One viewer's seat: a short queue, and whether it is behind.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use provost_core::RunId;
use provost_core::lifecycle::RunStatus;
use tokio::sync::Notify;

/// Frames that wait for one viewer at most.
const FRAMES_MAX: usize = 64;
/// Live frames are left out from here on, so that durable ones find a place.
const LIVE_MAX: usize = 48;
/// Bytes that wait for one viewer at most; one frame is always taken.
const BYTES_MAX: usize = 256 * 1024;

/// One thing to send, made once for all who watch.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) what: What,
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A durable event.
    Event {
        /// Its number in the run or its position in the log, as the cursor of the topic counts.
        at: u64,
        /// The epoch that wrote it.
        epoch: u64,
        /// How the run ended, if it is the last event of one.
        end: Option<RunStatus>,
    },
    /// A live piece.
    Live {
        /// Whose it is.
        run: RunId,
        /// The epoch of the attempt.
        epoch: u64,
        /// Its number in the attempt.
        number: u64,
    },
}

/// What a viewer wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Durable events and live pieces.
    Everything,
    /// Durable events.
    Events,
    /// Only to be woken when a run has ended.
    Ends,
}

/// What a viewer finds at its seat.
pub(crate) enum Taken {
    /// The next thing to send.
    Frame(Arc<Frame>),
    /// So many live pieces were left out.
    Missed(u64),
    /// Events were left out: read the database.
    Behind,
    /// Nothing for now.
    Nothing,
}

/// One viewer.
pub(crate) struct Seat {
    pub(super) wants: Wants,
    queue: Mutex<Queue>,
    wake: Notify,
    /// Where it is among the seats of its topic.
    pub(super) place: AtomicUsize,
}

struct Queue {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    behind: bool,
    /// True as long as live pieces are of no use: the viewer is still in the past.
    quiet: bool,
    missed: u64,
}

impl Seat {
    pub(super) fn new(wants: Wants) -> Self {
        let queue =
            Queue { frames: VecDeque::new(), bytes: 0, behind: false, quiet: true, missed: 0 };
        Self {
            wants,
            queue: Mutex::new(queue),
            wake: Notify::new(),
            place: AtomicUsize::new(usize::MAX),
        }
    }

    /// Puts a frame into the queue, or notes that it was left out. It never waits.
    pub(super) fn push(&self, frame: &Arc<Frame>) {
        match (self.wants, frame.what) {
            (Wants::Ends, What::Event { end: Some(_), .. }) => {}
            (Wants::Ends, _) | (Wants::Events, What::Live { .. }) => return,
            (_, What::Event { .. }) => {
                if !self.lock().push_event(frame) {
                    return;
                }
            }
            (_, What::Live { .. }) => {
                if !self.lock().push_live(frame) {
                    return;
                }
            }
        }
        self.wake.notify_one();
    }

    /// Says that live pieces were lost on the way here.
    pub(super) fn miss(&self, pieces: u64) {
        let mut queue = self.lock();
        if self.wants == Wants::Everything && !queue.quiet {
            queue.missed += pieces;
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// What is next.
    pub(crate) fn take(&self) -> Taken {
        let mut queue = self.lock();
        if queue.behind {
            return Taken::Behind;
        }
        if queue.missed > 0 {
            return Taken::Missed(std::mem::take(&mut queue.missed));
        }
        match queue.frames.pop_front() {
            Some(frame) => {
                queue.bytes -= frame.bytes.len();
                Taken::Frame(frame)
            }
            None => {
                // A queue that was long once need not hold its place for ever.
                queue.frames.shrink_to(8);
                Taken::Nothing
            }
        }
    }

    /// Begins anew: whoever calls it reads the database next.
    pub(crate) fn begin(&self) {
        let mut queue = self.lock();
        queue.drop_frames();
        queue.behind = false;
    }

    /// True if live pieces are wanted.
    pub(crate) fn wants_live(&self) -> bool {
        self.wants == Wants::Everything
    }

    /// Live pieces count from now on.
    pub(crate) fn listen(&self) {
        self.lock().quiet = false;
    }

    /// Waits until there may be something new.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// True if the viewer must be woken.
    fn push_event(&mut self, frame: &Arc<Frame>) -> bool {
        if self.behind {
            return false;
        }
        if self.frames.len() >= FRAMES_MAX || self.is_heavy(frame) {
            self.drop_frames();
            self.behind = true;
        } else {
            self.add(frame);
        }
        true
    }

    /// True if the viewer must be woken.
    fn push_live(&mut self, frame: &Arc<Frame>) -> bool {
        if self.quiet {
            return false;
        }
        if self.behind || self.frames.len() >= LIVE_MAX || self.is_heavy(frame) {
            self.missed += 1;
            return false;
        }
        self.add(frame);
        true
    }

    fn is_heavy(&self, frame: &Frame) -> bool {
        !self.frames.is_empty() && self.bytes + frame.bytes.len() > BYTES_MAX
    }

    fn add(&mut self, frame: &Arc<Frame>) {
        self.bytes += frame.bytes.len();
        self.frames.push_back(Arc::clone(frame));
    }

    fn drop_frames(&mut self) {
        let is_live = |frame: &&Arc<Frame>| matches!(frame.what, What::Live { .. });
        self.missed += self.frames.iter().filter(is_live).count() as u64;
        self.frames = VecDeque::new();
        self.bytes = 0;
    }
}
