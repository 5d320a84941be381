//! Where a reader stands in a log.

use std::fmt;
use std::str::FromStr;

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// After the event of a run with this number.
    Seq(u64),
    /// After this position of the whole log.
    Pos(u64),
}

/// Where a reader stands: opaque to clients, and tied to one life of the log. A restored database has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Which life of the log.
    pub generation: u64,
    /// Where in it.
    pub place: Place,
}

/// Why a text is no cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor: use one that the server gave, or leave it out")]
pub struct CursorError;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Seq(seq) => write!(f, "{}-{seq}", self.generation),
            Place::Pos(pos) => write!(f, "{}-p{pos}", self.generation),
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
        let (generation, place) = text.split_once('-').ok_or(CursorError)?;
        let place = match place.strip_prefix('p') {
            Some(pos) => Place::Pos(number(pos)?),
            None => Place::Seq(number(place)?),
        };
        Ok(Self { generation: number(generation)?, place })
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
