//! Families of models that share a vocabulary, and how dense it is.

use super::{Estimate, TokenCounter};

/// Models that cut texts into tokens alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// OpenAI's large vocabulary, which many others took over.
    Gpt,
    /// Anthropic's.
    Claude,
    /// Google's, Gemma included.
    Gemini,
    /// Meta's since the third generation.
    Llama,
    /// Mistral's.
    Mistral,
    /// Alibaba's.
    Qwen,
    /// DeepSeek's.
    DeepSeek,
    /// Cohere's.
    Command,
    /// One that is not known here.
    Other,
}

/// What names begin with, after the vendor. A longer word comes before a shorter one that it begins with.
const NAMES: [(&str, Family); 22] = [
    ("gpt", Family::Gpt),
    ("chatgpt", Family::Gpt),
    ("o1", Family::Gpt),
    ("o3", Family::Gpt),
    ("o4", Family::Gpt),
    ("text-embedding-3", Family::Gpt),
    ("grok", Family::Gpt),
    ("claude", Family::Claude),
    ("gemini", Family::Gemini),
    ("gemma", Family::Gemini),
    ("llama", Family::Llama),
    ("meta-llama", Family::Llama),
    ("mistral", Family::Mistral),
    ("ministral", Family::Mistral),
    ("mixtral", Family::Mistral),
    ("codestral", Family::Mistral),
    ("magistral", Family::Mistral),
    ("qwen", Family::Qwen),
    ("qwq", Family::Qwen),
    ("deepseek", Family::DeepSeek),
    ("command", Family::Command),
    ("voyage", Family::Qwen),
];

impl Family {
    /// The family of a model, by its name: `claude-opus-5`, `anthropic/claude-opus-5`, `us.anthropic.claude-opus-5-v1:0`.
    pub fn of(model: &str) -> Self {
        let lower = model.to_ascii_lowercase();
        let ends = |at: usize| lower[..at].ends_with(['/', '.', ':']);
        let places = (0..lower.len()).filter(|at| lower.is_char_boundary(*at));
        for at in places.filter(|at| *at == 0 || ends(*at)) {
            let known = NAMES.iter().find(|(name, _)| lower[at..].starts_with(name));
            if let Some((_, family)) = known {
                return *family;
            }
        }
        Self::Other
    }

    /// How many tokens it makes of what the plain estimate calls a thousand. Rather too many than too few.
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

impl TokenCounter for Family {
    fn count(&self, text: &str) -> u64 {
        Estimate.count(text).saturating_mul(self.permille()).div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_wherever_the_vendor_puts_the_name() {
        for (model, family) in [
            ("gpt-5.1", Family::Gpt),
            ("o3-mini", Family::Gpt),
            ("claude-opus-5", Family::Claude),
            ("us.anthropic.claude-sonnet-5-v1:0", Family::Claude),
            ("anthropic/claude-3.5-haiku", Family::Claude),
            ("google/gemma-3-27b-it", Family::Gemini),
            ("accounts/fireworks/models/llama-v3p3-70b", Family::Llama),
            ("Qwen/Qwen2.5-Coder-1.5B", Family::Qwen),
            ("deepseek-reasoner", Family::DeepSeek),
            ("mixtral:8x7b", Family::Mistral),
            ("phi-4", Family::Other),
            ("not-gpt", Family::Other),
            ("", Family::Other),
            ("ö/gpt-4o", Family::Gpt),
        ] {
            assert_eq!(Family::of(model), family, "{model}");
        }
    }

    #[test]
    fn denser_vocabularies_give_fewer_tokens() {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(20);
        let (gpt, claude) = (Family::Gpt.count(&text), Family::Claude.count(&text));
        assert_eq!(gpt, Estimate.count(&text));
        assert_eq!(claude, (gpt * 1200).div_ceil(1000));
        // About ten tokens for each of the twenty sentences.
        assert!((190..=320).contains(&gpt), "{gpt}");
    }
}
