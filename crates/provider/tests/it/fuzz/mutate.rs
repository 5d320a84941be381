//! Mutations of responses.

/// Bytes with a meaning for at least one decoder.
const TOKENS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "0",
    "-1e999",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\n\n",
    "\r\n",
    "data: ",
    "event: ",
    "data: [DONE]\n\n",
    "{}",
    "\"index\":4294967295",
    "\"type\":7",
];

/// Deterministic random numbers.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }
}

/// Damages a response.
pub(super) fn mutate(pieces: &mut Vec<Vec<u8>>, chance: &mut Chance) {
    for _ in 0..=chance.below(6) {
        if pieces.is_empty() {
            return;
        }
        let place = chance.below(pieces.len());
        match chance.below(8) {
            0 => drop(pieces.remove(place)),
            1 => pieces.insert(place, pieces[place].clone()),
            2 => pieces.swap(0, place),
            kind => mutate_bytes(&mut pieces[place], kind, chance),
        }
    }
}

pub(super) fn mutate_bytes(bytes: &mut Vec<u8>, kind: usize, chance: &mut Chance) {
    let at = chance.below(bytes.len() + 1);
    match kind {
        3 => bytes.truncate(at),
        4 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
        5 => {
            let token = TOKENS[chance.below(TOKENS.len())].as_bytes();
            bytes.splice(at..at, token.iter().copied());
        }
        6 => {
            let end = (at + chance.below(12)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let from = chance.below(bytes.len() + 1).min(at);
            let again = bytes[from..at].to_vec();
            bytes.splice(at..at, again);
        }
    }
}
