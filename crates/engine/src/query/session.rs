//! What was said and done, with its contents, page by page: the steps of a run and the messages of a session.
//!
//! A page ends early when its contents become large, so that nobody has to hold more than a few megabytes.

use std::collections::HashMap;
use std::sync::Arc;

use provost_agent::run::Feed;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::StepKind;
use provost_core::{Message, MessageId, RunId, TaskId, ToolResult};
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::table::work::session::{self, SessionRef};
use provost_store::table::work::session_entry::{self, EntryPage};
use provost_store::table::work::{input, message as stored};
use provost_store::{Tx, load_body};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::journal::message;
use crate::query::event_log::check_run;
use crate::tasks::{PAGE_MAX, Page};

/// Bytes of contents after which a page ends.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A step of a run and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownStep {
    /// The step.
    pub row: RunStepRow,
    /// The message that came of it.
    pub message: Option<Arc<Message>>,
    /// What its tool answered.
    pub result: Option<ToolResult>,
}

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

impl Engine {
    /// The steps of a run after a number, in order, with what came of them.
    pub async fn shown_steps(
        &self,
        namespace: &Namespace,
        run: RunId,
        after: u64,
        limit: u64,
    ) -> Result<Page<ShownStep, u64>, EngineError> {
        let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
        let read = self.store().read(move |tx| {
            check_run(tx, &namespace, run)?;
            steps(tx, run, after, limit)
        });
        read.await
    }

    /// What tasks were asked first, as text, up to so many characters each. Tasks of other namespaces are left out.
    pub async fn asked(
        &self,
        namespace: &Namespace,
        tasks: Vec<TaskId>,
        chars_max: usize,
    ) -> Result<HashMap<TaskId, String>, EngineError> {
        let namespace = namespace.clone();
        let read = self.store().read(move |tx| {
            let mut asked = HashMap::with_capacity(tasks.len());
            for task in tasks {
                let first = input::of_task(tx, task, 0, 1)?.into_iter().next();
                let first = first.filter(|row| row.namespace == namespace.as_str());
                let Some(id) = first.map(|row| row.message_id) else { continue };
                let Some(text) = stored::text(tx, id)? else { continue };
                let text = message::read(tx, &text)?.text();
                asked.insert(task, text.chars().take(chars_max).collect());
            }
            Ok::<_, EngineError>(asked)
        });
        read.await
    }

    /// The messages of a session, in order, from a place on; from the beginning of what it is now, if none is named. Pages of
    /// one revision belong together, whatever is said meanwhile.
    pub async fn session_messages(
        &self,
        namespace: &Namespace,
        session: &str,
        from: Option<SessionPlace>,
        limit: u64,
    ) -> Result<Page<ShownMessage, SessionPlace>, EngineError> {
        let (namespace, session) = (namespace.to_string(), session.to_owned());
        let limit = limit.clamp(1, PAGE_MAX);
        let read = self.store().read(move |tx| {
            let row = session::get(tx, &namespace, &session)?;
            let row = row.ok_or_else(|| EngineError::not_found("session", &session))?;
            let from = from.unwrap_or(SessionPlace { revision: row.revision, after: 0 });
            messages(tx, SessionRef { namespace: &namespace, id: &session }, from, limit)
        });
        read.await
    }
}

fn steps(
    tx: &mut Tx<'_>,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Page<ShownStep, u64>, EngineError> {
    let rows = run_step::after(tx, run, after, limit)?;
    let full = rows.len() as u64 >= limit;
    let (mut items, mut bytes, mut cut) = (Vec::with_capacity(rows.len()), 0, false);
    for row in rows {
        if bytes >= PAGE_BYTES {
            cut = true;
            break;
        }
        let text = row.message_id.map(|id| stored::text(tx, id)).transpose()?.flatten();
        let message = text.as_ref().map(|text| message::read(tx, text)).transpose()?;
        bytes += size(text.as_deref(), message.as_deref())?;
        let result = match row.kind == StepKind::ToolCall.as_str() && row.fed.is_some() {
            true => load_body(tx, row.body.clone(), row.blob.as_deref())?,
            false => None,
        };
        bytes += result.as_ref().map_or(0, String::len);
        let result = result.map(|body| serde_json::from_str(&body)).transpose()?;
        let result = result.and_then(|feed| match feed {
            Feed::ToolFinished { result, .. } => Some(*result),
            _ => None,
        });
        items.push(ShownStep { row, message, result });
    }
    let next = items.last().filter(|_| full || cut).map(|item| item.row.step);
    Ok(Page { items, next })
}

/// Bytes of a message: of its stored text, or of the results that are stored elsewhere.
fn size(text: Option<&str>, message: Option<&Message>) -> Result<usize, EngineError> {
    match (text, message) {
        (Some(text), Some(message)) if message::names_results(text) => {
            Ok(serde_json::to_vec(message)?.len())
        }
        (text, _) => Ok(text.map_or(0, str::len)),
    }
}

fn messages(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    from: SessionPlace,
    limit: u64,
) -> Result<Page<ShownMessage, SessionPlace>, EngineError> {
    let page = EntryPage { revision: from.revision, after: from.after, limit };
    let rows = session_entry::page_at(tx, session, page)?;
    let full = rows.len() as u64 >= limit;
    let (mut items, mut bytes, mut cut) = (Vec::with_capacity(rows.len()), 0, false);
    for row in rows {
        if bytes >= PAGE_BYTES {
            cut = true;
            break;
        }
        let missing = || EngineError::Unreadable(format!("message {} is missing", row.message_id));
        let text = stored::text(tx, row.message_id)?.ok_or_else(missing)?;
        let message = message::read(tx, &text)?;
        bytes += size(Some(&text), Some(&message))?;
        items.push(ShownMessage { entry: row.entry, id: row.message_id, run: row.run_id, message });
    }
    let place = |item: &ShownMessage| SessionPlace { after: item.entry, ..from };
    let next = items.last().filter(|_| full || cut).map(place);
    Ok(Page { items, next })
}
