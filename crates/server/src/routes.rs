//! The table: everything that is served, in one place.

mod agents;
mod approvals;
mod deliveries;
mod explain;
mod health;
mod logs;
mod operation;
mod runs;
mod schedules;
mod server;
mod sessions;
mod streams;
mod tasks;
mod tokens;
mod tools;
mod webhooks;

use provost_api::{InputReceipt, NewInput, Page, Paging, PendingInput, Problem, Task};
use provost_engine::InputTarget;
use provost_store::row::task::TaskRow;

use crate::input::Cx;
use crate::operation::Operation;
use crate::output::{Answer, Made};
use crate::problem::of_engine;
use crate::wire;

/// Every operation.
pub(crate) fn table() -> Vec<Operation> {
    [
        tasks::operations(),
        runs::operations(),
        agents::operations(),
        approvals::operations(),
        deliveries::operations(),
        sessions::operations(),
        operation::operations(),
        schedules::operations(),
        explain::operations(),
        tokens::operations(),
        tools::operations(),
        server::operations(),
        streams::operations(),
        logs::operations(),
        webhooks::operations(),
        health::operations(),
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
    wire::task(row, message)
}

/// Says something to a run or a task.
async fn say(
    cx: &Cx,
    target: impl Into<InputTarget>,
    said: NewInput,
) -> Result<Made<InputReceipt>, Problem> {
    let mut request = wire::input(said);
    request.by = Some(cx.who.name.clone());
    request.idempotency_key = cx.idempotency_key(request.idempotency_key.take())?;
    let receipt = cx.app.engine().input(&cx.namespace, target, request).await;
    let receipt = receipt.map_err(of_engine)?;
    Ok(Made { new: !receipt.deduped, what: wire::receipt(receipt) })
}

/// What waits to be read by a run or a task.
async fn pending(
    cx: &Cx,
    target: impl Into<InputTarget>,
    asked: &Paging,
) -> Result<Answer<Page<PendingInput>>, Problem> {
    let waiting = cx.app.engine().pending_inputs(&cx.namespace, target).await;
    let waiting = waiting.map_err(of_engine)?.into_iter().map(wire::pending).collect();
    Ok(Answer(wire::cut(waiting, asked, |input: &PendingInput| input.id)?))
}

#[cfg(test)]
mod tests;
