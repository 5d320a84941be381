//! Cassettes: recorded model calls that can be replayed without a model.
//!
//! A [`RecordingModel`] wraps a real model and records its requests and responses. A [`ReplayModel`] responds from the
//! recording. A request that was not recorded fails with its differences. Secrets are removed before a call is
//! recorded. Only [`Cassette::read`] and [`Cassette::write`] access files.

mod key;
mod record;
/// Removes secrets from the requests and responses.
mod redact;
mod replay;

use std::path::Path;

use provost_core::ErrorKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ChatRequest, ModelError, ModelErrorClass, ModelResponse};

pub use record::RecordingModel;
pub use redact::CassetteRedaction;
pub use replay::ReplayModel;

/// Version of the file format.
const FORMAT_VERSION: u32 = 1;
/// Largest size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Recorded model calls of a test, as stored in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cassette {
    version: u32,
    /// The calls, in the order in which they ended.
    pub calls: Vec<RecordedCall>,
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    /// The request. A replayed request must have the same values in the fields that are recorded here.
    pub request: Value,
    /// Result of the call.
    pub answer: RecordedAnswer,
}

/// Result of a recorded call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedAnswer {
    /// The complete response.
    Response(Box<ModelResponse>),
    /// The error of the call.
    Error {
        /// Class of the error.
        class: String,
        /// Message of the error.
        message: String,
        /// The HTTP status. `None` if there was no response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
}

/// Error of reading or writing a cassette.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// The file cannot be read or written.
    #[error("the cassette {path} cannot be used ({source}); record it first with {RECORD_HINT}")]
    File {
        /// Path of the file.
        path: String,
        /// Cause of the error.
        source: std::io::Error,
    },
    /// The file is not a cassette.
    #[error("{path} is not a cassette: {source}")]
    Format {
        /// Path of the file.
        path: String,
        /// Cause of the error.
        source: serde_json::Error,
    },
    /// The file has another version or is too large.
    #[error("{path} cannot be replayed: {problem}")]
    Unplayable {
        /// Path of the file.
        path: String,
        /// Description of the problem.
        problem: String,
    },
}

/// Setting that records a cassette.
const RECORD_HINT: &str = "PROVOST_CASSETTE=record";

impl CassetteError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            _ => ErrorKind::Invalid,
        }
    }
}

/// Whether a test records its cassette or replays it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CassetteMode {
    /// Replays the cassette. A missing file is an error.
    #[default]
    Replay,
    /// Calls the real model and records its responses.
    Record,
}

impl CassetteMode {
    /// Returns `Record` if the variable `PROVOST_CASSETTE` is `record`, otherwise `Replay`.
    pub fn from_vars(vars: impl Fn(&str) -> Option<String>) -> Self {
        match vars("PROVOST_CASSETTE").as_deref().map(str::trim) {
            Some("record") => Self::Record,
            _ => Self::Replay,
        }
    }
}

impl Default for Cassette {
    fn default() -> Self {
        Self { version: FORMAT_VERSION, calls: Vec::new() }
    }
}

impl Cassette {
    /// Adds a call whose request is known only by its messages. Replay ignores everything else of the request.
    pub fn push_answer(
        &mut self,
        messages: &[std::sync::Arc<provost_core::Message>],
        response: ModelResponse,
    ) {
        let request = key::messages_key(messages);
        let answer = RecordedAnswer::Response(Box::new(response));
        self.calls.push(RecordedCall { request, answer });
    }

    /// Returns the cassette without secrets.
    #[must_use]
    pub fn redact(mut self, redaction: &CassetteRedaction) -> Self {
        self.calls = self.calls.into_iter().map(|call| redaction.redact_call(call)).collect();
        self
    }

    /// Reads a cassette from a file. Blocks, so call it before the runtime starts. Returns an error if the file is
    /// missing, too large, invalid or in another version of the format.
    pub fn read(path: &Path) -> Result<Self, CassetteError> {
        let name = || path.display().to_string();
        let file = |source| CassetteError::File { path: name(), source };
        if std::fs::metadata(path).map_err(file)?.len() > FILE_BYTES_MAX {
            let problem = format!("it has more than {FILE_BYTES_MAX} bytes");
            return Err(CassetteError::Unplayable { path: name(), problem });
        }
        let text = std::fs::read_to_string(path).map_err(file)?;
        let cassette: Self = serde_json::from_str(&text)
            .map_err(|source| CassetteError::Format { path: name(), source })?;
        if cassette.version != FORMAT_VERSION {
            let problem = format!("it has version {}; record it again", cassette.version);
            return Err(CassetteError::Unplayable { path: name(), problem });
        }
        Ok(cassette)
    }

    /// Returns the cassette as the text of a file.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Writes the cassette to a file, replacing its content. Blocks.
    pub fn write(&self, path: &Path) -> Result<(), CassetteError> {
        let name = || path.display().to_string();
        let format = |source| CassetteError::Format { path: name(), source };
        let text = self.to_json().map_err(format)?;
        std::fs::write(path, text).map_err(|source| CassetteError::File { path: name(), source })
    }
}

impl RecordedAnswer {
    /// Creates the recorded form of a result.
    fn of(outcome: Result<ModelResponse, &ModelError>) -> Self {
        match outcome {
            Ok(response) => Self::Response(Box::new(response)),
            Err(error) => Self::Error {
                class: error.class.as_str().to_owned(),
                message: error.message.clone(),
                status: error.status,
            },
        }
    }
}

/// Returns the class with this name. An unknown name is [`ModelErrorClass::StreamTruncated`].
fn class_from_name(name: &str) -> ModelErrorClass {
    use ModelErrorClass as Class;
    let all = [
        Class::Auth,
        Class::RateLimited,
        Class::QuotaExceeded,
        Class::Overloaded,
        Class::ContextLength,
        Class::ContentFilter,
        Class::ModelNotFound,
        Class::InvalidRequest,
        Class::Transport,
        Class::Timeout,
        Class::Malformed,
    ];
    all.into_iter().find(|class| class.as_str() == name).unwrap_or(Class::StreamTruncated)
}

/// Returns the fields of a request that identify it.
fn request_key(request: &ChatRequest) -> Value {
    key::request_key(request)
}

#[cfg(test)]
mod tests;
