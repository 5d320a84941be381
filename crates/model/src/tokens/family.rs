//! Tokenizer families: models that share a vocabulary, and the density of their tokens.

use super::{HeuristicCounter, TokenCounter};

/// Models with the same tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenizerFamily {
    /// OpenAI's large vocabulary, which many other vendors use.
    Gpt,
    /// Anthropic's vocabulary.
    Claude,
    /// Google's vocabulary, including Gemma.
    Gemini,
    /// Meta's vocabulary since Llama 3.
    Llama,
    /// Mistral's vocabulary.
    Mistral,
    /// Alibaba's vocabulary.
    Qwen,
    /// DeepSeek's vocabulary.
    DeepSeek,
    /// Cohere's vocabulary.
    Command,
    /// An unknown vocabulary.
    Other,
}

/// Prefixes of model names without the vendor. A prefix comes before a shorter prefix of itself.
const NAMES: [(&str, TokenizerFamily); 22] = [
    ("gpt", TokenizerFamily::Gpt),
    ("chatgpt", TokenizerFamily::Gpt),
    ("o1", TokenizerFamily::Gpt),
    ("o3", TokenizerFamily::Gpt),
    ("o4", TokenizerFamily::Gpt),
    ("text-embedding-3", TokenizerFamily::Gpt),
    ("grok", TokenizerFamily::Gpt),
    ("claude", TokenizerFamily::Claude),
    ("gemini", TokenizerFamily::Gemini),
    ("gemma", TokenizerFamily::Gemini),
    ("llama", TokenizerFamily::Llama),
    ("meta-llama", TokenizerFamily::Llama),
    ("mistral", TokenizerFamily::Mistral),
    ("ministral", TokenizerFamily::Mistral),
    ("mixtral", TokenizerFamily::Mistral),
    ("codestral", TokenizerFamily::Mistral),
    ("magistral", TokenizerFamily::Mistral),
    ("qwen", TokenizerFamily::Qwen),
    ("qwq", TokenizerFamily::Qwen),
    ("deepseek", TokenizerFamily::DeepSeek),
    ("command", TokenizerFamily::Command),
    ("voyage", TokenizerFamily::Qwen),
];

impl TokenizerFamily {
    /// Returns the family of a model by its name, such as `claude-opus-5`, `anthropic/claude-opus-5` or
    /// `us.anthropic.claude-opus-5-v1:0`. Returns `Other` for unknown names.
    pub fn of(model: &str) -> Self {
        let lower = model.to_ascii_lowercase();
        let is_name_start = |at: usize| lower[..at].ends_with(['/', '.', ':']);
        let starts = (0..lower.len()).filter(|at| lower.is_char_boundary(*at));
        for at in starts.filter(|at| *at == 0 || is_name_start(*at)) {
            let found = NAMES.iter().find(|(name, _)| lower[at..].starts_with(name));
            if let Some((_, family)) = found {
                return *family;
            }
        }
        Self::Other
    }

    /// Returns the number of tokens for a thousand estimated ones. It is rather too high than too low.
    pub const fn permille(self) -> u64 {
        match self {
            Self::Gpt | Self::Gemini | Self::Other => 1000,
            Self::Llama | Self::Qwen | Self::DeepSeek => 1050,
            Self::Command => 1100,
            Self::Mistral => 1150,
            Self::Claude => 1200,
        }
    }
}

impl TokenCounter for TokenizerFamily {
    fn count(&self, text: &str) -> u64 {
        HeuristicCounter.count(text).saturating_mul(self.permille()).div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_wherever_the_vendor_puts_the_name() {
        for (model, family) in [
            ("gpt-5.1", TokenizerFamily::Gpt),
            ("o3-mini", TokenizerFamily::Gpt),
            ("claude-opus-5", TokenizerFamily::Claude),
            ("us.anthropic.claude-sonnet-5-v1:0", TokenizerFamily::Claude),
            ("anthropic/claude-3.5-haiku", TokenizerFamily::Claude),
            ("google/gemma-3-27b-it", TokenizerFamily::Gemini),
            ("accounts/fireworks/models/llama-v3p3-70b", TokenizerFamily::Llama),
            ("Qwen/Qwen2.5-Coder-1.5B", TokenizerFamily::Qwen),
            ("deepseek-reasoner", TokenizerFamily::DeepSeek),
            ("mixtral:8x7b", TokenizerFamily::Mistral),
            ("phi-4", TokenizerFamily::Other),
            ("not-gpt", TokenizerFamily::Other),
            ("", TokenizerFamily::Other),
            ("ö/gpt-4o", TokenizerFamily::Gpt),
        ] {
            assert_eq!(TokenizerFamily::of(model), family, "{model}");
        }
    }

    #[test]
    fn denser_vocabularies_give_fewer_tokens() {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(20);
        let (gpt, claude) =
            (TokenizerFamily::Gpt.count(&text), TokenizerFamily::Claude.count(&text));
        assert_eq!(gpt, HeuristicCounter.count(&text));
        assert_eq!(claude, (gpt * 1200).div_ceil(1000));
        // About ten tokens for each of the twenty sentences.
        assert!((190..=320).contains(&gpt), "{gpt}");
    }
}
