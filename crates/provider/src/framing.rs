//! Splits the bytes of a response into events, in one of three formats.

mod aws_event_stream;
mod ndjson;

use provost_core::text::sse::{SseError, SseFrame, SseLimits, SseParser};
use provost_core::usage::limits::SSE_EVENT_BYTES_MAX;

use self::aws_event_stream::AwsEventStreamParser;
use self::ndjson::NdjsonParser;

/// How the body of a streamed response is divided into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Server-sent events.
    #[default]
    Sse,
    /// One JSON document per line.
    Ndjson,
    /// Binary frames of AWS with checksums.
    AwsEventStream,
}

impl Framing {
    /// Returns the media type for the `Accept` header.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
            Self::AwsEventStream => "application/vnd.amazon.eventstream",
        }
    }
}

/// Largest number of comment bytes between two server-sent events. Servers send a comment every few seconds while a
/// model thinks. A server that sends more is not expected to respond.
const COMMENT_BYTES_MAX: usize = 1024 * 1024;

/// An event. It borrows its data until the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Name of the event. Empty if it has none.
    pub event: &'a [u8],
    /// Data of the event. The decoder checks whether it is UTF-8.
    pub data: &'a [u8],
}

/// Error of dividing bytes into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The server sent comments but no event.
    #[error("the provider sent {COMMENT_BYTES_MAX} bytes of comments and no event")]
    OnlyComments,
    /// A frame or line exceeds the size limit.
    #[error("the provider sent an event of more than {SSE_EVENT_BYTES_MAX} bytes")]
    TooLarge,
    /// The checksum of a binary frame is wrong.
    #[error("the provider sent a damaged frame (its checksum is wrong)")]
    Checksum,
    /// The bytes are not a valid binary frame.
    #[error("the provider sent an invalid frame: check that the base URL is the one of the API")]
    Malformed,
}

/// Splits chunks of bytes into events, independent of the chunk boundaries. It takes linear time and buffers at most
/// one event.
#[derive(Debug)]
pub struct FrameParser(FrameParserKind);

/// Parser of one framing.
#[derive(Debug)]
enum FrameParserKind {
    Sse(SseParser),
    Ndjson(NdjsonParser),
    AwsEventStream(AwsEventStreamParser),
}

impl FrameParser {
    /// Creates a parser for one response.
    pub fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::Sse => FrameParserKind::Sse(SseParser::with_limits(SseLimits {
                comment_bytes: COMMENT_BYTES_MAX,
                ..SseLimits::default()
            })),
            Framing::Ndjson => {
                FrameParserKind::Ndjson(NdjsonParser::with_limit(SSE_EVENT_BYTES_MAX))
            }
            Framing::AwsEventStream => FrameParserKind::AwsEventStream(
                AwsEventStreamParser::with_limit(SSE_EVENT_BYTES_MAX),
            ),
        })
    }

    /// Parses a chunk and passes each complete event to `sink`. Returns the first error of the parser or of `sink`.
    pub fn push<E: From<FrameError>>(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.0 {
            FrameParserKind::Sse(parser) => parser
                .push(chunk, |frame| send_data(frame, &mut sink))
                .map_err(FrameOrSinkError::into_error),
            FrameParserKind::Ndjson(parser) => parser.push(chunk, &mut sink),
            FrameParserKind::AwsEventStream(parser) => parser.push(chunk, &mut sink),
        }
    }

    /// Ends the input. Passes a last event without its separator to `sink`; drops an incomplete event.
    pub fn finish<E: From<FrameError>>(
        &mut self,
        mut sink: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.0 {
            FrameParserKind::Sse(parser) => parser
                .finish(|frame| send_data(frame, &mut sink))
                .map_err(FrameOrSinkError::into_error),
            FrameParserKind::Ndjson(parser) => parser.finish(&mut sink),
            // An incomplete frame is dropped. The decoder reports whether the response was complete.
            FrameParserKind::AwsEventStream(_) => Ok(()),
        }
    }
}

/// Passes a frame to the sink if it has data.
fn send_data<E>(
    frame: SseFrame<'_>,
    sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
) -> Result<(), FrameOrSinkError<E>> {
    let SseFrame { event, data, .. } = frame;
    data.map_or(Ok(()), |data| sink(SseEvent { event, data }).map_err(FrameOrSinkError::Sink))
}

impl From<SseError> for FrameError {
    fn from(error: SseError) -> Self {
        match error {
            SseError::TooLarge => Self::TooLarge,
            SseError::TooManyComments => Self::OnlyComments,
        }
    }
}

/// Error of the parser or of the sink.
enum FrameOrSinkError<E> {
    Frame(SseError),
    Sink(E),
}

impl<E> From<SseError> for FrameOrSinkError<E> {
    fn from(error: SseError) -> Self {
        Self::Frame(error)
    }
}

impl<E: From<FrameError>> FrameOrSinkError<E> {
    /// Returns the inner error.
    fn into_error(self) -> E {
        match self {
            Self::Frame(error) => FrameError::from(error).into(),
            Self::Sink(error) => error,
        }
    }
}

#[cfg(test)]
mod tests;
