//! Relevance of a memory to a query. Every store uses these pure functions.
//!
//! - **Meaning score**: the cosine of the two embeddings, at least 0.
//! - **Word score**: BM25 over the owner's memories, with each word counted once per memory, divided by the highest
//!   possible value. A score of 1 means that a memory of minimal length contains every query word that occurs in any
//!   memory.
//! - **Combined score**: `weight · meaning + (1 - weight) · words`.
//!
//! A word does not count if more memories than [`common_above`] contain it. English function words never count,
//! because an owner with few memories has too little data to detect them.

use std::sync::LazyLock;

/// BM25 parameter `b`: strength of the length normalisation.
const LENGTH_NORMALISATION: f32 = 0.75;
/// BM25 parameter `k1`: saturation of the term frequency.
const SATURATION: f32 = 1.2;
/// Maximum number of query words. Further words are ignored.
const QUERY_WORDS_MAX: usize = 32;
/// Number of memories up to which a word is never common.
const COMMON_MIN: usize = 1000;
/// A word is common if more than one in this number of memories contains it.
const COMMON_RATIO: usize = 25;
/// Default weight of the embedding against the words.
pub const VECTOR_WEIGHT_DEFAULT: f32 = 0.7;

/// English function words.
const FUNCTION_WORDS: &str = "a about all also am an and any are as at be been but by can could did do does for from had has have he \
    her hers him his how i if in into is it its just me my no not of on or our she should so some than that the their them \
    then there these they this those to too up us was we were what when where which who whom why will with would you your";

/// Words of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TokenSet {
    /// Hashes of the distinct words, in ascending order.
    pub(crate) distinct: Vec<u64>,
    /// Number of words, including repetitions.
    pub(crate) count: u16,
}

/// Splits a text into words: sequences of letters and digits, in lower case and without the English plural. In
/// scripts without spaces, each character is a word.
pub(crate) fn words(text: &str) -> TokenSet {
    let mut distinct = Vec::new();
    let mut word = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        let is_single = is_spaceless(c);
        if (is_single || !c.is_alphanumeric()) && !word.is_empty() {
            distinct.push(word_hash(&std::mem::take(&mut word)));
        }
        if is_single {
            distinct.push(word_hash(c.encode_utf8(&mut [0; 4])));
        } else if c.is_alphanumeric() {
            word.push(c);
        }
    }
    if !word.is_empty() {
        distinct.push(word_hash(&word));
    }
    let count = u16::try_from(distinct.len()).unwrap_or(u16::MAX);
    distinct.sort_unstable();
    distinct.dedup();
    TokenSet { distinct, count }
}

/// Returns the hashes of the words of a query without function words. A query of function words only keeps all its
/// words.
pub(crate) fn query_words(text: &str) -> Vec<u64> {
    static FUNCTION_WORD_HASHES: LazyLock<Vec<u64>> =
        LazyLock::new(|| words(FUNCTION_WORDS).distinct);
    let mut all = words(text).distinct;
    if all.iter().any(|word| FUNCTION_WORD_HASHES.binary_search(word).is_err()) {
        all.retain(|word| FUNCTION_WORD_HASHES.binary_search(word).is_err());
    }
    all.truncate(QUERY_WORDS_MAX);
    all
}

/// Returns true for characters of scripts that are written without spaces.
fn is_spaceless(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// Returns the hash of a word without its English plural. Stores persist the hashes, so they must never change.
fn word_hash(word: &str) -> u64 {
    let stem = match word {
        _ if word.len() <= 3 => word.as_bytes(),
        _ if word.ends_with("ies") => return fnv(&[&word.as_bytes()[..word.len() - 3], b"y"]),
        _ if word.ends_with("ss") || word.ends_with("us") => word.as_bytes(),
        _ => word.strip_suffix('s').unwrap_or(word).as_bytes(),
    };
    fnv(&[stem])
}

/// Returns the 64-bit FNV-1a hash of the concatenated pieces, mixed by [`mix`].
fn fnv(pieces: &[&[u8]]) -> u64 {
    let bytes = pieces.iter().flat_map(|piece| piece.iter());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(hash)
}

/// Distributes the bits of a number (SplitMix64 finaliser).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number ^ (number >> 30);
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the number of memories above which a word is common.
pub(crate) fn common_above(memories: usize) -> usize {
    COMMON_MIN.max(memories / COMMON_RATIO)
}

/// Weights of the words of a query. Words that are rare among the owner's memories weigh more.
#[derive(Debug, Clone)]
pub(crate) struct TermWeights {
    /// Weight of each word; `None` for a common word and for a word that no memory contains.
    weights: Vec<Option<f32>>,
    /// Highest possible score.
    max_score: f32,
    /// Mean number of words of a memory.
    average: f32,
}

impl TermWeights {
    /// Creates the weights. `memories_with` is the number of memories that contain each word, and `average` is the
    /// mean number of words of a memory.
    pub(crate) fn new(memories_with: &[usize], memories: usize, average: f32) -> Self {
        let weigh = |count: usize| {
            let (all, count) = (memories.max(count) as f32, count as f32);
            (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
        };
        let above = common_above(memories);
        let is_relevant = |count: usize| (1..=above).contains(&count);
        let weights: Vec<_> =
            memories_with.iter().map(|count| is_relevant(*count).then(|| weigh(*count))).collect();
        let max_score = weights.iter().flatten().sum::<f32>() * length_factor(0.0);
        Self { weights, max_score, average: average.max(1.0) }
    }

    /// Returns the score of a memory with `words` words for containing the query word at this index.
    pub(crate) fn score(&self, index: usize, words: u16) -> f32 {
        let Some(Some(weight)) = self.weights.get(index) else {
            return 0.0;
        };
        weight * length_factor(f32::from(words) / self.average) / self.max_score
    }
}

/// Returns the BM25 factor of a memory whose length is given relative to the mean.
fn length_factor(relative_length: f32) -> f32 {
    1.0 / (1.0 + SATURATION * (1.0 - LENGTH_NORMALISATION + LENGTH_NORMALISATION * relative_length))
}

/// Combines the meaning score and the word score into a score between 0 and 1. `None` for a part that the query does
/// not have.
pub(crate) fn combine(meaning: Option<f32>, words: Option<f32>, weight: f32) -> f32 {
    match (meaning, words) {
        (Some(meaning), Some(words)) => weight * meaning.max(0.0) + (1.0 - weight) * words,
        (Some(meaning), None) => meaning.max(0.0),
        (None, Some(words)) => words,
        (None, None) => 0.0,
    }
}

/// Scales a vector to length 1; `None` if it has no direction.
pub(crate) fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    let length = dot(vector, vector).sqrt();
    (length.is_finite() && length > f32::MIN_POSITIVE)
        .then(|| vector.iter().map(|x| x / length).collect())
}

/// Returns the inner product. Independent partial sums allow the compiler to vectorise the loop.
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
