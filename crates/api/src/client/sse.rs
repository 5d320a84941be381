//! Server-sent events, cut out of a byte stream: fields, ids, comments, line ends of all three kinds.
//!
//! Invariant: whatever is sent, no more than one event of [`SSE_EVENT_BYTES_MAX`] bytes is held.

use std::time::Duration;

use provost_core::limits::SSE_EVENT_BYTES_MAX;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// Its own id, if it has one.
    pub(super) id: Option<String>,
    /// What it is; `message` is left out by those who say nothing.
    pub(super) event: String,
    /// Its lines of data, joined by line feeds; empty if it only says where the reader stands.
    pub(super) data: String,
}

/// Why the bytes are no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SseError {
    TooLarge,
    NotText,
}

impl SseError {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "an event of the stream is too large",
            Self::NotText => "an event of the stream is not UTF-8",
        }
    }
}

/// Cuts pieces of bytes into events, wherever the pieces break.
#[derive(Debug)]
pub(super) struct Sse {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    /// The last piece ended in a carriage return; a line feed that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    bytes_max: usize,
    /// How long the server wants one to wait before the next connection.
    pub(super) retry: Option<Duration>,
}

impl Default for Sse {
    fn default() -> Self {
        Self::with_limit(SSE_EVENT_BYTES_MAX)
    }
}

impl Sse {
    pub(super) fn with_limit(bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            frame: Frame::default(),
            has_data: false,
            after_cr: false,
            at_start: true,
            bytes_max,
            retry: None,
        }
    }

    /// Takes a piece in and hands each event that ends in it out.
    pub(super) fn push(
        &mut self,
        mut piece: &[u8],
        sink: &mut impl FnMut(Frame),
    ) -> Result<(), SseError> {
        if self.after_cr && !piece.is_empty() {
            self.after_cr = false;
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
        }
        while let Some(end) = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let is_cr = piece[end] == b'\r';
            self.line.extend_from_slice(&piece[..end]);
            self.check_size(0)?;
            piece = &piece[end + 1..];
            if is_cr {
                self.after_cr = piece.is_empty();
                piece = piece.strip_prefix(b"\n").unwrap_or(piece);
            }
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, sink)?;
            self.line = line;
            self.line.clear();
        }
        self.line.extend_from_slice(piece);
        self.check_size(0)
    }

    fn take_line(&mut self, mut line: &[u8], sink: &mut impl FnMut(Frame)) -> Result<(), SseError> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            // An id alone is no event, but a place to come back to.
            if std::mem::take(&mut self.has_data) || frame.id.is_some() {
                sink(frame);
            }
            return Ok(());
        }
        let line = std::str::from_utf8(line).map_err(|_error| SseError::NotText)?;
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                self.check_size(value.len())?;
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "event" => self.frame.event = value.to_owned(),
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            "retry" => {
                let millis = value.parse().ok().map(Duration::from_millis);
                self.retry = millis.or(self.retry);
            }
            // A comment, which keeps the connection alive, or something of a later version.
            _ => {}
        }
        Ok(())
    }

    fn check_size(&self, more: usize) -> Result<(), SseError> {
        let Frame { id, event, data } = &self.frame;
        let held = self.line.len() + id.as_ref().map_or(0, String::len) + event.len() + data.len();
        if held + more > self.bytes_max { Err(SseError::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(pieces: &[&[u8]]) -> Result<Vec<Frame>, SseError> {
        let mut frames = Vec::new();
        let mut sse = Sse::with_limit(64);
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
        assert_eq!(sse.retry, Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_too_large_or_no_text_is_refused() {
        assert_eq!(cut(&[&[b'a'; 65]]), Err(SseError::TooLarge));
        assert_eq!(cut(&[&[b'a'; 40], &[b'a'; 25]]), Err(SseError::TooLarge));
        let line: &[u8] = b"data: 0123456789012345678901234567\n";
        assert_eq!(cut(&[line, line, line]), Err(SseError::TooLarge));
        assert_eq!(cut(&[b"data: \xff\n"]), Err(SseError::NotText));
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
