//! Index of all byte sequences that can start a match, keyed by four bytes.
//!
//! Most positions of a text cost one multiplication and one bit test. The comparison ignores case, which causes a few
//! false candidates but avoids a second pass for keywords.
//!
//! A registered secret is indexed by those four of its first bytes that the fewest other patterns share. A thousand
//! keys with a common prefix are therefore not all compared at each occurrence of the prefix.

use std::sync::Arc;

use crate::encode::EncodedSecret;
use crate::keyword::KEYWORD_RULES;
use crate::lookahead::BACK_MAX;
use crate::token_format::TOKEN_FORMATS;

/// Filter bits per key, as a power of two: about one position in a hundred is a false candidate.
const BITS_PER_KEY_LOG2: u32 = 6;
/// Minimum filter size.
const FILTER_BITS_LOG2_MIN: u32 = 15;
/// Maximum filter size. The filter must fit into the processor cache.
const FILTER_BITS_LOG2_MAX: u32 = 21;
/// Maximum offset of the four key bytes in a pattern.
const OFFSET_MAX: usize = BACK_MAX - 1;
/// Mask of all bits of a byte.
const EXACT: u8 = 0xff;
/// Mask without the bit that distinguishes lower case from upper case.
const ANY_CASE: u8 = 0xdf;
/// End of a list, and an unused slot.
const NONE: u32 = u32::MAX;

/// A pattern that may match at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternId {
    /// The registered secret with this number, which starts `offset` bytes before the position.
    Secret { secret: u32, offset: u8 },
    /// The token format with this number.
    TokenFormat(u8),
    /// The keyword with this number.
    Keyword(u8),
}

/// A pattern in the linked list of its key.
#[derive(Debug, Clone, Copy)]
struct PatternEntry {
    pattern: PatternId,
    next: u32,
    tail: Tail,
}

/// The four bytes of a pattern after its key. `mask` selects the bits that a match must have.
#[derive(Debug, Clone, Copy, Default)]
struct Tail {
    bytes: u32,
    mask: u32,
}

/// A key of the hash table, with the list of its patterns.
#[derive(Debug, Clone, Copy)]
struct Slot {
    key: u32,
    /// Latest entry of the list.
    first: u32,
    /// Number of entries.
    count: u32,
}

/// Hash table of all patterns by their first four bytes. It finds the positions at which a pattern may match.
#[derive(Debug, Clone)]
pub(crate) struct PatternIndex {
    filter: Vec<u64>,
    filter_shift: u32,
    slots: Vec<Slot>,
    slot_shift: u32,
    keys: usize,
    entries: Vec<PatternEntry>,
    secrets: Vec<Arc<EncodedSecret>>,
}

impl PatternIndex {
    /// Creates an index of the token formats and keywords, without secrets.
    pub(crate) fn new() -> Self {
        let mut index = Self {
            filter: Vec::new(),
            filter_shift: 0,
            slots: Vec::new(),
            slot_shift: 0,
            keys: 0,
            entries: Vec::new(),
            secrets: Vec::new(),
        };
        index.resize(1 << (FILTER_BITS_LOG2_MIN - BITS_PER_KEY_LOG2 - 1));
        for (number, format) in (0u8..).zip(TOKEN_FORMATS) {
            index.add_prefix(format.prefix.as_bytes(), PatternId::TokenFormat(number), EXACT);
        }
        for (number, rule) in (0u8..).zip(KEYWORD_RULES) {
            index.add_prefix(rule.keyword.as_bytes(), PatternId::Keyword(number), ANY_CASE);
        }
        index
    }

    /// Adds an encoded secret.
    pub(crate) fn add_secret(&mut self, secret: Arc<EncodedSecret>) {
        let Ok(number) = u32::try_from(self.secrets.len()) else { return };
        let windows = secret.bytes.array_windows::<4>().take(OFFSET_MAX + 1);
        let load =
            |(_, window): &(u8, &[u8; 4])| self.slot(fold(**window)).map_or(0, |slot| slot.count);
        let best = (0u8..).zip(windows).min_by_key(load);
        let Some((offset, window)) = best else { return };
        let key = fold(*window);
        let tail = secret.bytes[usize::from(offset) + 4..].first_chunk::<4>();
        let tail = tail.map_or_else(Tail::default, |tail| Tail {
            bytes: u32::from_le_bytes(*tail),
            mask: u32::MAX,
        });
        self.secrets.push(secret);
        self.add(key, PatternId::Secret { secret: number, offset }, tail);
    }

    /// Returns the encoded secret with a number.
    pub(crate) fn secret(&self, number: u32) -> &EncodedSecret {
        &self.secrets[number as usize]
    }

    /// Returns the first position from `from` on at which a pattern may match, and its list of entries. The last three
    /// positions are not checked.
    #[inline]
    pub(crate) fn next(&self, bytes: &[u8], from: usize) -> Option<(usize, u32)> {
        let rest = bytes.get(from..)?;
        let mut at = 0;
        // Tests four positions at once: their keys overlap in eight bytes, and usually none is a candidate. The loop is
        // unrolled by hand, because `array::map` is not inlined at every optimisation level.
        while let Some(eight) = rest[at..].first_chunk::<8>() {
            let folded = u64::from_le_bytes(*eight) | 0x2020_2020_2020_2020;
            let mut passed = self.bit(folded as u32)
                | self.bit((folded >> 8) as u32) << 1
                | self.bit((folded >> 16) as u32) << 2
                | self.bit((folded >> 24) as u32) << 3;
            while passed != 0 {
                let position = passed.trailing_zeros() as usize;
                if let Some(slot) = self.slot((folded >> (8 * position)) as u32) {
                    return Some((from + at + position, slot.first));
                }
                passed &= passed - 1;
            }
            at += 4;
        }
        for (position, window) in rest[at..].array_windows::<4>().enumerate() {
            let key = fold(*window);
            if self.bit(key) != 0
                && let Some(slot) = self.slot(key)
            {
                return Some((from + at + position, slot.first));
            }
        }
        None
    }

    /// Returns the filter bit of a key. Zero means that the key is not in the index.
    #[inline]
    fn bit(&self, key: u32) -> u64 {
        let bit = hash(key) >> self.filter_shift;
        // The bit is always within the filter. The redundant mask removes a bounds check.
        let word = self.filter[(bit >> 6) as usize & (self.filter.len() - 1)];
        word >> (bit & 63) & 1
    }

    /// Returns the patterns that may match at a position that [`PatternIndex::next`] returned.
    pub(crate) fn patterns(
        &self,
        bytes: &[u8],
        position: usize,
        first: u32,
    ) -> impl Iterator<Item = PatternId> + '_ {
        // With fewer than four remaining bytes, every entry is a candidate.
        let tail = bytes.get(position + 4..).and_then(|rest| rest.first_chunk::<4>());
        let tail = tail.map(|tail| u32::from_le_bytes(*tail));
        let mut next = first;
        std::iter::from_fn(move || {
            loop {
                let entry = self.entries.get(next as usize)?;
                next = entry.next;
                if tail.is_none_or(|tail| (tail ^ entry.tail.bytes) & entry.tail.mask == 0) {
                    return Some(entry.pattern);
                }
            }
        })
    }

    /// Returns the slot of a key. `None` if no pattern has the key.
    fn slot(&self, key: u32) -> Option<Slot> {
        let mask = self.slots.len() - 1;
        let mut position = (hash(key) >> self.slot_shift) as usize;
        loop {
            let slot = self.slots[position & mask];
            if slot.first == NONE {
                return None;
            }
            if slot.key == key {
                return Some(slot);
            }
            position += 1;
        }
    }

    /// Adds a pattern with the first four bytes of a prefix as its key; a prefix of three bytes gets all possible
    /// fourth bytes. `bits` is the mask of each further byte.
    fn add_prefix(&mut self, prefix: &[u8], pattern: PatternId, bits: u8) {
        if let Some((window, rest)) = prefix.split_first_chunk::<4>() {
            let (mut tail, mut mask) = ([0; 4], [0; 4]);
            for (position, byte) in rest.iter().take(4).enumerate() {
                (tail[position], mask[position]) = (*byte, bits);
            }
            let tail = Tail { bytes: u32::from_le_bytes(tail), mask: u32::from_le_bytes(mask) };
            return self.add(fold(*window), pattern, tail);
        }
        if let [one, two, three] = *prefix {
            let mut keys: Vec<u32> =
                (0..=u8::MAX).map(|last| fold([one, two, three, last])).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                self.add(key, pattern, Tail::default());
            }
        }
    }

    /// Adds a pattern to the list of its key. Doubles the table if more than half of its slots are used.
    fn add(&mut self, key: u32, pattern: PatternId, tail: Tail) {
        if self.keys * 2 >= self.slots.len() {
            self.resize(self.slots.len() * 2);
        }
        let Ok(number) = u32::try_from(self.entries.len()) else { return };
        let position = self.position(key);
        let slot = &mut self.slots[position];
        if slot.first == NONE {
            self.keys += 1;
        }
        self.entries.push(PatternEntry { pattern, next: slot.first, tail });
        *slot = Slot { key, first: number, count: slot.count + 1 };
        let bit = hash(key) >> self.filter_shift;
        self.filter[(bit >> 6) as usize] |= 1 << (bit & 63);
    }

    /// Returns the slot of a key, or the free slot for it.
    fn position(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut position = (hash(key) >> self.slot_shift) as usize & mask;
        while self.slots[position].first != NONE && self.slots[position].key != key {
            position = (position + 1) & mask;
        }
        position
    }

    /// Creates the table and its filter again with this number of slots, a power of two.
    fn resize(&mut self, slots: usize) {
        let old =
            std::mem::replace(&mut self.slots, vec![Slot { key: 0, first: NONE, count: 0 }; slots]);
        self.slot_shift = 32 - slots.trailing_zeros();
        // At most half of the slots are used.
        let bits = (slots.trailing_zeros() - 1 + BITS_PER_KEY_LOG2)
            .clamp(FILTER_BITS_LOG2_MIN, FILTER_BITS_LOG2_MAX);
        self.filter = vec![0; 1 << (bits - 6)];
        self.filter_shift = 32 - bits;
        for slot in old.into_iter().filter(|slot| slot.first != NONE) {
            let position = self.position(slot.key);
            self.slots[position] = slot;
            let bit = hash(slot.key) >> self.filter_shift;
            self.filter[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
    }
}

/// Returns four bytes as a number, with ASCII letters in lower case.
#[inline]
fn fold(window: [u8; 4]) -> u32 {
    u32::from_le_bytes(window) | 0x2020_2020
}

/// Multiplies the key with a constant that spreads it over the upper bits.
#[inline]
fn hash(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}
