//! Whether an edit has happened, told from nothing but the content of the file.
//!
//! An edit turns a text in which the old piece occurs exactly once into one with the new piece at that place. So it can have
//! happened only if some occurrence of the new piece, put back, gives a text in which the old piece occurs exactly once. It can
//! still be to come only if the old piece occurs exactly once now. If only one of the two is possible, that is the proof; if
//! both are, nobody can say.
//!
//! Invariant: never `NotDone` for a text that the edit has made. That answer would apply it twice.

use memchr::memmem::Finder;

use crate::limits::PROOF_PLACES_MAX;

/// What the content says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// It has happened, or what it wanted is there anyway.
    Done,
    /// It has not happened.
    NotDone,
    /// It has not happened, unless a deletion put the deleted piece together anew out of what was around it.
    Unlikely,
    /// Both are possible.
    Unsure,
}

/// Looks at the content for traces of an edit.
pub(super) fn past(content: &[u8], old: &[u8], new: &[u8]) -> Past {
    if old.is_empty() {
        // Such an edit is refused.
        return Past::NotDone;
    }
    if new.is_empty() {
        return past_of_deletion(content, old);
    }
    let is_to_come = matches(content, old, 2).len() == 1;
    let places = matches(content, new, PROOF_PLACES_MAX + 1);
    if places.len() > PROOF_PLACES_MAX {
        return Past::Unsure;
    }
    let can_have_happened =
        places.iter().any(|place| occurs_once_before(content, *place, old, new.len()));
    match (can_have_happened, is_to_come) {
        (false, _) => Past::NotDone,
        (true, false) => Past::Done,
        (true, true) => Past::Unsure,
    }
}

/// A deletion can have been anywhere: where the old piece does not occur, putting it back almost everywhere gives exactly one.
/// Where it occurs, only putting it back inside of itself could.
fn past_of_deletion(content: &[u8], old: &[u8]) -> Past {
    match matches(content, old, 2)[..] {
        [] => Past::Done,
        [_] if old.len() == 1 => Past::NotDone,
        [_] => Past::Unlikely,
        // One insertion breaks two occurrences only where they overlap.
        [first, second, ..] if second - first >= old.len() => Past::NotDone,
        _ => Past::Unsure,
    }
}

/// Does the old piece occur exactly once if it is put back at a place?
fn occurs_once_before(content: &[u8], place: usize, old: &[u8], new_length: usize) -> bool {
    let (head, tail) = (&content[..place], &content[place + new_length..]);
    // Only around the place can there be occurrences that the content does not have itself.
    let reach = old.len().saturating_sub(1);
    let near_head = &head[head.len() - reach.min(head.len())..];
    let near_tail = &tail[..reach.min(tail.len())];
    let near = [near_head, old, near_tail].concat();
    matches(&near, old, 2).len() == 1
        && matches(head, old, 1).is_empty()
        && matches(tail, old, 1).is_empty()
}

/// Where a piece occurs, also where its occurrences overlap; at most so many.
pub(super) fn matches(content: &[u8], piece: &[u8], places_max: usize) -> Vec<usize> {
    let finder = Finder::new(piece);
    let mut places = Vec::new();
    let mut from = 0;
    while places.len() < places_max
        && let Some(found) = content.get(from..).and_then(|rest| finder.find(rest))
    {
        places.push(from + found);
        from += found + 1;
    }
    places
}
