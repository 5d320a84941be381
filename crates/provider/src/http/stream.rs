//! One model call as a stream: send, read, and retry while nothing was delivered.
//!
//! A generator and not a task: dropping it drops the connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_stream::{stream, try_stream};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use provost_core::usage::limits::RESPONSE_BYTES_MAX;
use provost_model::{ChatRequest, ModelError, ModelErrorClass, ModelEvent};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, Request};
use tokio::time::{Instant, sleep};

use super::response::VendorResponse;
use super::{HttpModelInner, header};
use crate::wire::transcript::{self, Aliases};
use crate::wire::{Decoder, FrameError, Frames, Progress, Unsigned, Wire};

/// How long usage may follow the end of the answer.
const TAIL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of the body may follow the last event. A connection whose body was read to the end is used again.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// Bytes of the body of one answer. Several times what an answer may hold, because each token comes in a wrapping of JSON.
/// It also bounds what a decoder collects until a later event.
const BODY_BYTES_MAX: usize = 4 * RESPONSE_BYTES_MAX;

/// A request as it goes out, the same for every try.
struct Prepared {
    body: Bytes,
    /// Names of tools that the vendor does not accept, and the names it got instead.
    aliases: Aliases,
    deadline: Option<Instant>,
}

/// The stream of one call. Nothing happens before it is polled.
pub(super) fn call(
    model: Arc<HttpModelInner>,
    request: ChatRequest,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    stream! {
        let Prepared { body, aliases, deadline } = match model.prepare(request) {
            Ok(prepared) => prepared,
            Err(error) => {
                yield Err(model.public_error(error));
                return;
            }
        };
        for retries in 0.. {
            let mut delivered = false;
            let failure = match model.open(body.clone(), deadline).await {
                Err(error) => error,
                Ok(response) => {
                    let mut events = pin!(read_events(&*model.wire, response));
                    loop {
                        match events.next().await {
                            Some(Ok(mut event)) => {
                                aliases.restore(&mut event);
                                // After a piece of the answer was delivered, a retry would repeat it.
                                delivered |= event.is_delta();
                                yield Ok(event);
                            }
                            Some(Err(error)) => break error,
                            None => return,
                        }
                    }
                }
            };
            let error = model.public_error(failure);
            let delay = match delivered {
                true => None,
                false => model.vendor.retry_delay(&error, retries, deadline),
            };
            let Some(delay) = delay else {
                yield Err(error);
                return;
            };
            let attempt = retries + 1;
            log_retry(attempt, delay, &error);
            yield Ok(ModelEvent::Retry { attempt, delay, error });
            sleep(delay).await;
        }
    }
}

fn log_retry(attempt: u32, delay: Duration, error: &ModelError) {
    tracing::debug!(
        attempt,
        delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        error.class = error.class.as_str(),
        "trying the model call again"
    );
}

impl HttpModelInner {
    /// Encodes the request once for all tries.
    fn prepare(&self, request: ChatRequest) -> Result<Prepared, ModelError> {
        let deadline = request.deadline.into_iter().chain(self.vendor.deadline()).min();
        let (request, aliases) = transcript::fit(request, &self.wire.rules());
        let body = self.wire.encode(&request, &self.info)?;
        Ok(Prepared { body: Bytes::from(body), aliases, deadline })
    }

    /// Sends one try. A response that is no stream is an error.
    async fn open(
        &self,
        body: Bytes,
        deadline: Option<Instant>,
    ) -> Result<VendorResponse, ModelError> {
        let mut headers = self.vendor.headers.clone();
        let key = self.vendor.key.as_ref().map(|key| key.expose().as_str());
        let now = self.vendor.env.now();
        let mut unsigned = Unsigned { url: &self.url, body: &body, headers: &mut headers, now };
        self.wire.sign(key, &mut unsigned)?;
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        let response = self.vendor.send(request, deadline).await?;
        if response.status().is_success() && !is_page(response.headers()) {
            return Ok(response);
        }
        let status = response.status();
        let parse = |body: &[u8]| {
            if status.is_success() && !looks_like_error(body) {
                return ModelError::new(
                    ModelErrorClass::Malformed,
                    "the server did not answer with a stream: check that the base URL is the one of the API",
                );
            }
            self.wire.failure(Some(status.as_u16()).filter(|_| !status.is_success()), body)
        };
        Err(self.vendor.read_error(response, parse).await)
    }

    /// The error as the caller may see it.
    fn public_error(&self, error: ModelError) -> ModelError {
        let mut error = self.vendor.without_secrets(error);
        error.provider.get_or_insert_with(|| self.info.provider.clone());
        error
    }
}

/// True for a response that cannot be a stream: a web page, or JSON from a server that does not stream.
fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| {
        let kind = kind.to_ascii_lowercase();
        kind.starts_with("application/json") || kind.starts_with("text/html")
    })
}

fn looks_like_error(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body)
        .is_ok_and(|body| body.get("error").is_some_and(|error| !error.is_null()))
}

/// The events of one response. It ends after the whole answer or after one error.
fn read_events(
    wire: &dyn Wire,
    mut response: VendorResponse,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    let mut decoding = Decoding::new(wire);
    try_stream! {
        let request_id = header::request_id(response.headers());
        for event in header::metadata(response.headers(), request_id.as_deref()) {
            yield event;
        }
        let mut events = Vec::new();
        let mut stopped = false;
        loop {
            let chunk = response.chunk().await;
            let is_end = matches!(chunk, Ok(None));
            let decoded = match chunk {
                Ok(Some(bytes)) => decoding.push(&bytes, &mut events),
                Ok(None) => decoding.finish(&mut events),
                Err(error) => Err(error),
            };
            for event in events.drain(..) {
                stopped |= matches!(event, ModelEvent::Stop(_));
                yield event;
            }
            match decoded {
                // The answer is complete; only what follows it is broken.
                Err(_) if stopped => return,
                Err(mut error) => {
                    error.request_id.clone_from(&request_id);
                    Err(error)?;
                }
                Ok(()) if is_end => return,
                Ok(()) if stopped => response.limit_idle(decoding.tail_timeout()),
                Ok(()) => {}
            }
        }
    }
}

/// Cuts and decodes the body of one response.
struct Decoding {
    frames: Frames,
    decoder: Box<dyn Decoder>,
    /// Bytes of the body so far.
    bytes: usize,
    /// True once the vendor marked the end of the answer.
    finished: bool,
}

impl Decoding {
    fn new(wire: &dyn Wire) -> Self {
        let (frames, decoder) = (Frames::new(wire.framing()), wire.decoder());
        Self { frames, decoder, bytes: 0, finished: false }
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > BODY_BYTES_MAX {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the provider sent an answer of more than {BODY_BYTES_MAX} bytes"),
            ));
        }
        let Self { frames, decoder, finished, .. } = self;
        frames.push(bytes, |event| {
            if !*finished {
                *finished = decoder.push(&event, out)? == Progress::Done;
            }
            Ok::<(), ModelError>(())
        })
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Self { frames, decoder, finished, .. } = self;
        frames.finish(|event| {
            if !*finished {
                *finished = decoder.push(&event, out)? == Progress::Done;
            }
            Ok::<(), ModelError>(())
        })?;
        if self.finished { Ok(()) } else { self.decoder.finish(out) }
    }

    /// How long the server may be silent after the answer is complete.
    fn tail_timeout(&self) -> Duration {
        if self.finished { CLOSE_TIMEOUT } else { TAIL_TIMEOUT }
    }
}

impl From<FrameError> for ModelError {
    fn from(error: FrameError) -> Self {
        ModelError::new(ModelErrorClass::Malformed, error.to_string())
    }
}

#[cfg(test)]
mod tests;
