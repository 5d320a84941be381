//! How well a memory answers a query: a pure rule that every store follows.
//!
//! - **Meaning**: the cosine of the two vectors, nothing below zero.
//! - **Words**: BM25 over the owner's own memories, each word counted once per memory, divided by the most a memory could get;
//!   so 1 means every word of the query that any memory holds, in the shortest memory there can be.
//! - **Both**: `weight · meaning + (1 - weight) · words`.
//!
//! A word that more memories hold than [`common_above`] says nothing about any of them and does not count, and neither do
//! English words that only join others: an owner of few memories has no way to tell them.

use std::sync::LazyLock;

/// How fast a long memory loses against a short one.
const LENGTH_SHARE: f32 = 0.75;
/// How much the length matters at all.
const SATURATION: f32 = 1.2;
/// Words of a query that count; further ones are left out.
const QUERY_WORDS_MAX: usize = 32;
/// A word in no more memories than this is never common.
const COMMON_MIN: usize = 1000;
/// A word in more than one of so many memories is common.
const COMMON_SHARE: usize = 25;
/// The weight of meaning against words unless the query says otherwise.
pub const VECTOR_WEIGHT_DEFAULT: f32 = 0.7;

/// English words that say nothing alone.
const JOINING: &str = "a about all also am an and any are as at be been but by can could did do does for from had has have he \
    her hers him his how i if in into is it its just me my no not of on or our she should so some than that the their them \
    then there these they this those to too up us was we were what when where which who whom why will with would you your";

/// The words of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Words {
    /// Each distinct word as a number, ascending.
    pub(crate) distinct: Vec<u64>,
    /// All words, with repetitions.
    pub(crate) count: u16,
}

/// The words of a text: runs of letters and digits, in lower case, without the plural; scripts without spaces by sign.
pub(crate) fn words(text: &str) -> Words {
    let mut distinct = Vec::new();
    let mut word = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        let alone = is_spaceless(c);
        if (alone || !c.is_alphanumeric()) && !word.is_empty() {
            distinct.push(number(&std::mem::take(&mut word)));
        }
        if alone {
            distinct.push(number(c.encode_utf8(&mut [0; 4])));
        } else if c.is_alphanumeric() {
            word.push(c);
        }
    }
    if !word.is_empty() {
        distinct.push(number(&word));
    }
    let count = u16::try_from(distinct.len()).unwrap_or(u16::MAX);
    distinct.sort_unstable();
    distinct.dedup();
    Words { distinct, count }
}

/// The words of a query that count; if there are only words that say nothing, these.
pub(crate) fn query_words(text: &str) -> Vec<u64> {
    static SAY_NOTHING: LazyLock<Vec<u64>> = LazyLock::new(|| words(JOINING).distinct);
    let mut all = words(text).distinct;
    if all.iter().any(|word| SAY_NOTHING.binary_search(word).is_err()) {
        all.retain(|word| SAY_NOTHING.binary_search(word).is_err());
    }
    all.truncate(QUERY_WORDS_MAX);
    all
}

/// Scripts that put no space between words: each sign is a word.
fn is_spaceless(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// The word without its English plural, as a number that is the same everywhere and forever: stores keep it.
fn number(word: &str) -> u64 {
    let stem = match word {
        _ if word.len() <= 3 => word.as_bytes(),
        _ if word.ends_with("ies") => return fnv(&[&word.as_bytes()[..word.len() - 3], b"y"]),
        _ if word.ends_with("ss") || word.ends_with("us") => word.as_bytes(),
        _ => word.strip_suffix('s').unwrap_or(word).as_bytes(),
    };
    fnv(&[stem])
}

/// FNV-1a of 64 bits, mixed once more.
fn fnv(pieces: &[&[u8]]) -> u64 {
    let bytes = pieces.iter().flat_map(|piece| piece.iter());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(hash)
}

/// Spreads the bits of a number.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number ^ (number >> 30);
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A word that more of an owner's memories hold than this is common.
pub(crate) fn common_above(memories: usize) -> usize {
    COMMON_MIN.max(memories / COMMON_SHARE)
}

/// The words of a query, weighed by how rare they are among one owner's memories.
#[derive(Debug, Clone)]
pub(crate) struct Lexicon {
    /// The weight of each word; `None` for one that is common or that no memory holds.
    weights: Vec<Option<f32>>,
    best: f32,
    average: f32,
}

impl Lexicon {
    /// `holders` says for each word how many memories hold it; `average` is the mean number of words of a memory.
    pub(crate) fn new(holders: &[usize], memories: usize, average: f32) -> Self {
        let weigh = |holders: usize| {
            let (all, holders) = (memories.max(holders) as f32, holders as f32);
            (1.0 + (all - holders + 0.5) / (holders + 0.5)).ln()
        };
        let above = common_above(memories);
        let counts = |holders: usize| (1..=above).contains(&holders);
        let weights: Vec<_> =
            holders.iter().map(|holders| counts(*holders).then(|| weigh(*holders))).collect();
        let best = weights.iter().flatten().sum::<f32>() * share(0.0);
        Self { weights, best, average: average.max(1.0) }
    }

    /// What a memory of so many words gets for holding the word at this place of the query.
    pub(crate) fn score(&self, place: usize, words: u16) -> f32 {
        let Some(Some(weight)) = self.weights.get(place) else {
            return 0.0;
        };
        weight * share(f32::from(words) / self.average) / self.best
    }
}

fn share(relative_length: f32) -> f32 {
    1.0 / (1.0 + SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * relative_length))
}

/// Meaning and words as one number between 0 and 1; what the query does not ask for does not count.
pub(crate) fn combine(meaning: Option<f32>, words: Option<f32>, weight: f32) -> f32 {
    match (meaning, words) {
        (Some(meaning), Some(words)) => weight * meaning.max(0.0) + (1.0 - weight) * words,
        (Some(meaning), None) => meaning.max(0.0),
        (None, Some(words)) => words,
        (None, None) => 0.0,
    }
}

/// The vector with length one; `None` if it has no direction.
pub(crate) fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    let length = dot(vector, vector).sqrt();
    (length.is_finite() && length > f32::MIN_POSITIVE)
        .then(|| vector.iter().map(|x| x / length).collect())
}

/// The inner product, in several sums at once so that the compiler can use wide registers.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0f32; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests;
