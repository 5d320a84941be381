//! One call over a route: chooses, waits, asks, and asks somebody else while nothing was given out.
//!
//! A hand-written stream and not a task: dropping it drops the attempt that is under way, and nothing runs on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Shared;
use super::plan::{Plan, open};
use super::ticket::Ticket;
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelStream};

/// The stream of one call.
pub(super) struct Call {
    plan: Option<Box<Plan>>,
    state: State,
    /// What is to be given out, last one first.
    queue: Vec<ModelEvent>,
    failure: Option<ModelError>,
}

enum State {
    Start,
    /// Finding somebody to ask.
    Opening(BoxFuture<'static, Result<Opened, ModelError>>),
    Reading(Box<Reading>),
    Done,
}

/// What comes of finding somebody.
pub(super) type Opened = (Box<Plan>, Box<Reading>);

/// An answer that is on its way.
pub(super) struct Reading {
    stream: ModelStream,
    ticket: Ticket,
    /// When the first word or the whole answer must be there.
    alarm: Option<Pin<Box<Sleep>>>,
    /// True if the alarm is for the first word.
    alarm_is_first: bool,
    /// True once something was given out that cannot be taken back.
    delivered: bool,
    /// What is kept back until the answer is whole.
    kept: Vec<ModelEvent>,
}

impl Call {
    pub(super) fn new(shared: Arc<Shared>, request: ChatRequest) -> Self {
        let plan = Box::new(Plan::new(shared, request));
        Self { plan: Some(plan), state: State::Start, queue: Vec::new(), failure: None }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Opening(opening) = &mut self.state else { return Poll::Ready(()) };
        self.state = match ready!(opening.as_mut().poll(cx)) {
            Ok((plan, reading)) => {
                self.queue.push(plan.told(&reading.ticket));
                self.plan = Some(plan);
                State::Reading(reading)
            }
            Err(error) => {
                self.failure = Some(error);
                State::Done
            }
        };
        Poll::Ready(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Reading(reading) = &mut self.state else { return Poll::Ready(()) };
        let whole = self.plan.as_ref().is_some_and(|plan| plan.keeps_back());
        let error = match reading.poll_event(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(event))) => {
                reading.ticket.see(&event);
                let is_delta = event.is_delta();
                if is_delta {
                    reading.heard(self.plan.as_ref().and_then(|plan| plan.deadline()));
                }
                if whole && !reading.ticket.is_answered() {
                    reading.kept.push(event);
                    return Poll::Ready(());
                }
                reading.delivered |= is_delta;
                self.queue.push(event);
                if !reading.kept.is_empty() {
                    self.queue.extend(std::mem::take(&mut reading.kept).into_iter().rev());
                }
                return Poll::Ready(());
            }
            Poll::Ready(None) if reading.ticket.is_answered() => {
                self.state = State::Done;
                return Poll::Ready(());
            }
            Poll::Ready(None) => crate::wire::incomplete(),
            Poll::Ready(Some(Err(error))) => error,
        };
        self.fail(error);
        Poll::Ready(())
    }

    /// An attempt failed: somebody else is asked, or the same again, unless something was given out already.
    #[cold]
    fn fail(&mut self, error: ModelError) {
        let State::Reading(reading) = std::mem::replace(&mut self.state, State::Done) else {
            return;
        };
        if reading.ticket.is_answered() {
            // The answer is whole; what broke is only what follows it.
            return;
        }
        let (Some(mut plan), delivered) = (self.plan.take(), reading.delivered) else { return };
        let place = (reading.ticket.endpoint, reading.ticket.lane);
        reading.ticket.failed(&error);
        if delivered {
            self.failure = Some(error);
            return;
        }
        match plan.after(place, error) {
            Ok(retry) => {
                self.queue.clear();
                self.queue.push(retry);
                self.state = State::Opening(Box::pin(open(plan)));
            }
            Err(error) => self.failure = Some(error),
        }
    }
}

impl Stream for Call {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let call = &mut *self;
        loop {
            if let Some(event) = call.queue.pop() {
                return Poll::Ready(Some(Ok(event)));
            }
            match &mut call.state {
                State::Start => match call.plan.take() {
                    Some(mut plan) => {
                        plan.set_deadline();
                        call.state = State::Opening(Box::pin(open(plan)));
                    }
                    None => call.state = State::Done,
                },
                State::Opening(_) => ready!(call.poll_open(cx)),
                State::Reading(_) => ready!(call.poll_read(cx)),
                State::Done => return Poll::Ready(call.failure.take().map(Err)),
            }
        }
    }
}

impl Reading {
    /// Reads an answer whose first word must be there by one time and all of it by another.
    pub(super) fn new(
        stream: ModelStream,
        ticket: Ticket,
        (first, deadline): (Option<Instant>, Option<Instant>),
    ) -> Self {
        let until = first.into_iter().chain(deadline).min();
        let alarm = until.map(|until| Box::pin(sleep_until(until)));
        let alarm_is_first = until.is_some() && until == first;
        Self { stream, ticket, alarm, alarm_is_first, delivered: false, kept: Vec::new() }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ModelEvent, ModelError>>> {
        if let Poll::Ready(event) = self.stream.as_mut().poll_next(cx) {
            return Poll::Ready(event);
        }
        let Some(alarm) = &mut self.alarm else { return Poll::Pending };
        ready!(alarm.as_mut().poll(cx));
        self.alarm = None;
        let problem = match self.alarm_is_first {
            true => "the endpoint did not begin to answer in the time that the route gives it",
            false => "the deadline of the model call passed",
        };
        Poll::Ready(Some(Err(ModelError::new(ModelErrorClass::Timeout, problem))))
    }

    /// The first word is there; from now on only the deadline counts.
    fn heard(&mut self, deadline: Option<Instant>) {
        if std::mem::take(&mut self.alarm_is_first) {
            self.alarm = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
        }
    }
}
