//! The tables that a database can have.

/// Characters of a table prefix.
const PREFIX_CHARS_MAX: usize = 32;

/// The tables of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schema {
    /// Tasks, runs, sessions and everything else of an engine.
    Engine,
    /// Memories, see [`table::memory`](crate::table::memory). The file has no other tables.
    Memory,
    /// Sessions and shared state outside of an engine, see [`table::session_file`](crate::table::session_file). The file may
    /// have tables of other programs.
    Sessions(TablePrefix),
}

impl Schema {
    /// True if deleted rows are overwritten in the file.
    pub(crate) fn wipes_deleted_rows(&self) -> bool {
        *self != Self::Engine
    }

    /// True if the database must have a write-ahead log. A file system without shared memory allows other modes only; they are as
    /// safe, and slower.
    pub(crate) fn needs_write_ahead_log(&self) -> bool {
        !matches!(self, Self::Sessions(_))
    }
}

/// Text at the start of each table's name, empty or like `agent_`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TablePrefix(String);

impl TablePrefix {
    /// The number of characters that a prefix may have.
    pub const CHARS_MAX: usize = PREFIX_CHARS_MAX;

    /// Checks a prefix: a-z, 0-9 and `_`, a letter first, not `sqlite_`.
    pub fn new(prefix: &str) -> Option<Self> {
        let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_sound = prefix.len() <= Self::CHARS_MAX
            && prefix.chars().all(is_legal)
            && !prefix.starts_with(|c: char| c.is_ascii_digit() || c == '_')
            && !prefix.starts_with("sqlite_");
        is_sound.then(|| Self(prefix.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
