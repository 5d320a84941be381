//! Server-sent events of our own API: the events of a stream as text, with their ids.
//!
//! Invariant: whatever is sent, no more than one event of `SseLimits::event_bytes` bytes is held.

use std::time::Duration;

use provost_core::text::sse::{SseError, SseFrame, SseParser};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// Its own id, if it has one.
    pub(super) id: Option<String>,
    /// Its name; empty if it has none.
    pub(super) event: String,
    /// Its lines of data, joined by line feeds; empty if it only says where the reader stands.
    pub(super) data: String,
}

/// Why the bytes are no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    Sse(SseError),
    NotText,
}

impl From<SseError> for FrameError {
    fn from(error: SseError) -> Self {
        Self::Sse(error)
    }
}

impl FrameError {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Sse(SseError::TooLarge) => "an event of the stream is too large",
            Self::Sse(SseError::TooManyComments) => "the stream holds only comments",
            Self::NotText => "an event of the stream is not UTF-8",
        }
    }
}

/// Cuts pieces of bytes into events, wherever the pieces break.
#[derive(Debug, Default)]
pub(super) struct Sse(SseParser);

impl Sse {
    /// How long the server asks the client to wait before the next connection.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.0.retry()
    }

    /// Takes a piece and passes each event that ends in it on.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        sink: &mut impl FnMut(Frame),
    ) -> Result<(), FrameError> {
        self.0.push(piece, |frame| {
            sink(Frame::read(frame)?);
            Ok(())
        })
    }
}

impl Frame {
    fn read(frame: SseFrame<'_>) -> Result<Self, FrameError> {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_error) => Err(FrameError::NotText),
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
        let mut sse = Sse(SseParser::with_limits(limits));
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
        // What is cut off is no event.
        let wanted = [
            frame(Some("1-1"), "accepted", "a\nb\n"),
            frame(None, "end", "{}"),
            frame(Some("x"), "", ""),
        ];
        assert_eq!(frames, wanted);
        let mut sse = Sse::default();
        sse.push(b"retry: 1000\nretry: soon\n", &mut |_| {}).unwrap();
        assert_eq!(sse.retry(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_too_large_or_no_text_is_refused() {
        assert_eq!(cut(&[&[b'a'; 65]]), Err(FrameError::Sse(SseError::TooLarge)));
        assert_eq!(cut(&[&[b'a'; 40], &[b'a'; 25]]), Err(FrameError::Sse(SseError::TooLarge)));
        let line: &[u8] = b"data: 0123456789012345678901234567\n";
        assert_eq!(cut(&[line, line, line]), Err(FrameError::Sse(SseError::TooLarge)));
        assert_eq!(cut(&[b"data: \xff\n\n"]), Err(FrameError::NotText));
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
