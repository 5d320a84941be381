//! What is said to a task, on the wire.

use provost_api::{InputReceipt, Interaction, NewInput, PendingInput, Time};
use provost_core::scheduling::InputQueueOverride;
use provost_engine::InputRequest;
use provost_store::query::input::RunInteraction;

/// A message as the engine's request.
pub(crate) fn request(said: NewInput) -> InputRequest {
    InputRequest {
        message: said.message.into_parts(),
        queue: InputQueueOverride { mode: said.mode, ..InputQueueOverride::default() },
        idempotency_key: said.idempotency_key,
        provenance: said.provenance,
        routing: said.routing,
        ..InputRequest::default()
    }
}

/// What became of a message.
pub(crate) fn receipt(receipt: provost_engine::InputReceipt) -> InputReceipt {
    let provost_engine::InputReceipt { input, task, run, outcome, deduped } = receipt;
    InputReceipt { input, task, run, outcome, deduped }
}

/// A message that nobody has read yet.
pub(crate) fn pending(input: provost_store::query::input::PendingInput) -> PendingInput {
    PendingInput {
        id: input.id,
        task: input.task,
        run: input.run,
        mode: input.mode,
        outcome: input.outcome,
        message: (*input.message).clone(),
        provenance: input.provenance,
        created: Time(input.created),
    }
}

/// What can be said to a run now.
pub(crate) fn interaction(interaction: RunInteraction) -> Interaction {
    let RunInteraction { run, state, execution, approvals, pending: waiting } = interaction;
    let pending = waiting.into_iter().map(pending).collect();
    Interaction { run, state, execution, approvals, pending }
}
