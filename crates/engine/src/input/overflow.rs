//! Overflow of the input queue: which messages are dropped, and their summary.

use provost_core::durable::{DurableEvent, InputsDropped};
use provost_core::lifecycle::{InputKind, InputState, InputTransition, RequestError};
use provost_core::scheduling::OverflowDecision;
use provost_core::text::truncate_chars;
use provost_core::{ContentPart, Message, Role};
use provost_store::Tx;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::RunRow;
use provost_store::table::work::task::TaskRow;

use super::withdraw::{discard_inputs, removable_inputs};
use super::{MessageOrigin, has_begun};
use crate::error::EngineError;
use crate::input::route::{RoutedInput, append_if_live};
use crate::submit::lock_task;
use provost_store::table::work::stored_message as message;

/// First line of a summary.
const HEADING: &str = "Too many messages were pending. These were dropped:";
/// Replaces the oldest lines of a summary that is too long.
const MORE: &str = "- (earlier messages are not listed)";
/// Maximum number of lines in a summary. Older lines are removed first.
const LINES_MAX: usize = 50;
/// Maximum number of characters in a line of a summary.
const LINE_CHARS_MAX: usize = 160;

/// Makes room for a new message by the overflow policy. Returns one line for each dropped message, if the policy
/// summarizes them. Fails if the policy rejects the new message.
pub(super) fn apply_overflow_policy(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    active: &RunRow,
) -> Result<Vec<String>, EngineError> {
    // The first message of a run that has not begun does not count, because the others wait for that run.
    let counts = |row: &InputRow| {
        row.kind != InputKind::Summary && (has_begun(active) || row.run_id != Some(active.id))
    };
    let waiting = removable_inputs(tx, routed.task.id)?;
    let waiting: Vec<InputRow> = waiting.into_iter().filter(counts).collect();
    let (count, summarized) = match routed.settings.overflow(waiting.len()) {
        OverflowDecision::Accept => return Ok(Vec::new()),
        OverflowDecision::Reject => {
            let cap = routed.settings.cap;
            return Err(RequestError::LimitExceeded { what: "the queue of messages", cap }.into());
        }
        OverflowDecision::DropOldest { count, summarize } => (count, summarize),
    };
    let dropped: Vec<InputRow> = waiting.into_iter().take(count).collect();
    let mut lines = Vec::new();
    for row in &dropped {
        lines.push(line(&*message::get(tx, row.message_id)?));
    }
    let ids: Vec<_> = dropped.iter().map(|row| row.id).collect();
    let orphaned = discard_inputs(tx, dropped, InputTransition::Superseded, Some(active.id))?;
    let mut older = Vec::new();
    for summary in orphaned {
        older.extend(lines_of(&*message::get(tx, summary.message_id)?));
    }
    older.append(&mut lines);
    let (policy, cap) = (routed.settings.drop, routed.settings.cap as u64);
    let dropped = InputsDropped { inputs: ids, policy, cap };
    append_if_live(tx, active.id, DurableEvent::InputsDropped(dropped))?;
    let namespace = routed.task.namespace()?;
    routed.task = lock_task(tx, &namespace, routed.task.id)?;
    Ok(if summarized { older } else { Vec::new() })
}

/// Adds dropped messages to the summary before the oldest pending message, and creates the summary if there is none.
/// Does nothing without pending messages.
pub(super) fn summarize(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    dropped: Vec<String>,
) -> Result<(), EngineError> {
    if dropped.is_empty() {
        return Ok(());
    }
    let waiting = input::pending(tx, task.id, u64::from(u32::MAX))?;
    let Some(next) = waiting.iter().find(|row| row.kind != InputKind::Summary) else {
        return Ok(());
    };
    let known =
        waiting.iter().find(|row| row.kind == InputKind::Summary && row.run_id == next.run_id);
    let mut lines = match known {
        Some(row) => lines_of(&*message::get(tx, row.message_id)?),
        None => Vec::new(),
    };
    lines.extend(dropped);
    let now = tx.now();
    let message = Message::new(Role::User, vec![ContentPart::text(text_of(lines))], now);
    let message_id = tx.id();
    message::put(tx, &task.namespace, message_id, &serde_json::to_string(&message)?)?;
    if let Some(row) = known {
        return Ok(input::set_message(tx, row.id, message_id)?);
    }
    let input_number = super::next_number(tx, task)?;
    let id: provost_core::InputId = tx.id();
    let row = InputRow {
        id,
        seq: input_number,
        kind: InputKind::Summary,
        message_id,
        provenance: serde_json::to_string(&MessageOrigin::of(next)?)?,
        request_hash: String::new(),
        idem_key: id.to_string(),
        state: InputState::Pending,
        claimed_epoch: None,
        created: now,
        updated: now,
        ..next.clone()
    };
    row.insert(tx)?;
    Ok(())
}

/// Summarizes a message in one line.
fn line(message: &Message) -> String {
    let text = message.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return "- (no text)".to_owned();
    }
    format!("- {}", truncate_chars(&words.join(" "), LINE_CHARS_MAX))
}

/// Returns the lines of a summary, without its heading.
fn lines_of(summary: &Message) -> Vec<String> {
    summary.text().lines().filter(|line| line.starts_with("- ")).map(str::to_owned).collect()
}

/// Returns the text of a summary with its newest lines.
fn text_of(mut lines: Vec<String>) -> String {
    let is_truncated = lines.len() > LINES_MAX;
    lines.retain(|line| line != MORE);
    let first = lines.len().saturating_sub(LINES_MAX);
    let mut text = HEADING.to_owned();
    if is_truncated || first > 0 {
        text.push('\n');
        text.push_str(MORE);
    }
    for line in &lines[first..] {
        text.push('\n');
        text.push_str(line);
    }
    text
}
