//! The visible lines of a file, collected from a stream of bytes.

use provost_workspace::text::count;
use provost_workspace::{Error, Result};

use super::format_header;
use crate::limits::CONTENT_BYTES_MAX;

/// A page of lines of a file. It is filled while the whole file is read, because its header counts all lines.
pub(crate) struct LinePage {
    /// Number of the first line. The first line of a file is 1.
    first: u64,
    lines_max: usize,
    content: Vec<u8>,
    /// Number of lines in `content`, including a partial one.
    shown: usize,
    /// Start of the last line in `content`.
    line_start: usize,
    /// Bytes that were cut off a line that alone exceeds the page.
    dropped: u64,
    /// Offset of the content in the file.
    content_at: u64,
    /// Number of bytes that were seen when the page became full.
    filled_at: Option<u64>,
    /// Number of bytes seen.
    seen: u64,
    /// Number of line ends seen.
    ended: u64,
    /// True if the last byte seen did not end a line.
    is_open: bool,
}

impl LinePage {
    pub(crate) fn new(first: u64, lines_max: usize) -> Self {
        Self {
            first,
            lines_max,
            content: Vec::new(),
            shown: 0,
            line_start: 0,
            dropped: 0,
            content_at: 0,
            filled_at: None,
            seen: 0,
            ended: 0,
            is_open: false,
        }
    }

    /// Returns the number of bytes that had been seen when the page became full. `None` if the page is not full.
    pub(crate) fn filled_at(&self) -> Option<u64> {
        self.filled_at
    }

    /// Adds the next bytes of the file. Returns the number of the bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> u64 {
        self.push(bytes);
        bytes.len() as u64
    }

    /// Adds the next bytes of the file.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.filled_at.is_some() {
                self.ended += memchr::memchr_iter(b'\n', rest).count() as u64;
                self.seen += rest.len() as u64;
                self.is_open = rest.last() != Some(&b'\n');
                return;
            }
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (piece, later) = rest.split_at(length);
            self.push_piece(piece);
            rest = later;
        }
    }

    /// Adds a part of one line.
    fn push_piece(&mut self, piece: &[u8]) {
        let is_line_start = !self.is_open;
        let is_line_end = piece.last() == Some(&b'\n');
        if self.ended + 1 >= self.first {
            if is_line_start && self.shown == self.lines_max {
                self.filled_at = Some(self.seen);
            } else {
                self.show(piece, is_line_start);
            }
        }
        self.seen += piece.len() as u64;
        self.ended += u64::from(is_line_end);
        self.is_open = !is_line_end;
        if is_line_end && self.dropped > 0 {
            self.filled_at.get_or_insert(self.seen);
        }
    }

    /// Appends a part of a line to the page, or drops it if the page is full.
    fn show(&mut self, piece: &[u8], is_line_start: bool) {
        if is_line_start {
            if self.shown == 0 {
                self.content_at = self.seen;
            }
            self.line_start = self.content.len();
            self.shown += 1;
        }
        let remaining = CONTENT_BYTES_MAX - self.content.len();
        if self.dropped == 0 && piece.len() <= remaining {
            self.content.extend_from_slice(piece);
        } else if self.shown == 1 {
            // A single line that is too long is cut. Otherwise the reader could never advance past it.
            let taken = if self.dropped == 0 { remaining } else { 0 };
            self.content.extend_from_slice(&piece[..taken]);
            self.dropped += (piece.len() - taken) as u64;
        } else {
            self.content.truncate(self.line_start);
            self.shown -= 1;
            self.filled_at = Some(self.seen);
        }
    }

    /// Returns the page with its header and notes. Returns an error if the page is past the end of the file.
    pub(crate) fn finish(self, path: &str, bytes: u64) -> Result<String> {
        let lines = self.ended + u64::from(self.is_open);
        if bytes == 0 {
            return Ok(format!("[`{path}` is empty]"));
        }
        if self.shown == 0 {
            return Err(Error::Argument(format!(
                "offset {} is past the end: `{path}` has {}",
                self.first,
                count(lines, "line")
            )));
        }
        let is_whole = self.first == 1 && self.shown as u64 == lines && self.dropped == 0;
        let has_more = self.first + (self.shown as u64) <= lines;
        let header = (!is_whole)
            .then(|| format_header(self.first, self.shown as u64, &count(lines, "line"), bytes));
        self.text(path, header, has_more)
    }

    /// Formats the page before the remaining lines were counted.
    pub(crate) fn finish_early(self, path: &str, bytes: u64) -> Result<String> {
        let lines = format!("more than {}", count(self.ended, "line"));
        let header = format_header(self.first, self.shown as u64, &lines, bytes);
        self.text(path, Some(header), true)
    }

    fn text(mut self, path: &str, header: Option<String>, has_more: bool) -> Result<String> {
        if self.dropped > 0 {
            // The cut may be inside a character, which is not an error of the file.
            let valid = match std::str::from_utf8(&self.content) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => self.content.len(),
            };
            self.dropped += (self.content.len() - valid) as u64;
            self.content.truncate(valid);
        }
        let (first, shown, dropped) = (self.first, self.shown as u64, self.dropped);
        let content = self.decode(path)?;
        let mut text = String::with_capacity(content.len() + 256);
        if let Some(header) = header {
            text.push_str(&header);
            text.push('\n');
        }
        text.push_str(&content);
        if dropped > 0 {
            text.push_str(&format!("\n[line {first} continues for {}]", count(dropped, "byte")));
        }
        if has_more {
            let newline = if text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("{newline}[Use offset={} to continue reading]", first + shown));
        }
        Ok(text)
    }

    /// Decodes the content. Invalid UTF-8 is reported and not replaced.
    fn decode(self, path: &str) -> Result<String> {
        String::from_utf8(self.content).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let before = &error.as_bytes()[..valid];
            let line = self.first + memchr::memchr_iter(b'\n', before).count() as u64;
            let byte = error.as_bytes().get(valid).copied().unwrap_or_default();
            Error::Content(format!(
                "`{path}` is not UTF-8: byte {} of the file, in line {line}, is 0x{byte:02X}; read other lines with \
                 offset and limit, or search, which shows such bytes as \\xNN",
                self.content_at + valid as u64
            ))
        })
    }
}
