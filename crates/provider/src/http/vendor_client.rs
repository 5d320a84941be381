//! Client of a vendor, for streamed and for complete responses.

use std::time::{Duration, UNIX_EPOCH};

use provost_core::{Env, Secret, Timestamp};
use provost_model::{ModelError, ModelErrorClass, RetryPolicy};
use reqwest::Request;
use reqwest::header::{HeaderMap, LOCATION};
use tokio::time::{Instant, timeout_at};

use super::response::{VendorResponse, deadline_error, transport_error};
use super::{Timeouts, deadline_after, header};

/// Shorter header values are flags and not secrets. Hiding every `1` would make errors unreadable.
const SECRET_BYTES_MIN: usize = 6;

/// HTTP client of one vendor, with its headers, key, time limits and retry policy.
pub(crate) struct VendorClient {
    pub(super) client: reqwest::Client,
    /// Headers of every request.
    pub(super) headers: HeaderMap,
    pub(super) key: Option<Secret<String>>,
    pub(super) timeouts: Timeouts,
    pub(super) retry: RetryPolicy,
    pub(super) env: Env,
}

impl VendorClient {
    /// Returns the deadline of a call that starts now. `None` if the call has no time limit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timeouts.total.and_then(|total| Instant::now().checked_add(total))
    }

    /// Sends a request and waits for the headers of the response. Returns an error if the connection fails, no header
    /// arrives in time or the deadline passes. The status is not checked.
    pub(super) async fn send(
        &self,
        request: Request,
        deadline: Option<Instant>,
    ) -> Result<VendorResponse, ModelError> {
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Err(deadline_error());
        }
        let server = server_name(&request);
        let first_byte = deadline_after(now, self.timeouts.first_byte);
        let until = deadline.map_or(first_byte, |deadline| deadline.min(first_byte));
        match timeout_at(until, self.client.execute(request)).await {
            Ok(Ok(response)) => {
                Ok(VendorResponse::new(response, server, self.timeouts.idle, deadline))
            }
            Ok(Err(error)) => Err(transport_error(&server, error)),
            Err(_elapsed) if until < first_byte => Err(deadline_error()),
            Err(_elapsed) => Err(self.first_byte_error()),
        }
    }

    /// Converts an error response to an error with its status and retry delay. `parse` parses its body.
    pub(super) async fn read_error(
        &self,
        response: VendorResponse,
        parse: impl FnOnce(&[u8]) -> ModelError,
    ) -> ModelError {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut error = if status.is_redirection() {
            let target = headers.get(LOCATION).and_then(|target| target.to_str().ok());
            let target = target.unwrap_or("another address");
            let problem =
                format!("the server redirects to {target}: set the base URL to the final address");
            ModelError::new(ModelErrorClass::InvalidRequest, problem)
        } else {
            parse(&response.read_error_body().await)
        };
        error.status = error.status.or(Some(status.as_u16()));
        error.retry_after = provost_net::headers::retry_after(
            &headers,
            UNIX_EPOCH + self.env.now().since(Timestamp::from_millis(0)),
        );
        error.request_id = header::request_id(&headers);
        error
    }

    /// Replaces the key and the values of secret headers in the message of an error, because a vendor may repeat them
    /// in its response.
    pub(super) fn redact_error(&self, mut error: ModelError) -> ModelError {
        let key = self.key.as_ref().map(|key| key.expose().trim());
        let headers = self.headers.values().filter(|value| value.is_sensitive());
        let headers = headers.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        for secret in key.into_iter().chain(headers.flat_map(secrets_of_header)) {
            if !secret.is_empty() && error.message.contains(secret) {
                error.message = error.message.replace(secret, "***");
            }
        }
        error
    }

    /// Returns the delay before the next attempt. `None` if the call must not be retried.
    pub(super) fn retry_delay(
        &self,
        error: &ModelError,
        retries: u32,
        deadline: Option<Instant>,
    ) -> Option<Duration> {
        let time_left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.retry.next_delay(error, retries, time_left, self.env.random_unit())
    }

    /// Creates the error of a server that did not respond in time.
    fn first_byte_error(&self) -> ModelError {
        let waited = self.timeouts.first_byte;
        ModelError::new(
            ModelErrorClass::Timeout,
            format!(
                "the provider did not respond for {waited:?}: raise the first-byte timeout if it needs longer"
            ),
        )
    }
}

/// Returns host and port of a request. Error messages may contain only this part of its URL.
fn server_name(request: &Request) -> String {
    let host = request.url().host_str().unwrap_or("the server");
    format!("{host}:{}", request.url().port_or_known_default().unwrap_or(0))
}

/// Returns the value of a header, and the part after a scheme such as `Bearer`. Values that are too short to be secrets
/// are omitted.
fn secrets_of_header(value: &str) -> impl Iterator<Item = &str> {
    let credentials = value.split_once(' ').map(|(_, credentials)| credentials.trim());
    let secrets = std::iter::once(value).chain(credentials);
    secrets.filter(|secret| secret.len() >= SECRET_BYTES_MIN)
}
