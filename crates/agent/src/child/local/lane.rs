//! The way of children to their ends: a lane carries one after the other.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_core::{EventKind, StopReason};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ended::Ended;
use super::line::{Definition, Terms, Waiting, Walk};
use crate::child::{ChildLife, ChildStatus};
use crate::drive::Cx;
use crate::hook::SubagentInfo;
use crate::request::{Below, RunBuilder};

/// A task that carries children of one call, one after the other.
pub(super) struct Lane {
    walk: Arc<Walk>,
    own: Option<Own>,
}

/// What a lane has for itself.
struct Own {
    /// The number of the definition.
    number: usize,
    definition: Definition,
    /// Stops what lives no longer than the call.
    cancel: CancellationToken,
}

impl Terms {
    /// What hooks are told of one that has a label.
    fn info(&self, agent: &str, task: &str) -> Option<SubagentInfo> {
        let label = self.label.as_ref()?;
        Some(SubagentInfo {
            task_id: label.clone(),
            agent: agent.to_owned(),
            task: task.to_owned(),
            result: None,
            duration: Duration::ZERO,
        })
    }
}

impl Lane {
    pub(super) fn new(walk: Arc<Walk>) -> Self {
        Self { walk, own: None }
    }

    /// Carries one child after the other.
    pub(super) async fn walk(mut self) {
        while let Some(child) = self.next() {
            let place = child.place;
            if AssertUnwindSafe(self.carry(child)).catch_unwind().await.is_err() {
                // Those who wait for it would wait for ever.
                self.walk.children.arrivals.add(place, Ended::failed("it panicked".to_owned()));
            }
            // Children that never wait for anything must not keep others from the thread.
            tokio::task::consume_budget().await;
        }
    }

    /// The next child, with what it is at hand.
    fn next(&mut self) -> Option<Waiting> {
        let known = self.own.as_ref().map(|own| own.number);
        let (child, other) = self.walk.next(known)?;
        if let Some(definition) = other {
            let cancel = self.walk.cx.cancelled().child_token();
            let (number, definition) = (child.definition, definition.apart());
            self.own = Some(Own { number, definition, cancel });
        }
        Some(child)
    }

    /// Carries a child to its end.
    async fn carry(&self, mut child: Waiting) {
        let Some(Own { definition, cancel, .. }) = &self.own else {
            // A lane that is given a child is given its definition; whoever waits must not depend on that.
            let gone = Ended::failed("its definition is gone".to_owned());
            return self.walk.children.arrivals.add(child.place, gone);
        };
        let terms = child.terms.take().map(|terms| *terms).unwrap_or_default();
        let info = terms.info(&definition.core.name, &child.task);
        let cancel = terms.cancel.clone().unwrap_or_else(|| cancel.child_token());
        let parent = &self.walk.parent;
        if let Some(info) = &info {
            let told = pin!(unharmed(parent, info, parent.hooks.on_subagent_start(info)));
            // A hook that hangs must not keep a child that is to end.
            futures::future::select(told, pin!(cancel.cancelled())).await;
        }
        let started = Instant::now();
        let Waiting { place, run, life, .. } = child;
        let (timeout, member) = (terms.timeout, terms.member.clone());
        let timed = timeout.map(|timeout| (timeout, cancel.clone()));
        let builder = self.builder(definition, child, (terms, cancel));
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
        let (mut ended, used) = Ended::of(outcome, || pot.used());
        if ended.stop == Some(StopReason::Limit) && ended.limit().is_none() {
            ended.more().limit = pot.spent_above();
        }
        if ended.status == ChildStatus::Cancelled
            && let Some(timeout) = timeout.filter(|timeout| started.elapsed() >= *timeout)
        {
            ended.more().error = Some(format!("its time of {}s was over", timeout.as_secs_f64()));
        }
        if member.is_some() || info.is_some() {
            Box::pin(self.tell_end(&ended, started, member, info)).await;
        }
        let arrivals = &self.walk.children.arrivals;
        if life == ChildLife::Call {
            arrivals.add_counted((place, run), ended, (&path, used));
        } else {
            ended.used = used.by_agent(&path);
            arrivals.add(place, ended);
        }
    }

    /// Tells the team and hooks of an end.
    async fn tell_end(
        &self,
        ended: &Ended,
        started: Instant,
        member: Option<String>,
        info: Option<SubagentInfo>,
    ) {
        let parent = &self.walk.parent;
        if let Some(name) = member {
            parent.member_over(&name, ended.of_member(), started.elapsed()).await;
        }
        if let Some(info) = info {
            let result = match ended.status {
                ChildStatus::Completed => Ok(ended.text.clone()),
                _ => Err(ended.error().cloned().unwrap_or_else(|| "it was stopped".to_owned())),
            };
            let duration = started.elapsed();
            let info = SubagentInfo { result: Some(result), duration, ..info };
            unharmed(parent, &info, parent.hooks.on_subagent_stop(&info)).await;
        }
    }

    fn builder(
        &self,
        definition: &Definition,
        child: Waiting,
        (terms, cancel): (Terms, CancellationToken),
    ) -> RunBuilder {
        let Waiting { run, task, life, .. } = child;
        let Terms { suspended, label, max_turns, member, .. } = terms;
        let seat = self.walk.parent.seat.as_ref().zip(member);
        let below = Below {
            above: Arc::clone(&definition.above),
            parent: definition.parent.clone(),
            run,
            cancel,
            label,
            max_turns,
            may_suspend: life == ChildLife::Call,
            seat: seat.map(|(seat, name)| seat.beside(&name)),
        };
        RunBuilder::below(&self.walk.parent, Arc::clone(&definition.core), (task, suspended), below)
    }
}

/// Tells hooks of a child. One that panics is nobody's end: those who wait for the child would wait for ever.
async fn unharmed(parent: &Cx, info: &SubagentInfo, told: impl Future<Output = ()>) {
    if AssertUnwindSafe(told).catch_unwind().await.is_err() {
        let message = format!("a hook panicked when it was told of {}", info.task_id);
        parent.queue.emit(EventKind::Warning { message });
    }
}
