//! The table: everything that is served, in one place.

mod agent;
mod approval;
mod class;
mod delivery;
mod event;
mod explain;
mod meta;
mod run;
mod schedule;
mod server;
mod session;
mod stream;
mod task;
mod token;
mod tool;
mod webhook;

use provost_api::{InputReceipt, NewInput, Page, Paging, PendingInput, Problem, Task};
use provost_engine::InputTarget;
use provost_store::row::task::TaskRow;

use crate::convert;
use crate::error::of_engine;
use crate::input::Cx;
use crate::operation::Operation;
use crate::output::{Answer, Made};

/// Every operation.
pub(crate) fn table() -> Vec<Operation> {
    [
        task::operations(),
        run::operations(),
        agent::operations(),
        approval::operations(),
        delivery::operations(),
        session::operations(),
        class::operations(),
        schedule::operations(),
        explain::operations(),
        token::operations(),
        tool::operations(),
        server::operations(),
        stream::operations(),
        event::operations(),
        webhook::operations(),
        meta::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A path inside a namespace.
macro_rules! within {
    ($rest:literal) => {
        concat!("/v1/namespaces/{namespace}/", $rest)
    };
}
pub(crate) use within;

/// Characters of what a task was asked, where it is one of many.
const ASKED_CHARS: usize = 500;

/// A task as it stands, with so many characters of what it was asked.
async fn tell_task(cx: &Cx, row: TaskRow, chars_max: usize) -> Result<Task, Problem> {
    let asked = cx.app.engine().asked(&cx.namespace, vec![row.id], chars_max).await;
    let message = asked.map_err(of_engine)?.remove(&row.id).unwrap_or_default();
    convert::task(row, message)
}

/// Says something to a run or a task.
async fn say(
    cx: &Cx,
    target: impl Into<InputTarget>,
    said: NewInput,
) -> Result<Made<InputReceipt>, Problem> {
    let mut request = convert::input(said);
    request.by = Some(cx.who.name.clone());
    request.idempotency_key = cx.idempotency_key(request.idempotency_key.take())?;
    let receipt = cx.app.engine().input(&cx.namespace, target, request).await;
    let receipt = receipt.map_err(of_engine)?;
    Ok(Made { new: !receipt.deduped, what: convert::receipt(receipt) })
}

/// What waits to be read by a run or a task.
async fn pending(
    cx: &Cx,
    target: impl Into<InputTarget>,
    asked: &Paging,
) -> Result<Answer<Page<PendingInput>>, Problem> {
    let waiting = cx.app.engine().pending_inputs(&cx.namespace, target).await;
    let waiting = waiting.map_err(of_engine)?.into_iter().map(convert::pending).collect();
    Ok(Answer(convert::cut(waiting, asked, |input: &PendingInput| input.id)?))
}

#[cfg(test)]
mod tests;
