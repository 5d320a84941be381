//! Vector indexes in the memory of this process, with one byte per vector component.
//!
//! A search scans all vectors of an owner, which is fast enough for hundreds of thousands of memories. The bytes are
//! exact enough to select candidates. The search then compares the candidates with the full vectors in the file. An
//! index follows the file by the owner's change number.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use provost_store::Tx;
use provost_store::table::memory::forgotten;
use provost_store::table::memory::owner::{self, OwnerState};
use provost_store::table::memory::vector::{ChangePosition, changes_after};

use crate::MemoryError;
use crate::memory::Owner;
use crate::rank::mix;

/// Largest quantised value of a component.
const CODE_MAX: f32 = 127.0;
/// The byte that encodes zero. Unsigned bytes need fewer instructions to widen than signed ones.
const CODE_ZERO: i16 = 128;
/// Number of components per loop iteration, which allows the compiler to vectorise the loop.
const LANES: usize = 32;
/// Size of a 32-bit float, in bytes.
const FLOAT_BYTES: usize = 4;

/// Indexes of the recently searched owners.
pub(super) struct VectorIndexCache {
    slots: Mutex<HashMap<i64, Arc<CacheSlot>>>,
    bytes_max: usize,
    clock: AtomicU64,
}

/// Index of one owner, and when it was last used.
#[derive(Default)]
struct CacheSlot {
    index: RwLock<OwnerVectorIndex>,
    last_used: AtomicU64,
    bytes: AtomicUsize,
}

/// Index of the current memories of one owner. Removing a memory may change the position of another.
#[derive(Debug, Default)]
pub(super) struct OwnerVectorIndex {
    seqs: Vec<i64>,
    positions: HashMap<i64, usize>,
    words: Vec<u16>,
    words_total: u64,
    dimensions: usize,
    codes: Vec<u8>,
    scales: Vec<f32>,
    /// Number of the owner's last change that the index contains; `None` before the first read.
    change: Option<i64>,
}

impl VectorIndexCache {
    /// Creates an empty cache. `bytes_max` limits the size of all indexes together.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { slots: Mutex::default(), bytes_max, clock: AtomicU64::default() }
    }

    /// Brings the owner's index up to date and calls `work` with it. Returns `None` for an unknown owner. Drops other
    /// indexes beyond the size limit.
    pub(super) fn with<T>(
        &self,
        tx: &mut Tx<'_>,
        owner: &Owner,
        work: impl FnOnce(&mut Tx<'_>, i64, &OwnerVectorIndex) -> Result<T, MemoryError>,
    ) -> Result<Option<T>, MemoryError> {
        let Some(state) = owner::state(tx, owner.as_str())? else {
            return Ok(None);
        };
        let OwnerState { no, change, .. } = state;
        let slot = self.slot(no);
        let read = || slot.index.read();
        if read().change.is_none_or(|seen| seen < change) {
            let mut index = slot.index.write();
            index.refresh(tx, state)?;
            slot.bytes.store(index.bytes(), Ordering::Relaxed);
            drop(index);
            self.evict(no);
        }
        work(tx, no, &read()).map(Some)
    }

    /// Returns the slot of an owner and marks it as used. Creates an empty one for a new owner.
    fn slot(&self, no: i64) -> Arc<CacheSlot> {
        let mut slots = self.slots.lock();
        let slot = Arc::clone(slots.entry(no).or_default());
        slot.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    /// Drops the least recently used indexes until the others fit into the limit. The index in use remains.
    fn evict(&self, in_use: i64) {
        let mut slots = self.slots.lock();
        let bytes = |slot: &Arc<CacheSlot>| slot.bytes.load(Ordering::Relaxed);
        let mut total: usize = slots.values().map(bytes).sum();
        while total > self.bytes_max {
            let others = slots.iter().filter(|(no, _)| **no != in_use);
            let oldest = others.min_by_key(|(_, slot)| slot.last_used.load(Ordering::Relaxed));
            let Some((no, size)) = oldest.map(|(no, slot)| (*no, bytes(slot))) else {
                return;
            };
            slots.remove(&no);
            total -= size;
        }
    }

    /// Returns the number of cached indexes.
    #[cfg(test)]
    pub(super) fn owners(&self) -> usize {
        self.slots.lock().len()
    }
}

impl OwnerVectorIndex {
    /// Adds and removes the memories that changed since the last read. Reads all memories again if the deletion
    /// records do not reach back that far.
    fn refresh(&mut self, tx: &mut Tx<'_>, state: OwnerState) -> Result<(), MemoryError> {
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
        // If reading fails halfway, the next search reads everything again.
        self.change = None;
        for seq in forgotten::after(tx, no, seen)? {
            self.remove(seq);
        }
        let mut read = ChangePosition { change: seen, seq: i64::MAX };
        loop {
            let changed = changes_after(tx, no, read)?;
            let Some(last) = changed.last() else { break };
            read = ChangePosition { change: last.change, seq: last.seq };
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

    /// Adds or replaces a memory. Fails if its vector has another number of dimensions.
    fn put(&mut self, seq: i64, words: u16, numbers: Option<&[u8]>) -> Result<(), MemoryError> {
        self.remove(seq);
        let vector = numbers.map(from_bytes).unwrap_or_default();
        if !vector.is_empty() && self.dimensions == 0 {
            self.dimensions = vector.len();
            self.codes = vec![0; self.seqs.len() * self.dimensions];
        }
        if !vector.is_empty() && vector.len() != self.dimensions {
            let problem = format!("a vector has {} numbers, not {}", vector.len(), self.dimensions);
            return Err(MemoryError::CorruptFile(problem));
        }
        self.positions.insert(seq, self.seqs.len());
        self.seqs.push(seq);
        self.words.push(words);
        self.words_total += u64::from(words);
        let (scale, codes) = quantise(&vector);
        self.codes.extend(codes.iter().map(|code| (code + CODE_ZERO).to_le_bytes()[0]));
        self.codes.resize(self.seqs.len() * self.dimensions, 0);
        self.scales.push(scale);
        Ok(())
    }

    /// Removes a memory. The last memory moves to its position.
    fn remove(&mut self, seq: i64) {
        let Some(position) = self.positions.remove(&seq) else {
            return;
        };
        let last = self.seqs.len() - 1;
        self.words_total -= u64::from(self.words.swap_remove(position));
        self.seqs.swap_remove(position);
        self.scales.swap_remove(position);
        let size = self.dimensions;
        self.codes.copy_within(last * size..(last + 1) * size, position * size);
        self.codes.truncate(last * size);
        if let Some(moved) = self.seqs.get(position) {
            self.positions.insert(*moved, position);
        }
    }

    /// Returns the approximate size of the index, in bytes.
    fn bytes(&self) -> usize {
        self.codes.len() + self.seqs.len() * 48
    }

    /// Returns the number of memories.
    pub(super) fn len(&self) -> usize {
        self.seqs.len()
    }

    /// Returns the row number of the memory at a position. -1 if there is none.
    pub(super) fn seq(&self, position: usize) -> i64 {
        self.seqs.get(position).copied().unwrap_or(-1)
    }

    /// Returns the position of a memory. `None` if the index does not contain it.
    pub(super) fn position(&self, seq: i64) -> Option<usize> {
        self.positions.get(&seq).copied()
    }

    /// Returns the number of words of the memory at a position. 0 if there is none.
    pub(super) fn words(&self, position: usize) -> u16 {
        self.words.get(position).copied().unwrap_or(0)
    }

    /// Returns the mean number of words of a memory.
    pub(super) fn words_average(&self) -> f32 {
        self.words_total as f32 / self.len().max(1) as f32
    }

    /// Returns the approximate cosine of a unit vector and each memory's vector, in index order.
    pub(super) fn cosines(&self, vector: &[f32]) -> Vec<f32> {
        if self.dimensions == 0 || vector.len() != self.dimensions {
            return vec![0.0; self.len()];
        }
        let (scale, query) = quantise(vector);
        let zero = i32::from(CODE_ZERO) * query.iter().map(|code| i32::from(*code)).sum::<i32>();
        let codes = self.codes.chunks_exact(self.dimensions).zip(&self.scales);
        let cosine = |(codes, own_scale): (&[u8], &f32)| {
            (dot(codes, &query) - zero) as f32 * scale * own_scale
        };
        codes.map(cosine).collect()
    }
}

/// Quantises a vector to integers from -127 to 127. Returns the value of one unit and the integers.
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

/// Returns the inner product of a memory's bytes and a quantised query. The bytes include the offset [`CODE_ZERO`].
fn dot(codes: &[u8], query: &[i16]) -> i32 {
    let mut sums = [0i32; LANES];
    let (wide, rest) = codes.as_chunks::<LANES>();
    let (query_wide, query_rest) = query.as_chunks::<LANES>();
    for (codes, query) in wide.iter().zip(query_wide) {
        for lane in 0..LANES {
            sums[lane] += i32::from(codes[lane]) * i32::from(query[lane]);
        }
    }
    let rest = rest.iter().zip(query_rest).map(|(x, y)| i32::from(*x) * i32::from(*y));
    sums.iter().sum::<i32>() + rest.sum::<i32>()
}

/// Returns the stored form of a vector: little-endian 32-bit floats.
pub(super) fn to_bytes(vector: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(vector.len() * FLOAT_BYTES);
    vector.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
    bytes
}

/// Decodes a stored vector.
pub(super) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let (floats, _) = bytes.as_chunks::<FLOAT_BYTES>();
    floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Returns the words of an owner as FTS5 tokens. The tokens are hashes of the word and the owner, so the words of two
/// owners are never equal.
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

/// Returns a word of an owner as an FTS5 token.
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
            let (asked, mut index) = (vector(), OwnerVectorIndex::default());
            index.put(1, 5, None).unwrap();
            let vectors: Vec<_> = (0..20).map(|_| vector()).collect();
            for (seq, vector) in (2..).zip(&vectors) {
                index.put(seq, 5, Some(&to_bytes(vector))).unwrap();
            }
            index.remove(3);
            assert_eq!((index.len(), index.position(21)), (20, Some(2)), "the last one moved");
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
