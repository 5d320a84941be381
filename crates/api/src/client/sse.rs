//! Parses the server-sent events of the API.
//!
//! Invariant: the parser buffers at most one event of `SseLimits::event_bytes` bytes.

use std::time::Duration;

use provost_core::text::sse::{SseError, SseFrame, SseParser};

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// Id of the event. `None` if the event has no id.
    pub(super) id: Option<String>,
    /// Name of the event. Empty if the event has no name.
    pub(super) event: String,
    /// Data lines, joined by line feeds. Empty if the event only carries a cursor.
    pub(super) data: String,
}

/// Error of a stream that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    Sse(SseError),
    InvalidUtf8,
}

impl From<SseError> for FrameError {
    fn from(error: SseError) -> Self {
        Self::Sse(error)
    }
}

impl FrameError {
    /// Returns the description of the error.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Sse(SseError::TooLarge) => "an event of the stream is too large",
            Self::Sse(SseError::TooManyComments) => "the stream holds only comments",
            Self::InvalidUtf8 => "an event of the stream is not UTF-8",
        }
    }
}

/// Parser of a stream. Chunks can end anywhere within an event.
#[derive(Debug, Default)]
pub(super) struct EventParser(SseParser);

impl EventParser {
    /// Returns the delay before the next connection that the server asks for.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.0.retry()
    }

    /// Parses a chunk and passes each event that ends in it to `sink`. An incomplete event is kept for the next chunk.
    pub(super) fn push(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(Frame),
    ) -> Result<(), FrameError> {
        self.0.push(chunk, |frame| {
            sink(Frame::read(frame)?);
            Ok(())
        })
    }
}

impl Frame {
    /// Copies a parsed event. Fails if it is not UTF-8.
    fn read(frame: SseFrame<'_>) -> Result<Self, FrameError> {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_error) => Err(FrameError::InvalidUtf8),
        };
        Ok(Self {
            id: frame.id.map(text).transpose()?,
            event: text(frame.event)?,
            data: text(frame.data.unwrap_or_default())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use provost_core::text::sse::SseLimits;

    use super::*;

    fn cut(pieces: &[&[u8]]) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        let limits = SseLimits { event_bytes: 64, ..SseLimits::default() };
        let mut sse = EventParser(SseParser::with_limits(limits));
        for piece in pieces {
            sse.push(piece, &mut |frame| frames.push(frame))?;
        }
        Ok(frames)
    }

    fn frame(id: Option<&str>, event: &str, data: &str) -> Frame {
        Frame { id: id.map(str::to_owned), event: event.to_owned(), data: data.to_owned() }
    }

    const ALL: &[u8] = b"\xef\xbb\xbfretry: 1000\n\n: hello\nid: 1-1\nevent: accepted\r\ndata: a\r\
        data:b\r\ndata\n\n\nevent: end\ndata: {}\n\nid:x\n\ndata: cut";

    #[test]
    fn fields_comments_and_line_ends_are_understood() {
        let frames = cut(&[ALL]).unwrap();
        // The incomplete event at the end is not returned.
        let expected = [
            frame(Some("1-1"), "accepted", "a\nb\n"),
            frame(None, "end", "{}"),
            frame(Some("x"), "", ""),
        ];
        assert_eq!(frames, expected);
        let mut sse = EventParser::default();
        sse.push(b"retry: 1000\nretry: soon\n", &mut |_| {}).unwrap();
        assert_eq!(sse.retry(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_too_large_or_no_text_is_refused() {
        assert_eq!(cut(&[&[b'a'; 65]]), Err(FrameError::Sse(SseError::TooLarge)));
        assert_eq!(cut(&[&[b'a'; 40], &[b'a'; 25]]), Err(FrameError::Sse(SseError::TooLarge)));
        let line: &[u8] = b"data: 0123456789012345678901234567\n";
        assert_eq!(cut(&[line, line, line]), Err(FrameError::Sse(SseError::TooLarge)));
        assert_eq!(cut(&[b"data: \xff\n\n"]), Err(FrameError::InvalidUtf8));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_pieces_break(cuts in proptest::collection::vec(0..ALL.len(), 0..8)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for at in cuts {
                pieces.push(&ALL[from..at]);
                from = at;
            }
            pieces.push(&ALL[from..]);
            prop_assert_eq!(cut(&pieces).unwrap(), cut(&[ALL]).unwrap());
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            cut(&[&bytes]).ok();
        }
    }
}
