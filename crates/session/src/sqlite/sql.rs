//! The statements, with the prefix of the tables in them.
//!
//! Messages are in the order of `seq`, which is their place in the session: never that of a clock.

/// The statements for one prefix.
#[derive(Debug)]
pub(super) struct Sql {
    pub(super) version_table: String,
    sessions_table: String,
    messages_table: String,
    pub(super) create: String,
    pub(super) version: String,
    pub(super) set_version: String,
    pub(super) raise_version: String,
    /// key, revision, messages, metadata of an id.
    pub(super) session: String,
    pub(super) insert_session: String,
    pub(super) update_session: String,
    pub(super) delete_session: String,
    pub(super) set_metadata: String,
    /// seq and body from a place on.
    pub(super) messages: String,
    pub(super) insert_message: String,
    pub(super) delete_messages: String,
    pub(super) copy_messages: String,
    pub(super) page: String,
    pub(super) unused: String,
    /// What the second version of the schema added.
    pub(super) create_values: String,
    /// name and value of an owner.
    pub(super) values: String,
    pub(super) set_value: String,
    pub(super) remove_value: String,
    pub(super) forget_values: String,
}

impl Sql {
    /// The prefix was checked: it is not data.
    pub(super) fn new(prefix: &str) -> Self {
        let (s, m) = (format!("{prefix}sessions"), format!("{prefix}messages"));
        let v = format!("{prefix}session_schema");
        Self {
            create: create(prefix, &s, &m, &v),
            version: format!("SELECT version FROM {v}"),
            set_version: format!("INSERT INTO {v} (version) VALUES (?1)"),
            raise_version: format!("UPDATE {v} SET version = ?1"),
            session: format!("SELECT key, revision, messages, metadata FROM {s} WHERE id = ?1"),
            insert_session: format!(
                "INSERT INTO {s} (id, revision, messages, metadata, created_at, updated_at)
                 VALUES (?1, 1, ?2, ?3, ?4, ?4) RETURNING key"
            ),
            update_session: format!(
                "UPDATE {s} SET revision = ?2, messages = ?3, updated_at = ?4 WHERE key = ?1"
            ),
            delete_session: format!("DELETE FROM {s} WHERE key = ?1"),
            set_metadata: format!("UPDATE {s} SET metadata = ?2 WHERE id = ?1"),
            messages: format!(
                "SELECT seq, body FROM {m} WHERE session = ?1 AND seq >= ?2 ORDER BY seq"
            ),
            insert_message: format!("INSERT INTO {m} (session, seq, body) VALUES (?1, ?2, ?3)"),
            delete_messages: format!("DELETE FROM {m} WHERE session = ?1 AND seq >= ?2"),
            copy_messages: format!(
                "INSERT INTO {m} (session, seq, body)
                 SELECT ?2, seq, body FROM {m} WHERE session = ?1 AND seq < ?3 ORDER BY seq"
            ),
            page: format!(
                "SELECT id, messages, updated_at FROM {s}
                 WHERE updated_at <= ?1 AND (updated_at < ?1 OR id > ?2)
                 ORDER BY updated_at DESC, id LIMIT ?3"
            ),
            unused: format!(
                "SELECT key FROM {s} WHERE updated_at < ?1 ORDER BY updated_at LIMIT ?2"
            ),
            create_values: create_values(prefix, &s),
            values: format!(
                "SELECT name, value FROM {prefix}shared_state WHERE scope = ?1 AND owner = ?2 ORDER BY name"
            ),
            set_value: format!(
                "INSERT INTO {prefix}shared_state (scope, owner, name, value, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (scope, owner, name)
                 DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
            ),
            remove_value: format!(
                "DELETE FROM {prefix}shared_state WHERE scope = ?1 AND owner = ?2 AND name = ?3"
            ),
            forget_values: format!(
                "DELETE FROM {prefix}shared_state WHERE scope = ?1 AND owner = ?2"
            ),
            version_table: v,
            sessions_table: s,
            messages_table: m,
        }
    }

    /// The tables that hold sessions.
    pub(super) fn data_tables(&self) -> [&str; 2] {
        [&self.sessions_table, &self.messages_table]
    }
}

fn create(prefix: &str, sessions: &str, messages: &str, version: &str) -> String {
    format!(
        "CREATE TABLE {version} (version INTEGER NOT NULL) STRICT;
         CREATE TABLE {sessions} (
             key INTEGER PRIMARY KEY AUTOINCREMENT,
             id TEXT NOT NULL UNIQUE,
             revision INTEGER NOT NULL,
             messages INTEGER NOT NULL,
             metadata TEXT NOT NULL,
             created_at INTEGER NOT NULL,
             updated_at INTEGER NOT NULL
         ) STRICT;
         CREATE INDEX {prefix}sessions_by_change ON {sessions} (updated_at DESC, id);
         CREATE TABLE {messages} (
             session INTEGER NOT NULL REFERENCES {sessions} (key) ON DELETE CASCADE,
             seq INTEGER NOT NULL,
             body TEXT NOT NULL,
             UNIQUE (session, seq)
         ) STRICT;"
    )
}

/// The values of a session go with it, whoever deletes it.
fn create_values(prefix: &str, sessions: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {prefix}shared_state (
             scope TEXT NOT NULL,
             owner TEXT NOT NULL,
             name TEXT NOT NULL,
             value TEXT NOT NULL,
             updated_at INTEGER NOT NULL,
             PRIMARY KEY (scope, owner, name)
         ) STRICT, WITHOUT ROWID;
         CREATE TRIGGER IF NOT EXISTS {prefix}session_values_go AFTER DELETE ON {sessions} BEGIN
             DELETE FROM {prefix}shared_state WHERE scope = 'session' AND owner = OLD.id;
         END;"
    )
}
