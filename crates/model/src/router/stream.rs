//! One call over a route: choose an endpoint, wait, send, and try another endpoint while nothing was delivered.
//!
//! A generator and not a task: dropping it drops the attempt that is in flight.

use std::sync::Arc;

use async_stream::stream;
use futures::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::RouterInner;
use super::attempt::InFlightAttempt;
use super::planner::RoutePlanner;
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelStream};

/// The stream of one call. Nothing happens before it is polled.
pub(super) fn call(
    router: Arc<RouterInner>,
    request: ChatRequest,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    stream! {
        let mut planner = RoutePlanner::new(router, request);
        loop {
            let mut attempt = match planner.open().await {
                Ok(attempt) => attempt,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            yield Ok(planner.route_metadata(attempt.route()));
            let mut delivered = false;
            // Events that wait until the answer is complete.
            let mut held_back = Vec::new();
            let failure = loop {
                match attempt.next().await {
                    Some(Ok(event)) if planner.is_buffered() && !attempt.is_answered() => {
                        held_back.push(event);
                    }
                    Some(Ok(event)) => {
                        for event in held_back.drain(..) {
                            yield Ok(event);
                        }
                        delivered |= event.is_delta();
                        yield Ok(event);
                    }
                    // The answer is complete; only what follows it is broken.
                    None | Some(Err(_)) if attempt.is_answered() => return,
                    None => break ModelError::incomplete(),
                    Some(Err(error)) => break error,
                }
            };
            let route = attempt.route();
            attempt.fail(&failure);
            if delivered {
                yield Err(failure);
                return;
            }
            match planner.on_failure(route, failure) {
                Ok(retry) => yield Ok(retry),
                Err(error) => {
                    yield Err(error);
                    return;
                }
            }
        }
    }
}

/// The moments at which an attempt is too late.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// For the first piece of the answer; `None` once it is there.
    pub(super) first_token: Option<Instant>,
    /// For the whole call.
    pub(super) total: Option<Instant>,
}

/// The events of one attempt.
pub(super) struct AttemptStream {
    events: ModelStream,
    attempt: InFlightAttempt,
    deadlines: Deadlines,
}

impl AttemptStream {
    pub(super) fn new(events: ModelStream, attempt: InFlightAttempt, deadlines: Deadlines) -> Self {
        Self { events, attempt, deadlines }
    }

    fn route(&self) -> super::RouteId {
        self.attempt.route
    }

    fn is_answered(&self) -> bool {
        self.attempt.is_answered()
    }

    fn fail(self, error: &ModelError) {
        self.attempt.fail(error);
    }

    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        let Deadlines { first_token, total } = self.deadlines;
        let event = match first_token.into_iter().chain(total).min() {
            None => self.events.next().await,
            Some(until) => match timeout_at(until, self.events.next()).await {
                Ok(event) => event,
                Err(_elapsed) => return Some(Err(late(Some(until) == first_token))),
            },
        };
        if let Some(Ok(event)) = &event {
            self.attempt.observe(event);
            if event.is_delta() {
                self.deadlines.first_token = None;
            }
        }
        event
    }
}

fn late(is_first_token: bool) -> ModelError {
    let problem = match is_first_token {
        true => "the endpoint did not begin to answer in the time that the route gives it",
        false => "the deadline of the model call passed",
    };
    ModelError::new(ModelErrorClass::Timeout, problem)
}
