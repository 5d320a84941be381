//! The stream of one model call. It sends the request, reads the response and retries while no delta was delivered.
//!
//! The stream is a generator and not a task, so dropping it closes the connection.

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
use crate::wire::normalize::{self, ToolNameMap};
use crate::wire::{DecodeStatus, Decoder, FrameError, FrameParser, UnsignedRequest, WireFormat};

/// Time limit for usage after the end of the response.
const TAIL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the end of the body after the last event. A connection is reused only if its body was read to the
/// end.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// Largest size of a response body, in bytes. It is a multiple of the response limit because JSON surrounds each token.
/// It also limits the data that a decoder buffers.
const BODY_BYTES_MAX: usize = 4 * RESPONSE_BYTES_MAX;

/// A request that is encoded once for all attempts.
struct PreparedRequest {
    body: Bytes,
    /// Tool names that the vendor does not accept, with their replacements.
    tool_names: ToolNameMap,
    deadline: Option<Instant>,
}

/// Returns the stream of one call. The request is sent when the stream is polled, and sent again after a retryable
/// error before the first delta.
pub(super) fn call(
    model: Arc<HttpModelInner>,
    request: ChatRequest,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    stream! {
        let PreparedRequest { body, tool_names, deadline } = match model.prepare(request) {
            Ok(prepared) => prepared,
            Err(error) => {
                yield Err(model.public_error(error));
                return;
            }
        };
        for retries in 0.. {
            let mut has_delivered = false;
            let failure = match model.open(body.clone(), deadline).await {
                Err(error) => error,
                Ok(response) => {
                    let mut events = pin!(read_events(&*model.wire, response));
                    loop {
                        match events.next().await {
                            Some(Ok(mut event)) => {
                                tool_names.restore(&mut event);
                                // After a delta was delivered, a retry would repeat it.
                                has_delivered |= event.is_delta();
                                yield Ok(event);
                            }
                            Some(Err(error)) => break error,
                            None => return,
                        }
                    }
                }
            };
            let error = model.public_error(failure);
            let delay = match has_delivered {
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
        "retrying the model call"
    );
}

impl HttpModelInner {
    /// Encodes the request once for all attempts.
    fn prepare(&self, request: ChatRequest) -> Result<PreparedRequest, ModelError> {
        let deadline = request.deadline.into_iter().chain(self.vendor.deadline()).min();
        let (request, tool_names) =
            normalize::normalize_request(request, &self.wire.message_rules());
        let body = self.wire.encode(&request, &self.info)?;
        Ok(PreparedRequest { body: Bytes::from(body), tool_names, deadline })
    }

    /// Sends one attempt and waits for the headers of the response. Returns an error if the status is not a success or
    /// the response is not a stream.
    async fn open(
        &self,
        body: Bytes,
        deadline: Option<Instant>,
    ) -> Result<VendorResponse, ModelError> {
        let mut headers = self.vendor.headers.clone();
        let key = self.vendor.key.as_ref().map(|key| key.expose().as_str());
        let now = self.vendor.env.now();
        let mut unsigned =
            UnsignedRequest { url: &self.url, body: &body, headers: &mut headers, now };
        self.wire.sign(key, &mut unsigned)?;
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        let response = self.vendor.send(request, deadline).await?;
        if response.status().is_success() && !is_not_a_stream(response.headers()) {
            return Ok(response);
        }
        let status = response.status();
        let parse = |body: &[u8]| {
            if status.is_success() && !looks_like_error(body) {
                return ModelError::new(
                    ModelErrorClass::Malformed,
                    "the response of the server is not a stream: check that the base URL is the one of the API",
                );
            }
            self.wire.parse_error(Some(status.as_u16()).filter(|_| !status.is_success()), body)
        };
        Err(self.vendor.read_error(response, parse).await)
    }

    /// Removes secrets from an error and sets its provider.
    fn public_error(&self, error: ModelError) -> ModelError {
        let mut error = self.vendor.redact_error(error);
        error.provider.get_or_insert_with(|| self.info.provider.clone());
        error
    }
}

/// Returns true if the response cannot be a stream: a web page, or JSON from a server that does not stream.
fn is_not_a_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| {
        let kind = kind.to_ascii_lowercase();
        kind.starts_with("application/json") || kind.starts_with("text/html")
    })
}

/// Returns true if the body is JSON with an error.
fn looks_like_error(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body)
        .is_ok_and(|body| body.get("error").is_some_and(|error| !error.is_null()))
}

/// Returns the stream of the events of one response. It ends after the complete response or after one error.
fn read_events(
    wire: &dyn WireFormat,
    mut response: VendorResponse,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    let mut decoder = BodyDecoder::new(wire);
    try_stream! {
        let request_id = header::request_id(response.headers());
        for event in header::metadata_events(response.headers(), request_id.as_deref()) {
            yield event;
        }
        let mut events = Vec::new();
        let mut has_stopped = false;
        loop {
            let chunk = response.next_chunk().await;
            let is_end = matches!(chunk, Ok(None));
            let decoded = match chunk {
                Ok(Some(bytes)) => decoder.push(&bytes, &mut events),
                Ok(None) => decoder.finish(&mut events),
                Err(error) => Err(error),
            };
            for event in events.drain(..) {
                has_stopped |= matches!(event, ModelEvent::Stop(_));
                yield event;
            }
            match decoded {
                // The response is complete, so an error after it is ignored.
                Err(_) if has_stopped => return,
                Err(mut error) => {
                    error.request_id.clone_from(&request_id);
                    Err(error)?;
                }
                Ok(()) if is_end => return,
                Ok(()) if has_stopped => response.limit_idle(decoder.tail_timeout()),
                Ok(()) => {}
            }
        }
    }
}

/// Parses and decodes the body of one response.
struct BodyDecoder {
    parser: FrameParser,
    decoder: Box<dyn Decoder>,
    /// Number of bytes of the body so far.
    bytes: usize,
    /// True once the vendor marked the end of the response.
    is_finished: bool,
}

impl BodyDecoder {
    fn new(wire: &dyn WireFormat) -> Self {
        let (parser, decoder) = (FrameParser::new(wire.framing()), wire.decoder());
        Self { parser, decoder, bytes: 0, is_finished: false }
    }

    /// Parses a part of the body, and appends its events to `out`. Returns an error if the body is too large or
    /// malformed.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > BODY_BYTES_MAX {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the provider sent a response of more than {BODY_BYTES_MAX} bytes"),
            ));
        }
        let Self { parser, decoder, is_finished, .. } = self;
        parser.push(bytes, |event| {
            if !*is_finished {
                *is_finished = decoder.push(&event, out)? == DecodeStatus::Done;
            }
            Ok::<(), ModelError>(())
        })
    }

    /// Ends the body, and appends the remaining events to `out`. Returns an error if the response is incomplete.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Self { parser, decoder, is_finished, .. } = self;
        parser.finish(|event| {
            if !*is_finished {
                *is_finished = decoder.push(&event, out)? == DecodeStatus::Done;
            }
            Ok::<(), ModelError>(())
        })?;
        if self.is_finished { Ok(()) } else { self.decoder.finish(out) }
    }

    /// Returns the idle time limit for the rest of the body after the complete response.
    fn tail_timeout(&self) -> Duration {
        if self.is_finished { CLOSE_TIMEOUT } else { TAIL_TIMEOUT }
    }
}

impl From<FrameError> for ModelError {
    fn from(error: FrameError) -> Self {
        ModelError::new(ModelErrorClass::Malformed, error.to_string())
    }
}

#[cfg(test)]
mod tests;
