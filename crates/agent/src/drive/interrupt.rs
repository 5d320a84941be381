//! Stopping a run where it stands: nothing that it waits for can keep it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use provost_core::{EventKind, Role, StopReason};
use provost_model::{Fold, ModelResponse};
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFuture;

use super::Driver;
use super::setup::Cx;
use crate::error::Error;
use crate::handle::Control;
use crate::outcome::Outcome;
use crate::run::Feed;

/// What can stop a run while it waits. It lasts as long as the run: to ask to be woken anew for every step, or whenever a step
/// waits, would cost more than to look.
pub(super) struct Interrupt<'a> {
    control: &'a Control,
    cancelled: Pin<Box<WaitForCancellationFuture<'a>>>,
    is_cancelled: bool,
    /// The control, which wakes the driver and tells that it was not for a piece of an answer.
    caller: Waker,
    /// Who is woken when the run is cancelled.
    waker: Option<Waker>,
}

impl<'a> Interrupt<'a> {
    pub(super) fn new(cx: &'a Cx) -> Self {
        let control = &*cx.control;
        let cancelled = Box::pin(control.cancel.cancelled());
        let caller = Waker::from(Arc::clone(&cx.control));
        Self { control, cancelled, is_cancelled: false, caller, waker: None }
    }

    /// Does something that may wait for long, until it is done, the run is cancelled or its time is over.
    pub(super) async fn unless<T>(
        &mut self,
        deadline: Option<Instant>,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, StopReason> {
        let mut over = deadline.map(|deadline| Box::pin(tokio::time::sleep_until(deadline)));
        poll_fn(|task| {
            // What is ready counts, also when the end comes at the same moment.
            if let Poll::Ready(done) = work.as_mut().poll(task) {
                return Poll::Ready(Ok(done));
            }
            if self.poll_cancelled(task).is_ready() {
                return Poll::Ready(Err(StopReason::Cancelled));
            }
            let called = &mut Context::from_waker(&self.caller);
            let over = over.as_mut().map(|over| over.as_mut().poll(called));
            over.map_or(Poll::Pending, |over| over.map(|()| Err(StopReason::Limit)))
        })
        .await
    }

    fn poll_cancelled(&mut self, task: &mut Context<'_>) -> Poll<()> {
        if self.is_cancelled {
            return Poll::Ready(());
        }
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(task.waker()));
        if is_known && !self.control.arrival.was_called() {
            return Poll::Pending;
        }
        self.waker = Some(task.waker().clone());
        self.control.arrival.expect(task.waker());
        let cancelled = self.cancelled.as_mut().poll(&mut Context::from_waker(&self.caller));
        self.is_cancelled = cancelled.is_ready();
        cancelled
    }
}

impl Driver {
    /// Ends the run where it stands, and tells what became of what was under way.
    pub(super) fn interrupt(&mut self, reason: StopReason) -> Result<(), Error> {
        let open = self.run.open_calls();
        let produced = self.run.produced().len();
        let unheard = self.run.unheard() + usize::from(std::mem::take(&mut self.hears));
        let arrived = self.cx.control.arrival.take_partial();
        let partial = self.fold.take().or(arrived).map(Fold::into_partial);
        // What no hook has let pass is not kept; but it is paid.
        let unseen = self.unseen.take().map(|used| ModelResponse {
            usage: used.unwrap_or_default(),
            usage_known: used.is_some(),
            ..ModelResponse::text("")
        });
        let partial = partial.or(unseen);
        let usage = partial.as_ref().map(|partial| partial.usage).unwrap_or_default();
        let cost = partial.as_ref().and_then(|partial| self.price(partial));
        let partial = partial.map(Box::new);
        self.feed(Feed::Stopped { partial, cost, reason, limit: None, at: self.now() })?;
        for message in self.run.produced()[produced..].iter().cloned() {
            let finished = message.tool_results().filter(|result| open.contains(&result.call_id));
            for result in finished.cloned() {
                self.cx.queue.emit(EventKind::ToolFinished {
                    result: Box::new(result),
                    duration: Duration::ZERO,
                });
            }
            if message.role == Role::Assistant {
                let turn = self.run.turns() + 1;
                self.cx.queue.emit(EventKind::TurnFinished { turn, message, stop: reason, usage });
            }
        }
        if unheard > 0 {
            let message = format!("{unheard} message(s) came too late to be answered");
            self.cx.queue.emit(EventKind::Warning { message });
        }
        Ok(())
    }

    pub(super) async fn cancel(&mut self) -> Result<Outcome, Error> {
        self.interrupt(StopReason::Cancelled)?;
        self.close_children().await?;
        self.save().await?;
        Ok(Outcome::Cancelled(self.run.summary(self.now())))
    }
}
