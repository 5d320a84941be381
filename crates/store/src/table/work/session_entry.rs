//! Messages of sessions, at each revision.
//!
//! Rows are never deleted here: a message belongs to every revision from `added` up to, but not including, `gone`.

use std::sync::LazyLock;

use provost_core::{MessageId, RunId};

use super::session::SessionRef;
use crate::transaction::text::load_text;
use crate::transaction::value::number;
use crate::{StoreError, ToColumn, Tx, params};

table! {
    /// A message of a session.
    SessionMessageRow in "session_entry" {
        /// Namespace of the row.
        namespace: String,
        /// The session.
        session_id: String,
        /// Position in the session.
        entry: u64,
        /// The message.
        message_id: MessageId,
        /// The run that added it.
        run_id: RunId,
        /// The first revision that contains the message.
        added: u64,
        /// The first later revision that does not contain the message; `None` if it was not removed.
        gone: Option<u64>,
    }
}

/// A message of a session with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMessageText {
    /// Position in the session.
    pub entry: u64,
    /// The message.
    pub id: MessageId,
    /// The message as JSON.
    pub text: String,
}

/// Messages to add with one revision.
#[derive(Debug, Clone, Copy)]
pub struct NewSessionMessages<'a> {
    /// Position of the first message.
    pub first: u64,
    /// The messages.
    pub messages: &'a [MessageId],
    /// The first revision that contains them.
    pub revision: u64,
}

/// A page of the messages of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionMessagePage {
    /// The revision of the session.
    pub revision: u64,
    /// Position of the last message of the previous page.
    pub after: u64,
    /// Maximum number of messages.
    pub limit: u64,
}

/// Maximum number of messages in one statement.
const ENTRIES_AT_ONCE: usize = 4;

/// Statements that add one message, two messages, and so on.
static ADD: LazyLock<[String; ENTRIES_AT_ONCE]> = LazyLock::new(|| {
    std::array::from_fn(|more| {
        let row =
            |place: usize| format!("(?1, ?2, ?{}, ?{}, ?3, ?4)", 5 + 2 * place, 6 + 2 * place);
        let rows: Vec<String> = (0..=more).map(row).collect();
        format!(
            "INSERT INTO session_entry (namespace, session_id, entry, message_id, run_id, added) VALUES {}",
            rows.join(", ")
        )
    })
});

/// Adds messages to a session.
pub fn add(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    run_id: RunId,
    new: NewSessionMessages<'_>,
) -> Result<(), StoreError> {
    let NewSessionMessages { first, messages, revision } = new;
    let mut entry = first;
    for messages in messages.chunks(ENTRIES_AT_ONCE) {
        let mut values = Vec::with_capacity(4 + 2 * messages.len());
        values.extend([session.namespace.to_value(), session.id.to_value(), run_id.to_value()]);
        values.push(number(revision));
        for (entry, message) in (entry..).zip(messages) {
            values.extend([number(entry), message.to_value()]);
        }
        tx.execute(&ADD[messages.len() - 1], &values)?;
        entry += messages.len() as u64;
    }
    Ok(())
}

/// Returns the message at a position. `None` if there is none.
pub fn get(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    entry: u64,
) -> Result<Option<SessionMessageRow>, StoreError> {
    let sql = SessionMessageRow::select("WHERE namespace = ?1 AND session_id = ?2 AND entry = ?3");
    tx.fetch_optional(&sql, params![namespace, session_id, entry])
}

/// Returns the messages of a session at a revision, in order.
pub fn at_revision(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    revision: u64,
) -> Result<Vec<SessionMessageRow>, StoreError> {
    let sql = SessionMessageRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND added <= ?3 AND (gone IS NULL OR gone > ?3)
         ORDER BY entry",
    );
    tx.fetch_all(&sql, params![namespace, session_id, revision])
}

/// Returns a page of the messages of a session at a revision, in order.
pub fn page_at(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    page: SessionMessagePage,
) -> Result<Vec<SessionMessageRow>, StoreError> {
    let sql = SessionMessageRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND entry > ?4
           AND added <= ?3 AND (gone IS NULL OR gone > ?3)
         ORDER BY entry LIMIT ?5",
    );
    tx.fetch_all(
        &sql,
        params![session.namespace, session.id, page.revision, page.after, page.limit],
    )
}

/// Returns the messages of a session at a revision with their texts, in order.
pub fn messages_at(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    revision: u64,
) -> Result<Vec<SessionMessageText>, StoreError> {
    type Joined = (u64, MessageId, Option<String>, Option<String>);
    let rows: Vec<Joined> = tx.fetch_all(
        "SELECT e.entry, m.id, m.body, m.blob FROM session_entry e JOIN message m ON m.id = e.message_id
          WHERE e.namespace = ?1 AND e.session_id = ?2 AND e.added <= ?3 AND (e.gone IS NULL OR e.gone > ?3)
          ORDER BY e.entry",
        params![namespace, session_id, revision],
    )?;
    let load = |(entry, id, body, blob): Joined| {
        let text = load_text(tx, body, blob.as_deref())?.ok_or_else(|| StoreError::Corrupt {
            detail: format!("message {id} has neither a body nor a blob"),
        })?;
        Ok(SessionMessageText { entry, id, text })
    };
    rows.into_iter().map(load).collect()
}

/// Returns the revisions with which a run added messages to a session, in order.
pub fn revisions_of(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    run_id: RunId,
) -> Result<Vec<u64>, StoreError> {
    tx.fetch_all(
        "SELECT DISTINCT added FROM session_entry WHERE namespace = ?1 AND session_id = ?2 AND run_id = ?3
          ORDER BY added",
        params![session.namespace, session.id, run_id],
    )
}

/// Returns true if another run has added messages to a session after the revision `since`.
pub fn added_by_others(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    run_id: RunId,
    since: u64,
) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM session_entry
          WHERE namespace = ?1 AND session_id = ?2 AND added > ?4 AND run_id <> ?3 LIMIT 1",
        params![session.namespace, session.id, run_id, since],
    )
}

/// Removes the messages of a run from a session with the given revision, and returns their number.
pub fn remove_of_run(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    run_id: RunId,
    gone: u64,
) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE session_entry SET gone = ?4
          WHERE namespace = ?1 AND session_id = ?2 AND run_id = ?3 AND gone IS NULL",
        params![session.namespace, session.id, run_id, gone],
    )
}

/// Removes one message of a run from a session with the given revision. Returns the number of removed messages.
pub fn remove_message(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    run_id: RunId,
    message_id: MessageId,
    gone: u64,
) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE session_entry SET gone = ?5
          WHERE namespace = ?1 AND session_id = ?2 AND run_id = ?3 AND message_id = ?4 AND gone IS NULL",
        params![session.namespace, session.id, run_id, message_id, gone],
    )
}

/// Returns the messages that a session contained at revision `base` and that were removed since, in order.
pub fn removed_since(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    base: u64,
) -> Result<Vec<SessionMessageRow>, StoreError> {
    let sql = SessionMessageRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND added <= ?3 AND gone > ?3 ORDER BY entry",
    );
    tx.fetch_all(&sql, params![session.namespace, session.id, base])
}
