//! Reads of sessions and their messages.
//!
//! A page of messages ends early if its contents become large, which limits memory use to a few megabytes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::table::work::session::{self, SessionFilter, SessionRef, SessionRow};
use crate::table::work::session_entry::{self, SessionMessagePage};
use crate::table::work::{input, message as stored};
use crate::{Store, Tx};
use provost_core::id::name::Namespace;
use provost_core::text::first_chars;
use provost_core::{Message, MessageId, RunId, TaskId};

use crate::query::QueryError;
use crate::query::page::{PAGE_MAX, Page};
use crate::table::work::stored_message::{self, stored_size};

/// Size of the contents after which a page ends, in bytes.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A message of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMessageView {
    /// Position in the session.
    pub entry: u64,
    /// Id of the message.
    pub id: MessageId,
    /// The run that added it.
    pub run: RunId,
    /// The message.
    pub message: Arc<Message>,
}

/// Position in the messages of a session at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPosition {
    /// Revision of the session.
    pub revision: u64,
    /// Position of the last message of the previous page; 0 for the first page.
    pub after: u64,
}

/// Returns a session. Fails if the namespace has none with this id.
pub async fn get(store: &Store, namespace: &Namespace, id: &str) -> Result<SessionRow, QueryError> {
    let (namespace, id) = (namespace.clone(), id.to_owned());
    let row = store.read(move |tx| {
        let row = session::get(tx, namespace.as_str(), &id)?;
        row.ok_or_else(|| QueryError::not_found("session", &id))
    });
    row.await
}

/// Returns the sessions of a namespace that match the filter, in descending order of their ids. Generated ids sort by
/// time. The cursor is the `before` of the next filter.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    filter: SessionFilter,
    limit: u64,
) -> Result<Page<SessionRow, String>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let rows = store.read(move |tx| {
        Ok::<_, QueryError>(session::find(tx, namespace.as_str(), &filter, limit)?)
    });
    Ok(Page::new(rows.await?, limit, |row| row.id.clone()))
}

/// Returns a page of the messages of a session, in order. Without a position, the page is the first one of the current
/// revision. Pages of the same revision are consistent, even if the session changes in between. Fails if the session
/// does not exist.
pub async fn messages(
    store: &Store,
    namespace: &Namespace,
    session: &str,
    from: Option<SessionPosition>,
    limit: u64,
) -> Result<Page<SessionMessageView, SessionPosition>, QueryError> {
    let (namespace, session) = (namespace.to_string(), session.to_owned());
    let limit = limit.clamp(1, PAGE_MAX);
    let read = store.read(move |tx| {
        let row = session::get(tx, &namespace, &session)?;
        let row = row.ok_or_else(|| QueryError::not_found("session", &session))?;
        let from = from.unwrap_or(SessionPosition { revision: row.revision, after: 0 });
        messages_page(tx, SessionRef { namespace: &namespace, id: &session }, from, limit)
    });
    read.await
}

/// Returns the text of the first input of each task, truncated to `chars_max` characters. Omits tasks of other
/// namespaces.
pub async fn first_inputs(
    store: &Store,
    namespace: &Namespace,
    tasks: Vec<TaskId>,
    chars_max: usize,
) -> Result<HashMap<TaskId, String>, QueryError> {
    let namespace = namespace.clone();
    let read = store.read(move |tx| {
        let mut texts = HashMap::with_capacity(tasks.len());
        for task in tasks {
            let first = input::of_task(tx, task, 0, 1)?.into_iter().next();
            let first = first.filter(|row| row.namespace == namespace.as_str());
            let Some(id) = first.map(|row| row.message_id) else { continue };
            let Some(text) = stored::text(tx, id)? else { continue };
            let text = stored_message::read(tx, &text)?.text();
            texts.insert(task, first_chars(&text, chars_max).to_owned());
        }
        Ok::<_, QueryError>(texts)
    });
    read.await
}

/// Reads a page of messages. It ends early if its texts exceed the limit of bytes.
fn messages_page(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    from: SessionPosition,
    limit: u64,
) -> Result<Page<SessionMessageView, SessionPosition>, QueryError> {
    let page = SessionMessagePage { revision: from.revision, after: from.after, limit };
    let rows = session_entry::page_at(tx, session, page)?;
    let full = rows.len() as u64 >= limit;
    let (mut items, mut bytes, mut cut) = (Vec::with_capacity(rows.len()), 0, false);
    for row in rows {
        if bytes >= PAGE_BYTES_MAX {
            cut = true;
            break;
        }
        let missing = || QueryError::Unreadable(format!("message {} is missing", row.message_id));
        let text = stored::text(tx, row.message_id)?.ok_or_else(missing)?;
        let message = stored_message::read(tx, &text)?;
        bytes += stored_size(Some(&text), Some(&message))?;
        items.push(SessionMessageView {
            entry: row.entry,
            id: row.message_id,
            run: row.run_id,
            message,
        });
    }
    let position = |item: &SessionMessageView| SessionPosition { after: item.entry, ..from };
    let next = items.last().filter(|_| full || cut).map(position);
    Ok(Page { items, next })
}
