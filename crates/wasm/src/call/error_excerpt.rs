//! Words of a module, cut to what fits into an error.

use std::sync::Arc;

use provost_redact::Redact;

use crate::limits::{WORDS_BYTES_MAX, WORDS_CHARS_MAX};

/// Cuts the words of one call. Secrets go first: half of one is found by nobody.
#[derive(Clone)]
pub(crate) struct Words(pub(crate) Option<Arc<dyn Redact>>);

impl Words {
    /// A text on one line.
    pub(crate) fn shown(&self, text: &str) -> String {
        let seen = &text.as_bytes()[..text.len().min(WORDS_BYTES_MAX)];
        self.bytes(seen, /*is_cut*/ seen.len() < text.len())
    }

    /// Bytes that a module wrote; `is_cut` says that there were more.
    pub(crate) fn bytes(&self, bytes: &[u8], is_cut: bool) -> String {
        let clean = match &self.0 {
            None => bytes.to_vec(),
            Some(redact) => {
                let mut stream = redact.stream();
                let mut clean = stream.push(bytes);
                // What the end of a text that goes on may be the beginning of is not known.
                if !is_cut {
                    clean.extend(stream.finish());
                }
                clean
            }
        };
        let text = String::from_utf8_lossy(&clean);
        let parts = text.split(|c: char| c.is_whitespace() || c.is_control());
        let line = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let mut shown: String = line.chars().take(WORDS_CHARS_MAX).collect();
        if is_cut || shown.len() < line.len() {
            shown.push('…');
        }
        shown
    }
}
