//! One subscriber and its bounded queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use parking_lot::Mutex;
use provost_core::RunId;
use provost_core::lifecycle::RunStatus;
use tokio::sync::Notify;

/// Maximum number of queued frames.
const FRAMES_MAX: usize = 64;
/// Number of queued frames from which deltas are dropped, so that durable events have room.
const DELTAS_MAX: usize = 48;
/// Maximum size of queued frames in bytes. An empty queue accepts a larger frame.
const BYTES_MAX: usize = 256 * 1024;

/// An encoded event. All subscribers share it.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) kind: FrameKind,
}

/// Event or delta that a frame contains, with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A durable event.
    Durable {
        /// Number of the event in its run, or its position in the log, depending on the cursor of the topic.
        at: u64,
        /// Epoch of the event.
        epoch: u64,
        /// Final status of the run, if this is its last event.
        end: Option<RunStatus>,
    },
    /// A live delta.
    Delta {
        /// Run of the delta.
        run: RunId,
        /// Epoch of the run attempt.
        epoch: u64,
        /// Number of the delta within the attempt.
        number: u64,
    },
}

/// Events that a subscriber wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Durable events and deltas.
    EventsAndDeltas,
    /// Durable events.
    Events,
    /// Only a wake-up when a run ends.
    Completion,
}

/// Result of reading the queue.
pub(crate) enum Received {
    /// The next frame.
    Frame(Arc<Frame>),
    /// Number of deltas that were dropped.
    DeltasDropped(u64),
    /// Events were dropped: the subscriber must read the database.
    Lagged,
    /// The queue is empty.
    Empty,
}

/// A subscriber of a topic.
pub(crate) struct Subscriber {
    pub(super) interest: Interest,
    queue: Mutex<Queue>,
    wake: Notify,
    /// Index in the list of the topic's subscribers.
    pub(super) index: AtomicUsize,
}

struct Queue {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    is_lagging: bool,
    /// True while the subscriber still reads stored events and needs no deltas.
    deltas_paused: bool,
    dropped: u64,
}

impl Subscriber {
    pub(super) fn new(interest: Interest) -> Self {
        let queue = Queue {
            frames: VecDeque::new(),
            bytes: 0,
            is_lagging: false,
            deltas_paused: true,
            dropped: 0,
        };
        Self {
            interest,
            queue: Mutex::new(queue),
            wake: Notify::new(),
            index: AtomicUsize::new(usize::MAX),
        }
    }

    /// Adds a frame to the queue, or records that it was dropped. It never waits.
    pub(super) fn push(&self, frame: &Arc<Frame>) {
        match (self.interest, frame.kind) {
            (Interest::Completion, FrameKind::Durable { end: Some(_), .. }) => {}
            (Interest::Completion, _) | (Interest::Events, FrameKind::Delta { .. }) => return,
            (_, FrameKind::Durable { .. }) => {
                if !self.queue.lock().push_event(frame) {
                    return;
                }
            }
            (_, FrameKind::Delta { .. }) => {
                if !self.queue.lock().push_delta(frame) {
                    return;
                }
            }
        }
        self.wake.notify_one();
    }

    /// Records that deltas were dropped before they reached the queue.
    pub(super) fn record_dropped(&self, deltas: u64) {
        let mut queue = self.queue.lock();
        if self.interest == Interest::EventsAndDeltas && !queue.deltas_paused {
            queue.dropped += deltas;
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// Returns the next frame or the state of the queue.
    pub(crate) fn receive(&self) -> Received {
        let mut queue = self.queue.lock();
        if queue.is_lagging {
            return Received::Lagged;
        }
        if queue.dropped > 0 {
            return Received::DeltasDropped(std::mem::take(&mut queue.dropped));
        }
        match queue.frames.pop_front() {
            Some(frame) => {
                queue.bytes -= frame.bytes.len();
                Received::Frame(frame)
            }
            None => {
                // Releases the memory of a queue that was long.
                queue.frames.shrink_to(8);
                Received::Empty
            }
        }
    }

    /// Clears the queue and accepts events again. The caller then reads the database.
    pub(crate) fn resume(&self) {
        let mut queue = self.queue.lock();
        queue.drop_frames();
        queue.is_lagging = false;
    }

    /// Returns true if the subscriber wants deltas.
    pub(crate) fn wants_deltas(&self) -> bool {
        self.interest == Interest::EventsAndDeltas
    }

    /// Accepts deltas from now on.
    pub(crate) fn start_deltas(&self) {
        self.queue.lock().deltas_paused = false;
    }

    /// Waits until the queue has changed.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl Queue {
    /// Returns true if the subscriber must be woken.
    fn push_event(&mut self, frame: &Arc<Frame>) -> bool {
        if self.is_lagging {
            return false;
        }
        if self.frames.len() >= FRAMES_MAX || self.exceeds_bytes(frame) {
            self.drop_frames();
            self.is_lagging = true;
        } else {
            self.add(frame);
        }
        true
    }

    /// Returns true if the subscriber must be woken.
    fn push_delta(&mut self, frame: &Arc<Frame>) -> bool {
        if self.deltas_paused {
            return false;
        }
        if self.is_lagging || self.frames.len() >= DELTAS_MAX || self.exceeds_bytes(frame) {
            self.dropped += 1;
            return false;
        }
        self.add(frame);
        true
    }

    fn exceeds_bytes(&self, frame: &Frame) -> bool {
        !self.frames.is_empty() && self.bytes + frame.bytes.len() > BYTES_MAX
    }

    fn add(&mut self, frame: &Arc<Frame>) {
        self.bytes += frame.bytes.len();
        self.frames.push_back(Arc::clone(frame));
    }

    fn drop_frames(&mut self) {
        let is_live = |frame: &&Arc<Frame>| matches!(frame.kind, FrameKind::Delta { .. });
        self.dropped += self.frames.iter().filter(is_live).count() as u64;
        self.frames = VecDeque::new();
        self.bytes = 0;
    }
}
