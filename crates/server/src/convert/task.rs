//! Converts tasks.

use provost_api::{DateTime, MessageInput, NewTask, Problem, Task, TaskReceipt};
use provost_core::command::TaskRequest;
use provost_core::{ContentPart, Money};
use provost_store::table::work::task::TaskRow;

/// Converts a new task to a request of the engine.
pub(crate) fn command(task: NewTask) -> TaskRequest {
    TaskRequest {
        message: task.message.into_parts(),
        agent: task.agent,
        hook_id: task.hook_id,
        session_id: task.session,
        session_key: task.session_key,
        deliver: task.deliver,
        best_effort_deliver: task.best_effort_deliver,
        timeout_ms: task.timeout_ms,
        policy: task.policy,
        lane: task.lane,
        extra_system_prompt: task.extra_system_prompt,
        user: task.user,
        input_provenance: task.input_provenance,
        routing: task.routing,
        attachments: task.attachments,
        idempotency_key: task.idempotency_key,
        run_id: task.run,
        label: task.label,
        spawned_by: task.spawned_by,
        // The controller sets the requester from the token.
        requested_by: None,
        queue_mode: task.queue_mode,
        priority: task.priority,
        budget: task.budget,
        deadline: task.deadline.map(|time| time.0),
        new_task: task.new_task,
        delay_ms: task.delay_ms,
        queue_timeout_ms: task.queue_timeout_ms,
    }
}

/// Converts a stored request to a new task.
pub(super) fn new_task(command: TaskRequest) -> NewTask {
    NewTask {
        message: match <[ContentPart; 1]>::try_from(command.message) {
            Ok([ContentPart::Text { text }]) => MessageInput::Text(text),
            Ok([part]) => MessageInput::Parts(vec![part]),
            Err(parts) => MessageInput::Parts(parts),
        },
        agent: command.agent,
        hook_id: command.hook_id,
        session: command.session_id,
        session_key: command.session_key,
        deliver: command.deliver,
        best_effort_deliver: command.best_effort_deliver,
        timeout_ms: command.timeout_ms,
        policy: command.policy,
        lane: command.lane,
        extra_system_prompt: command.extra_system_prompt,
        user: command.user,
        input_provenance: command.input_provenance,
        routing: command.routing,
        attachments: command.attachments,
        idempotency_key: command.idempotency_key,
        run: command.run_id,
        label: command.label,
        spawned_by: command.spawned_by,
        queue_mode: command.queue_mode,
        priority: command.priority,
        budget: command.budget,
        deadline: command.deadline.map(DateTime),
        new_task: command.new_task,
        delay_ms: command.delay_ms,
        queue_timeout_ms: command.queue_timeout_ms,
    }
}

/// Converts the receipt of a task.
pub(crate) fn receipt(accepted: provost_engine::SubmitReceipt) -> TaskReceipt {
    let provost_engine::SubmitReceipt { task, run, input, session, outcome, deduped } = accepted;
    TaskReceipt { task, run, input, session, outcome, deduped }
}

/// Converts a task. `message` is the text of its first message.
pub(crate) fn view(row: TaskRow, message: String) -> Result<Task, Problem> {
    Ok(Task {
        id: row.id,
        namespace: row.namespace,
        state: row.state,
        agent: row.agent,
        agent_revision: row.agent_revision,
        session: row.session_id,
        parent: row.parent_task_id,
        queue_mode: row.queue_mode,
        priority: row.priority,
        message,
        label: row.label,
        spawned_by: row.spawned_by,
        run: row.current_run_id,
        run_count: row.run_count,
        drop_reason: row.drop_reason,
        waiting_for: row.waiting_for.map(|reason| reason.to_string()),
        wake_at: row.wake_at.map(DateTime),
        deadline: row.deadline.map(DateTime),
        cost: Money::from_micros(row.cost_micros),
        version: row.version,
        created: DateTime(row.created),
        updated: DateTime(row.updated),
        ended: row.ended.map(DateTime),
        archived: row.archived.map(DateTime),
    })
}
