//! One call: send, read, and try again while nothing was delivered.
//!
//! A hand-written stream and not a task: dropping it drops the connection, and nothing runs on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use provost_core::limits::RESPONSE_BYTES_MAX;
use tokio::time::{Instant, Sleep};

use super::alarm::Alarm;
use super::answer::{Answer, Answering, Body};
use super::{Endpoint, header, later, send};
use crate::wire::transcript::{self, Aliases};
use crate::wire::{Decoder, FrameError, Frames, Progress};
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent};

/// How long usage may follow the end of the answer.
const TAIL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of the body may follow the last event. Reading it lets the connection be used again.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// Bytes of the body of one answer. Several times what an answer may hold, because each token comes in a wrapping of JSON;
/// with it everything is bounded that a decoder keeps until a later event.
const BODY_BYTES_MAX: usize = 4 * RESPONSE_BYTES_MAX;

/// Bytes that are decoded before what came of them is given out: the first word need not wait for a long page.
const PIECE_BYTES: usize = 4 * 1024;

/// The stream of one call.
pub(super) struct Call {
    endpoint: Arc<Endpoint>,
    /// The request until it is encoded.
    request: Option<Box<ChatRequest>>,
    body: Bytes,
    /// Names of tools that the vendor does not take, and what it was told instead.
    aliases: Aliases,
    deadline: Option<Instant>,
    retries: u32,
    /// True once a piece of the answer was decoded: from then on a retry would repeat it.
    delivered: bool,
    stopped: bool,
    /// Decoded events, last one first.
    queue: Vec<ModelEvent>,
    failure: Option<ModelError>,
    /// For everything that is waited for.
    alarm: Alarm,
    state: State,
}

enum State {
    Start,
    Sending(Sending),
    /// The provider said no; this reads why.
    Refused(BoxFuture<'static, ModelError>),
    Reading(Box<Reading>),
    Waiting(Pin<Box<Sleep>>),
    Done,
}

struct Sending {
    answering: Answering,
    /// When the first byte must be there.
    first_byte: Instant,
}

struct Reading {
    body: Body,
    /// What came and is not decoded yet.
    rest: Bytes,
    frames: Frames,
    decoder: Box<dyn Decoder>,
    request_id: Option<String>,
    /// Bytes of the body so far.
    bytes: usize,
    last_byte: Instant,
    /// How long silence may last now.
    patience: Duration,
    finished: bool,
}

impl Call {
    pub(super) fn new(endpoint: Arc<Endpoint>, request: ChatRequest) -> Self {
        Self {
            endpoint,
            request: Some(Box::new(request)),
            body: Bytes::new(),
            aliases: Aliases::default(),
            deadline: None,
            retries: 0,
            delivered: false,
            stopped: false,
            queue: Vec::new(),
            failure: None,
            alarm: Alarm::default(),
            state: State::Start,
        }
    }

    /// Encodes the request once, then opens the connection of this try.
    fn start(&mut self) -> Result<(), ModelError> {
        if let Some(request) = self.request.take() {
            let total = self.endpoint.timeouts.total;
            let total = total.and_then(|total| Instant::now().checked_add(total));
            self.deadline = request.deadline.into_iter().chain(total).min();
            let (request, aliases) = transcript::fit(*request, &self.endpoint.wire.rules());
            let body = self.endpoint.wire.encode(&request, &self.endpoint.info)?;
            (self.body, self.aliases) = (Bytes::from(body), aliases);
        }
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(send::deadline_error());
        }
        let first_byte = later(now, self.endpoint.timeouts.first_byte);
        let answering = send::send(&self.endpoint, self.body.clone());
        self.state = State::Sending(Sending { answering, first_byte });
        Ok(())
    }

    /// Waits for the head of the answer.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ModelError>> {
        let State::Sending(sending) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        match sending.answering.as_mut().poll(cx) {
            Poll::Ready(Ok(answer)) if send::is_refusal(&answer) => {
                let refusal = send::refusal(Arc::clone(&self.endpoint), answer, self.deadline);
                self.state = State::Refused(Box::pin(refusal));
            }
            Poll::Ready(Ok(answer)) => self.opened(answer),
            Poll::Ready(Err(error)) => {
                return Poll::Ready(Err(send::transport_error(&self.endpoint, error)));
            }
            Poll::Pending => {
                let first_byte = sending.first_byte;
                ready!(self.alarm.poll(cx, earlier(first_byte, self.deadline)));
                return Poll::Ready(Err(match self.deadline {
                    Some(deadline) if deadline < first_byte => send::deadline_error(),
                    _ => send::first_byte_error(&self.endpoint),
                }));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn opened(&mut self, answer: Answer) {
        let request_id = header::request_id(&answer.headers);
        header::metadata(&answer.headers, request_id.as_deref(), &mut self.queue);
        self.queue.reverse();
        self.state = State::Reading(Box::new(Reading {
            body: answer.body,
            rest: Bytes::new(),
            frames: Frames::new(self.endpoint.wire.framing()),
            decoder: self.endpoint.wire.decoder(),
            request_id,
            bytes: 0,
            last_byte: Instant::now(),
            patience: self.endpoint.timeouts.idle,
            finished: false,
        }));
    }

    /// Reads until something can be given out or the answer is over.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ModelError>> {
        let State::Reading(reading) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        if !reading.rest.is_empty() {
            return Poll::Ready(self.decode());
        }
        match reading.body.poll_bytes(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                reading.last_byte = Instant::now();
                if self.deadline.is_some_and(|deadline| reading.last_byte >= deadline) {
                    return Poll::Ready(Err(reading.signed(send::deadline_error())));
                }
                reading.rest = bytes;
                Poll::Ready(self.decode())
            }
            Poll::Ready(Some(Err(error))) => {
                let error = send::transport_error(&self.endpoint, error);
                Poll::Ready(Err(reading.signed(error)))
            }
            Poll::Ready(None) => {
                let ended = reading.end(&mut self.queue);
                self.note_new_events();
                ended?;
                self.state = State::Done;
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                let silent = later(reading.last_byte, reading.patience);
                ready!(self.alarm.poll(cx, earlier(silent, self.deadline)));
                let error = reading.timeout_error(self.deadline);
                Poll::Ready(Err(reading.signed(error)))
            }
        }
    }

    /// Decodes a piece of what came.
    fn decode(&mut self) -> Result<(), ModelError> {
        let State::Reading(reading) = &mut self.state else { return Ok(()) };
        let piece = match reading.rest.len() {
            0..=PIECE_BYTES => std::mem::take(&mut reading.rest),
            _ => reading.rest.split_to(PIECE_BYTES),
        };
        let fed = reading.feed(&piece, &mut self.queue);
        self.note_new_events();
        fed
    }

    fn note_new_events(&mut self) {
        for event in &mut self.queue {
            self.aliases.restore(event);
            self.delivered |= is_delta(event);
            self.stopped |= matches!(event, ModelEvent::Stop(_));
        }
        self.queue.reverse();
        if let State::Reading(reading) = &mut self.state
            && self.stopped
        {
            let patience = if reading.finished { CLOSE_TIMEOUT } else { TAIL_TIMEOUT };
            reading.patience = reading.patience.min(patience);
        }
    }

    /// Tries again if nothing was delivered and the policy allows it; else the call has failed.
    #[cold]
    fn fail(&mut self, error: ModelError) {
        self.state = State::Done;
        if self.stopped {
            // The answer is whole; what broke is only what follows it.
            return;
        }
        let endpoint = &self.endpoint;
        let mut error = send::without_secrets(endpoint, error);
        error.provider.get_or_insert_with(|| endpoint.info.provider.clone());
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = match self.delivered {
            true => None,
            false => {
                let chance = endpoint.env.random_unit();
                endpoint.retry.decide(&error, self.retries, left, chance)
            }
        };
        let Some(delay) = wait else {
            self.failure = Some(error);
            return;
        };
        self.retries += 1;
        tracing::debug!(
            attempt = self.retries,
            delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            error.class = error.class.as_str(),
            "trying the model call again"
        );
        self.queue.clear();
        self.queue.push(ModelEvent::Retry { attempt: self.retries, delay, error });
        self.state = State::Waiting(Box::pin(tokio::time::sleep(delay)));
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
            let step = match &mut call.state {
                State::Start => call.start(),
                State::Sending(_) => ready!(call.poll_send(cx)),
                State::Refused(refusal) => Err(ready!(refusal.as_mut().poll(cx))),
                State::Reading(_) => ready!(call.poll_read(cx)),
                State::Waiting(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    call.state = State::Start;
                    Ok(())
                }
                State::Done => return Poll::Ready(call.failure.take().map(Err)),
            };
            if let Err(error) = step {
                call.fail(error);
            }
        }
    }
}

impl Reading {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > BODY_BYTES_MAX {
            return Err(self.signed(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the provider sent an answer of more than {BODY_BYTES_MAX} bytes"),
            )));
        }
        let Self { frames, decoder, finished, .. } = self;
        let fed = frames.push(bytes, |event| {
            if !*finished {
                *finished = decoder.push(&event, out)? == Progress::Done;
            }
            Ok::<(), ModelError>(())
        });
        fed.map_err(|error| self.signed(error))
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Self { frames, decoder, finished, .. } = self;
        let ended = frames.finish(|event| {
            if !*finished {
                *finished = decoder.push(&event, out)? == Progress::Done;
            }
            Ok::<(), ModelError>(())
        });
        let ended = match ended {
            Ok(()) if !*finished => decoder.finish(out),
            other => other,
        };
        ended.map_err(|error| self.signed(error))
    }

    fn timeout_error(&self, deadline: Option<Instant>) -> ModelError {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return send::deadline_error();
        }
        ModelError::new(
            ModelErrorClass::Timeout,
            format!(
                "the provider sent nothing for {:?}: raise the idle timeout if the model needs longer",
                self.patience
            ),
        )
    }

    fn signed(&self, mut error: ModelError) -> ModelError {
        error.request_id.clone_from(&self.request_id);
        error
    }
}

/// A moment, or the deadline if that comes first.
fn earlier(moment: Instant, deadline: Option<Instant>) -> Instant {
    deadline.map_or(moment, |deadline| deadline.min(moment))
}

fn is_delta(event: &ModelEvent) -> bool {
    !matches!(
        event,
        ModelEvent::Started { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Metadata(..)
            | ModelEvent::Retry { .. }
    )
}

impl From<FrameError> for ModelError {
    fn from(error: FrameError) -> Self {
        ModelError::new(ModelErrorClass::Malformed, error.to_string())
    }
}

#[cfg(test)]
mod tests;
