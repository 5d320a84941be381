//! Messages: the only place where their text is stored. Everything else names them by id.

use provost_core::{MessageId, Timestamp};

use crate::transaction::text::{Body, load_body};
use crate::{StoreError, Tx, params};

table! {
    /// One message.
    MessageRow in "message" {
        /// The id.
        id: MessageId,
        /// The tenancy boundary.
        namespace: String,
        /// The message as JSON, if it is small.
        body: Option<String>,
        /// The blob that holds it, if it is not.
        blob: Option<String>,
        /// When it was stored.
        created: Timestamp,
    }
}

/// Stores the message under the id.
pub fn put(tx: &mut Tx<'_>, namespace: &str, id: MessageId, body: &Body) -> Result<(), StoreError> {
    let (body, blob) = body.columns(tx)?;
    let sql =
        "INSERT INTO message (id, namespace, body, blob, created) VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.execute(sql, params![id, namespace, body, blob, tx.now()]).map(drop)
}

/// The message with the id.
pub fn get(tx: &mut Tx<'_>, id: MessageId) -> Result<Option<MessageRow>, StoreError> {
    tx.optional(&MessageRow::select("WHERE id = ?1"), params![id])
}

/// The text of the message with the id.
pub fn text(tx: &mut Tx<'_>, id: MessageId) -> Result<Option<String>, StoreError> {
    match get(tx, id)? {
        Some(row) => load_body(tx, row.body, row.blob.as_deref()),
        None => Ok(None),
    }
}
