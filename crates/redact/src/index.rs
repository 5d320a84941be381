//! Where to look closer: every text that can start a match, found by four of its bytes.
//!
//! Most places of a text are passed over with one multiplication and one bit. The four bytes are compared without case, which
//! costs a few looks in vain and spares a second pass for labels.
//!
//! A learned form is found by the four bytes among its first ones that the fewest others are found by, so that a thousand keys
//! with one beginning do not all have to be compared wherever that beginning stands.

use std::sync::Arc;

use crate::encode::Form;
use crate::label::LABELS;
use crate::peek::BACK_MAX;
use crate::shape::SHAPES;

/// Bits of the filter per key, as a power of two: about one in a hundred places passes in vain.
const BITS_PER_KEY_LOG2: u32 = 6;
/// The smallest filter.
const FILTER_BITS_LOG2_MIN: u32 = 15;
/// The largest filter: it must stay near the processor.
const FILTER_BITS_LOG2_MAX: u32 = 21;
/// How far into a form its four bytes may be.
const OFFSET_MAX: usize = BACK_MAX - 1;
/// All bits of a byte count.
const EXACT: u8 = 0xff;
/// All but the one in which a small letter differs from a capital.
const ANY_CASE: u8 = 0xdf;
/// Marks the end of a list, and a slot that nobody uses.
const NONE: u32 = u32::MAX;

/// What may start at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The form with this number, so many bytes before.
    Learned { form: u32, offset: u8 },
    /// The shape with this number.
    Shape(u8),
    /// The label with this number.
    Label(u8),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    anchor: Anchor,
    next: u32,
    tail: Tail,
}

/// The four bytes behind a key, as far as `mask` says that they are known.
#[derive(Debug, Clone, Copy, Default)]
struct Tail {
    bytes: u32,
    mask: u32,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    key: u32,
    /// The latest entry of its list.
    first: u32,
    /// How many there are.
    count: u32,
}

/// Every text that can start a match.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    filter: Vec<u64>,
    filter_shift: u32,
    slots: Vec<Slot>,
    slot_shift: u32,
    keys: usize,
    entries: Vec<Entry>,
    forms: Vec<Arc<Form>>,
}

impl Index {
    /// Shapes and labels, and nothing learned.
    pub(crate) fn new() -> Self {
        let mut index = Self {
            filter: Vec::new(),
            filter_shift: 0,
            slots: Vec::new(),
            slot_shift: 0,
            keys: 0,
            entries: Vec::new(),
            forms: Vec::new(),
        };
        index.resize(1 << (FILTER_BITS_LOG2_MIN - BITS_PER_KEY_LOG2 - 1));
        for (number, shape) in (0u8..).zip(SHAPES) {
            index.add_prefix(shape.prefix.as_bytes(), Anchor::Shape(number), EXACT);
        }
        for (number, label) in (0u8..).zip(LABELS) {
            index.add_prefix(label.word.as_bytes(), Anchor::Label(number), ANY_CASE);
        }
        index
    }

    /// Adds a form that was learned.
    pub(crate) fn add_form(&mut self, form: Arc<Form>) {
        let Ok(number) = u32::try_from(self.forms.len()) else { return };
        let windows = form.bytes.array_windows::<4>().take(OFFSET_MAX + 1);
        let crowd =
            |(_, window): &(u8, &[u8; 4])| self.slot(fold(**window)).map_or(0, |slot| slot.count);
        let best = (0u8..).zip(windows).min_by_key(crowd);
        let Some((offset, window)) = best else { return };
        let key = fold(*window);
        let tail = form.bytes[usize::from(offset) + 4..].first_chunk::<4>();
        let tail = tail.map_or_else(Tail::default, |tail| Tail {
            bytes: u32::from_le_bytes(*tail),
            mask: u32::MAX,
        });
        self.forms.push(form);
        self.add(key, Anchor::Learned { form: number, offset }, tail);
    }

    /// The form with the number.
    pub(crate) fn form(&self, number: u32) -> &Form {
        &self.forms[number as usize]
    }

    /// The first place from `from` on where something may start, and the list of it. Places with fewer than four bytes are left.
    #[inline]
    pub(crate) fn next(&self, bytes: &[u8], from: usize) -> Option<(usize, u32)> {
        let rest = bytes.get(from..)?;
        let mut at = 0;
        // Four places at once: their keys overlap in eight bytes, and mostly none of them passes. It is written out, because
        // what maps over an array is not put in line by every way to compile this.
        while let Some(eight) = rest[at..].first_chunk::<8>() {
            let folded = u64::from_le_bytes(*eight) | 0x2020_2020_2020_2020;
            let mut passed = self.bit(folded as u32)
                | self.bit((folded >> 8) as u32) << 1
                | self.bit((folded >> 16) as u32) << 2
                | self.bit((folded >> 24) as u32) << 3;
            while passed != 0 {
                let place = passed.trailing_zeros() as usize;
                if let Some(slot) = self.slot((folded >> (8 * place)) as u32) {
                    return Some((from + at + place, slot.first));
                }
                passed &= passed - 1;
            }
            at += 4;
        }
        for (place, window) in rest[at..].array_windows::<4>().enumerate() {
            let key = fold(*window);
            if self.bit(key) != 0
                && let Some(slot) = self.slot(key)
            {
                return Some((from + at + place, slot.first));
            }
        }
        None
    }

    /// Whether a key may be there: the filter's bit for it.
    #[inline]
    fn bit(&self, key: u32) -> u64 {
        let bit = hash(key) >> self.filter_shift;
        // The bit is within the filter; saying so once more spares a branch.
        let word = self.filter[(bit >> 6) as usize & (self.filter.len() - 1)];
        word >> (bit & 63) & 1
    }

    /// What may start at a place that [`Index::next`] found.
    pub(crate) fn anchors(
        &self,
        bytes: &[u8],
        place: usize,
        first: u32,
    ) -> impl Iterator<Item = Anchor> + '_ {
        // Without four bytes to compare everything may start here.
        let tail = bytes.get(place + 4..).and_then(|rest| rest.first_chunk::<4>());
        let tail = tail.map(|tail| u32::from_le_bytes(*tail));
        let mut next = first;
        std::iter::from_fn(move || {
            loop {
                let entry = self.entries.get(next as usize)?;
                next = entry.next;
                if tail.is_none_or(|tail| (tail ^ entry.tail.bytes) & entry.tail.mask == 0) {
                    return Some(entry.anchor);
                }
            }
        })
    }

    fn slot(&self, key: u32) -> Option<Slot> {
        let mask = self.slots.len() - 1;
        let mut place = (hash(key) >> self.slot_shift) as usize;
        loop {
            let slot = self.slots[place & mask];
            if slot.first == NONE {
                return None;
            }
            if slot.key == key {
                return Some(slot);
            }
            place += 1;
        }
    }

    /// Adds an anchor under the first four bytes of a prefix; one of three bytes under all that may follow it. `bits` are those
    /// of each further byte that count.
    fn add_prefix(&mut self, prefix: &[u8], anchor: Anchor, bits: u8) {
        if let Some((window, rest)) = prefix.split_first_chunk::<4>() {
            let (mut tail, mut mask) = ([0; 4], [0; 4]);
            for (place, byte) in rest.iter().take(4).enumerate() {
                (tail[place], mask[place]) = (*byte, bits);
            }
            let tail = Tail { bytes: u32::from_le_bytes(tail), mask: u32::from_le_bytes(mask) };
            return self.add(fold(*window), anchor, tail);
        }
        if let [one, two, three] = *prefix {
            let mut keys: Vec<u32> =
                (0..=u8::MAX).map(|last| fold([one, two, three, last])).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                self.add(key, anchor, Tail::default());
            }
        }
    }

    fn add(&mut self, key: u32, anchor: Anchor, tail: Tail) {
        if self.keys * 2 >= self.slots.len() {
            self.resize(self.slots.len() * 2);
        }
        let Ok(number) = u32::try_from(self.entries.len()) else { return };
        let place = self.place(key);
        let slot = &mut self.slots[place];
        if slot.first == NONE {
            self.keys += 1;
        }
        self.entries.push(Entry { anchor, next: slot.first, tail });
        *slot = Slot { key, first: number, count: slot.count + 1 };
        let bit = hash(key) >> self.filter_shift;
        self.filter[(bit >> 6) as usize] |= 1 << (bit & 63);
    }

    /// The slot of a key, or the free one where it belongs.
    fn place(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = (hash(key) >> self.slot_shift) as usize & mask;
        while self.slots[place].first != NONE && self.slots[place].key != key {
            place = (place + 1) & mask;
        }
        place
    }

    fn resize(&mut self, slots: usize) {
        let old =
            std::mem::replace(&mut self.slots, vec![Slot { key: 0, first: NONE, count: 0 }; slots]);
        self.slot_shift = 32 - slots.trailing_zeros();
        // Half of the slots are keys.
        let bits = (slots.trailing_zeros() - 1 + BITS_PER_KEY_LOG2)
            .clamp(FILTER_BITS_LOG2_MIN, FILTER_BITS_LOG2_MAX);
        self.filter = vec![0; 1 << (bits - 6)];
        self.filter_shift = 32 - bits;
        for slot in old.into_iter().filter(|slot| slot.first != NONE) {
            let place = self.place(slot.key);
            self.slots[place] = slot;
            let bit = hash(slot.key) >> self.filter_shift;
            self.filter[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
    }
}

/// Four bytes as a number, letters without their case.
#[inline]
fn fold(window: [u8; 4]) -> u32 {
    u32::from_le_bytes(window) | 0x2020_2020
}

#[inline]
fn hash(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}
