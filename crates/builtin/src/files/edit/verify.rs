//! Determines from the content of a file whether an edit was applied.
//!
//! An edit turns a text in which the old string occurs exactly once into one with the new string at that position. It
//! can have been applied only if reverting some occurrence of the new string yields a text in which the old string
//! occurs exactly once. It can still be pending only if the old string occurs exactly once now. If only one of the two
//! is possible, the status is proven; if both are possible, it is unknown.
//!
//! Invariant: never returns `NotApplied` for a text that the edit produced. The edit would be applied twice.

use memchr::memmem::Finder;

use crate::limits::VERIFY_MATCHES_MAX;

/// Whether an edit was done, as far as the content of the file shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditStatus {
    /// The edit was applied, or the content already has the desired form.
    Applied,
    /// The edit was not applied.
    NotApplied,
    /// The edit was not applied, unless the surrounding text of a deletion combined into the deleted string again.
    ProbablyNotApplied,
    /// Both are possible.
    Unknown,
}

/// Returns whether the content is the result of replacing `old` by `new`.
pub(super) fn edit_status(content: &[u8], old: &[u8], new: &[u8]) -> EditStatus {
    if old.is_empty() {
        // The tool rejects such an edit.
        return EditStatus::NotApplied;
    }
    if new.is_empty() {
        return deletion_status(content, old);
    }
    let may_be_pending = find_positions(content, old, 2).len() == 1;
    let positions = find_positions(content, new, VERIFY_MATCHES_MAX + 1);
    if positions.len() > VERIFY_MATCHES_MAX {
        return EditStatus::Unknown;
    }
    let may_be_applied =
        positions.iter().any(|position| occurs_once_before(content, *position, old, new.len()));
    match (may_be_applied, may_be_pending) {
        (false, _) => EditStatus::NotApplied,
        (true, false) => EditStatus::Applied,
        (true, true) => EditStatus::Unknown,
    }
}

/// Returns whether a deletion was done. If the old string does not occur, reinserting it almost anywhere yields exactly
/// one occurrence, so the deletion can have happened. If it occurs, only reinserting it inside itself could.
fn deletion_status(content: &[u8], old: &[u8]) -> EditStatus {
    match find_positions(content, old, 2)[..] {
        [] => EditStatus::Applied,
        [_] if old.len() == 1 => EditStatus::NotApplied,
        [_] => EditStatus::ProbablyNotApplied,
        // One insertion breaks two occurrences only if they overlap.
        [first, second, ..] if second - first >= old.len() => EditStatus::NotApplied,
        _ => EditStatus::Unknown,
    }
}

/// Returns true if the old string occurs exactly once after it is reinserted at a position.
fn occurs_once_before(content: &[u8], position: usize, old: &[u8], new_length: usize) -> bool {
    let (head, tail) = (&content[..position], &content[position + new_length..]);
    // Only around the position can there be occurrences that the content does not contain.
    let reach = old.len().saturating_sub(1);
    let near_head = &head[head.len() - reach.min(head.len())..];
    let near_tail = &tail[..reach.min(tail.len())];
    let near = [near_head, old, near_tail].concat();
    find_positions(&near, old, 2).len() == 1
        && find_positions(head, old, 1).is_empty()
        && find_positions(tail, old, 1).is_empty()
}

/// Returns the positions of a string, including overlapping ones, up to a maximum number.
pub(super) fn find_positions(content: &[u8], needle: &[u8], positions_max: usize) -> Vec<usize> {
    let finder = Finder::new(needle);
    let mut positions = Vec::new();
    let mut from = 0;
    while positions.len() < positions_max
        && let Some(found) = content.get(from..).and_then(|rest| finder.find(rest))
    {
        positions.push(from + found);
        from += found + 1;
    }
    positions
}
