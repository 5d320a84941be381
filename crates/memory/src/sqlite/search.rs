//! Search in two phases: the vector index scores all memories approximately, then the best candidates are scored
//! exactly.

use std::collections::{HashMap, HashSet};

use provost_store::Tx;
use provost_store::table::memory::{entry, vector as vectors, word as words_of};

use super::index::{OwnerVectorIndex, VectorIndexCache, from_bytes, token};
use super::read;
use crate::MemoryError;
use crate::in_memory::normalise;
use crate::memory::Owner;
use crate::rank::{self, TermWeights};
use crate::store::{MemoryFilter, SearchHit, SearchQuery};

/// Minimum number of candidates to score exactly.
const CANDIDATES_MIN: usize = 64;
/// Additional candidates per requested memory.
const CANDIDATES_FACTOR: usize = 4;

/// A query with its normalised embedding and its word hashes.
struct PreparedQuery<'a> {
    request: &'a SearchQuery,
    /// Embedding of length 1.
    vector: Option<Vec<f32>>,
    words: Vec<u64>,
}

/// Position of a candidate in the index, and its score.
type ScoredCandidate = (usize, f32);

/// Returns the memories that match a query, best first: preselects candidates in the owner's index and scores them
/// with the stored embeddings.
pub(super) fn search(
    tx: &mut Tx<'_>,
    index_cache: &VectorIndexCache,
    owner: &Owner,
    query: &SearchQuery,
) -> Result<Vec<SearchHit>, MemoryError> {
    let vector = normalise(query.vector.as_ref(), &mut vectors::space(tx)?)?;
    let query = PreparedQuery { request: query, vector, words: rank::query_words(&query.text) };
    let best = index_cache.with(tx, owner, |tx, no, index| {
        let allowed = matching_rows(tx, owner, no, &query.request.filter)?;
        let word_scores = word_scores(tx, no, index, &query)?;
        let candidates = candidates(index, &query, &word_scores, allowed.as_ref());
        let best = rescore(tx, index, &query, &word_scores, candidates)?;
        Ok((no, best))
    })?;
    let Some((no, best)) = best else {
        return Ok(Vec::new());
    };
    let mut hits = Vec::with_capacity(best.len());
    for (seq, score) in best {
        if let Some(memory) = read::at(tx, owner, no, seq)? {
            hits.push(SearchHit { memory, score });
        }
    }
    Ok(hits)
}

/// Returns the row numbers of the memories that match a filter; `None` if it matches every memory.
fn matching_rows(
    tx: &mut Tx<'_>,
    owner: &Owner,
    no: i64,
    filter: &MemoryFilter,
) -> Result<Option<HashSet<i64>>, MemoryError> {
    if filter.is_empty() {
        return Ok(None);
    }
    let rows = entry::row_numbers(tx, no, &read::row_filter(filter))?;
    let mut allowed: HashSet<i64> = rows.into_iter().collect();
    if !filter.metadata.is_empty() {
        let mut matching = HashSet::new();
        for seq in allowed {
            let memory = read::at(tx, owner, no, seq)?;
            if memory.is_some_and(|memory| filter.matches(&memory)) {
                matching.insert(seq);
            }
        }
        allowed = matching;
    }
    Ok(Some(allowed))
}

/// Returns the word score of each memory that shares a word with the query, by index position.
fn word_scores(
    tx: &mut Tx<'_>,
    no: i64,
    index: &OwnerVectorIndex,
    query: &PreparedQuery<'_>,
) -> Result<HashMap<usize, f32>, MemoryError> {
    let common_above = rank::common_above(index.len());
    let mut rows_with = Vec::with_capacity(query.words.len());
    for word in &query.words {
        rows_with.push(words_of::row_numbers(tx, &token(no, *word), common_above + 1)?);
    }
    let counts: Vec<usize> = rows_with.iter().map(Vec::len).collect();
    let weights = TermWeights::new(&counts, index.len(), index.words_average());
    let mut scores = HashMap::new();
    for (word, seqs) in rows_with.iter().enumerate().filter(|(_, seqs)| seqs.len() <= common_above)
    {
        for position in seqs.iter().filter_map(|seq| index.position(*seq)) {
            *scores.entry(position).or_default() += weights.score(word, index.words(position));
        }
    }
    Ok(scores)
}

/// Returns the index positions of the candidates with the best approximate scores.
fn candidates(
    index: &OwnerVectorIndex,
    query: &PreparedQuery<'_>,
    word_scores: &HashMap<usize, f32>,
    allowed: Option<&HashSet<i64>>,
) -> Vec<usize> {
    let weight = query.request.weight();
    let mut scored: Vec<ScoredCandidate> = match &query.vector {
        Some(vector) => {
            let mut scores = index.cosines(vector);
            // Few memories share a word with the query, so their word scores are added separately.
            let (no_words, word_weight) = match query.words.is_empty() {
                true => (None, 0.0),
                false => (Some(0.0), 1.0 - weight),
            };
            for score in &mut scores {
                *score = rank::combine(Some(*score), no_words, weight);
            }
            for (position, words) in word_scores {
                if let Some(score) = scores.get_mut(*position) {
                    *score += word_weight * words;
                }
            }
            scores.into_iter().enumerate().collect()
        }
        None => word_scores.iter().map(|(position, words)| (*position, *words)).collect(),
    };
    scored.retain(|(position, score)| {
        *score > 0.0 && allowed.is_none_or(|allowed| allowed.contains(&index.seq(*position)))
    });
    let candidates_max = query.request.bounded_limit() * CANDIDATES_FACTOR + CANDIDATES_MIN;
    if scored.len() > candidates_max {
        scored.select_nth_unstable_by(candidates_max, |a, b| b.1.total_cmp(&a.1));
        scored.truncate(candidates_max);
    }
    scored.into_iter().map(|(position, _)| position).collect()
}

/// Scores the candidates with their stored embeddings and returns the best ones, best first. Of equal scores, the
/// newest memory comes first.
fn rescore(
    tx: &mut Tx<'_>,
    index: &OwnerVectorIndex,
    query: &PreparedQuery<'_>,
    word_scores: &HashMap<usize, f32>,
    candidates: Vec<usize>,
) -> Result<Vec<(i64, f32)>, MemoryError> {
    let mut scored = Vec::with_capacity(candidates.len());
    for position in candidates {
        let seq = index.seq(position);
        let meaning = match &query.vector {
            None => None,
            Some(vector) => {
                let stored = vectors::get(tx, seq)?.map(|numbers| from_bytes(&numbers));
                Some(stored.map_or(0.0, |stored| rank::dot(&stored, vector)))
            }
        };
        let words = word_scores.get(&position).copied().unwrap_or(0.0);
        let words = (!query.words.is_empty()).then_some(words);
        let score = rank::combine(meaning, words, query.request.weight());
        if score > 0.0 && score >= query.request.threshold {
            scored.push((seq, score));
        }
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    scored.truncate(query.request.bounded_limit());
    Ok(scored)
}
