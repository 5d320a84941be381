//! Cutting a long text into pieces that overlap, for embeddings. Pure.

use serde::{Deserialize, Serialize};

/// Characters of a piece, unless told otherwise.
const SIZE_DEFAULT: usize = 1000;
/// Characters that a piece repeats of the one before, unless told otherwise.
const OVERLAP_DEFAULT: usize = 200;
/// Where a piece rather ends, best first.
const ENDS: [&str; 5] = ["\n\n", "\n", ". ", "。", " "];

/// One piece of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its place among the pieces.
    pub index: usize,
    /// What it holds.
    pub text: String,
    /// Where it begins in the text, in bytes.
    pub offset: usize,
}

/// How a text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// The most characters of a piece.
    pub size: usize,
    /// How many characters a piece repeats of the one before.
    pub overlap: usize,
}

impl Default for Chunking {
    fn default() -> Self {
        Self { size: SIZE_DEFAULT, overlap: OVERLAP_DEFAULT }
    }
}

impl Chunking {
    /// Cuts a text. Pieces end at a paragraph, a line, a sentence or a word where one ends in their second half, and never within a
    /// character. A size of nothing is one character, and an overlap leaves at least half of each piece new.
    pub fn cut(&self, text: &str) -> Vec<Chunk> {
        let size = self.size.max(1);
        let overlap = self.overlap.min(size / 2);
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let rest = &text[start..];
            let end = start + end_of(rest, size);
            let piece = text[start..end].to_owned();
            chunks.push(Chunk { index: chunks.len(), text: piece, offset: start });
            if end == text.len() {
                break;
            }
            let repeated = text[start..end].chars().rev().take(overlap).map(char::len_utf8);
            let next = end - repeated.sum::<usize>();
            // A piece that ended early may be shorter than what it should repeat.
            start = if next > start { next } else { end };
        }
        chunks
    }
}

/// Where a piece of at most so many characters ends, in bytes.
fn end_of(text: &str, size: usize) -> usize {
    let Some((most, _)) = text.char_indices().nth(size) else { return text.len() };
    let least = text.char_indices().nth(size - size / 2).map_or(most, |(at, _)| at);
    let last = &text[least..most];
    let found = ENDS.iter().find_map(|end| Some(last.rfind(end)? + end.len()));
    found.map_or(most, |at| least + at)
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;

    fn pieces(text: &str, size: usize, overlap: usize) -> Vec<String> {
        let chunks = Chunking { size, overlap }.cut(text);
        chunks.into_iter().map(|chunk| chunk.text).collect()
    }

    #[test]
    fn pieces_end_where_something_ends() {
        assert_eq!(pieces("one two three four", 9, 0), ["one two ", "three ", "four"]);
        assert_eq!(pieces("aaaa bbb.\n\ncc dd", 12, 0), ["aaaa bbb.\n\n", "cc dd"]);
        assert_eq!(pieces("abcdefgh", 3, 1), ["abc", "cde", "efg", "gh"]);
        assert_eq!(pieces("äöüß", 2, 0), ["äö", "üß"]);
        assert!(pieces("", 10, 2).is_empty());
        assert_eq!(pieces("short", 1000, 200), ["short"]);
        assert_eq!(pieces("ab", 0, 9), ["a", "b"]);
    }

    #[test]
    fn nothing_is_lost_and_nothing_is_too_long() {
        let alphabet: Vec<char> = "ab ö.\n。x ".chars().collect();
        for seed in 0..300 {
            let env = Env::simulated(seed);
            let below = |most: u64| usize::try_from(env.random() % most).unwrap();
            let length = below(400);
            let text: String = (0..length).map(|_| alphabet[below(9)]).collect();
            let chunking = Chunking { size: 1 + below(40), overlap: below(30) };
            let mut covered = 0;
            for (place, chunk) in chunking.cut(&text).into_iter().enumerate() {
                assert_eq!(chunk.index, place);
                assert!(chunk.text.chars().count() <= chunking.size, "seed {seed}");
                assert!(text[chunk.offset..].starts_with(&chunk.text), "seed {seed}");
                assert!(chunk.offset <= covered && chunk.offset + chunk.text.len() > covered);
                covered = chunk.offset + chunk.text.len();
            }
            assert_eq!(covered, text.len(), "seed {seed}");
        }
    }
}
