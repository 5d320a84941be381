//! Durable events of journal entries. An event names its message or result; readers of the log add the content.

use std::time::Duration;

use provost_agent::run::JournalEntry;
use provost_core::Money;
use provost_core::durable::{
    ApprovalDecided, ApprovalNeeded, Compacted, DurableEvent, LimitFound, OutputRejected,
    StateChanged, Stopped, ToolFinished, TurnFinished, UserMessage, WaitingStarted,
};

use crate::child::join::is_internal_wait;

/// Turn, step and duration of a journal entry.
pub(super) struct EntryContext {
    /// Number of the turn.
    pub(super) turn: u32,
    /// Step that stores the entry.
    pub(super) step: u64,
    /// Time since this attempt started the tool call of the step.
    pub(super) elapsed: Option<Duration>,
}

/// Returns the event of a journal entry. `None` as the entry means the first message of a run. Returns `None` if the
/// entry has no event.
pub(super) fn event_of(
    entry: Option<&JournalEntry>,
    context: EntryContext,
) -> Option<DurableEvent> {
    let EntryContext { turn, step, elapsed } = context;
    Some(match entry {
        None | Some(JournalEntry::UserMessage { .. }) => DurableEvent::UserMessage(UserMessage {}),
        Some(JournalEntry::ModelResponded { response, .. }) => {
            let (stop, usage) = (response.stop, response.usage);
            DurableEvent::TurnFinished(TurnFinished { turn, stop, usage })
        }
        Some(JournalEntry::ToolFinished { result, .. }) => {
            let call_id = result.call_id.clone();
            let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let duration_ms = elapsed.map(millis);
            DurableEvent::ToolFinished(ToolFinished { step, call_id, duration_ms })
        }
        Some(JournalEntry::ApprovalNeeded { request, .. }) if is_internal_wait(request) => {
            let call_id = request.call.id.clone();
            DurableEvent::WaitingStarted(WaitingStarted { step, call_id })
        }
        Some(JournalEntry::ApprovalNeeded { request, .. }) => {
            DurableEvent::ApprovalNeeded(ApprovalNeeded { request: request.clone() })
        }
        Some(JournalEntry::ApprovalDecided { id, decision }) => {
            let decision = decision.clone();
            DurableEvent::ApprovalDecided(ApprovalDecided { id: *id, decision, by: None })
        }
        Some(JournalEntry::ContextCompacted { messages, .. }) => {
            DurableEvent::Compacted(Compacted { step, pieces: messages.len() as u64 })
        }
        Some(JournalEntry::OutputChecked { problem: Some(problem), .. }) => {
            DurableEvent::OutputRejected(OutputRejected { reason: problem.clone() })
        }
        Some(JournalEntry::HandoffApplied(handoff_entry)) => {
            DurableEvent::HandedOff(handoff_entry.handoff.clone())
        }
        Some(JournalEntry::StateChanged { shared, .. }) if !shared.is_empty() => {
            DurableEvent::StateChanged(StateChanged { changes: shared.clone() })
        }
        Some(JournalEntry::LimitReached { .. }) => DurableEvent::LimitFound(LimitFound { step }),
        Some(JournalEntry::Stopped { reason, .. }) => {
            DurableEvent::Stopped(Stopped { reason: *reason })
        }
        Some(
            JournalEntry::ContextChanged { .. }
            | JournalEntry::LimitDecided { .. }
            | JournalEntry::OutputChecked { problem: None, .. }
            | JournalEntry::ChildUsage { .. }
            | JournalEntry::ChildrenUsage { .. }
            | JournalEntry::Saved
            | JournalEntry::StateChanged { .. }
            | JournalEntry::Suspended { .. }
            | JournalEntry::Resumed { .. },
        ) => return None,
    })
}

/// Returns the cost of a journal entry in millionths. `None` if it has no known cost.
pub(super) fn cost_micros(entry: Option<&JournalEntry>) -> Option<i64> {
    let cost = match entry {
        Some(
            JournalEntry::ModelResponded { cost, .. }
            | JournalEntry::ContextCompacted { cost, .. }
            | JournalEntry::Stopped { cost, .. },
        ) => *cost,
        Some(JournalEntry::HandoffApplied(handoff_entry)) => handoff_entry.cost,
        _ => None,
    };
    cost.map(Money::micros)
}
