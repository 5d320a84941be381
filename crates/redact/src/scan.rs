//! One pass over a text that finds all matches independently of each other.

use crate::encode::EncodedSecret;
use crate::index::{PatternId, PatternIndex};
use crate::keyword::KEYWORD_RULES;
use crate::lookahead::{Lookahead, NeedMoreInput};
use crate::token_format::TOKEN_FORMATS;
use crate::value_scanner::{ValueKind, ValueScanner};

/// A match. Positions are relative to the position of the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    /// First byte to redact.
    pub(crate) start: usize,
    pub(crate) end: MatchEnd,
}

impl Match {
    /// Adds an offset to the positions.
    fn offset_by(self, by: usize) -> Self {
        let end = match self.end {
            MatchEnd::Offset(end) => MatchEnd::Offset(by + end),
            MatchEnd::Value(kind) => MatchEnd::Value(kind),
        };
        Self { start: by + self.start, end }
    }
}

/// End of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MatchEnd {
    /// Position after the last byte.
    Offset(usize),
    /// The end of a value of this kind that begins at the start of the match.
    Value(ValueKind),
}

/// Spans to redact, in positions of the complete text.
#[derive(Debug, Default)]
pub(crate) struct RedactedSpans {
    /// Half-open ranges of bytes.
    pub(crate) spans: Vec<(usize, usize)>,
    /// Values whose end has not arrived yet, at most one per kind.
    open: Vec<ValueScanner>,
    /// End of the latest value of each kind. A keyword inside a value of the same kind ends at the same position, and
    /// scanning to that end again could take quadratic time.
    reached: Vec<(ValueKind, usize)>,
}

impl RedactedSpans {
    /// Extends the values whose end has not arrived with new bytes. `position` is the position of the first byte in
    /// the complete text.
    pub(crate) fn extend(&mut self, bytes: &[u8], position: usize) {
        let Self { spans, open, reached } = self;
        open.retain_mut(|scanner| {
            let from = position - scanner.undecided();
            let end = scanner.advance(bytes);
            let to = position + end.unwrap_or(bytes.len()) - scanner.undecided();
            spans.push((from, to));
            set_reached(reached, scanner.kind, if end.is_some() { to } else { usize::MAX });
            end.is_none()
        });
    }

    /// Adds the span of a value that starts at `start`. If its end is not in `bytes`, the span grows with the next
    /// call of [`RedactedSpans::extend`]. Does nothing inside the latest value of the same kind.
    fn add_value(&mut self, kind: ValueKind, start: usize, bytes: &[u8]) {
        if self.reached.iter().any(|(entry, to)| *entry == kind && start < *to) {
            return;
        }
        let mut scanner = ValueScanner::new(kind);
        let end = scanner.advance(bytes);
        self.spans.push((start, start + end.unwrap_or(bytes.len()) - scanner.undecided()));
        set_reached(&mut self.reached, kind, end.map_or(usize::MAX, |len| start + len));
        if end.is_none() {
            self.open.push(scanner);
        }
    }
}

/// Records the end of the latest value of a kind.
fn set_reached(reached: &mut Vec<(ValueKind, usize)>, kind: ValueKind, to: usize) {
    match reached.iter_mut().find(|(entry, _)| *entry == kind) {
        Some(entry) => entry.1 = to,
        None => reached.push((kind, to)),
    }
}

/// A text, or the available part of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    /// Position of the first byte in the complete text.
    pub(crate) base: usize,
    /// True if no bytes follow.
    pub(crate) is_end: bool,
}

/// Searches for matches from position `from` of the chunk and adds them to `redacted`. Returns the first position that
/// cannot be decided without more text.
pub(crate) fn scan(
    index: &PatternIndex,
    chunk: Chunk<'_>,
    from: usize,
    redacted: &mut RedactedSpans,
) -> usize {
    let mut at = from;
    let mut found = Vec::new();
    while let Some((position, first)) = index.next(chunk.bytes, at) {
        // A position is decided completely or not at all, so that no match is reported twice.
        found.clear();
        for pattern in index.patterns(chunk.bytes, position, first) {
            match match_pattern(index, pattern, position, chunk) {
                Ok(match_here) => found.extend(match_here),
                Err(NeedMoreInput) => return position,
            }
        }
        for found in found.drain(..) {
            let start = chunk.base + found.start;
            match found.end {
                MatchEnd::Offset(end) => redacted.spans.push((start, chunk.base + end)),
                MatchEnd::Value(kind) => {
                    redacted.add_value(kind, start, &chunk.bytes[found.start..])
                }
            }
        }
        at = position + 1;
    }
    match chunk.is_end {
        true => chunk.bytes.len(),
        false => chunk.bytes.len().saturating_sub(3).max(at),
    }
}

/// Returns the match of a pattern, in positions of the chunk.
fn match_pattern(
    index: &PatternIndex,
    pattern: PatternId,
    position: usize,
    chunk: Chunk<'_>,
) -> Result<Option<Match>, NeedMoreInput> {
    let lookahead = Lookahead::new(chunk.bytes, position, chunk.is_end);
    let found = match pattern {
        PatternId::Secret { secret, offset } => {
            let Some(start) = position.checked_sub(usize::from(offset)) else { return Ok(None) };
            return match_secret(index.secret(secret), start, chunk);
        }
        PatternId::TokenFormat(number) => TOKEN_FORMATS[usize::from(number)].find(&lookahead)?,
        PatternId::Keyword(number) => KEYWORD_RULES[usize::from(number)].find(&lookahead)?,
    };
    Ok(found.map(|found| found.offset_by(position)))
}

/// Returns the match of a registered secret at `start`. `None` if the text differs. In base64 text, the characters
/// next to the secret belong to the match.
fn match_secret(
    secret: &EncodedSecret,
    start: usize,
    chunk: Chunk<'_>,
) -> Result<Option<Match>, NeedMoreInput> {
    let lookahead = Lookahead::new(chunk.bytes, start, chunk.is_end);
    if !lookahead.has(0, &secret.bytes)? {
        return Ok(None);
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    let before = usize::from(secret.before > 0 && lookahead.back(1).is_some_and(is_base64));
    let end = secret.bytes.len();
    let after = usize::from(secret.after > 0 && lookahead.at(end)?.is_some_and(is_base64));
    Ok(Some(Match { start: start - before, end: MatchEnd::Offset(start + end + after) }))
}
