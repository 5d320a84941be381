//! The stream of one call over a route. It chooses an endpoint, waits, sends, and falls back while no delta was
//! delivered.
//!
//! The stream is a generator and not a task, so dropping it drops the attempt in progress.

use std::sync::Arc;

use async_stream::stream;
use futures::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::RouterInner;
use super::attempt::InFlightAttempt;
use super::planner::RoutePlanner;
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelStream};

/// Returns the stream of one call: events of the first successful attempt, with retry events between the attempts.
/// Sends nothing before it is polled.
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
            // Events that are held until the response is complete.
            let mut buffered = Vec::new();
            let failure = loop {
                match attempt.next().await {
                    Some(Ok(event)) if planner.is_buffered() && !attempt.is_complete() => {
                        buffered.push(event);
                    }
                    Some(Ok(event)) => {
                        for event in buffered.drain(..) {
                            yield Ok(event);
                        }
                        delivered |= event.is_delta();
                        yield Ok(event);
                    }
                    // The response is complete, so an error after it is ignored.
                    None | Some(Err(_)) if attempt.is_complete() => return,
                    None => break ModelError::stream_truncated(),
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

/// Error message for a missed first-token deadline.
const FIRST_TOKEN_TIMEOUT: &str = "the endpoint sent no delta within the first-token timeout";
/// Error message for a missed deadline of the call.
const DEADLINE_PASSED: &str = "the deadline of the model call passed";

/// Deadlines of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// Deadline of the first delta. `None` if the endpoint has no such limit, or after the first delta.
    pub(super) first_token: Option<Instant>,
    /// Deadline of the whole call.
    pub(super) total: Option<Instant>,
}

/// Events of one attempt, with its deadlines.
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

    fn is_complete(&self) -> bool {
        self.attempt.is_complete()
    }

    fn fail(self, error: &ModelError) {
        self.attempt.fail(error);
    }

    /// Returns the next event of the attempt. Returns a timeout error if a deadline passes first, and `None` at the end
    /// of the stream.
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        let Deadlines { first_token, total } = self.deadlines;
        let event = match first_token.into_iter().chain(total).min() {
            None => self.events.next().await,
            Some(until) => match timeout_at(until, self.events.next()).await {
                Ok(event) => event,
                Err(_elapsed) if Some(until) == first_token => {
                    return Some(Err(timeout_error(FIRST_TOKEN_TIMEOUT)));
                }
                Err(_elapsed) => return Some(Err(timeout_error(DEADLINE_PASSED))),
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

fn timeout_error(problem: &str) -> ModelError {
    ModelError::new(ModelErrorClass::Timeout, problem)
}
