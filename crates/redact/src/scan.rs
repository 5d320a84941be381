//! One pass over a text: every match, each decided for itself, as places that must not be seen.

use crate::encode::Form;
use crate::index::{Anchor, Index};
use crate::label::LABELS;
use crate::peek::{Peek, Short};
use crate::run::{Run, RunKind};
use crate::shape::SHAPES;

/// A match, counted from the place where it was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The first byte that must not be seen.
    pub(crate) start: usize,
    pub(crate) end: End,
}

impl Found {
    /// The same match, counted from another place.
    fn moved(self, by: usize) -> Self {
        let end = match self.end {
            End::After(end) => End::After(by + end),
            End::Run(kind) => End::Run(kind),
        };
        Self { start: by + self.start, end }
    }
}

/// How far a match reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Up to here.
    After(usize),
    /// From its start on as far as such a value reaches.
    Run(RunKind),
}

/// What must not be seen, in places counted from the beginning of the text.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// Each from a first byte up to and without a last.
    pub(crate) spans: Vec<(usize, usize)>,
    /// Values whose end has not come yet. There is at most one of each kind.
    open: Vec<Run>,
    /// How far the latest value of each kind reached: a label within a value of the same kind ends where that ends, and looking
    /// for that end again would make some texts very slow.
    reached: Vec<(RunKind, usize)>,
}

impl Hidden {
    /// Takes bytes that were not there before; `place` is that of the first one.
    pub(crate) fn extend(&mut self, bytes: &[u8], place: usize) {
        let Self { spans, open, reached } = self;
        open.retain_mut(|run| {
            let from = place - run.unsure();
            let end = run.advance(bytes);
            let to = place + end.unwrap_or(bytes.len()) - run.unsure();
            spans.push((from, to));
            note(reached, run.kind, if end.is_some() { to } else { usize::MAX });
            end.is_none()
        });
    }

    fn run(&mut self, kind: RunKind, start: usize, bytes: &[u8]) {
        if self.reached.iter().any(|(known, to)| *known == kind && start < *to) {
            return;
        }
        let mut run = Run::new(kind);
        let end = run.advance(bytes);
        self.spans.push((start, start + end.unwrap_or(bytes.len()) - run.unsure()));
        note(&mut self.reached, kind, end.map_or(usize::MAX, |len| start + len));
        if end.is_none() {
            self.open.push(run);
        }
    }
}

fn note(reached: &mut Vec<(RunKind, usize)>, kind: RunKind, to: usize) {
    match reached.iter_mut().find(|(known, _)| *known == kind) {
        Some(known) => known.1 = to,
        None => reached.push((kind, to)),
    }
}

/// A text, or as much of it as there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) bytes: &'a [u8],
    /// The place of the first byte in the whole text.
    pub(crate) base: usize,
    /// True if nothing comes after it.
    pub(crate) is_end: bool,
}

/// Looks for matches from `from` on. Returns how far it came: what starts there cannot be decided yet.
pub(crate) fn scan(index: &Index, part: Part<'_>, from: usize, hidden: &mut Hidden) -> usize {
    let mut at = from;
    let mut found = Vec::new();
    while let Some((place, first)) = index.next(part.bytes, at) {
        // All or nothing: what was decided at a place is not decided there a second time.
        found.clear();
        for anchor in index.anchors(part.bytes, place, first) {
            match decide(index, anchor, place, part) {
                Ok(match_here) => found.extend(match_here),
                Err(Short) => return place,
            }
        }
        for found in found.drain(..) {
            let start = part.base + found.start;
            match found.end {
                End::After(end) => hidden.spans.push((start, part.base + end)),
                End::Run(kind) => hidden.run(kind, start, &part.bytes[found.start..]),
            }
        }
        at = place + 1;
    }
    match part.is_end {
        true => part.bytes.len(),
        false => part.bytes.len().saturating_sub(3).max(at),
    }
}

/// Whether there is a match at a place, counted from the beginning of the part.
fn decide(
    index: &Index,
    anchor: Anchor,
    place: usize,
    part: Part<'_>,
) -> Result<Option<Found>, Short> {
    let peek = Peek::new(part.bytes, place, part.is_end);
    let found = match anchor {
        Anchor::Learned { form, offset } => {
            let Some(start) = place.checked_sub(usize::from(offset)) else { return Ok(None) };
            return learned(index.form(form), start, part);
        }
        Anchor::Shape(number) => SHAPES[usize::from(number)].find(&peek)?,
        Anchor::Label(number) => LABELS[usize::from(number)].find(&peek)?,
    };
    Ok(found.map(|found| found.moved(place)))
}

fn learned(form: &Form, start: usize, part: Part<'_>) -> Result<Option<Found>, Short> {
    let peek = Peek::new(part.bytes, start, part.is_end);
    if !peek.has(0, &form.bytes)? {
        return Ok(None);
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    let before = usize::from(form.before > 0 && peek.back(1).is_some_and(is_base64));
    let end = form.bytes.len();
    let after = usize::from(form.after > 0 && peek.at(end)?.is_some_and(is_base64));
    Ok(Some(Found { start: start - before, end: End::After(start + end + after) }))
}
