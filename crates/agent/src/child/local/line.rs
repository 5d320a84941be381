//! The line in which the children of one call wait for their turn: as many go at once as may.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::RunId;
use provost_tool::{ToolCx, ToolError};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::LocalChildren;
use super::lane::Lane;
use crate::agent::AgentCore;
use crate::child::place::Found;
use crate::child::{ChildLife, ChildPlace};
use crate::drive::Cx;
use crate::outcome::Suspended;
use crate::request::{Above, Parent};

/// Puts the children of one call in line. As many as may go at once go as soon as they are there.
pub(super) struct Line {
    pub(super) walk: Arc<Walk>,
    /// Stops those that live no longer than the call.
    pub(super) cancel: Arc<CancellationToken>,
    at_once: usize,
    /// The definition of the last child, which is mostly that of the next one too.
    last: Option<(ChildPlace, usize, Arc<str>)>,
    /// Those that are put in line next.
    next: Vec<Waiting>,
}

/// Children that are put in line together: those who go on from there take them out one by one, and must not wait for each.
const TOGETHER: usize = 16;

/// The children of one call that have not begun.
///
/// What a run needs is made when it is a child's turn, so that many that wait cost little more than their tasks.
pub(super) struct Walk {
    pub(super) children: Arc<LocalChildren>,
    pub(super) parent: Arc<Cx>,
    pub(super) cx: ToolCx,
    call_id: Arc<str>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// What they are; nearly always all are the same.
    definitions: Vec<Arc<Definition>>,
    /// Tasks that carry one child after the other.
    lanes: usize,
}

/// What a child is, and what it takes over from the run above it.
pub(super) struct Definition {
    pub(super) core: Arc<AgentCore>,
    pub(super) above: Arc<Above>,
    /// The agent of the call, and what its child is called.
    pub(super) parent: Parent,
}

impl Definition {
    /// The same for one lane. Lanes that work at the same time and share what each child takes and gives back would wait for
    /// each other.
    pub(super) fn apart(&self) -> Self {
        let (above, parent) = (Arc::new(self.above.apart()), self.parent.apart());
        Self { core: Arc::clone(&self.core), above, parent }
    }
}

/// A child that has not begun. There may be thousands, so it is small.
pub(super) struct Waiting {
    /// Its place among the children that are known.
    pub(super) place: usize,
    pub(super) run: RunId,
    /// Which of the definitions of its call is its own.
    pub(super) definition: usize,
    pub(super) task: String,
    pub(super) life: ChildLife,
    /// What few children have.
    pub(super) terms: Option<Box<Terms>>,
}

/// What is said of one child and not of the others of its call.
#[derive(Default)]
pub(super) struct Terms {
    /// How far it had come when it had to wait for a person.
    pub(super) suspended: Option<Suspended>,
    /// Stops it, where that is not the end of its call.
    pub(super) cancel: Option<CancellationToken>,
    pub(super) label: Option<String>,
    pub(super) max_turns: Option<u32>,
    pub(super) timeout: Option<Duration>,
    /// Its name in the team of the run above.
    pub(super) member: Option<String>,
}

impl Terms {
    /// True if nothing is said.
    pub(super) fn are_plain(&self) -> bool {
        let Self { suspended, cancel, label, max_turns, timeout, member } = self;
        let (suspended, cancel) = (suspended.is_none(), cancel.is_none());
        let (label, member) = (label.is_none(), member.is_none());
        suspended && cancel && label && member && max_turns.is_none() && timeout.is_none()
    }
}

impl Line {
    pub(super) fn new(
        cx: &ToolCx,
        children: Arc<LocalChildren>,
        parent: Arc<Cx>,
        at_once: Option<usize>,
    ) -> Self {
        let cancel = Arc::new(cx.cancelled().clone());
        let (call_id, queue) = (cx.call_id().into(), Mutex::default());
        let walk = Arc::new(Walk { children, parent, cx: cx.clone(), call_id, queue });
        let at_once = at_once.map_or(usize::MAX, |at_once| at_once.max(1));
        Self { walk, cancel, at_once, last: None, next: Vec::with_capacity(TOGETHER) }
    }

    /// Which definition is at a place below the agent of the call, and its name.
    pub(super) fn find(&mut self, place: &ChildPlace) -> Result<(usize, Arc<str>), ToolError> {
        if let Some((last, known, name)) = &self.last
            && Arc::ptr_eq(last, place)
        {
            return Ok((*known, Arc::clone(name)));
        }
        let Walk { parent, call_id, cx, .. } = &*self.walk;
        let Found { core, hooks } = parent.core.below(place).map_err(ToolError::Failed)?;
        let above = Arc::new(Above::new(parent, call_id, hooks));
        let (depth, depth_max) = (cx.depth(), cx.depth_max());
        let mut parent = Parent { agent: cx.agent().into(), depth, depth_max, child: None };
        let name = Arc::clone(&core.name);
        parent.child = Some((Arc::clone(&name), parent.path(&name)));
        let mut queue = self.walk.queue();
        let known = queue.definitions.len();
        queue.definitions.push(Arc::new(Definition { core, above, parent }));
        drop(queue);
        self.last = Some((Arc::clone(place), known, Arc::clone(&name)));
        Ok((known, name))
    }

    pub(super) fn push(&mut self, child: Waiting) {
        self.next.push(child);
        if self.next.len() == TOGETHER {
            self.move_on();
        }
    }

    /// Puts those in line that are ready, and lets as many more go as may.
    fn move_on(&mut self) {
        let mut queue = self.walk.queue();
        let more = self.next.len().min(self.at_once - queue.lanes);
        queue.waiting.extend(self.next.drain(..));
        queue.lanes += more;
        drop(queue);
        for _ in 0..more {
            let lane = Lane::new(Arc::clone(&self.walk));
            // Boxed, because a lane is a large future, and starting a task moves its future many times.
            tokio::spawn(async move { Box::pin(lane.walk()).await }.in_current_span());
        }
    }
}

impl Drop for Line {
    /// Those that are known are carried to their ends, also if one after them could not be started.
    fn drop(&mut self) {
        self.move_on();
    }
}

impl Walk {
    /// The next one, and what it is if that is not the definition of this number; without one the lane is at its end.
    pub(super) fn next(&self, known: Option<usize>) -> Option<(Waiting, Option<Arc<Definition>>)> {
        let mut queue = self.queue();
        let Some(next) = queue.waiting.pop_front() else {
            queue.lanes -= 1;
            return None;
        };
        let is_other = known != Some(next.definition);
        let other = is_other.then(|| queue.definitions.get(next.definition).cloned()).flatten();
        Some((next, other))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
