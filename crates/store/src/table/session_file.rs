//! Sessions and shared state outside of an engine ([`Schema::Sessions`](crate::Schema::Sessions)).
//!
//! Messages are sorted by `seq`, their position in the session, and never by a clock.

use provost_core::{StateScope, Timestamp};

use crate::{FromRow, Row, StoreError, TablePrefix, Tx, params};

/// SQL statements for the tables with one prefix.
#[derive(Debug)]
pub struct SessionTables {
    header: String,
    insert: String,
    update: String,
    delete: String,
    set_metadata: String,
    messages: String,
    insert_message: String,
    delete_messages: String,
    copy_messages: String,
    page: String,
    inactive: String,
    values: String,
    set_value: String,
    remove_value: String,
    remove_values: String,
}

/// A session without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHeaderRow {
    /// Row key of the session, which its messages refer to.
    pub key: i64,
    /// Number of changes.
    pub revision: i64,
    /// Number of messages.
    pub messages: i64,
    /// Metadata of the program, as a JSON object.
    pub metadata: String,
}

/// A session to insert.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// The id.
    pub id: &'a str,
    /// Number of messages.
    pub messages: i64,
    /// Metadata of the program, as a JSON object.
    pub metadata: &'a str,
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Position in the session, from 0.
    pub seq: i64,
    /// The message, as JSON.
    pub body: String,
}

/// A range of messages to copy between sessions.
#[derive(Debug, Clone, Copy)]
pub struct MessageCopy {
    /// Row key of the source session.
    pub from: i64,
    /// Row key of the target session.
    pub to: i64,
    /// Number of messages to copy, starting with the oldest.
    pub messages: i64,
}

/// Position in the list of sessions, and the page size.
#[derive(Debug, Clone, Copy)]
pub struct SessionRange<'a> {
    /// Time of the last change of the previous session.
    pub updated_at: Timestamp,
    /// Id of the previous session.
    pub id: &'a str,
    /// Maximum number of sessions to return.
    pub limit: usize,
}

/// A session in the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummaryRow {
    /// The id.
    pub id: String,
    /// Number of messages.
    pub messages: i64,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// Identifies a value of shared state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueKey {
    /// The scope.
    pub scope: StateScope,
    /// Id of the session or user.
    pub owner: String,
    /// Name within the scope.
    pub name: String,
}

/// A value of shared state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// Name within the scope.
    pub name: String,
    /// The value, as JSON.
    pub value: String,
}

impl SessionTables {
    /// Builds the statements for the tables with this prefix.
    pub fn new(prefix: &TablePrefix) -> Self {
        let prefix = prefix.as_str();
        let (sessions, messages) = (format!("{prefix}sessions"), format!("{prefix}messages"));
        let values = format!("{prefix}shared_state");
        Self {
            header: format!(
                "SELECT key, revision, messages, metadata FROM {sessions} WHERE id = ?1"
            ),
            insert: format!(
                "INSERT INTO {sessions} (id, revision, messages, metadata, created_at, updated_at)
                 VALUES (?1, 1, ?2, ?3, ?4, ?4) RETURNING key"
            ),
            update: format!(
                "UPDATE {sessions} SET revision = ?2, messages = ?3, updated_at = ?4 WHERE key = ?1"
            ),
            delete: format!("DELETE FROM {sessions} WHERE key = ?1"),
            set_metadata: format!("UPDATE {sessions} SET metadata = ?2 WHERE id = ?1"),
            messages: format!(
                "SELECT seq, body FROM {messages} WHERE session = ?1 AND seq >= ?2 ORDER BY seq"
            ),
            insert_message: format!(
                "INSERT INTO {messages} (session, seq, body) VALUES (?1, ?2, ?3)"
            ),
            delete_messages: format!("DELETE FROM {messages} WHERE session = ?1 AND seq >= ?2"),
            copy_messages: format!(
                "INSERT INTO {messages} (session, seq, body)
                 SELECT ?2, seq, body FROM {messages} WHERE session = ?1 AND seq < ?3 ORDER BY seq"
            ),
            page: format!(
                "SELECT id, messages, updated_at FROM {sessions}
                 WHERE updated_at <= ?1 AND (updated_at < ?1 OR id > ?2)
                 ORDER BY updated_at DESC, id LIMIT ?3"
            ),
            inactive: format!(
                "SELECT key FROM {sessions} WHERE updated_at < ?1 ORDER BY updated_at LIMIT ?2"
            ),
            values: format!(
                "SELECT name, value FROM {values} WHERE scope = ?1 AND owner = ?2 ORDER BY name"
            ),
            set_value: format!(
                "INSERT INTO {values} (scope, owner, name, value, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (scope, owner, name)
                 DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
            ),
            remove_value: format!(
                "DELETE FROM {values} WHERE scope = ?1 AND owner = ?2 AND name = ?3"
            ),
            remove_values: format!("DELETE FROM {values} WHERE scope = ?1 AND owner = ?2"),
        }
    }

    /// Returns a session without its messages. `None` if it does not exist.
    pub fn header(
        &self,
        tx: &mut Tx<'_>,
        id: &str,
    ) -> Result<Option<SessionHeaderRow>, StoreError> {
        tx.fetch_optional(&self.header, params![id])
    }

    /// Inserts a session with revision 1 and returns its row key.
    pub fn insert(&self, tx: &mut Tx<'_>, new: NewSession<'_>) -> Result<i64, StoreError> {
        let now = tx.now();
        tx.fetch_one(&self.insert, params![new.id, new.messages, new.metadata, now])
    }

    /// Updates the revision and the number of messages of a session.
    pub fn update(&self, tx: &mut Tx<'_>, header: &SessionHeaderRow) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(&self.update, params![header.key, header.revision, header.messages, now])
            .map(drop)
    }

    /// Deletes a session. The database deletes its messages and values too.
    pub fn delete(&self, tx: &mut Tx<'_>, key: i64) -> Result<(), StoreError> {
        tx.execute(&self.delete, params![key]).map(drop)
    }

    /// Replaces the metadata. Returns false if the session does not exist.
    pub fn set_metadata(
        &self,
        tx: &mut Tx<'_>,
        id: &str,
        metadata: &str,
    ) -> Result<bool, StoreError> {
        Ok(tx.execute(&self.set_metadata, params![id, metadata])? > 0)
    }

    /// Returns the messages of a session from position `first`, in order.
    pub fn messages(
        &self,
        tx: &mut Tx<'_>,
        key: i64,
        first: i64,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        tx.fetch_all(&self.messages, params![key, first])
    }

    /// Inserts a message at position `seq` of the session; `body` is JSON.
    pub fn insert_message(
        &self,
        tx: &mut Tx<'_>,
        key: i64,
        seq: i64,
        body: &str,
    ) -> Result<(), StoreError> {
        tx.execute(&self.insert_message, params![key, seq, body]).map(drop)
    }

    /// Deletes the messages of a session from position `first`.
    pub fn delete_messages(&self, tx: &mut Tx<'_>, key: i64, first: i64) -> Result<(), StoreError> {
        tx.execute(&self.delete_messages, params![key, first]).map(drop)
    }

    /// Copies messages to another session.
    pub fn copy_messages(&self, tx: &mut Tx<'_>, copy: MessageCopy) -> Result<(), StoreError> {
        tx.execute(&self.copy_messages, params![copy.from, copy.to, copy.messages]).map(drop)
    }

    /// Returns a page of the list of sessions, most recently changed first.
    pub fn page(
        &self,
        tx: &mut Tx<'_>,
        range: SessionRange<'_>,
    ) -> Result<Vec<SessionSummaryRow>, StoreError> {
        let limit = i64::try_from(range.limit).unwrap_or(i64::MAX);
        tx.fetch_all(&self.page, params![range.updated_at, range.id, limit])
    }

    /// Returns row keys of sessions that have not changed since a point in time, oldest first.
    pub fn inactive_since(
        &self,
        tx: &mut Tx<'_>,
        before: Timestamp,
        limit: i64,
    ) -> Result<Vec<i64>, StoreError> {
        tx.fetch_all(&self.inactive, params![before, limit])
    }

    /// Returns all values of an owner, sorted by name.
    pub fn values(
        &self,
        tx: &mut Tx<'_>,
        scope: StateScope,
        owner: &str,
    ) -> Result<Vec<StoredValue>, StoreError> {
        tx.fetch_all(&self.values, params![scope.as_str(), owner])
    }

    /// Inserts or replaces a value.
    pub fn set_value(
        &self,
        tx: &mut Tx<'_>,
        key: &ValueKey,
        value: &str,
    ) -> Result<(), StoreError> {
        let now = tx.now();
        let scope = key.scope.as_str();
        tx.execute(&self.set_value, params![scope, key.owner, key.name, value, now]).map(drop)
    }

    /// Removes a value.
    pub fn remove_value(&self, tx: &mut Tx<'_>, key: &ValueKey) -> Result<(), StoreError> {
        let scope = key.scope.as_str();
        tx.execute(&self.remove_value, params![scope, key.owner, key.name]).map(drop)
    }

    /// Removes all values of an owner and returns their number.
    pub fn remove_values(
        &self,
        tx: &mut Tx<'_>,
        scope: StateScope,
        owner: &str,
    ) -> Result<u64, StoreError> {
        tx.execute(&self.remove_values, params![scope.as_str(), owner])
    }
}

impl FromRow for SessionHeaderRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            key: row.take()?,
            revision: row.take()?,
            messages: row.take()?,
            metadata: row.take()?,
        })
    }
}

impl FromRow for StoredMessage {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { seq: row.take()?, body: row.take()? })
    }
}

impl FromRow for SessionSummaryRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { id: row.take()?, messages: row.take()?, updated_at: row.take()? })
    }
}

impl FromRow for StoredValue {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { name: row.take()?, value: row.take()? })
    }
}
