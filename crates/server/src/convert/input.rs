//! Converts inputs.

use provost_api::{DateTime, InputReceipt, NewInput, PendingInput, RunInteraction};
use provost_core::scheduling::InputQueueOverride;
use provost_engine::InputRequest;

/// Converts a message to a request of the engine.
pub(crate) fn request(input: NewInput) -> InputRequest {
    InputRequest {
        message: input.message.into_parts(),
        queue: InputQueueOverride { mode: input.mode, ..InputQueueOverride::default() },
        idempotency_key: input.idempotency_key,
        provenance: input.provenance,
        routing: input.routing,
        ..InputRequest::default()
    }
}

/// Converts the receipt of a message.
pub(crate) fn receipt(receipt: provost_engine::InputReceipt) -> InputReceipt {
    let provost_engine::InputReceipt { input, task, run, outcome, deduped } = receipt;
    InputReceipt { input, task, run, outcome, deduped }
}

/// Converts a message that no run has read yet.
pub(crate) fn pending(input: provost_store::query::input::PendingInput) -> PendingInput {
    PendingInput {
        id: input.id,
        task: input.task,
        run: input.run,
        mode: input.mode,
        outcome: input.outcome,
        message: (*input.message).clone(),
        provenance: input.provenance,
        created: DateTime(input.created),
    }
}

/// Converts the input state of a run.
pub(crate) fn interaction(
    interaction: provost_store::query::input::RunInteraction,
) -> RunInteraction {
    let provost_store::query::input::RunInteraction {
        run,
        state,
        execution,
        approvals,
        pending: inputs,
    } = interaction;
    let pending = inputs.into_iter().map(pending).collect();
    RunInteraction { run, state, execution, approvals, pending }
}
