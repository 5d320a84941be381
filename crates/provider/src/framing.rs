//! How the bytes of an answer are cut into events. Three ways, whichever vendor.

mod event_stream;
mod ndjson;

use provost_core::text::sse::{SseError, SseFrame, SseLimits, SseParser};
use provost_core::usage::limits::SSE_EVENT_BYTES_MAX;

use self::event_stream::EventStream;
use self::ndjson::Lines;

/// What separates the events of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Server-sent events.
    #[default]
    Sse,
    /// One JSON document in each line.
    Ndjson,
    /// The binary frames of AWS, with checksums.
    AwsEventStream,
}

impl Framing {
    /// What a request says it accepts.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
            Self::AwsEventStream => "application/vnd.amazon.eventstream",
        }
    }
}

/// Bytes of comments between two server-sent events. Servers send a line every few seconds while a model thinks; more is a
/// server that will never answer.
const COMMENT_BYTES_MAX: usize = 1024 * 1024;

/// One event, borrowed until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its name; empty if it has none.
    pub event: &'a [u8],
    /// Its data. Not checked to be UTF-8: the decoder does that.
    pub data: &'a [u8],
}

/// Why bytes cannot be cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Server-sent comments, and no event.
    #[error("the provider sent {COMMENT_BYTES_MAX} bytes of comments and no event")]
    OnlyComments,
    /// A frame or a line that does not end.
    #[error("the provider sent an event of more than {SSE_EVENT_BYTES_MAX} bytes")]
    TooLarge,
    /// A binary frame whose checksum is not that of its bytes.
    #[error("the provider sent a frame that was damaged on its way (its checksum is wrong)")]
    Checksum,
    /// A binary frame that is none.
    #[error(
        "the provider sent a frame that cannot be read: check that the base URL is the one of the API"
    )]
    Frame,
}

/// Cuts chunks of bytes into events, wherever the chunks break. Linear in the bytes, bounded by one event.
#[derive(Debug)]
pub struct Frames(Cutter);

#[derive(Debug)]
enum Cutter {
    Sse(SseParser),
    Lines(Lines),
    EventStream(EventStream),
}

impl Frames {
    /// A fresh one for one answer.
    pub fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::Sse => Cutter::Sse(SseParser::with_limits(SseLimits {
                comment_bytes: COMMENT_BYTES_MAX,
                ..SseLimits::default()
            })),
            Framing::Ndjson => Cutter::Lines(Lines::with_limit(SSE_EVENT_BYTES_MAX)),
            Framing::AwsEventStream => {
                Cutter::EventStream(EventStream::with_limit(SSE_EVENT_BYTES_MAX))
            }
        })
    }

    /// Takes a chunk in and hands each event that ends in it to `sink`.
    pub fn push<E: From<FrameError>>(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.0 {
            Cutter::Sse(sse) => {
                sse.push(chunk, |frame| with_data(frame, &mut sink)).map_err(Cut::into)
            }
            Cutter::Lines(lines) => lines.push(chunk, &mut sink),
            Cutter::EventStream(stream) => stream.push(chunk, &mut sink),
        }
    }

    /// The end of the bytes: what is whole without its last separator is still given out.
    pub fn finish<E: From<FrameError>>(
        &mut self,
        mut sink: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.0 {
            Cutter::Sse(sse) => sse.finish(|frame| with_data(frame, &mut sink)).map_err(Cut::into),
            Cutter::Lines(lines) => lines.finish(&mut sink),
            // A frame that is not whole has no meaning; the decoder says whether the answer was complete.
            Cutter::EventStream(_) => Ok(()),
        }
    }
}

/// Passes on what has data.
fn with_data<E>(
    frame: SseFrame<'_>,
    sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
) -> Result<(), Cut<E>> {
    let SseFrame { event, data, .. } = frame;
    data.map_or(Ok(()), |data| sink(SseEvent { event, data }).map_err(Cut::Sink))
}

impl From<SseError> for FrameError {
    fn from(error: SseError) -> Self {
        match error {
            SseError::TooLarge => Self::TooLarge,
            SseError::TooManyComments => Self::OnlyComments,
        }
    }
}

/// Where a chunk went wrong: while it was cut, or in what became of it.
enum Cut<E> {
    Sse(SseError),
    Sink(E),
}

impl<E> From<SseError> for Cut<E> {
    fn from(error: SseError) -> Self {
        Self::Sse(error)
    }
}

impl<E: From<FrameError>> Cut<E> {
    fn into(self) -> E {
        match self {
            Self::Sse(error) => FrameError::from(error).into(),
            Self::Sink(error) => error,
        }
    }
}

#[cfg(test)]
mod tests;
