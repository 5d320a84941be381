//! Which tools fit a few words best: BM25 over their names, descriptions and argument names.
//!
//! Invariant: nothing here performs IO, and the same tools and words give the same order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use provost_core::ToolDefinition;
use serde_json::Value;

/// How much a word in a name counts, where one in the description counts 1.
const NAME_WEIGHT: f64 = 3.0;
/// How much a word counts that only begins with the one that was asked for.
const PREFIX_WEIGHT: f64 = 0.4;
/// Characters of a word before its beginning alone says something.
const PREFIX_CHARS_MIN: usize = 3;
/// How fast more of the same word stops mattering.
const SATURATION: f64 = 1.2;
/// How much the length of a text counts against it.
const LENGTH_PENALTY: f64 = 0.75;
/// Words of a query that are looked at.
const QUERY_WORDS_MAX: usize = 32;
/// Words of one tool that are looked at.
const TOOL_WORDS_MAX: usize = 500;
/// Bytes of a word; longer ones are data, not words.
const WORD_BYTES_MAX: usize = 64;
/// Bytes of a word that an ending leaves.
const STEM_BYTES_MIN: usize = 3;
/// How deep arguments inside arguments are looked at.
const ARGUMENT_DEPTH_MAX: usize = 4;

/// Where a word is: the tool and its weight there.
type Posting = (usize, f64);

/// The words of a set of tools.
pub(super) struct Index {
    defs: Vec<Arc<ToolDefinition>>,
    words: BTreeMap<String, Vec<Posting>>,
    /// How long each tool's text is, by weight.
    lengths: Vec<f64>,
    length_mean: f64,
}

impl Index {
    pub(super) fn new(defs: Vec<Arc<ToolDefinition>>) -> Self {
        let mut words: BTreeMap<String, Vec<Posting>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(defs.len());
        for (place, def) in defs.iter().enumerate() {
            let weights = weights(def);
            lengths.push(weights.values().sum::<f64>());
            for (word, weight) in weights {
                words.entry(word).or_default().push((place, weight));
            }
        }
        let length_mean = (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64).max(1.0);
        Self { defs, words, lengths, length_mean }
    }

    /// True if it was made of exactly these.
    pub(super) fn is_of(&self, defs: &[Arc<ToolDefinition>]) -> bool {
        self.defs.len() == defs.len()
            && self.defs.iter().zip(defs).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// The places of the tools that fit best, the best first. Those that do not fit at all are not among them.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut asked = words_of(query);
        asked.truncate(QUERY_WORDS_MAX);
        asked.sort_unstable();
        asked.dedup();
        for word in &asked {
            let hits = self.hits(word);
            let (all, with) = (self.defs.len() as f64, hits.len() as f64);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (place, weight) in hits {
                let length = self.lengths[place] / self.length_mean;
                let norm = SATURATION * (1.0 - LENGTH_PENALTY + LENGTH_PENALTY * length);
                *scores.entry(place).or_default() +=
                    rarity * weight * (SATURATION + 1.0) / (weight + norm);
            }
        }
        let name = query.trim();
        for (place, def) in self.defs.iter().enumerate() {
            if def.name.eq_ignore_ascii_case(name) {
                scores.insert(place, f64::INFINITY);
            }
        }
        let mut ranked: Vec<(usize, f64)> = scores.into_iter().collect();
        // Equal ones stay in the order of the set.
        ranked.sort_by(|(a, score_a), (b, score_b)| score_b.total_cmp(score_a).then(a.cmp(b)));
        ranked.truncate(limit);
        ranked.into_iter().map(|(place, _)| place).collect()
    }

    /// Where a word is, or one that begins with it.
    fn hits(&self, word: &str) -> BTreeMap<usize, f64> {
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
            for (place, weight) in postings {
                *hits.entry(*place).or_default() += factor * weight;
            }
        }
        hits
    }
}

/// The words of a tool, each with its weight.
fn weights(def: &ToolDefinition) -> HashMap<String, f64> {
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

/// The names of arguments, of those inside arguments too.
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

/// The words of a text, in lower case and without the commonest endings: `listOpenIssues` is `list open issu`.
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

/// Scripts that put no spaces between words: each sign counts by itself.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

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

/// Takes an ending off, if a stem is left.
fn cut_ending(word: &mut String, ending: &str) {
    if word.ends_with(ending) && word.len() >= ending.len() + STEM_BYTES_MIN {
        word.truncate(word.len() - ending.len());
    }
}

#[cfg(test)]
mod tests;
