//! Sessions and shared state outside of an engine ([`Schema::Sessions`](crate::Schema::Sessions)).
//!
//! Messages are in the order of `seq`, which is their place in the session: never that of a clock.

use provost_core::{StateScope, Timestamp};

use crate::{FromRow, Row, StoreError, TablePrefix, Tx, params};

/// The tables with one prefix.
#[derive(Debug)]
pub struct SessionTables {
    head: String,
    insert: String,
    update: String,
    delete: String,
    set_metadata: String,
    messages: String,
    insert_message: String,
    delete_messages: String,
    copy_messages: String,
    page: String,
    unused: String,
    values: String,
    set_value: String,
    remove_value: String,
    remove_values: String,
}

/// A session without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    /// The key of its messages.
    pub key: i64,
    /// The number of changes so far.
    pub revision: i64,
    /// The number of messages.
    pub messages: i64,
    /// Notes of the program, as a JSON object.
    pub metadata: String,
}

/// A session that is to be inserted.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// The id.
    pub id: &'a str,
    /// The number of messages.
    pub messages: i64,
    /// Notes of the program, as a JSON object.
    pub metadata: &'a str,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its place in the session, from 0.
    pub seq: i64,
    /// As JSON.
    pub body: String,
}

/// A part of the messages of a session that goes to another one.
#[derive(Debug, Clone, Copy)]
pub struct MessageCopy {
    /// The key of the session that has them.
    pub from: i64,
    /// The key of the session that gets them.
    pub to: i64,
    /// The number of the oldest messages to copy.
    pub messages: i64,
}

/// A place in the listing of sessions, and how many sessions to read from there.
#[derive(Debug, Clone, Copy)]
pub struct SessionRange<'a> {
    /// When the session before it last changed.
    pub updated_at: Timestamp,
    /// The id of the session before it.
    pub id: &'a str,
    /// The number of sessions to read at most.
    pub limit: usize,
}

/// One session of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    /// The id.
    pub id: String,
    /// The number of messages.
    pub messages: i64,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Names one value of the shared state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueKey {
    /// The scope.
    pub scope: StateScope,
    /// The session or user.
    pub owner: String,
    /// The name within the scope.
    pub name: String,
}

/// A value of the shared state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The name within the scope.
    pub name: String,
    /// As JSON.
    pub value: String,
}

impl SessionTables {
    /// The tables with this prefix.
    pub fn new(prefix: &TablePrefix) -> Self {
        let prefix = prefix.as_str();
        let (sessions, messages) = (format!("{prefix}sessions"), format!("{prefix}messages"));
        let values = format!("{prefix}shared_state");
        Self {
            head: format!("SELECT key, revision, messages, metadata FROM {sessions} WHERE id = ?1"),
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
            unused: format!(
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

    /// A session without its messages.
    pub fn head(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<SessionHead>, StoreError> {
        tx.optional(&self.head, params![id])
    }

    /// Inserts a session with revision 1 and returns its key.
    pub fn insert(&self, tx: &mut Tx<'_>, new: NewSession<'_>) -> Result<i64, StoreError> {
        let now = tx.now();
        tx.one(&self.insert, params![new.id, new.messages, new.metadata, now])
    }

    /// Changes the revision and the number of messages of a session.
    pub fn update(&self, tx: &mut Tx<'_>, head: &SessionHead) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(&self.update, params![head.key, head.revision, head.messages, now]).map(drop)
    }

    /// Deletes a session. References of the tables delete its messages and values.
    pub fn delete(&self, tx: &mut Tx<'_>, key: i64) -> Result<(), StoreError> {
        tx.execute(&self.delete, params![key]).map(drop)
    }

    /// Replaces the metadata; false if there is no such session.
    pub fn set_metadata(
        &self,
        tx: &mut Tx<'_>,
        id: &str,
        metadata: &str,
    ) -> Result<bool, StoreError> {
        Ok(tx.execute(&self.set_metadata, params![id, metadata])? > 0)
    }

    /// The messages of a session from a place on, in order.
    pub fn messages(
        &self,
        tx: &mut Tx<'_>,
        key: i64,
        first: i64,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        tx.all(&self.messages, params![key, first])
    }

    /// Inserts a message, as JSON, at its place in the session.
    pub fn insert_message(
        &self,
        tx: &mut Tx<'_>,
        key: i64,
        seq: i64,
        body: &str,
    ) -> Result<(), StoreError> {
        tx.execute(&self.insert_message, params![key, seq, body]).map(drop)
    }

    /// Deletes the messages of a session from a place on.
    pub fn delete_messages(&self, tx: &mut Tx<'_>, key: i64, first: i64) -> Result<(), StoreError> {
        tx.execute(&self.delete_messages, params![key, first]).map(drop)
    }

    /// Copies messages to another session.
    pub fn copy_messages(&self, tx: &mut Tx<'_>, copy: MessageCopy) -> Result<(), StoreError> {
        tx.execute(&self.copy_messages, params![copy.from, copy.to, copy.messages]).map(drop)
    }

    /// A part of the listing, most recently changed first.
    pub fn page(
        &self,
        tx: &mut Tx<'_>,
        range: SessionRange<'_>,
    ) -> Result<Vec<ListedSession>, StoreError> {
        let limit = i64::try_from(range.limit).unwrap_or(i64::MAX);
        tx.all(&self.page, params![range.updated_at, range.id, limit])
    }

    /// The keys of sessions that have not changed since a moment, oldest first.
    pub fn unused_since(
        &self,
        tx: &mut Tx<'_>,
        moment: Timestamp,
        limit: i64,
    ) -> Result<Vec<i64>, StoreError> {
        tx.all(&self.unused, params![moment, limit])
    }

    /// All values of an owner.
    pub fn values(
        &self,
        tx: &mut Tx<'_>,
        scope: StateScope,
        owner: &str,
    ) -> Result<Vec<StoredValue>, StoreError> {
        tx.all(&self.values, params![scope.as_str(), owner])
    }

    /// Sets a value.
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

    /// Removes all values of an owner and returns how many.
    pub fn remove_values(
        &self,
        tx: &mut Tx<'_>,
        scope: StateScope,
        owner: &str,
    ) -> Result<u64, StoreError> {
        tx.execute(&self.remove_values, params![scope.as_str(), owner])
    }
}

impl FromRow for SessionHead {
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

impl FromRow for ListedSession {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { id: row.take()?, messages: row.take()?, updated_at: row.take()? })
    }
}

impl FromRow for StoredValue {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { name: row.take()?, value: row.take()? })
    }
}
