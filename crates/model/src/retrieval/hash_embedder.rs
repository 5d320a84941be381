//! Embedder without a model, for tests.

use std::future::ready;

use provost_core::Usage;

use super::{EmbedFuture, Embedder, EmbedderInfo, EmbeddingInputType, Embeddings};

/// Embedder that hashes words into vectors. Equal texts have equal vectors on every machine, and texts that share words
/// have close vectors.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use provost_model::{Embedder, EmbeddingInputType, HashEmbedder};
///
/// let texts = ["green tea".to_owned(), "tea, green".to_owned()];
/// let embeddings = HashEmbedder::new(64).embed(&texts, EmbeddingInputType::Document).await.unwrap();
/// assert_eq!(embeddings.vectors[0], embeddings.vectors[1]);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct HashEmbedder {
    info: EmbedderInfo,
}

impl HashEmbedder {
    /// Creates an embedder with this number of dimensions, at least one.
    pub fn new(dimensions: usize) -> Self {
        let dimensions = dimensions.max(1);
        let (provider, model) = ("hash".to_owned(), "words".to_owned());
        Self { info: EmbedderInfo { provider, model, dimensions } }
    }

    /// Returns the normalized vector of a text. All components are 0 if the text has no word.
    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; self.info.dimensions];
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        for word in words {
            let hash = fnv(word.as_bytes());
            let index = usize::try_from(hash >> 1).unwrap_or(0) % vector.len();
            // Because of the sign, words that share an index can cancel out instead of adding up.
            vector[index] += if hash & 1 == 0 { 1.0 } else { -1.0 };
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

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        _input_type: EmbeddingInputType,
    ) -> EmbedFuture<'a> {
        let vectors = texts.iter().map(|text| self.vector(text)).collect();
        let words = texts.iter().map(|text| text.split_whitespace().count() as u64).sum();
        Box::pin(ready(Ok(Embeddings { vectors, usage: Usage::new(words, 0), usage_known: true })))
    }
}

/// Returns the FNV-1a hash with its bits mixed once more, because the sign depends on the lowest bit.
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
