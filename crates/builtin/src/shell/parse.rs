//! Parses a command line into lists of arguments, if its meaning is unambiguous.
//!
//! The parser is not a shell. It accepts the syntax that all shells interpret in the same way, which is words, quotes,
//! pipes and lists, and rejects everything else. A list of allowed commands cannot cover a rejected line.
//!
//! Invariant: every shell interprets the output of [`CommandLine::canonical`] as exactly the commands that were
//! checked.

use std::fmt;

use crate::limits::{COMMAND_BYTES_MAX, COMMAND_WORDS_MAX};

/// A parsed command line: commands that are joined by operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The commands in order.
    pub commands: Vec<Command>,
}

/// One command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Output redirections, as written.
    redirects: Vec<&'static str>,
    /// Operator between this command and the next one.
    after: &'static str,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Text without quotes.
    pub text: String,
    /// True if the shell expands the word to file names.
    pub is_pattern: bool,
    raw: String,
}

/// Why a command line is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseError {
    /// The line is empty.
    Empty,
    /// The line is too long.
    TooLong,
    /// A quote is not closed.
    Quote,
    /// The shell would insert a value or a command: `$` or backquotes.
    Substitution,
    /// Commands in parentheses or braces.
    Group,
    /// A keyword of the shell: `if`, `for`, `!`.
    Language,
    /// A variable assignment.
    Assignment,
    /// Input or output is redirected to or from a file.
    Redirect,
    /// The command would run in the background.
    Background,
    /// A comment, which may hide something.
    Comment,
    /// An invisible character.
    Control,
    /// The program name is a pattern.
    Pattern,
    /// An operator without an operand, or one that not every shell supports.
    Operator,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it contains no command",
            Self::TooLong => "it is too long",
            Self::Quote => "a quote is not closed",
            Self::Substitution => "the shell would substitute a value or a command",
            Self::Group => "it has commands in parentheses or braces",
            Self::Language => "it has shell keywords",
            Self::Assignment => "it sets a variable",
            Self::Redirect => "it redirects input or output to a file",
            Self::Background => "it runs in the background",
            Self::Comment => "it has a comment",
            Self::Control => "it has invisible characters",
            Self::Pattern => "the program name is a pattern",
            Self::Operator => "an operator is misplaced",
        })
    }
}

/// Words that are not commands.
const KEYWORDS: [&str; 21] = [
    "!", "{", "}", "[[", "]]", "case", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "until", "while", "coproc",
];
/// Permitted redirections: outputs are merged or discarded.
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

/// Parses a command line. Returns an error for syntax that different shells may interpret differently, such as
/// substitutions and redirections to files.
pub fn parse(line: &str) -> Result<CommandLine, ParseError> {
    if line.len() > COMMAND_BYTES_MAX {
        return Err(ParseError::TooLong);
    }
    if line.chars().any(is_invisible) {
        return Err(ParseError::Control);
    }
    let mut lexer =
        Lexer { rest: line, commands: Vec::new(), command: Command::default(), words: 0 };
    lexer.read()?;
    Ok(CommandLine { commands: lexer.commands })
}

/// Returns true for characters that are invisible or change the text direction.
fn is_invisible(c: char) -> bool {
    let is_format = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    is_format || (c.is_control() && c != '\n' && c != '\t')
}

/// Remaining text, with the commands so far.
struct Lexer<'a> {
    rest: &'a str,
    commands: Vec<Command>,
    command: Command,
    words: usize,
}

impl Lexer<'_> {
    /// Splits the whole line into commands. Returns an error if it is empty or uses syntax that is not supported.
    fn read(&mut self) -> Result<(), ParseError> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            let Some(first) = self.rest.chars().next() else { break };
            if let Some(redirect) = REDIRECTS.iter().find(|known| self.begins_with_word(known)) {
                if *redirect == "&>/dev/null" {
                    // Some shells interpret this as a command in the background.
                    return Err(ParseError::Redirect);
                }
                self.rest = &self.rest[redirect.len()..];
                self.command.redirects.push(redirect);
                continue;
            }
            match first {
                '#' => return Err(ParseError::Comment),
                '(' | ')' => return Err(ParseError::Group),
                '<' | '>' => return Err(ParseError::Redirect),
                '\n' | ';' | '|' | '&' => self.read_operator()?,
                _ => self.read_word()?,
            }
        }
        self.end_command("")?;
        match self.commands.is_empty() {
            true => Err(ParseError::Empty),
            false => Ok(()),
        }
    }

    /// Returns true if the remaining text begins with this word.
    fn begins_with_word(&self, word: &str) -> bool {
        let ends =
            |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '|', '&']);
        self.rest.strip_prefix(word).is_some_and(ends)
    }

    /// Reads an operator between two commands.
    fn read_operator(&mut self) -> Result<(), ParseError> {
        let (operator, size) = match self.rest.as_bytes() {
            [b'&', b'&', ..] => ("&&", 2),
            [b'|', b'|', ..] => ("||", 2),
            [b'|', b'&', ..] | [b';', b';' | b'&', ..] => return Err(ParseError::Operator),
            [b'&', b'>', ..] => return Err(ParseError::Redirect),
            [b'&', ..] => return Err(ParseError::Background),
            [b'|', ..] => ("|", 1),
            [b';', ..] => (";", 1),
            _ => ("\n", 1),
        };
        self.rest = &self.rest[size..];
        if self.command.words.is_empty() {
            // Empty lines are skipped. After `|`, `&&` and `||`, the command continues on the next line.
            return match operator {
                "\n" => Ok(()),
                _ => Err(ParseError::Operator),
            };
        }
        self.end_command(if operator == "\n" { ";" } else { operator })
    }

    /// Ends the current command with the operator after it. Returns an error if the command is missing or is not a
    /// plain program.
    fn end_command(&mut self, after: &'static str) -> Result<(), ParseError> {
        if self.command.words.is_empty() {
            let is_open = |last: &Command| matches!(last.after, "|" | "||" | "&&");
            let has_redirects = !self.command.redirects.is_empty();
            return match self.commands.last() {
                _ if has_redirects => Err(ParseError::Redirect),
                Some(last) if is_open(last) => Err(ParseError::Operator),
                _ => Ok(()),
            };
        }
        let mut command = std::mem::take(&mut self.command);
        command.after = after;
        let first = &command.words[0];
        if first.is_pattern {
            return Err(ParseError::Pattern);
        }
        if KEYWORDS.contains(&first.text.as_str()) {
            return Err(ParseError::Language);
        }
        if first.text.is_empty() {
            return Err(ParseError::Empty);
        }
        if is_assignment(&first.text) {
            return Err(ParseError::Assignment);
        }
        self.commands.push(command);
        Ok(())
    }

    /// Reads a word with its quotes.
    fn read_word(&mut self) -> Result<(), ParseError> {
        self.words += 1;
        if self.words > COMMAND_WORDS_MAX {
            return Err(ParseError::TooLong);
        }
        let (mut word, mut chars) = (Word::default(), self.rest.char_indices().peekable());
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                ' ' | '\t' | '\n' | ';' | '|' | '&' => {
                    end = at;
                    break;
                }
                '<' | '>' => return Err(ParseError::Redirect),
                '(' | ')' => return Err(ParseError::Group),
                '$' | '`' => return Err(ParseError::Substitution),
                '\'' => loop {
                    match chars.next() {
                        Some((_, '\'')) => break,
                        Some((_, c)) => word.literal(c),
                        None => return Err(ParseError::Quote),
                    }
                },
                '"' => read_double_quoted(&mut chars, &mut word)?,
                '\\' => match chars.next() {
                    // A line continuation, which shells treat differently.
                    Some((_, '\n')) | None => return Err(ParseError::Quote),
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

/// Reads up to the closing double quote and appends the text to a word. Returns an error if the quote is not closed or
/// the text contains a substitution.
fn read_double_quoted(
    chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>,
    word: &mut Word,
) -> Result<(), ParseError> {
    loop {
        match chars.next() {
            Some((_, '"')) => return Ok(()),
            Some((_, '$' | '`')) => return Err(ParseError::Substitution),
            // Some shells insert previous commands here.
            Some((_, '!')) => word.pattern('!'),
            Some((_, '\\')) => match chars.next() {
                Some((_, c @ ('$' | '`' | '"' | '\\'))) => word.literal(c),
                Some((_, '\n')) | None => return Err(ParseError::Quote),
                Some((_, c)) => {
                    word.literal('\\');
                    word.literal(c);
                }
            },
            Some((_, c)) => word.literal(c),
            None => return Err(ParseError::Quote),
        }
    }
}

impl Word {
    /// Adds a character without a special meaning.
    fn literal(&mut self, c: char) {
        // At the beginning of a word, some shells look for a program of that name.
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

    /// Adds a character that the shell expands.
    fn pattern(&mut self, c: char) {
        self.text.push(c);
        self.raw.push(c);
        self.is_pattern = true;
    }
}

/// Returns true for a name and `=`, which a shell may treat as an assignment even if a part is quoted.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && name.bytes().all(|byte| {
            byte == b'_' || byte.is_ascii_alphanumeric() || byte == b'[' || byte == b']'
        })
}

impl Command {
    /// Returns the name of the program.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }

    /// Returns the arguments.
    pub fn args(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

impl CommandLine {
    /// Returns the line in a form that every shell interprets in the same way.
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
