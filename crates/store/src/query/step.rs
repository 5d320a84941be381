//! Reads of the steps of a run.

use std::sync::Arc;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::StepKind;
use provost_core::{Message, RunId, ToolResult};

use crate::query::QueryError;
use crate::query::event_log::check_run;
use crate::query::page::{PAGE_MAX, Page};
use crate::table::work::message as stored;
use crate::table::work::run_step::{self, RunStepRow};
use crate::table::work::stored_message::{self, stored_size};
use crate::{Store, Tx, load_text};

/// Size of the contents after which a page ends, in bytes.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A step of a run with its message and tool result.
#[derive(Debug, Clone, PartialEq)]
pub struct StepView {
    /// The step.
    pub row: RunStepRow,
    /// The message that the step produced.
    pub message: Option<Arc<Message>>,
    /// Result of the tool call.
    pub result: Option<ToolResult>,
}

/// Returns the steps of a run after a step number, in order. Large bodies are blob hashes. Fails if the run does not
/// exist.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Page<RunStepRow, u64>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let rows = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        Ok::<_, QueryError>(run_step::after(tx, run, after, limit)?)
    });
    Ok(Page::new(rows.await?, limit, |row| row.step))
}

/// Returns the steps of a run after a step number, in order, with their messages and tool results. Fails if the run
/// does not exist.
pub async fn list_with_results(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Page<StepView, u64>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        page(tx, run, after, limit)
    });
    read.await
}

/// Reads a page of steps with their results. It ends early if its texts exceed the limit of bytes.
fn page(
    tx: &mut Tx<'_>,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Page<StepView, u64>, QueryError> {
    let rows = run_step::after(tx, run, after, limit)?;
    let full = rows.len() as u64 >= limit;
    let (mut items, mut bytes, mut cut) = (Vec::with_capacity(rows.len()), 0, false);
    for row in rows {
        if bytes >= PAGE_BYTES_MAX {
            cut = true;
            break;
        }
        let text = row.message_id.map(|id| stored::text(tx, id)).transpose()?.flatten();
        let message = text.as_ref().map(|text| stored_message::read(tx, text)).transpose()?;
        bytes += stored_size(text.as_deref(), message.as_deref())?;
        let result = match row.kind == StepKind::ToolCall && row.entry_no.is_some() {
            true => load_text(tx, row.body.clone(), row.blob.as_deref())?,
            false => None,
        };
        bytes += result.as_ref().map_or(0, String::len);
        let result = result.as_deref().map(stored_message::result_in).transpose()?.flatten();
        items.push(StepView { row, message, result });
    }
    let next = items.last().filter(|_| full || cut).map(|item| item.row.step);
    Ok(Page { items, next })
}
