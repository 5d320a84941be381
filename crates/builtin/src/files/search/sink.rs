//! The results of a search as text of limited size.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use provost_redact::Redact;
use provost_workspace::WorkspacePath;
use provost_workspace::text::{count, escape_bytes, escape_name};

use crate::limits::{CONTENT_BYTES_MAX, OUTPUT_LINES_MAX, SEARCH_LINE_BYTES_MAX};

/// The matches so far, as text.
pub(super) struct MatchList {
    text: String,
    path: String,
    /// True if the current file has a match.
    has_match: bool,
    files: u64,
    lines: usize,
    matches: u64,
    matches_max: u64,
    is_full: bool,
    /// Removes secrets from lines before they are cut, because a partial secret is not recognised.
    redact: Option<Arc<dyn Redact>>,
}

/// Collects the matches of one file.
pub(super) struct FileSink<'a>(&'a mut MatchList);

impl MatchList {
    pub(super) fn new(matches_max: u64, redact: Option<Arc<dyn Redact>>) -> Self {
        Self {
            text: String::new(),
            path: String::new(),
            has_match: false,
            files: 0,
            lines: 0,
            matches: 0,
            matches_max,
            is_full: false,
            redact,
        }
    }

    /// Starts the next file.
    pub(super) fn begin_file(&mut self, path: &WorkspacePath) {
        self.path = escape_name(path.as_str().as_bytes());
        self.has_match = false;
    }

    pub(super) fn file_sink(&mut self) -> FileSink<'_> {
        FileSink(self)
    }

    /// Returns true if no further match fits.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Appends a line. Returns false, and marks the result as full, if it does not fit.
    fn push_line(&mut self, separator: char, number: u64, bytes: &[u8]) -> bool {
        let line =
            format!("{}{separator}{number}{separator} {}\n", self.path, self.format_line(bytes));
        if self.lines == OUTPUT_LINES_MAX || self.text.len() + line.len() > CONTENT_BYTES_MAX {
            self.is_full = true;
            return false;
        }
        self.text.push_str(&line);
        self.lines += 1;
        true
    }

    /// Returns a line without its line end, cut to the maximum length. Secrets are removed before the cut.
    fn format_line(&self, bytes: &[u8]) -> String {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.len() <= SEARCH_LINE_BYTES_MAX {
            return escape_bytes(bytes);
        }
        let clean = match &self.redact {
            None => Cow::Borrowed(bytes),
            Some(redact) => {
                let mut stream = redact.stream();
                let mut clean = stream.push(bytes);
                clean.extend(stream.finish());
                Cow::Owned(clean)
            }
        };
        let mut end = SEARCH_LINE_BYTES_MAX.min(clean.len());
        // Cuts at a character boundary.
        while end < clean.len() && end > SEARCH_LINE_BYTES_MAX - 4 && clean[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        let rest = clean.len() - end;
        match rest {
            0 => escape_bytes(&clean),
            _ => format!("{} [… {rest} more bytes]", escape_bytes(&clean[..end])),
        }
    }

    /// Returns the matches with a summary and notes.
    pub(super) fn finish(mut self, notes: &[String]) -> String {
        let files = count(self.files, "file");
        let matches = count(self.matches, "match");
        if self.is_full {
            self.text.push_str(&format!(
                "[showing the first {matches}, in {files}; there may be more: narrow the pattern, the path or the glob]\n"
            ));
        } else {
            self.text.push_str(&format!("[{matches} in {files}]\n"));
        }
        for note in notes {
            self.text.push_str(note);
            self.text.push('\n');
        }
        self.text.pop();
        self.text
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let matches = &mut *self.0;
        if matches.matches == matches.matches_max {
            matches.is_full = true;
            return Ok(false);
        }
        if !matches.push_line(':', found.line_number().unwrap_or(0), found.bytes()) {
            return Ok(false);
        }
        matches.files += u64::from(!matches.has_match);
        matches.has_match = true;
        matches.matches += 1;
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.0.push_line('-', found.line_number().unwrap_or(0), found.bytes()))
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        self.0.text.push_str("--\n");
        Ok(true)
    }
}
