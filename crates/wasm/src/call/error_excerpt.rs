//! Excerpts of module output for error messages.

use std::sync::Arc;

use provost_redact::Redact;

use crate::limits::{EXCERPT_CHARS_MAX, STDERR_BYTES_MAX};

/// Shortens the output of one call. Secrets are removed first, because a partial secret is not recognised.
#[derive(Clone)]
pub(crate) struct ErrorExcerpt(pub(crate) Option<Arc<dyn Redact>>);

impl ErrorExcerpt {
    /// Returns the beginning of a text on one line, without secrets.
    pub(crate) fn of_text(&self, text: &str) -> String {
        let start = &text.as_bytes()[..text.len().min(STDERR_BYTES_MAX)];
        self.of_bytes(start, start.len() < text.len())
    }

    /// Returns the beginning of output bytes on one line, without secrets. `is_cut` is true if more bytes followed.
    pub(crate) fn of_bytes(&self, bytes: &[u8], is_cut: bool) -> String {
        let clean = match &self.0 {
            None => bytes.to_vec(),
            Some(redact) => {
                let mut stream = redact.stream();
                let mut clean = stream.push(bytes);
                // The end of an incomplete text may be the start of a secret and is dropped.
                if !is_cut {
                    clean.extend(stream.finish());
                }
                clean
            }
        };
        let text = String::from_utf8_lossy(&clean);
        let parts = text.split(|c: char| c.is_whitespace() || c.is_control());
        let line = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let mut shown: String = line.chars().take(EXCERPT_CHARS_MAX).collect();
        if is_cut || shown.len() < line.len() {
            shown.push('…');
        }
        shown
    }
}
