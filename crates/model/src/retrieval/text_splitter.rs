//! Splits a long text into overlapping chunks for embeddings. Pure.

use serde::{Deserialize, Serialize};

/// Default number of characters in a chunk.
const SIZE_DEFAULT: usize = 1000;
/// Default number of characters that a chunk repeats from the chunk before it.
const OVERLAP_DEFAULT: usize = 200;
/// Preferred ends of a chunk, best first.
const BREAKS: [&str; 5] = ["\n\n", "\n", ". ", "。", " "];

/// A part of a split text with its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextChunk {
    /// Position among the chunks.
    pub index: usize,
    /// Text of the chunk.
    pub text: String,
    /// Start of the chunk in the original text, in bytes.
    pub offset: usize,
}

/// Splits texts into chunks of a limited size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSplitter {
    /// Largest number of characters in a chunk. Zero counts as one.
    pub size: usize,
    /// Number of characters that a chunk repeats from the chunk before it. At most half of the size.
    pub overlap: usize,
}

impl Default for TextSplitter {
    fn default() -> Self {
        Self { size: SIZE_DEFAULT, overlap: OVERLAP_DEFAULT }
    }
}

impl TextSplitter {
    /// Splits a text into chunks that overlap. A chunk ends at the end of a paragraph, line, sentence or word if there
    /// is one in its second half, and never within a character. Empty for an empty text.
    pub fn split(&self, text: &str) -> Vec<TextChunk> {
        let size = self.size.max(1);
        let overlap = self.overlap.min(size / 2);
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let rest = &text[start..];
            let end = start + chunk_end(rest, size);
            let chunk = text[start..end].to_owned();
            chunks.push(TextChunk { index: chunks.len(), text: chunk, offset: start });
            if end == text.len() {
                break;
            }
            let repeated = text[start..end].chars().rev().take(overlap).map(char::len_utf8);
            let next = end - repeated.sum::<usize>();
            // A chunk that ended early may be shorter than the overlap.
            start = if next > start { next } else { end };
        }
        chunks
    }
}

/// Returns the end of the first chunk of at most `size` characters, in bytes.
fn chunk_end(text: &str, size: usize) -> usize {
    let Some((limit, _)) = text.char_indices().nth(size) else { return text.len() };
    let minimum = text.char_indices().nth(size - size / 2).map_or(limit, |(at, _)| at);
    let last = &text[minimum..limit];
    let last_break = BREAKS.iter().find_map(|end| Some(last.rfind(end)? + end.len()));
    last_break.map_or(limit, |at| minimum + at)
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;

    fn pieces(text: &str, size: usize, overlap: usize) -> Vec<String> {
        let chunks = TextSplitter { size, overlap }.split(text);
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
            let below = |limit: u64| usize::try_from(env.random() % limit).unwrap();
            let length = below(400);
            let text: String = (0..length).map(|_| alphabet[below(9)]).collect();
            let chunking = TextSplitter { size: 1 + below(40), overlap: below(30) };
            let mut covered = 0;
            for (place, chunk) in chunking.split(&text).into_iter().enumerate() {
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
