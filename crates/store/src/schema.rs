//! The table sets that a database file can hold.

/// Maximum number of characters of a table prefix.
const PREFIX_CHARS_MAX: usize = 32;

/// The table set of a database file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schema {
    /// The engine: tasks, runs, sessions and all their records.
    Engine,
    /// Memories, see [`table::memory`](crate::table::memory). The file holds no other tables.
    Memory,
    /// Sessions and shared state outside of an engine, see [`table::session_file`](crate::table::session_file). The
    /// file may also hold tables of other programs.
    Sessions(TablePrefix),
}

impl Schema {
    /// Returns true if SQLite overwrites deleted rows in the file.
    pub(crate) fn wipes_deleted_rows(&self) -> bool {
        *self != Self::Engine
    }

    /// Returns true if the database must use a write-ahead log. Only a session file may use another journal mode,
    /// because its file system may not support shared memory. Such modes are as safe but slower.
    pub(crate) fn needs_write_ahead_log(&self) -> bool {
        !matches!(self, Self::Sessions(_))
    }
}

/// Prefix of every table name, for example `agent_`. May be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TablePrefix(String);

impl TablePrefix {
    /// Maximum number of characters of a prefix.
    pub const CHARS_MAX: usize = PREFIX_CHARS_MAX;

    /// Creates a prefix. Returns `None` if it is invalid: it may be empty; otherwise it starts with a letter, consists
    /// of a-z, 0-9 and `_`, has at most [`Self::CHARS_MAX`] characters and does not start with `sqlite_`.
    pub fn new(prefix: &str) -> Option<Self> {
        let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_sound = prefix.len() <= Self::CHARS_MAX
            && prefix.chars().all(is_legal)
            && !prefix.starts_with(|c: char| c.is_ascii_digit() || c == '_')
            && !prefix.starts_with("sqlite_");
        is_sound.then(|| Self(prefix.to_owned()))
    }

    /// Returns the prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
