//! Positions of readers in the event log.

use std::fmt;
use std::str::FromStr;

/// Position in the events of a run or in the whole event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CursorPosition {
    /// After the event of a run with this sequence number.
    Sequence(u64),
    /// After this position of the whole event log.
    Offset(u64),
}

/// Position of a reader. Its text is opaque to clients. It is valid for one generation of the log only; a restored database
/// has a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Generation of the log.
    pub generation: u64,
    /// Position in the log.
    pub position: CursorPosition,
}

/// Error for a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor: send a cursor that the server returned, or omit it")]
pub struct CursorError;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            CursorPosition::Sequence(seq) => write!(f, "{}-{seq}", self.generation),
            CursorPosition::Offset(offset) => write!(f, "{}-p{offset}", self.generation),
        }
    }
}

impl FromStr for Cursor {
    type Err = CursorError;
    fn from_str(text: &str) -> Result<Self, CursorError> {
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| digits).ok_or(CursorError)
        };
        let (generation, position) = text.split_once('-').ok_or(CursorError)?;
        let position = match position.strip_prefix('p') {
            Some(offset) => CursorPosition::Offset(number(offset)?),
            None => CursorPosition::Sequence(number(position)?),
        };
        Ok(Self { generation: number(generation)?, position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for text in ["0-0", "3-17", "3-p17"] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
        for text in ["", "-", "3", "3-", "3-p", "3-+1", "a-1", "3-q1", "3-1 "] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text}");
        }
    }
}
