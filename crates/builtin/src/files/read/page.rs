//! The lines of a file that are shown, taken from a stream of bytes.

use provost_workspace::text::count;
use provost_workspace::{Error, Result};

use super::header;
use crate::limits::CONTENT_BYTES_MAX;

/// Some lines of a file.
pub(crate) struct Page {
    /// The first line that is wanted; the first of a file is 1.
    first: u64,
    lines_max: usize,
    content: Vec<u8>,
    /// Lines in `content`, a begun one too.
    shown: usize,
    /// Where the last line begins in `content`.
    line_start: usize,
    /// Bytes of the only line shown that did not fit.
    dropped: u64,
    /// Where in the file the content begins.
    content_at: u64,
    /// Where the page was full.
    filled_at: Option<u64>,
    /// Bytes seen.
    seen: u64,
    /// Line ends seen.
    ended: u64,
    /// True if the last byte seen did not end a line.
    is_open: bool,
}

impl Page {
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

    /// How many bytes of the file had been seen when nothing more fitted.
    pub(crate) fn filled_at(&self) -> Option<u64> {
        self.filled_at
    }

    /// Takes the next bytes of the file; says how many they are.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> u64 {
        self.push(bytes);
        bytes.len() as u64
    }

    /// Takes the next bytes of the file.
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

    /// Takes a piece of one line, to its end or not.
    fn push_piece(&mut self, piece: &[u8]) {
        let begins = !self.is_open;
        let ends = piece.last() == Some(&b'\n');
        if self.ended + 1 >= self.first {
            if begins && self.shown == self.lines_max {
                self.filled_at = Some(self.seen);
            } else {
                self.show(piece, begins);
            }
        }
        self.seen += piece.len() as u64;
        self.ended += u64::from(ends);
        self.is_open = !ends;
        if ends && self.dropped > 0 {
            self.filled_at.get_or_insert(self.seen);
        }
    }

    fn show(&mut self, piece: &[u8], begins: bool) {
        if begins {
            if self.shown == 0 {
                self.content_at = self.seen;
            }
            self.line_start = self.content.len();
            self.shown += 1;
        }
        let room = CONTENT_BYTES_MAX - self.content.len();
        if self.dropped == 0 && piece.len() <= room {
            self.content.extend_from_slice(piece);
        } else if self.shown == 1 {
            // One line that is too long is cut: otherwise nobody could ever get past it.
            let taken = if self.dropped == 0 { room } else { 0 };
            self.content.extend_from_slice(&piece[..taken]);
            self.dropped += (piece.len() - taken) as u64;
        } else {
            self.content.truncate(self.line_start);
            self.shown -= 1;
            self.filled_at = Some(self.seen);
        }
    }

    /// The whole file was seen.
    pub(crate) fn finish(self, path: &str, bytes: u64) -> Result<String> {
        let lines = self.ended + u64::from(self.is_open);
        if bytes == 0 {
            return Ok(format!("[`{path}` is empty]"));
        }
        if self.shown == 0 {
            return Err(Error::Argument(format!(
                "offset {} is behind the end: `{path}` has {}",
                self.first,
                count(lines, "line")
            )));
        }
        let is_whole = self.first == 1 && self.shown as u64 == lines && self.dropped == 0;
        let has_more = self.first + (self.shown as u64) <= lines;
        let header = (!is_whole)
            .then(|| header(self.first, self.shown as u64, &count(lines, "line"), bytes));
        self.text(path, header, has_more)
    }

    /// Enough was seen; what is left was not counted.
    pub(crate) fn finish_early(self, path: &str, bytes: u64) -> Result<String> {
        let lines = format!("more than {}", count(self.ended, "line"));
        let header = header(self.first, self.shown as u64, &lines, bytes);
        self.text(path, Some(header), true)
    }

    fn text(mut self, path: &str, header: Option<String>, has_more: bool) -> Result<String> {
        if self.dropped > 0 {
            // A cut between the bytes of one character is no fault of the file.
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
            text.push_str(&format!("\n[line {first} goes on for {}]", count(dropped, "byte")));
        }
        if has_more {
            let newline = if text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("{newline}[Use offset={} to continue reading]", first + shown));
        }
        Ok(text)
    }

    /// The content as text; what is not UTF-8 is named and not replaced.
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
