//! What was said and done, with its contents, page by page: the steps of a run and the messages of a session.
//!
//! A page ends early when its contents become large, so that nobody has to hold more than a few megabytes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::table::work::session::{self, SessionFilter, SessionRef, SessionRow};
use crate::table::work::session_entry::{self, EntryPage};
use crate::table::work::{input, message as stored};
use crate::{Store, Tx};
use provost_core::id::name::Namespace;
use provost_core::text::first_chars;
use provost_core::{Message, MessageId, RunId, TaskId};

use crate::query::QueryError;
use crate::query::page::{PAGE_MAX, Page};
use crate::table::work::stored_message::{self, stored_size};

/// Bytes of contents after which a page ends.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A message of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownMessage {
    /// Its place.
    pub entry: u64,
    /// The message's id.
    pub id: MessageId,
    /// The run that added it.
    pub run: RunId,
    /// The message.
    pub message: Arc<Message>,
}

/// A place in a session: what comes after an entry, as the session was at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPlace {
    /// The revision.
    pub revision: u64,
    /// The entry.
    pub after: u64,
}

/// A session as it stands.
pub async fn get(store: &Store, namespace: &Namespace, id: &str) -> Result<SessionRow, QueryError> {
    let (namespace, id) = (namespace.clone(), id.to_owned());
    let row = store.read(move |tx| {
        let row = session::get(tx, namespace.as_str(), &id)?;
        row.ok_or_else(|| QueryError::not_found("session", &id))
    });
    row.await
}

/// Sessions of a namespace by id, the last first: ids that nobody chose are in the order of time. The next page begins
/// where `filter.before` says.
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

/// The messages of a session, in order, from a place on; from the beginning of what it is now, if none is named. Pages of
/// one revision belong together, whatever is said meanwhile.
pub async fn messages(
    store: &Store,
    namespace: &Namespace,
    session: &str,
    from: Option<SessionPlace>,
    limit: u64,
) -> Result<Page<ShownMessage, SessionPlace>, QueryError> {
    let (namespace, session) = (namespace.to_string(), session.to_owned());
    let limit = limit.clamp(1, PAGE_MAX);
    let read = store.read(move |tx| {
        let row = session::get(tx, &namespace, &session)?;
        let row = row.ok_or_else(|| QueryError::not_found("session", &session))?;
        let from = from.unwrap_or(SessionPlace { revision: row.revision, after: 0 });
        messages_page(tx, SessionRef { namespace: &namespace, id: &session }, from, limit)
    });
    read.await
}

/// What tasks were asked first, as text, up to so many characters each. Tasks of other namespaces are left out.
pub async fn asked(
    store: &Store,
    namespace: &Namespace,
    tasks: Vec<TaskId>,
    chars_max: usize,
) -> Result<HashMap<TaskId, String>, QueryError> {
    let namespace = namespace.clone();
    let read = store.read(move |tx| {
        let mut asked = HashMap::with_capacity(tasks.len());
        for task in tasks {
            let first = input::of_task(tx, task, 0, 1)?.into_iter().next();
            let first = first.filter(|row| row.namespace == namespace.as_str());
            let Some(id) = first.map(|row| row.message_id) else { continue };
            let Some(text) = stored::text(tx, id)? else { continue };
            let text = stored_message::read(tx, &text)?.text();
            asked.insert(task, first_chars(&text, chars_max).to_owned());
        }
        Ok::<_, QueryError>(asked)
    });
    read.await
}

fn messages_page(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    from: SessionPlace,
    limit: u64,
) -> Result<Page<ShownMessage, SessionPlace>, QueryError> {
    let page = EntryPage { revision: from.revision, after: from.after, limit };
    let rows = session_entry::page_at(tx, session, page)?;
    let full = rows.len() as u64 >= limit;
    let (mut items, mut bytes, mut cut) = (Vec::with_capacity(rows.len()), 0, false);
    for row in rows {
        if bytes >= PAGE_BYTES {
            cut = true;
            break;
        }
        let missing = || QueryError::Unreadable(format!("message {} is missing", row.message_id));
        let text = stored::text(tx, row.message_id)?.ok_or_else(missing)?;
        let message = stored_message::read(tx, &text)?;
        bytes += stored_size(Some(&text), Some(&message))?;
        items.push(ShownMessage { entry: row.entry, id: row.message_id, run: row.run_id, message });
    }
    let place = |item: &ShownMessage| SessionPlace { after: item.entry, ..from };
    let next = items.last().filter(|_| full || cut).map(place);
    Ok(Page { items, next })
}
