//! The vectors of an owner in this process's memory, one byte per number.
//!
//! Looking at all of them is fast enough for hundreds of thousands, and a byte is exact enough to pick candidates, which are
//! then compared with the full vectors of the file. An index follows the file by the owner's change number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use provost_store::Tx;
use provost_store::table::memory::forgotten;
use provost_store::table::memory::owner::{self, OwnerState};
use provost_store::table::memory::vector::{ChangePlace, changes_after};

use crate::MemoryError;
use crate::memory::Owner;
use crate::rank::mix;

/// The largest number that a byte of a vector stands for.
const CODE_MAX: f32 = 127.0;
/// The byte that stands for nothing. Bytes without a sign are widened with fewer instructions.
const CODE_ZERO: i16 = 128;
/// Numbers that are multiplied at once, so that the compiler can use wide registers.
const LANES: usize = 32;
/// Bytes of a 32-bit float.
const FLOAT_BYTES: usize = 4;

/// The indexes of all owners that were searched lately.
pub(super) struct Indexes {
    slots: Mutex<HashMap<i64, Arc<Slot>>>,
    bytes_max: usize,
    clock: AtomicU64,
}

#[derive(Default)]
struct Slot {
    index: RwLock<OwnerIndex>,
    used: AtomicU64,
    bytes: AtomicUsize,
}

/// All current memories of one owner; the memory at each place may move when another one goes.
#[derive(Debug, Default)]
pub(super) struct OwnerIndex {
    seqs: Vec<i64>,
    places: HashMap<i64, usize>,
    words: Vec<u16>,
    words_total: u64,
    dimensions: usize,
    codes: Vec<u8>,
    scales: Vec<f32>,
    /// The change of the owner that it has read; `None` before the first reading.
    change: Option<i64>,
}

impl Indexes {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { slots: Mutex::default(), bytes_max, clock: AtomicU64::default() }
    }

    /// Runs with an index that has everything the transaction can see; `None` if there is no such owner.
    pub(super) fn with<T>(
        &self,
        tx: &mut Tx<'_>,
        owner: &Owner,
        work: impl FnOnce(&mut Tx<'_>, i64, &OwnerIndex) -> Result<T, MemoryError>,
    ) -> Result<Option<T>, MemoryError> {
        let Some(state) = owner::state(tx, owner.as_str())? else {
            return Ok(None);
        };
        let OwnerState { no, change, .. } = state;
        let slot = self.slot(no);
        let read = || slot.index.read().unwrap_or_else(PoisonError::into_inner);
        if read().change.is_none_or(|seen| seen < change) {
            let mut index = slot.index.write().unwrap_or_else(PoisonError::into_inner);
            index.follow(tx, state)?;
            slot.bytes.store(index.bytes(), Ordering::Relaxed);
            drop(index);
            self.evict(no);
        }
        work(tx, no, &read()).map(Some)
    }

    fn slot(&self, no: i64) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(no).or_default());
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    /// Lets go what was not used for longest until the rest fits; the one in use stays.
    fn evict(&self, in_use: i64) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = |slot: &Arc<Slot>| slot.bytes.load(Ordering::Relaxed);
        let mut total: usize = slots.values().map(bytes).sum();
        while total > self.bytes_max {
            let others = slots.iter().filter(|(no, _)| **no != in_use);
            let oldest = others.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed));
            let Some((no, size)) = oldest.map(|(no, slot)| (*no, bytes(slot))) else {
                return;
            };
            slots.remove(&no);
            total -= size;
        }
    }

    #[cfg(test)]
    pub(super) fn owners(&self) -> usize {
        self.slots.lock().unwrap().len()
    }
}

impl OwnerIndex {
    /// Reads what has changed, or everything if that cannot be told.
    fn follow(&mut self, tx: &mut Tx<'_>, state: OwnerState) -> Result<(), MemoryError> {
        let OwnerState { no, change, epoch } = state;
        if self.change.is_some_and(|seen| seen >= change) {
            return Ok(());
        }
        let seen = match self.change {
            Some(seen) if seen >= epoch => seen,
            _ => {
                *self = Self::default();
                -1
            }
        };
        // If reading fails half-way, what was read is read again.
        self.change = None;
        for seq in forgotten::after(tx, no, seen)? {
            self.remove(seq);
        }
        let mut read = ChangePlace { change: seen, seq: i64::MAX };
        loop {
            let changed = changes_after(tx, no, read)?;
            let Some(last) = changed.last() else { break };
            read = ChangePlace { change: last.change, seq: last.seq };
            for memory in &changed {
                match memory.is_current {
                    true => {
                        let words = u16::try_from(memory.words).unwrap_or(u16::MAX);
                        self.put(memory.seq, words, memory.numbers.as_deref())?;
                    }
                    false => self.remove(memory.seq),
                }
            }
        }
        self.change = Some(change);
        Ok(())
    }

    fn put(&mut self, seq: i64, words: u16, numbers: Option<&[u8]>) -> Result<(), MemoryError> {
        self.remove(seq);
        let vector = numbers.map(from_bytes).unwrap_or_default();
        if !vector.is_empty() && self.dimensions == 0 {
            self.dimensions = vector.len();
            self.codes = vec![0; self.seqs.len() * self.dimensions];
        }
        if !vector.is_empty() && vector.len() != self.dimensions {
            let problem = format!("a vector has {} numbers, not {}", vector.len(), self.dimensions);
            return Err(MemoryError::File(problem));
        }
        self.places.insert(seq, self.seqs.len());
        self.seqs.push(seq);
        self.words.push(words);
        self.words_total += u64::from(words);
        let (scale, codes) = quantise(&vector);
        self.codes.extend(codes.iter().map(|code| (code + CODE_ZERO).to_le_bytes()[0]));
        self.codes.resize(self.seqs.len() * self.dimensions, 0);
        self.scales.push(scale);
        Ok(())
    }

    /// Takes a memory out; the last one moves to its place.
    fn remove(&mut self, seq: i64) {
        let Some(place) = self.places.remove(&seq) else {
            return;
        };
        let last = self.seqs.len() - 1;
        self.words_total -= u64::from(self.words.swap_remove(place));
        self.seqs.swap_remove(place);
        self.scales.swap_remove(place);
        let size = self.dimensions;
        self.codes.copy_within(last * size..(last + 1) * size, place * size);
        self.codes.truncate(last * size);
        if let Some(moved) = self.seqs.get(place) {
            self.places.insert(*moved, place);
        }
    }

    fn bytes(&self) -> usize {
        self.codes.len() + self.seqs.len() * 48
    }

    pub(super) fn len(&self) -> usize {
        self.seqs.len()
    }

    pub(super) fn seq(&self, place: usize) -> i64 {
        self.seqs.get(place).copied().unwrap_or(-1)
    }

    pub(super) fn place(&self, seq: i64) -> Option<usize> {
        self.places.get(&seq).copied()
    }

    pub(super) fn words(&self, place: usize) -> u16 {
        self.words.get(place).copied().unwrap_or(0)
    }

    pub(super) fn words_average(&self) -> f32 {
        self.words_total as f32 / self.len().max(1) as f32
    }

    /// About the cosine of a unit vector with each memory's, in the order of the places.
    pub(super) fn cosines(&self, vector: &[f32]) -> Vec<f32> {
        if self.dimensions == 0 || vector.len() != self.dimensions {
            return vec![0.0; self.len()];
        }
        let (scale, asked) = quantise(vector);
        let zero = i32::from(CODE_ZERO) * asked.iter().map(|code| i32::from(*code)).sum::<i32>();
        let codes = self.codes.chunks_exact(self.dimensions).zip(&self.scales);
        codes.map(|(codes, own)| (dot(codes, &asked) - zero) as f32 * scale * own).collect()
    }
}

/// What the number one stands for, and the vector in whole numbers from -127 to 127.
fn quantise(vector: &[f32]) -> (f32, Vec<i16>) {
    let largest = vector.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    if largest == 0.0 {
        return (0.0, vec![0; vector.len()]);
    }
    let scale = largest / CODE_MAX;
    #[expect(clippy::cast_possible_truncation, reason = "rounded and within the range of a byte")]
    let codes = vector.iter().map(|x| (x / scale).round() as i16).collect();
    (scale, codes)
}

/// The inner product of a memory's bytes, their zero included, with a query.
fn dot(codes: &[u8], asked: &[i16]) -> i32 {
    let mut sums = [0i32; LANES];
    let (wide, rest) = codes.as_chunks::<LANES>();
    let (asked_wide, asked_rest) = asked.as_chunks::<LANES>();
    for (codes, asked) in wide.iter().zip(asked_wide) {
        for lane in 0..LANES {
            sums[lane] += i32::from(codes[lane]) * i32::from(asked[lane]);
        }
    }
    let rest = rest.iter().zip(asked_rest).map(|(x, y)| i32::from(*x) * i32::from(*y));
    sums.iter().sum::<i32>() + rest.sum::<i32>()
}

/// A vector as the file keeps it.
pub(super) fn to_bytes(vector: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(vector.len() * FLOAT_BYTES);
    vector.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
    bytes
}

/// A vector from the file.
pub(super) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let (floats, _) = bytes.as_chunks::<FLOAT_BYTES>();
    floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// An owner's words as FTS5 keeps them: numbers in which the owner is mixed in, so that the words of two owners never meet.
pub(super) fn tokens(no: i64, words: &[u64]) -> String {
    let mut text = String::with_capacity(words.len() * 17);
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&token(no, *word));
    }
    text
}

/// One word of an owner.
pub(super) fn token(no: i64, word: u64) -> String {
    format!("{:016x}", mix(word ^ mix(no.unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank;

    #[test]
    fn cosines_of_bytes_are_close_to_those_of_full_vectors() {
        let env = provost_core::Env::simulated(3);
        for dimensions in [7, 32, 100] {
            let vector = || -> Vec<f32> {
                let numbers: Vec<f32> =
                    (0..dimensions).map(|_| env.random_unit() as f32 - 0.5).collect();
                rank::unit(&numbers).unwrap()
            };
            let (asked, mut index) = (vector(), OwnerIndex::default());
            index.put(1, 5, None).unwrap();
            let vectors: Vec<_> = (0..20).map(|_| vector()).collect();
            for (seq, vector) in (2..).zip(&vectors) {
                index.put(seq, 5, Some(&to_bytes(vector))).unwrap();
            }
            index.remove(3);
            assert_eq!((index.len(), index.place(21)), (20, Some(2)), "the last one moved");
            let cosines = index.cosines(&asked);
            assert_eq!(cosines[0], 0.0, "without a vector");
            for (place, cosine) in cosines.iter().enumerate().skip(1) {
                let own = &vectors[usize::try_from(index.seq(place)).unwrap() - 2];
                let exact = rank::dot(own, &asked);
                assert!((cosine - exact).abs() < 0.02, "{cosine} {exact}");
            }
        }
    }
}
