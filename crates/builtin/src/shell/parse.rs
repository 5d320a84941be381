//! A command line as lists of arguments, where that is certain.
//!
//! It is not a shell: it reads what means the same in every one of them, which is words, quotes, pipes and lists, and refuses
//! the rest. A line that is not understood is none that a list of allowed commands can speak about.
//!
//! Invariant: what [`Line::canonical`] writes is read by any shell as exactly the commands that were checked.

use std::fmt;

use crate::limits::{COMMAND_BYTES_MAX, COMMAND_WORDS_MAX};

/// A line that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its commands, in the order in which they stand.
    pub commands: Vec<Command>,
}

/// One command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// The command and its arguments.
    pub words: Vec<Word>,
    /// What is done with its outputs, as it was written.
    redirects: Vec<&'static str>,
    /// What stands between it and the next one.
    after: &'static str,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// What it says, without quotes.
    pub text: String,
    /// True if names of files are put in its place.
    pub is_pattern: bool,
    raw: String,
}

/// Why a line is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclear {
    /// Nothing is in it.
    Empty,
    /// It is too long.
    Long,
    /// A quote has no end.
    Quote,
    /// A value, a command or a computation is put in: `$`, backquotes.
    Substitution,
    /// Commands in brackets or braces.
    Group,
    /// A word of the language: `if`, `for`, `!`.
    Language,
    /// A variable is set.
    Assignment,
    /// An input or output goes to or comes from a file.
    Redirect,
    /// It goes on in the background.
    Background,
    /// A comment, which may hide something.
    Comment,
    /// A character that is not seen.
    Control,
    /// The name of a file or another value is put in the place of the command.
    Pattern,
    /// An operator with nothing beside it, or one that not every shell has.
    Operator,
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "there is no command in it",
            Self::Long => "it is too long",
            Self::Quote => "a quote has no end",
            Self::Substitution => "a value or a command is put in by the shell",
            Self::Group => "it has commands in brackets or braces",
            Self::Language => "it has words of the shell's language",
            Self::Assignment => "it sets a variable",
            Self::Redirect => "an output or an input is a file",
            Self::Background => "it goes on in the background",
            Self::Comment => "it has a comment",
            Self::Control => "it has characters that are not seen",
            Self::Pattern => "the command itself is a pattern",
            Self::Operator => "an operator stands where none can",
        })
    }
}

/// Words that are no commands.
const LANGUAGE: [&str; 21] = [
    "!", "{", "}", "[[", "]]", "case", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "until", "while", "coproc",
];
/// What may be done with outputs: they are joined or thrown away.
const REDIRECTS: [&str; 8] = [
    "2>/dev/null",
    ">/dev/null",
    "1>/dev/null",
    "&>/dev/null",
    "2>&1",
    ">&2",
    "1>&2",
    "</dev/null",
];

/// Reads a line.
pub fn parse(line: &str) -> Result<Line, Unclear> {
    if line.len() > COMMAND_BYTES_MAX {
        return Err(Unclear::Long);
    }
    if line.chars().any(is_unseen) {
        return Err(Unclear::Control);
    }
    let mut reader =
        Reader { rest: line, commands: Vec::new(), command: Command::default(), words: 0 };
    reader.read()?;
    Ok(Line { commands: reader.commands })
}

/// Characters that show nothing, or turn around what is shown.
fn is_unseen(c: char) -> bool {
    let invisible = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    invisible || (c.is_control() && c != '\n' && c != '\t')
}

struct Reader<'a> {
    rest: &'a str,
    commands: Vec<Command>,
    command: Command,
    words: usize,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Unclear> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            let Some(first) = self.rest.chars().next() else { break };
            if let Some(redirect) = REDIRECTS.iter().find(|known| self.begins_with_word(known)) {
                if *redirect == "&>/dev/null" {
                    // Not every shell reads it so; to some it is a command in the background.
                    return Err(Unclear::Redirect);
                }
                self.rest = &self.rest[redirect.len()..];
                self.command.redirects.push(redirect);
                continue;
            }
            match first {
                '#' => return Err(Unclear::Comment),
                '(' | ')' => return Err(Unclear::Group),
                '<' | '>' => return Err(Unclear::Redirect),
                '\n' | ';' | '|' | '&' => self.operator()?,
                _ => self.word()?,
            }
        }
        self.end("")?;
        match self.commands.is_empty() {
            true => Err(Unclear::Empty),
            false => Ok(()),
        }
    }

    fn begins_with_word(&self, word: &str) -> bool {
        let ends =
            |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '|', '&']);
        self.rest.strip_prefix(word).is_some_and(ends)
    }

    fn operator(&mut self) -> Result<(), Unclear> {
        let (operator, size) = match self.rest.as_bytes() {
            [b'&', b'&', ..] => ("&&", 2),
            [b'|', b'|', ..] => ("||", 2),
            [b'|', b'&', ..] | [b';', b';' | b'&', ..] => return Err(Unclear::Operator),
            [b'&', b'>', ..] => return Err(Unclear::Redirect),
            [b'&', ..] => return Err(Unclear::Background),
            [b'|', ..] => ("|", 1),
            [b';', ..] => (";", 1),
            _ => ("\n", 1),
        };
        self.rest = &self.rest[size..];
        if self.command.words.is_empty() {
            // Empty lines are nothing; after `|`, `&&` and `||` the next line goes on.
            return match operator {
                "\n" => Ok(()),
                _ => Err(Unclear::Operator),
            };
        }
        self.end(if operator == "\n" { ";" } else { operator })
    }

    fn end(&mut self, after: &'static str) -> Result<(), Unclear> {
        if self.command.words.is_empty() {
            let is_open = |last: &Command| matches!(last.after, "|" | "||" | "&&");
            let has_redirects = !self.command.redirects.is_empty();
            return match self.commands.last() {
                _ if has_redirects => Err(Unclear::Redirect),
                Some(last) if is_open(last) => Err(Unclear::Operator),
                _ => Ok(()),
            };
        }
        let mut command = std::mem::take(&mut self.command);
        command.after = after;
        let first = &command.words[0];
        if first.is_pattern {
            return Err(Unclear::Pattern);
        }
        if LANGUAGE.contains(&first.text.as_str()) {
            return Err(Unclear::Language);
        }
        if first.text.is_empty() {
            return Err(Unclear::Empty);
        }
        if is_assignment(&first.text) {
            return Err(Unclear::Assignment);
        }
        self.commands.push(command);
        Ok(())
    }

    fn word(&mut self) -> Result<(), Unclear> {
        self.words += 1;
        if self.words > COMMAND_WORDS_MAX {
            return Err(Unclear::Long);
        }
        let (mut word, mut chars) = (Word::default(), self.rest.char_indices().peekable());
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                ' ' | '\t' | '\n' | ';' | '|' | '&' => {
                    end = at;
                    break;
                }
                '<' | '>' => return Err(Unclear::Redirect),
                '(' | ')' => return Err(Unclear::Group),
                '$' | '`' => return Err(Unclear::Substitution),
                '\'' => loop {
                    match chars.next() {
                        Some((_, '\'')) => break,
                        Some((_, c)) => word.literal(c),
                        None => return Err(Unclear::Quote),
                    }
                },
                '"' => double(&mut chars, &mut word)?,
                '\\' => match chars.next() {
                    // A line that goes on; shells differ in where.
                    Some((_, '\n')) | None => return Err(Unclear::Quote),
                    Some((_, c)) => word.literal(c),
                },
                '*' | '?' | '[' | ']' | '{' | '}' | '~' | '^' | '!' => word.pattern(c),
                '=' if word.text.is_empty() => word.pattern(c),
                _ => word.literal(c),
            }
        }
        self.rest = &self.rest[end..];
        self.command.words.push(word);
        Ok(())
    }
}

fn double(
    chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>,
    word: &mut Word,
) -> Result<(), Unclear> {
    loop {
        match chars.next() {
            Some((_, '"')) => return Ok(()),
            Some((_, '$' | '`')) => return Err(Unclear::Substitution),
            // Some shells put old commands in its place.
            Some((_, '!')) => word.pattern('!'),
            Some((_, '\\')) => match chars.next() {
                Some((_, c @ ('$' | '`' | '"' | '\\'))) => word.literal(c),
                Some((_, '\n')) | None => return Err(Unclear::Quote),
                Some((_, c)) => {
                    word.literal('\\');
                    word.literal(c);
                }
            },
            Some((_, c)) => word.literal(c),
            None => return Err(Unclear::Quote),
        }
    }
}

impl Word {
    /// A character that means itself.
    fn literal(&mut self, c: char) {
        // At the beginning of a word some shells look for a program of that name.
        let is_first = self.text.is_empty();
        self.text.push(c);
        let is_plain =
            c.is_ascii_alphanumeric() || "_-./,:+@%".contains(c) || (c == '=' && !is_first);
        match c {
            _ if is_plain => self.raw.push(c),
            '\'' => self.raw.push_str("\\'"),
            _ => self.raw.extend(['\'', c, '\'']),
        }
    }

    /// A character that the shell puts something else in the place of.
    fn pattern(&mut self, c: char) {
        self.text.push(c);
        self.raw.push(c);
        self.is_pattern = true;
    }
}

/// A name and `=`: what a shell takes as a variable even if a part of it is quoted.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && name.bytes().all(|byte| {
            byte == b'_' || byte.is_ascii_alphanumeric() || byte == b'[' || byte == b']'
        })
}

impl Command {
    /// The command's name.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }

    /// Its arguments.
    pub fn args(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

impl Line {
    /// The same line, written so that every shell reads it as it was read here.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        for command in &self.commands {
            let words = command.words.iter().map(|word| match word.raw.is_empty() {
                true => "''",
                false => word.raw.as_str(),
            });
            for part in words.chain(command.redirects.iter().copied()) {
                text.push_str(part);
                text.push(' ');
            }
            text.push_str(command.after);
            text.push(' ');
        }
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
mod tests;
