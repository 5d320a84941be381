//! Redacted excerpts of foreign text for errors.
//!
//! Invariant: a text is redacted before it is truncated, because a truncated secret is not recognized.

use std::borrow::Cow;
use std::sync::Arc;

use provost_redact::Redact;

use crate::limits::FAILURE_BYTES_MAX;
use crate::transport::error::truncate_for_error;

/// Redacts and cuts text of services for error messages.
#[derive(Clone, Default)]
pub(crate) struct ErrorExcerpt(Option<Arc<dyn Redact>>);

impl ErrorExcerpt {
    /// Creates excerpts with a redactor. Without one, texts are only truncated.
    pub(crate) fn new(redact: Option<Arc<dyn Redact>>) -> Self {
        Self(redact)
    }

    /// Returns the beginning of a complete text on one line, without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        self.bytes(text.as_bytes(), false)
    }

    /// Returns the beginning of bytes as text on one line, without secrets. `is_cut` is true if the bytes are only the
    /// beginning of a longer text.
    pub(crate) fn bytes(&self, bytes: &[u8], is_cut: bool) -> String {
        let seen = &bytes[..bytes.len().min(FAILURE_BYTES_MAX)];
        let is_cut = is_cut || seen.len() < bytes.len();
        let clean = match &self.0 {
            None => Cow::Borrowed(seen),
            Some(redact) => {
                let mut stream = redact.stream();
                let mut clean = stream.push(seen);
                // The end of an incomplete text may be the beginning of a secret, so it is dropped.
                if !is_cut {
                    clean.extend(stream.finish());
                }
                Cow::Owned(clean)
            }
        };
        let mut excerpt = truncate_for_error(&String::from_utf8_lossy(&clean));
        if is_cut && !excerpt.ends_with('…') {
            excerpt.push('…');
        }
        excerpt
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Secret;
    use provost_redact::Redactor;

    use super::*;
    use crate::limits::FAILURE_CHARS_MAX;

    const SECRET: &str = "swordfish-swordfish-swordfish";

    fn knowing() -> ErrorExcerpt {
        let redactor = Redactor::new();
        redactor.register(&Secret::from(SECRET)).unwrap();
        ErrorExcerpt::new(Some(Arc::new(redactor)))
    }

    /// Returns true if four bytes of the secret in a row are there.
    fn leaks(text: &str) -> bool {
        SECRET.as_bytes().windows(4).any(|part| text.as_bytes().windows(4).any(|it| it == part))
    }

    #[test]
    fn no_cut_leaves_a_part_of_a_secret() {
        let excerpt = knowing();
        for before in FAILURE_CHARS_MAX - 40..FAILURE_CHARS_MAX + 4 {
            let text = format!("{} {SECRET} tail", "a".repeat(before));
            let cut = excerpt.text(&text);
            assert!(!leaks(&cut), "{before}: {cut}");
            assert!(
                leaks(&truncate_for_error(&text)) || before + 5 > FAILURE_CHARS_MAX,
                "{before}"
            );
        }
        // Blanks are folded, so the end of what was read may come into the first characters.
        for before in FAILURE_BYTES_MAX - 40..FAILURE_BYTES_MAX {
            let text = format!("{}{SECRET}{SECRET}", " ".repeat(before));
            assert!(!leaks(&excerpt.text(&text)), "{before}");
            let read = &text.as_bytes()[..before + 9];
            assert!(!leaks(&excerpt.bytes(read, true)), "{before}");
        }
    }

    #[test]
    fn what_holds_no_secret_stays() {
        let excerpt = knowing();
        assert_eq!(excerpt.text("a\n b"), "a b");
        assert_eq!(excerpt.text(&format!("it is {SECRET}, yes")), "it is [REDACTED], yes");
        assert_eq!(ErrorExcerpt::default().bytes(b"half of a sen", true), "half of a sen…");
        let long = excerpt.text(&"word ".repeat(FAILURE_BYTES_MAX));
        assert!(long.chars().count() == FAILURE_CHARS_MAX + 1 && long.ends_with('…'), "{long}");
    }
}
