//! Searching: everything is scored roughly, the best are scored exactly.

use std::collections::{HashMap, HashSet};

use provost_store::Tx;
use provost_store::table::memory::{entry, vector as vectors, word as words_of};

use super::index::{Indexes, OwnerIndex, from_bytes, token};
use super::read;
use crate::MemoryError;
use crate::in_memory::accept;
use crate::memory::Owner;
use crate::rank::{self, Lexicon};
use crate::store::{Filter, Found, Query};

/// Candidates that are scored exactly, besides several times as many as are wanted.
const CANDIDATES_MIN: usize = 64;
/// Candidates for each memory that is wanted.
const CANDIDATES_FACTOR: usize = 4;

/// What a query asks, ready to be compared.
struct Asked<'a> {
    query: &'a Query,
    /// A unit vector.
    vector: Option<Vec<f32>>,
    words: Vec<u64>,
}

/// A candidate: its place in the index and its score.
type Scored = (usize, f32);

pub(super) fn search(
    tx: &mut Tx<'_>,
    indexes: &Indexes,
    owner: &Owner,
    query: &Query,
) -> Result<Vec<Found>, MemoryError> {
    let vector = accept(query.vector.as_ref(), &mut vectors::space(tx)?)?;
    let asked = Asked { query, vector, words: rank::query_words(&query.text) };
    let best = indexes.with(tx, owner, |tx, no, index| {
        let allowed = allowed(tx, owner, no, &query.filter)?;
        let by_words = by_words(tx, no, index, &asked)?;
        let candidates = candidates(index, &asked, &by_words, allowed.as_ref());
        let best = exactly(tx, index, &asked, &by_words, candidates)?;
        Ok((no, best))
    })?;
    let Some((no, best)) = best else {
        return Ok(Vec::new());
    };
    let mut found = Vec::with_capacity(best.len());
    for (seq, score) in best {
        if let Some(memory) = read::at(tx, owner, no, seq)? {
            found.push(Found { memory, score });
        }
    }
    Ok(found)
}

/// The memories that a filter lets through; `None` if it lets all through.
fn allowed(
    tx: &mut Tx<'_>,
    owner: &Owner,
    no: i64,
    filter: &Filter,
) -> Result<Option<HashSet<i64>>, MemoryError> {
    if filter.is_empty() {
        return Ok(None);
    }
    let places = entry::places(tx, no, &read::row_filter(filter))?;
    let mut allowed: HashSet<i64> = places.into_iter().collect();
    if !filter.metadata.is_empty() {
        let mut passed = HashSet::new();
        for seq in allowed {
            let memory = read::at(tx, owner, no, seq)?;
            if memory.is_some_and(|memory| filter.passes(&memory)) {
                passed.insert(seq);
            }
        }
        allowed = passed;
    }
    Ok(Some(allowed))
}

/// What each memory gets for the words it shares with the query, by its place.
fn by_words(
    tx: &mut Tx<'_>,
    no: i64,
    index: &OwnerIndex,
    asked: &Asked<'_>,
) -> Result<HashMap<usize, f32>, MemoryError> {
    let common_above = rank::common_above(index.len());
    let mut holders = Vec::with_capacity(asked.words.len());
    for word in &asked.words {
        holders.push(words_of::places(tx, &token(no, *word), common_above + 1)?);
    }
    let counts: Vec<usize> = holders.iter().map(Vec::len).collect();
    let lexicon = Lexicon::new(&counts, index.len(), index.words_average());
    let mut scores = HashMap::new();
    for (word, seqs) in holders.iter().enumerate().filter(|(_, seqs)| seqs.len() <= common_above) {
        for place in seqs.iter().filter_map(|seq| index.place(*seq)) {
            *scores.entry(place).or_default() += lexicon.score(word, index.words(place));
        }
    }
    Ok(scores)
}

/// The memories that may be among the best.
fn candidates(
    index: &OwnerIndex,
    asked: &Asked<'_>,
    by_words: &HashMap<usize, f32>,
    allowed: Option<&HashSet<i64>>,
) -> Vec<usize> {
    let weight = asked.query.weight();
    let mut scored: Vec<Scored> = match &asked.vector {
        Some(vector) => {
            let mut scores = index.cosines(vector);
            // Few memories share a word with the query, so what they get for it is added apart.
            let (no_words, share) = match asked.words.is_empty() {
                true => (None, 0.0),
                false => (Some(0.0), 1.0 - weight),
            };
            for score in &mut scores {
                *score = rank::combine(Some(*score), no_words, weight);
            }
            for (place, words) in by_words {
                if let Some(score) = scores.get_mut(*place) {
                    *score += share * words;
                }
            }
            scores.into_iter().enumerate().collect()
        }
        None => by_words.iter().map(|(place, words)| (*place, *words)).collect(),
    };
    scored.retain(|(place, score)| {
        *score > 0.0 && allowed.is_none_or(|allowed| allowed.contains(&index.seq(*place)))
    });
    let wanted = asked.query.wanted() * CANDIDATES_FACTOR + CANDIDATES_MIN;
    if scored.len() > wanted {
        scored.select_nth_unstable_by(wanted, |a, b| b.1.total_cmp(&a.1));
        scored.truncate(wanted);
    }
    scored.into_iter().map(|(place, _)| place).collect()
}

/// The best of the candidates by their full vectors, best first; of equals the newest.
fn exactly(
    tx: &mut Tx<'_>,
    index: &OwnerIndex,
    asked: &Asked<'_>,
    by_words: &HashMap<usize, f32>,
    candidates: Vec<usize>,
) -> Result<Vec<(i64, f32)>, MemoryError> {
    let mut scored = Vec::with_capacity(candidates.len());
    for place in candidates {
        let seq = index.seq(place);
        let meaning = match &asked.vector {
            None => None,
            Some(vector) => {
                let own = vectors::get(tx, seq)?.map(|numbers| from_bytes(&numbers));
                Some(own.map_or(0.0, |own| rank::dot(&own, vector)))
            }
        };
        let words = by_words.get(&place).copied().unwrap_or(0.0);
        let words = (!asked.words.is_empty()).then_some(words);
        let score = rank::combine(meaning, words, asked.query.weight());
        if score > 0.0 && score >= asked.query.threshold {
            scored.push((seq, score));
        }
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    scored.truncate(asked.query.wanted());
    Ok(scored)
}
