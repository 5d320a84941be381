//! Corpus of the fuzz tests: vendor responses, and damaged responses that a decoder once handled in a new way.
//!
//! Saved responses are in `tests/data/fuzz`, one file per wire and one line per response: its bytes as the characters
//! of a JSON string.

use std::collections::HashSet;
use std::path::PathBuf;

use provost_core::Usage;
use provost_testkit::{Failure, Reply, WireKind};
use serde_json::json;

/// Largest number of saved responses per wire.
const KEPT_MAX: usize = 32;
/// Longer responses are not saved, because they only repeat the same behaviour.
const BYTES_MAX: usize = 4096;

/// A response in its parts.
pub(super) type Answer = Vec<Vec<u8>>;

pub(super) struct Corpus {
    kind: WireKind,
    answers: Vec<Answer>,
    /// Saved responses.
    kept: Vec<Vec<u8>>,
    /// Results of the decoder so far.
    marks: HashSet<String>,
}

impl Corpus {
    pub(super) fn of(kind: WireKind) -> Self {
        let kept: Vec<Vec<u8>> = match std::fs::read_to_string(file(kind)) {
            Ok(text) => text.lines().map(bytes_of).collect(),
            Err(_) => Vec::new(),
        };
        let mut answers = said(kind);
        answers.extend(kept.iter().map(|bytes| vec![bytes.clone()]));
        Self { kind, answers, kept, marks: HashSet::new() }
    }

    pub(super) fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// Returns the saved responses.
    pub(super) fn kept(&self) -> &[Vec<u8>] {
        &self.kept
    }

    /// Records the result of a response, and saves the response if the result is new.
    pub(super) fn note(&mut self, mark: String, bytes: &[u8]) {
        let is_new = self.marks.insert(mark);
        if is_new && self.kept.len() < KEPT_MAX && bytes.len() <= BYTES_MAX {
            self.kept.push(bytes.to_vec());
            self.answers.push(vec![bytes.to_vec()]);
        }
    }

    /// Writes the saved responses for the next run.
    pub(super) fn save(&self) {
        let mut text: Vec<String> = self.kept.iter().map(|bytes| line_of(bytes)).collect();
        text.push(String::new());
        let file = file(self.kind);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text.join("\n")).unwrap();
    }
}

fn file(kind: WireKind) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/fuzz");
    folder.join(format!("{kind:?}.jsonl").to_lowercase())
}

/// Returns a response in the format of the corpus.
pub(super) fn line_of(bytes: &[u8]) -> String {
    let text: String = bytes.iter().copied().map(char::from).collect();
    serde_json::to_string(&text).unwrap()
}

fn bytes_of(line: &str) -> Vec<u8> {
    let text: String = serde_json::from_str(line).unwrap();
    text.chars().map(|each| u8::try_from(u32::from(each)).unwrap()).collect()
}

/// Returns one response of each kind.
fn said(kind: WireKind) -> Vec<Vec<Vec<u8>>> {
    let full = Reply::new()
        .reasoning("hm \"ü\"", "sig==")
        .redacted("enc==")
        .deltas(["Hel", "lo 🦀"])
        .and_call("c1", "search", &json!({"q": "a \"b\"", "deep": [1, {"x": null}]}))
        .and_call("c2", "now", &json!({}))
        .fragment(3)
        .usage(Usage { input: 9, output: 4, cache_read: 2, cache_write: 1, reasoning: 1 });
    let replies = [
        full.clone(),
        full.omit_final_frame(),
        Reply::text("x").stop_reason_name("odd"),
        Reply::text("x").fail_midway(Failure::Overloaded),
    ];
    replies
        .iter()
        .map(|reply| reply.render(kind).iter().map(|frame| frame.to_vec()).collect())
        .collect()
}
