//! Where text goes and whether it may be coloured.
//!
//! Answers go to standard output, everything else to standard error. Without a terminal, or with `NO_COLOR`, no byte of ANSI is
//! written.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::problem::Problem;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Decides for one stream.
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

/// What the two streams of this process are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// True if standard output is a terminal.
    pub(crate) stdout_tty: bool,
    /// True if standard error is a terminal.
    pub(crate) stderr_tty: bool,
    /// True if standard output may be coloured.
    pub(crate) stdout_color: bool,
    /// True if standard error may be coloured.
    pub(crate) stderr_color: bool,
}

impl Output {
    /// Looks at this process.
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

    /// A side remark on standard error.
    pub(crate) fn dim(&self, text: &str) {
        let text = self.for_stderr(text);
        // Standard error that is gone leaves nobody to tell.
        if self.stderr_color {
            writeln!(io::stderr(), "\x1b[2m{text}\x1b[0m").ok();
        } else {
            writeln!(io::stderr(), "{text}").ok();
        }
    }

    /// A problem and the way out, on standard error.
    pub(crate) fn problem(&self, problem: &Problem) {
        let mut stderr = io::stderr().lock();
        for (label, code, text) in
            [("error", "31;1", Some(&problem.what)), ("help", "36;1", problem.help.as_ref())]
        {
            let Some(text) = text else { continue };
            let text = self.for_stderr(text);
            if self.stderr_color {
                writeln!(stderr, "\x1b[{code}m{label}:\x1b[0m {text}").ok();
            } else {
                writeln!(stderr, "{label}: {text}").ok();
            }
        }
    }

    fn for_stderr<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.stderr_tty { printable(text) } else { Cow::Borrowed(text) }
    }
}

/// Text without control characters: what a model or a tool says must not steer the terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(steers) {
        Cow::Owned(text.chars().filter(|c| !steers(*c)).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// A text as one line without control characters, cut to a number of characters.
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
    fn one_line_is_one_bounded_line() {
        assert_eq!(one_line("a\n b\tc\x1b", 10), "a b c");
        assert_eq!(one_line("äöüäöü", 4), "äöü…");
    }
}
