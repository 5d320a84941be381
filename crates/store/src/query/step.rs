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
use crate::{Store, Tx, load_body};

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

/// The steps of a run after a number, in order. What is large is named by its hash only.
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

/// The steps of a run after a number, in order, with what came of them.
pub async fn list_with_results(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Page<ShownStep, u64>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        page(tx, run, after, limit)
    });
    read.await
}

fn page(
    tx: &mut Tx<'_>,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Page<ShownStep, u64>, QueryError> {
    let rows = run_step::after(tx, run, after, limit)?;
    let full = rows.len() as u64 >= limit;
    let (mut items, mut bytes, mut cut) = (Vec::with_capacity(rows.len()), 0, false);
    for row in rows {
        if bytes >= PAGE_BYTES {
            cut = true;
            break;
        }
        let text = row.message_id.map(|id| stored::text(tx, id)).transpose()?.flatten();
        let message = text.as_ref().map(|text| stored_message::read(tx, text)).transpose()?;
        bytes += stored_size(text.as_deref(), message.as_deref())?;
        let result = match row.kind == StepKind::ToolCall.as_str() && row.fed.is_some() {
            true => load_body(tx, row.body.clone(), row.blob.as_deref())?,
            false => None,
        };
        bytes += result.as_ref().map_or(0, String::len);
        let result = result.as_deref().map(stored_message::result_in).transpose()?.flatten();
        items.push(ShownStep { row, message, result });
    }
    let next = items.last().filter(|_| full || cut).map(|item| item.row.step);
    Ok(Page { items, next })
}
