//! An embedder without a model: texts that share words are close. For tests.

use std::future::ready;

use provost_core::Usage;

use super::{EmbedFuture, Embedder, EmbedderInfo, Embeddings, Purpose};

/// Vectors of hashed words: the same text gives the same vector everywhere, and texts that share words are close.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use provost_model::{Embedder, HashEmbedder, Purpose};
///
/// let texts = ["green tea".to_owned(), "tea, green".to_owned()];
/// let found = HashEmbedder::new(64).embed(&texts, Purpose::Document).await.unwrap();
/// assert_eq!(found.vectors[0], found.vectors[1]);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct HashEmbedder {
    info: EmbedderInfo,
}

impl HashEmbedder {
    /// An embedder of vectors of this many numbers, at least one.
    pub fn new(dimensions: usize) -> Self {
        let dimensions = dimensions.max(1);
        let (provider, model) = ("hash".to_owned(), "words".to_owned());
        Self { info: EmbedderInfo { provider, model, dimensions } }
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; self.info.dimensions];
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        for word in words {
            let hash = fnv(word.as_bytes());
            let place = usize::try_from(hash >> 1).unwrap_or(0) % vector.len();
            // The sign lets words that meet in one place cancel out instead of adding up.
            vector[place] += if hash & 1 == 0 { 1.0 } else { -1.0 };
        }
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
        vector
    }
}

impl Embedder for HashEmbedder {
    fn info(&self) -> &EmbedderInfo {
        &self.info
    }

    fn embed<'a>(&'a self, texts: &'a [String], _purpose: Purpose) -> EmbedFuture<'a> {
        let vectors = texts.iter().map(|text| self.vector(text)).collect();
        let words = texts.iter().map(|text| text.split_whitespace().count() as u64).sum();
        Box::pin(ready(Ok(Embeddings { vectors, usage: Usage::new(words, 0), usage_known: true })))
    }
}

/// FNV-1a with its bits mixed once more, since the sign is taken from the lowest one.
fn fnv(bytes: &[u8]) -> u64 {
    let mut hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn texts_that_share_words_are_closer() {
        let embedder = HashEmbedder::new(128);
        let vector = |text: &str| embedder.vector(text);
        let tea = vector("Anna drinks green tea");
        assert!((cosine(&tea, &tea) - 1.0).abs() < 1e-5);
        let near = cosine(&tea, &vector("green tea is what she drinks"));
        let far = cosine(&tea, &vector("quarterly revenue of the harbour"));
        assert!(near > 0.4 && far < 0.2, "{near} {far}");
        assert!(vector("").iter().all(|x| *x == 0.0));
    }
}
