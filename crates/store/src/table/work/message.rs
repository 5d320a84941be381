//! Messages. Only this table stores their text; all other tables refer to them by id.

use provost_core::{MessageId, Timestamp};

use crate::transaction::text::{StoredText, load_text};
use crate::{StoreError, Tx, params};

table! {
    /// A message.
    MessageRow in "message" {
        /// The id.
        id: MessageId,
        /// Namespace of the row.
        namespace: String,
        /// The message as JSON, if it is small.
        body: Option<String>,
        /// Hash of the blob with the message, if it is large.
        blob: Option<String>,
        /// Time of creation.
        created: Timestamp,
    }
}

/// Stores a message.
pub fn put(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: MessageId,
    body: &StoredText,
) -> Result<(), StoreError> {
    let (body, blob) = body.columns(tx)?;
    let sql =
        "INSERT INTO message (id, namespace, body, blob, created) VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.execute(sql, params![id, namespace, body, blob, tx.now()]).map(drop)
}

/// Returns the message with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: MessageId) -> Result<Option<MessageRow>, StoreError> {
    tx.fetch_optional(&MessageRow::select("WHERE id = ?1"), params![id])
}

/// Returns the text of the message with this id. `None` if it does not exist.
pub fn text(tx: &mut Tx<'_>, id: MessageId) -> Result<Option<String>, StoreError> {
    match get(tx, id)? {
        Some(row) => load_text(tx, row.body, row.blob.as_deref()),
        None => Ok(None),
    }
}
