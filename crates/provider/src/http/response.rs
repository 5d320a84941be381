//! Response of a vendor. Reading enforces time limits and a limit of bytes.

use std::time::Duration;

use bytes::Bytes;
use provost_core::usage::limits::ERROR_BODY_BYTES_MAX;
use provost_model::{ModelError, ModelErrorClass};
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::deadline_after;

/// Time limit for the body of an error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A response whose headers have arrived. Dropping it closes the connection unless the body was read to the end.
pub(super) struct VendorResponse {
    response: Response,
    /// Host and port, for error messages.
    server: String,
    last_byte: Instant,
    /// Longest time without a byte from the server.
    idle: Duration,
    deadline: Option<Instant>,
}

impl VendorResponse {
    pub(super) fn new(
        response: Response,
        server: String,
        idle: Duration,
        deadline: Option<Instant>,
    ) -> Self {
        Self { response, server, last_byte: Instant::now(), idle, deadline }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Lowers the idle time limit of the remaining body to `idle`, if it is higher.
    pub(super) fn limit_idle(&mut self, idle: Duration) {
        self.idle = self.idle.min(idle);
    }

    /// Reads the next chunk of the body. `None` at the end. Returns an error if the connection breaks, the idle time
    /// limit is exceeded or the deadline passes.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        let idle_end = deadline_after(self.last_byte, self.idle);
        let until = self.deadline.map_or(idle_end, |deadline| deadline.min(idle_end));
        let chunk = timeout_at(until, self.response.chunk()).await;
        let now = Instant::now();
        let deadline_passed = self.deadline.is_some_and(|deadline| now >= deadline);
        match chunk {
            Ok(Ok(Some(_))) if deadline_passed => Err(deadline_error()),
            Ok(Ok(chunk)) => {
                self.last_byte = now;
                Ok(chunk)
            }
            Ok(Err(error)) => Err(transport_error(&self.server, error)),
            Err(_elapsed) if deadline_passed => Err(deadline_error()),
            Err(_elapsed) => Err(self.idle_error()),
        }
    }

    /// Reads the whole body. Returns an error if it has more than `bytes_max` bytes.
    pub(super) async fn read(mut self, bytes_max: usize) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            if body.len() + chunk.len() > bytes_max {
                let problem = format!("the provider sent more than {bytes_max} bytes");
                return Err(ModelError::new(ModelErrorClass::Malformed, problem));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Reads the beginning of an error body. If reading fails, returns the bytes read so far.
    pub(super) async fn read_error_body(mut self) -> Vec<u8> {
        let end = Instant::now() + ERROR_BODY_TIMEOUT;
        self.deadline = Some(self.deadline.map_or(end, |deadline| deadline.min(end)));
        let mut body = Vec::new();
        while body.len() < ERROR_BODY_BYTES_MAX
            && let Ok(Some(chunk)) = self.next_chunk().await
        {
            let remaining = ERROR_BODY_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(remaining)]);
        }
        body
    }

    /// Creates the error of a body that exceeded the idle time limit.
    fn idle_error(&self) -> ModelError {
        let problem = format!(
            "the provider sent nothing for {:?}: raise the idle timeout if the model needs longer",
            self.idle
        );
        ModelError::new(ModelErrorClass::Timeout, problem)
    }
}

/// Creates the error of a connection that failed or broke. `server` is its host and port.
pub(super) fn transport_error(server: &str, error: reqwest::Error) -> ModelError {
    // The URL may contain secrets.
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let (class, message) = match (error.is_timeout(), error.is_connect()) {
        (true, _) => (
            ModelErrorClass::Timeout,
            format!("no connection to {server} in time: check the address and the network"),
        ),
        (false, true) => (
            ModelErrorClass::Transport,
            format!(
                "cannot connect to {server} ({cause}): check that the server runs and that the base URL is right"
            ),
        ),
        (false, false) => {
            (ModelErrorClass::Transport, format!("the connection to {server} broke ({cause})"))
        }
    };
    ModelError::new(class, message).caused_by(error)
}

/// Creates the error of a call whose deadline passed.
pub(super) fn deadline_error() -> ModelError {
    ModelError::new(ModelErrorClass::Timeout, "the deadline of the model call passed")
}
