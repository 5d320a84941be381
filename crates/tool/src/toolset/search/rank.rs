//! Ranking of tools for a query: BM25 over names, descriptions and argument names.
//!
//! Invariant: ranking performs no IO and is deterministic.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use provost_core::ToolDefinition;
use serde_json::Value;

/// Weight of a word in a name, relative to a word in a description.
const NAME_WEIGHT: f64 = 3.0;
/// Weight of a word that only begins with the queried word.
const PREFIX_WEIGHT: f64 = 0.4;
/// Minimum length of a queried word for prefix matching.
const PREFIX_CHARS_MIN: usize = 3;
/// BM25 parameter k1: how fast repetitions of a word stop to matter.
const SATURATION: f64 = 1.2;
/// BM25 parameter b: how much the length of a text counts against it.
const LENGTH_PENALTY: f64 = 0.75;
/// Maximum number of words of a query.
const QUERY_WORDS_MAX: usize = 32;
/// Maximum number of words of one tool.
const TOOL_WORDS_MAX: usize = 500;
/// Maximum size of a word. A longer one is data and is ignored.
const WORD_BYTES_MAX: usize = 64;
/// Minimum size of the stem that remains when an ending is removed.
const STEM_BYTES_MIN: usize = 3;
/// Maximum depth of nested arguments.
const ARGUMENT_DEPTH_MAX: usize = 4;

/// Position of a tool, and the weight of the word in it.
type Posting = (usize, f64);

/// Inverted index of a list of tools.
pub(super) struct Index {
    defs: Vec<Arc<ToolDefinition>>,
    words: BTreeMap<String, Vec<Posting>>,
    /// Weighted length of each tool's text.
    lengths: Vec<f64>,
    length_mean: f64,
}

impl Index {
    pub(super) fn new(defs: Vec<Arc<ToolDefinition>>) -> Self {
        let mut words: BTreeMap<String, Vec<Posting>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(defs.len());
        for (index, def) in defs.iter().enumerate() {
            let weights = word_weights(def);
            lengths.push(weights.values().sum::<f64>());
            for (word, weight) in weights {
                words.entry(word).or_default().push((index, weight));
            }
        }
        let length_mean = (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64).max(1.0);
        Self { defs, words, lengths, length_mean }
    }

    /// Returns true if the index was built from exactly these tools.
    pub(super) fn is_of(&self, defs: &[Arc<ToolDefinition>]) -> bool {
        self.defs.len() == defs.len()
            && self.defs.iter().zip(defs).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// Returns the positions of the best matching tools, best first. Tools that do not match at all are omitted.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut query_words = words_of(query);
        query_words.truncate(QUERY_WORDS_MAX);
        query_words.sort_unstable();
        query_words.dedup();
        for word in &query_words {
            let hits = self.matching_tools(word);
            let (all, with) = (self.defs.len() as f64, hits.len() as f64);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (index, weight) in hits {
                let length = self.lengths[index] / self.length_mean;
                let norm = SATURATION * (1.0 - LENGTH_PENALTY + LENGTH_PENALTY * length);
                *scores.entry(index).or_default() +=
                    rarity * weight * (SATURATION + 1.0) / (weight + norm);
            }
        }
        let name = query.trim();
        for (index, def) in self.defs.iter().enumerate() {
            if def.name.eq_ignore_ascii_case(name) {
                scores.insert(index, f64::INFINITY);
            }
        }
        let mut ranked: Vec<(usize, f64)> = scores.into_iter().collect();
        // Tools with equal scores keep the order of the toolset.
        ranked.sort_by(|(a, score_a), (b, score_b)| score_b.total_cmp(score_a).then(a.cmp(b)));
        ranked.truncate(limit);
        ranked.into_iter().map(|(index, _)| index).collect()
    }

    /// Returns the tools that contain the word, or a word that begins with it, with the weight of the match.
    fn matching_tools(&self, word: &str) -> BTreeMap<usize, f64> {
        let mut hits = BTreeMap::new();
        let is_beginning = word.chars().count() >= PREFIX_CHARS_MIN;
        let longer = self.words.range(word.to_owned()..);
        for (found, postings) in longer.take_while(|(found, _)| found.starts_with(word)) {
            let factor = if found == word {
                1.0
            } else if is_beginning {
                PREFIX_WEIGHT
            } else {
                break;
            };
            for (index, weight) in postings {
                *hits.entry(*index).or_default() += factor * weight;
            }
        }
        hits
    }
}

/// Returns the words of a tool with their weights. A word of the name weighs most.
fn word_weights(def: &ToolDefinition) -> HashMap<String, f64> {
    let mut weights = HashMap::new();
    let mut left = TOOL_WORDS_MAX;
    let mut add = |text: &str, weight: f64| {
        for word in words_of(text).into_iter().take(left) {
            *weights.entry(word).or_default() += weight;
            left -= 1;
        }
    };
    add(&def.name, NAME_WEIGHT);
    let mut arguments = Vec::new();
    collect_arguments(&def.input_schema, ARGUMENT_DEPTH_MAX, &mut arguments);
    for argument in arguments {
        add(argument, 1.0);
    }
    add(&def.description, 1.0);
    weights
}

/// Collects the names of arguments, including nested ones.
fn collect_arguments<'a>(schema: &'a Value, depth: usize, names: &mut Vec<&'a str>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            if names.len() >= TOOL_WORDS_MAX {
                return;
            }
            names.push(name);
            collect_arguments(property, depth, names);
        }
    }
    if let Some(items) = schema.get("items") {
        collect_arguments(items, depth, names);
    }
}

/// Returns the words of a text in lower case and without common endings: `listOpenIssues` becomes `list open issu`.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for letter in text.chars() {
        let starts = was_lower && letter.is_uppercase();
        if !letter.is_alphanumeric() || starts || is_ideograph(letter) {
            end_word(&mut word, &mut words);
        }
        if is_ideograph(letter) {
            words.push(letter.to_string());
        } else if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        if words.len() >= TOOL_WORDS_MAX {
            break;
        }
    }
    end_word(&mut word, &mut words);
    words
}

/// Returns true for scripts without spaces between words. Each character is a word of its own.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Moves a finished word without its common endings to `words`.
fn end_word(word: &mut String, words: &mut Vec<String>) {
    let mut done = std::mem::take(word);
    if done.is_empty() || done.len() > WORD_BYTES_MAX {
        return;
    }
    if !done.ends_with("ss") {
        cut_ending(&mut done, "s");
    }
    for ending in ["ing", "ed", "e"] {
        cut_ending(&mut done, ending);
    }
    words.push(done);
}

/// Removes an ending if a stem remains.
fn cut_ending(word: &mut String, ending: &str) {
    if word.ends_with(ending) && word.len() >= ending.len() + STEM_BYTES_MIN {
        word.truncate(word.len() - ending.len());
    }
}

#[cfg(test)]
mod tests;
