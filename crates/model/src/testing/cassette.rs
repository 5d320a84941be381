//! Cassettes: conversations with a model, recorded once and played back without one.
//!
//! A [`Recorder`] stands before a real model and keeps what was asked and answered. A [`Player`] answers from what was kept, and a
//! request that was never recorded fails loudly with the difference. Secrets are taken out before anything is kept. Nothing here
//! touches a file unless it is told to.

mod key;
mod play;
mod record;
mod redact;

use std::path::Path;

use provost_core::ErrorKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ChatRequest, ModelError, ModelErrorClass, ModelResponse};

pub use play::Player;
pub use record::Recorder;
pub use redact::Redaction;

/// The form of the file.
const VERSION: u32 = 1;
/// Bytes of a file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What was asked and answered, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cassette {
    version: u32,
    /// The calls, in the order in which they ended.
    pub calls: Vec<RecordedCall>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    /// What was asked: only what is here must be the same when it is played back.
    pub request: Value,
    /// What came of it.
    pub answer: RecordedAnswer,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedAnswer {
    /// An answer.
    Response(Box<ModelResponse>),
    /// A failure.
    Error {
        /// Its class.
        class: String,
        /// Its sentence.
        message: String,
        /// The HTTP status, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
}

/// Why a cassette cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// The file cannot be read or written.
    #[error("the cassette {path} cannot be used ({source}); record it first with {RECORD_HINT}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no cassette.
    #[error("{path} is no cassette: {source}")]
    Form {
        /// Which.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
    /// It is of another version, or too long.
    #[error("{path} cannot be played: {problem}")]
    Unplayable {
        /// Which.
        path: String,
        /// Why.
        problem: String,
    },
}

/// How a cassette is recorded.
const RECORD_HINT: &str = "PROVOST_CASSETTE=record";

impl CassetteError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            _ => ErrorKind::Invalid,
        }
    }
}

/// What a test does with its cassette.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CassetteMode {
    /// Play it back; a missing one is an error.
    #[default]
    Replay,
    /// Ask the real model and keep what it says.
    Record,
}

impl CassetteMode {
    /// Replay, unless the variable `PROVOST_CASSETTE` says `record`.
    pub fn from_vars(vars: impl Fn(&str) -> Option<String>) -> Self {
        match vars("PROVOST_CASSETTE").as_deref().map(str::trim) {
            Some("record") => Self::Record,
            _ => Self::Replay,
        }
    }
}

impl Default for Cassette {
    fn default() -> Self {
        Self { version: VERSION, calls: Vec::new() }
    }
}

impl Cassette {
    /// Adds a call whose request is known as far as these messages go: what the rest of it was does not matter.
    pub fn push_answer(
        &mut self,
        messages: &[std::sync::Arc<provost_core::Message>],
        response: ModelResponse,
    ) {
        let request = key::of_messages(messages);
        let answer = RecordedAnswer::Response(Box::new(response));
        self.calls.push(RecordedCall { request, answer });
    }

    /// The cassette with secrets taken out.
    #[must_use]
    pub fn redacted(mut self, redaction: &Redaction) -> Self {
        self.calls = self.calls.into_iter().map(|call| redaction.call(call)).collect();
        self
    }

    /// Reads a file. It blocks: call it before the runtime is at work.
    pub fn read(path: &Path) -> Result<Self, CassetteError> {
        let name = || path.display().to_string();
        let file = |source| CassetteError::File { path: name(), source };
        if std::fs::metadata(path).map_err(file)?.len() > FILE_BYTES_MAX {
            let problem = format!("it has more than {FILE_BYTES_MAX} bytes");
            return Err(CassetteError::Unplayable { path: name(), problem });
        }
        let text = std::fs::read_to_string(path).map_err(file)?;
        let cassette: Self = serde_json::from_str(&text)
            .map_err(|source| CassetteError::Form { path: name(), source })?;
        if cassette.version != VERSION {
            let problem = format!("it is of version {}; record it again", cassette.version);
            return Err(CassetteError::Unplayable { path: name(), problem });
        }
        Ok(cassette)
    }

    /// The bytes of its file.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Writes a file. It blocks.
    pub fn write(&self, path: &Path) -> Result<(), CassetteError> {
        let name = || path.display().to_string();
        let form = |source| CassetteError::Form { path: name(), source };
        let text = self.to_json().map_err(form)?;
        std::fs::write(path, text).map_err(|source| CassetteError::File { path: name(), source })
    }
}

impl RecordedAnswer {
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

/// The class of a name.
fn class(name: &str) -> ModelErrorClass {
    use ModelErrorClass as Class;
    let all = [
        Class::Auth,
        Class::RateLimited,
        Class::QuotaExceeded,
        Class::Overloaded,
        Class::ContextLength,
        Class::ContentFilter,
        Class::UnknownModel,
        Class::InvalidRequest,
        Class::Transport,
        Class::Timeout,
        Class::Malformed,
    ];
    all.into_iter().find(|class| class.as_str() == name).unwrap_or(Class::Incomplete)
}

/// What of a request tells it apart from others.
fn request_key(request: &ChatRequest) -> Value {
    key::of(request)
}

#[cfg(test)]
mod tests;
