//! Foreign text, cut to what fits into an error.
//!
//! Invariant: what is cut holds no part of a secret. A secret that is cut in half is none that anybody could find later, so
//! secrets go first and the cut comes after.

use std::borrow::Cow;
use std::sync::Arc;

use provost_redact::Redact;

use crate::limits::FAILURE_BYTES_MAX;
use crate::transport::fault::shown;

/// Cuts the foreign texts of one attempt.
#[derive(Clone, Default)]
pub(crate) struct Clip(Option<Arc<dyn Redact>>);

impl Clip {
    /// One that takes secrets out first; without anybody who knows them it only cuts.
    pub(crate) fn new(redact: Option<Arc<dyn Redact>>) -> Self {
        Self(redact)
    }

    /// A whole text.
    pub(crate) fn text(&self, text: &str) -> String {
        self.part(text.as_bytes(), /*is_cut*/ false)
    }

    /// Bytes that say something about a failure. `is_cut` says that more came behind them which nobody has read.
    pub(crate) fn part(&self, bytes: &[u8], is_cut: bool) -> String {
        let seen = &bytes[..bytes.len().min(FAILURE_BYTES_MAX)];
        let is_cut = is_cut || seen.len() < bytes.len();
        let clean = match &self.0 {
            None => Cow::Borrowed(seen),
            Some(redact) => {
                let mut stream = redact.stream();
                let mut clean = stream.push(seen);
                // What the end of a text that goes on may be the beginning of is not known.
                if !is_cut {
                    clean.extend(stream.finish());
                }
                Cow::Owned(clean)
            }
        };
        let mut shown = shown(&String::from_utf8_lossy(&clean));
        if is_cut && !shown.ends_with('…') {
            shown.push('…');
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Secret;
    use provost_redact::Redactor;

    use super::*;
    use crate::limits::FAILURE_CHARS_MAX;

    const SECRET: &str = "swordfish-swordfish-swordfish";

    fn knowing() -> Clip {
        let redactor = Redactor::new();
        redactor.learn(&Secret::from(SECRET)).unwrap();
        Clip::new(Some(Arc::new(redactor)))
    }

    /// True if four bytes of the secret in a row are there.
    fn leaks(text: &str) -> bool {
        SECRET.as_bytes().windows(4).any(|part| text.as_bytes().windows(4).any(|it| it == part))
    }

    #[test]
    fn no_cut_leaves_a_part_of_a_secret() {
        let clip = knowing();
        for before in FAILURE_CHARS_MAX - 40..FAILURE_CHARS_MAX + 4 {
            let text = format!("{} {SECRET} tail", "a".repeat(before));
            let cut = clip.text(&text);
            assert!(!leaks(&cut), "{before}: {cut}");
            assert!(leaks(&shown(&text)) || before + 5 > FAILURE_CHARS_MAX, "{before}");
        }
        // Blanks are folded, so the end of what was read may come into the first characters.
        for before in FAILURE_BYTES_MAX - 40..FAILURE_BYTES_MAX {
            let text = format!("{}{SECRET}{SECRET}", " ".repeat(before));
            assert!(!leaks(&clip.text(&text)), "{before}");
            let read = &text.as_bytes()[..before + 9];
            assert!(!leaks(&clip.part(read, true)), "{before}");
        }
    }

    #[test]
    fn what_holds_no_secret_stays() {
        let clip = knowing();
        assert_eq!(clip.text("a\n b"), "a b");
        assert_eq!(clip.text(&format!("it is {SECRET}, yes")), "it is [REDACTED], yes");
        assert_eq!(Clip::default().part(b"half of a sen", true), "half of a sen…");
        let long = clip.text(&"word ".repeat(FAILURE_BYTES_MAX));
        assert!(long.chars().count() == FAILURE_CHARS_MAX + 1 && long.ends_with('…'), "{long}");
    }
}
