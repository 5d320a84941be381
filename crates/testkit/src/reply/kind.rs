//! Wires, and their framing of events.

use bytes::Bytes;

use super::bedrock;

/// Wires of the fake provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireKind {
    /// `POST /v1/chat/completions`.
    OpenAiChat,
    /// `POST /v1/responses`.
    OpenAiResponses,
    /// `POST /v1/messages`.
    Anthropic,
    /// `POST /v1beta/models/{model}:streamGenerateContent`.
    Gemini,
    /// `POST /api/chat`.
    Ollama,
    /// `POST /model/{model}/converse-stream`.
    Bedrock,
}

impl WireKind {
    /// All wires.
    pub const ALL: [Self; 6] = [
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Gemini,
        Self::Ollama,
        Self::Bedrock,
    ];

    /// Returns the wire of a path, ignoring its prefix.
    pub fn at(path: &str) -> Option<Self> {
        let ends = |end: &str| path.ends_with(end);
        Some(match () {
            () if ends("/chat/completions") => Self::OpenAiChat,
            () if ends("/responses") => Self::OpenAiResponses,
            () if ends("/messages") => Self::Anthropic,
            () if ends(":streamGenerateContent") => Self::Gemini,
            () if ends("/api/chat") => Self::Ollama,
            () if ends("/converse-stream") => Self::Bedrock,
            () => return None,
        })
    }

    /// Returns the content type of a stream.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Ollama => "application/x-ndjson",
            Self::Bedrock => "application/vnd.amazon.eventstream",
            _ => "text/event-stream; charset=utf-8",
        }
    }

    /// Returns one event of a stream with any payload, for invalid responses.
    pub fn event(self, name: &str, payload: &[u8]) -> Bytes {
        match self {
            Self::Ollama => Bytes::from([payload, b"\n"].concat()),
            Self::Bedrock => bedrock::frame("event", name, payload),
            _ => Bytes::from([b"data: ", payload, b"\n\n"].concat()),
        }
    }
}
