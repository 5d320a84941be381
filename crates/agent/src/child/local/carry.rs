//! The way of children to their ends: those of one call wait in a line, and as many go at once as may.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use provost_core::{EventKind, RunId, StopReason};
use provost_tool::{ToolCx, ToolError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::LocalChildren;
use super::ended::Ended;
use crate::agent::AgentCore;
use crate::child::place::Found;
use crate::child::{ChildLife, ChildPlace, ChildStatus};
use crate::drive::Cx;
use crate::hook::SubagentInfo;
use crate::outcome::Suspended;
use crate::request::{Above, Below, Parent, RunBuilder};

/// Puts the children of one call in line. As many as may go at once go as soon as they are there.
pub(super) struct Line {
    pub(super) walk: Arc<Walk>,
    /// The agent of the call, and what its last child is called.
    above: Parent,
    at_once: usize,
    /// The definition of the last child, which is mostly that of the next one too.
    last: Option<(ChildPlace, Definition)>,
    /// Those that are put in line next.
    next: Vec<(Waiting, Parent)>,
}

/// Children that are put in line together: those who go on from there take them out one by one, and must not wait for each.
const TOGETHER: usize = 16;

/// The children of one call that have not begun.
///
/// What a run needs is made when it is a child's turn, so that many that wait cost little more than their tasks.
pub(super) struct Walk {
    children: Arc<LocalChildren>,
    pub(super) parent: Arc<Cx>,
    pub(super) cx: ToolCx,
    call_id: Arc<str>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Waiting, Parent)>,
    /// Tasks that carry one child after the other.
    lanes: usize,
}

/// What a child is, and what it takes over from the run above it.
#[derive(Clone)]
pub(super) struct Definition {
    pub(super) core: Arc<AgentCore>,
    above: Arc<Above>,
}

/// A child that has not begun.
pub(super) struct Waiting {
    /// Its place among the children that are known.
    pub(super) place: usize,
    pub(super) run: RunId,
    pub(super) found: Definition,
    pub(super) task: String,
    /// How far it had come when it had to wait for a person.
    pub(super) suspended: Option<Box<Suspended>>,
    pub(super) cancel: CancellationToken,
    pub(super) life: ChildLife,
    pub(super) label: Option<String>,
    pub(super) max_turns: Option<u32>,
    pub(super) timeout: Option<Duration>,
    /// Its name in the team of the run above.
    pub(super) member: Option<String>,
}

impl Waiting {
    /// What hooks are told of one that has a label.
    fn info(&self) -> Option<SubagentInfo> {
        let label = self.label.as_ref()?;
        Some(SubagentInfo {
            task_id: label.clone(),
            agent: self.found.core.name.to_string(),
            task: self.task.clone(),
            result: None,
            duration: Duration::ZERO,
        })
    }
}

impl Line {
    pub(super) fn new(
        cx: &ToolCx,
        children: Arc<LocalChildren>,
        parent: Arc<Cx>,
        at_once: Option<usize>,
    ) -> Self {
        let (depth, depth_max) = (cx.depth(), cx.depth_max());
        let above = Parent { agent: cx.agent().into(), depth, depth_max, child: None };
        let (call_id, queue) = (cx.call_id().into(), Mutex::default());
        let walk = Arc::new(Walk { children, parent, cx: cx.clone(), call_id, queue });
        let at_once = at_once.map_or(usize::MAX, |at_once| at_once.max(1));
        Self { walk, above, at_once, last: None, next: Vec::with_capacity(TOGETHER) }
    }

    /// The definition at a place below the agent of the call.
    pub(super) fn find(&mut self, place: &ChildPlace) -> Result<Definition, ToolError> {
        if let Some((_, known)) = self.last.as_ref().filter(|(last, _)| Arc::ptr_eq(last, place)) {
            return Ok(known.clone());
        }
        let Walk { parent, call_id, .. } = &*self.walk;
        let Found { core, hooks } = parent.core.below(place).map_err(ToolError::Failed)?;
        let above = Arc::new(Above::new(parent, call_id, hooks));
        let found = Definition { core, above };
        self.last = Some((Arc::clone(place), found.clone()));
        Ok(found)
    }

    pub(super) fn push(&mut self, child: Waiting) {
        let name = &child.found.core.name;
        if self.above.child.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, name)) {
            self.above.child = Some((Arc::clone(name), self.above.path(name)));
        }
        self.next.push((child, self.above.clone()));
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
            let walk = Arc::clone(&self.walk);
            tokio::spawn(async move { walk.walk().await }.in_current_span());
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
    /// Carries one child after the other.
    async fn walk(&self) {
        while let Some((child, above)) = self.next() {
            let place = child.place;
            if AssertUnwindSafe(self.carry(child, above)).catch_unwind().await.is_err() {
                // Those who wait for it would wait for ever.
                self.children.arrivals.add(place, Ended::failed("it panicked".to_owned()));
            }
            // Children that never wait for anything must not keep others from the thread.
            tokio::task::consume_budget().await;
        }
    }

    /// The next one; without one the lane is at its end.
    fn next(&self) -> Option<(Waiting, Parent)> {
        let mut queue = self.queue();
        let next = queue.waiting.pop_front();
        queue.lanes -= usize::from(next.is_none());
        next
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries a child to its end.
    async fn carry(&self, child: Waiting, above: Parent) {
        let parent = &self.parent;
        let info = child.info();
        if let Some(info) = &info {
            let told = pin!(unharmed(parent, info, parent.hooks.on_subagent_start(info)));
            // A hook that hangs must not keep a child that is to end.
            futures::future::select(told, pin!(child.cancel.cancelled())).await;
        }
        let started = Instant::now();
        let Waiting { place, timeout, .. } = child;
        let member = child.member.clone();
        let timed = timeout.map(|timeout| (timeout, child.cancel.clone()));
        let builder = self.builder(child, above);
        let pot = builder.pot();
        let path = builder.path();
        let mut outcome = pin!(builder.outcome_below());
        let outcome = match timed {
            None => outcome.await,
            // Most children are done before anybody has to set a timer.
            Some((timeout, cancel)) => tokio::select! {
                biased;
                outcome = &mut outcome => outcome,
                () = tokio::time::sleep(timeout) => {
                    cancel.cancel();
                    outcome.await
                }
            },
        };
        let mut ended = Ended::of(outcome, || vec![pot.used_as(&path)], &path);
        if ended.stop == Some(StopReason::Limit) && ended.limit.is_none() {
            ended.limit = pot.spent_above();
        }
        if ended.status == ChildStatus::Cancelled
            && let Some(timeout) = timeout.filter(|timeout| started.elapsed() >= *timeout)
        {
            ended.error = Some(format!("its time of {}s was over", timeout.as_secs_f64()));
        }
        if let Some(name) = member {
            parent.member_over(&name, ended.of_member(), started.elapsed()).await;
        }
        if let Some(info) = info {
            let result = match ended.status {
                ChildStatus::Completed => Ok(ended.text.clone()),
                _ => Err(ended.error.clone().unwrap_or_else(|| "it was stopped".to_owned())),
            };
            let duration = started.elapsed();
            let info = SubagentInfo { result: Some(result), duration, ..info };
            unharmed(parent, &info, parent.hooks.on_subagent_stop(&info)).await;
        }
        self.children.arrivals.add(place, ended);
    }

    fn builder(&self, child: Waiting, above: Parent) -> RunBuilder {
        let Waiting { run, found, task, suspended, cancel, life, label, max_turns, member, .. } =
            child;
        let seat = self.parent.seat.as_ref().zip(member);
        let below = Below {
            above: found.above,
            parent: above,
            run,
            cancel,
            label,
            max_turns,
            may_suspend: life == ChildLife::Call,
            seat: seat.map(|(seat, name)| seat.beside(&name)),
        };
        RunBuilder::below(&self.parent, found.core, (task, suspended), below)
    }
}

/// Tells hooks of a child. One that panics is nobody's end: those who wait for the child would wait for ever.
async fn unharmed(parent: &Cx, info: &SubagentInfo, told: impl Future<Output = ()>) {
    if AssertUnwindSafe(told).catch_unwind().await.is_err() {
        let message = format!("a hook panicked when it was told of {}", info.task_id);
        parent.queue.emit(EventKind::Warning { message });
    }
}
