//! Standard output and standard error, with and without colors.
//!
//! Results go to standard output, everything else to standard error. Without a terminal or with `NO_COLOR`, the output
//! contains no ANSI sequences.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::error::CliError;

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// With every output.
    Always,
    /// With no output.
    Never,
}

impl Color {
    /// Returns true if a stream uses colors.
    pub(crate) fn resolve(self, is_tty: bool, env: impl Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let no_color = env("NO_COLOR").is_some_and(|value| !value.is_empty());
                is_tty && !no_color && env("TERM").as_deref() != Some("dumb")
            }
        }
    }
}

/// Properties of the output streams of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// True if standard output is a terminal.
    pub(crate) stdout_tty: bool,
    /// True if standard error is a terminal.
    pub(crate) stderr_tty: bool,
    /// True if colors are allowed on standard output.
    pub(crate) stdout_color: bool,
    /// True if colors are allowed on standard error.
    pub(crate) stderr_color: bool,
}

impl Output {
    /// Detects the properties of the streams.
    pub(crate) fn detect(color: Color) -> Self {
        let env = |name: &str| std::env::var(name).ok();
        let (stdout_tty, stderr_tty) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            stdout_tty,
            stderr_tty,
            stdout_color: color.resolve(stdout_tty, env),
            stderr_color: color.resolve(stderr_tty, env),
        }
    }

    /// Prints a note on standard error.
    pub(crate) fn note(&self, text: &str) {
        let text = printable(text);
        // An error of a closed standard error cannot be reported.
        if self.stderr_color {
            writeln!(io::stderr(), "\x1b[2m{text}\x1b[0m").ok();
        } else {
            writeln!(io::stderr(), "{text}").ok();
        }
    }

    /// Prints an error and its hint on standard error.
    pub(crate) fn error(&self, error: &CliError) {
        let mut stderr = io::stderr().lock();
        for (label, code, text) in
            [("error", "31;1", Some(&error.message)), ("help", "36;1", error.hint.as_ref())]
        {
            let Some(text) = text else { continue };
            let text = printable(text);
            if self.stderr_color {
                writeln!(stderr, "\x1b[{code}m{label}:\x1b[0m {text}").ok();
            } else {
                writeln!(stderr, "{label}: {text}").ok();
            }
        }
    }
}

/// Removes control characters and invisible characters from untrusted text, so that it cannot control the terminal or
/// hide content.
///
/// Joiners between two non-ASCII characters are kept, because scripts and emoji need them.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_suspicious = |c: char| is_joiner(c) || (is_invisible(c) && c != '\n' && c != '\t');
    if !text.contains(is_suspicious) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_allowed = if is_joiner(c) {
            let joins =
                |side: Option<char>| side.is_some_and(|c| !c.is_ascii() && !is_invisible(c));
            joins(clean.chars().next_back()) && joins(chars.peek().copied())
        } else {
            !is_suspicious(c)
        };
        if is_allowed {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

/// Returns true for characters that join their neighbors and have no width.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Returns true for characters without a glyph: controls, marks that change the writing direction, and characters
/// without width that do not combine with another character.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns a text as one line without control characters, truncated to a number of characters.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let joined = printable(&joined);
    if joined.chars().count() <= chars_max {
        return joined.into_owned();
    }
    let mut cut: String = joined.chars().take(chars_max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        |name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn colour_needs_a_terminal_and_nobody_against_it() {
        assert!(Color::Auto.resolve(true, env(&[])));
        assert!(!Color::Auto.resolve(false, env(&[])));
        assert!(!Color::Auto.resolve(true, env(&[("NO_COLOR", "1")])));
        assert!(Color::Auto.resolve(true, env(&[("NO_COLOR", "")])));
        assert!(!Color::Auto.resolve(true, env(&[("TERM", "dumb")])));
        assert!(Color::Always.resolve(false, env(&[("NO_COLOR", "1")])));
        assert!(!Color::Never.resolve(true, env(&[])));
    }

    #[test]
    fn escape_sequences_of_others_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\x07\r\n\tc"), "a[31mb\n\tc");
        assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn what_hides_or_turns_text_around_is_not_shown() {
        assert_eq!(printable("rm \u{202e}txt.\u{202c}x"), "rm txt.x");
        assert_eq!(printable("\u{2066}a\u{2069}\u{200e}\u{200f}\u{61c}b"), "ab");
        assert_eq!(printable("a\u{200b}b\u{feff}\u{2060}\u{ad}c\u{e0041}"), "abc");
        assert_eq!(printable("a\u{200d}b\u{200c}"), "ab");
        // An emoji of several and a word of Persian need their joiners.
        for whole in ["👩\u{200d}💻", "می\u{200c}خواهم"] {
            assert_eq!(printable(whole), whole);
        }
    }

    #[test]
    fn one_line_is_one_bounded_line() {
        assert_eq!(one_line("a\n b\tc\x1b", 10), "a b c");
        assert_eq!(one_line("äöüäöü", 4), "äöü…");
    }
}
