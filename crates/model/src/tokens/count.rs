//! How large a request is, in tokens, without asking the provider.
//!
//! Vocabularies differ between models and are large, so the default is an estimate by kinds of characters. What the provider
//! reports afterwards corrects it: see [`Calibration`].

use std::sync::Arc;

use provost_core::{
    ContentPart, Document, MediaSource, Message, Role, ToolDefinition, ToolResultPart,
};
use serde::{Deserialize, Serialize};

const SYSTEM_TOKENS: u64 = 15;
const MESSAGE_TOKENS: u64 = 10;
const TOOL_CALL_TOKENS: u64 = 10;
const TOOL_RESULT_TOKENS: u64 = 10;
const TOOL_TOKENS: u64 = 20;
const IMAGE_TOKENS: u64 = 512;
/// Bytes of a document that is not text, for each token: pages of a PDF are large in bytes and small in tokens.
const DOCUMENT_BYTES_PER_TOKEN: u64 = 32;
/// Bytes of plain text, or of a provider's own data, for each token.
const TEXT_BYTES_PER_TOKEN: u64 = 4;

/// Counts the tokens of a text, for one family of models.
pub trait TokenCounter: Send + Sync + 'static {
    /// Tokens of the text. The same text always gives the same number.
    fn count(&self, text: &str) -> u64;
}

/// A counter without a vocabulary: about four Latin letters to a token, one token for each Chinese, Japanese or Korean sign.
///
/// Rather too high than too low, as a request that is too large fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimate;

impl TokenCounter for Estimate {
    fn count(&self, text: &str) -> u64 {
        let mut hundredths = 0u64;
        let mut after_space = false;
        for letter in text.chars() {
            // Tokens take in the space before a word, and whole runs of spaces.
            let is_space = letter == ' ';
            hundredths += match letter {
                ' ' if after_space => 4,
                ' ' => 20,
                'a'..='z' => 24,
                'A'..='Z' => 32,
                '0'..='9' => 40,
                _ if letter.is_ascii() => 60,
                // Latin with accents, Greek, Cyrillic, Hebrew, Arabic.
                '\u{80}'..='\u{7ff}' => 50,
                // Emoji and rare signs take several.
                '\u{1f000}'.. => 250,
                _ => 100,
            };
            after_space = is_space;
        }
        hundredths.div_ceil(100)
    }
}

/// What a request is made of, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenCount {
    /// The instructions.
    pub system: u64,
    /// The conversation.
    pub messages: u64,
    /// The tools on offer.
    pub tools: u64,
}

impl TokenCount {
    /// All together.
    pub fn total(&self) -> u64 {
        self.system.saturating_add(self.messages).saturating_add(self.tools)
    }
}

/// Tokens of a whole request.
pub fn count_request(
    counter: &dyn TokenCounter,
    system: Option<&str>,
    messages: &[Arc<Message>],
    tools: &[Arc<ToolDefinition>],
) -> TokenCount {
    TokenCount {
        system: system.map_or(0, |system| count_system(counter, system)),
        messages: messages.iter().map(|message| count_message(counter, message)).sum(),
        tools: count_tools(counter, tools),
    }
}

/// Tokens of the instructions; none if there are none.
pub fn count_system(counter: &dyn TokenCounter, system: &str) -> u64 {
    if system.is_empty() {
        return 0;
    }
    SYSTEM_TOKENS + counter.count(system)
}

/// Tokens of one message. System messages count nothing: the instructions are counted apart.
pub fn count_message(counter: &dyn TokenCounter, message: &Message) -> u64 {
    if message.role == Role::System {
        return 0;
    }
    let parts = message.parts.iter().map(|part| count_part(counter, part));
    MESSAGE_TOKENS + parts.sum::<u64>()
}

/// Tokens of the tools on offer.
pub fn count_tools(counter: &dyn TokenCounter, tools: &[Arc<ToolDefinition>]) -> u64 {
    let count = |tool: &Arc<ToolDefinition>| {
        TOOL_TOKENS
            + counter.count(&tool.name)
            + counter.count(&tool.description)
            + counter.count(&tool.input_schema.to_string())
    };
    tools.iter().map(count).sum()
}

fn count_part(counter: &dyn TokenCounter, part: &ContentPart) -> u64 {
    match part {
        ContentPart::Text { text } => counter.count(text),
        ContentPart::Image(_) => IMAGE_TOKENS,
        ContentPart::Document(document) => count_document(document),
        ContentPart::Reasoning(reasoning) => match &reasoning.opaque {
            Some(opaque) if reasoning.text.is_empty() => {
                opaque.data.len() as u64 / TEXT_BYTES_PER_TOKEN
            }
            _ => counter.count(&reasoning.text),
        },
        ContentPart::ToolCall(call) => {
            TOOL_CALL_TOKENS + counter.count(&call.name) + counter.count(&call.arguments)
        }
        ContentPart::ToolResult(result) => {
            let parts = result.parts.iter().map(|part| match part {
                ToolResultPart::Text { text } => counter.count(text),
                ToolResultPart::Image(_) => IMAGE_TOKENS,
                ToolResultPart::File(document) => count_document(document),
                ToolResultPart::Unknown(_) => 0,
            });
            TOOL_RESULT_TOKENS + parts.sum::<u64>()
        }
        // It is kept for newer versions, and no wire sends it.
        ContentPart::Unknown(_) => 0,
    }
}

fn count_document(document: &Document) -> u64 {
    match &document.source {
        MediaSource::Url(_) => IMAGE_TOKENS,
        MediaSource::Base64 { media_type, data } => {
            let bytes = data.len() as u64 / 4 * 3;
            if media_type.starts_with("text/") {
                bytes / TEXT_BYTES_PER_TOKEN
            } else {
                IMAGE_TOKENS + bytes / DOCUMENT_BYTES_PER_TOKEN
            }
        }
    }
}

/// Corrects estimates by what the provider reported for earlier requests of the same conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calibration {
    /// What one estimated token really is, in thousandths.
    permille: u64,
    /// True once a provider reported something.
    observed: bool,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { permille: 1000, observed: false }
    }
}

impl Calibration {
    /// Bounds of the correction: a report beyond them counts something else than we do.
    const PERMILLE: std::ops::RangeInclusive<u64> = 500..=3000;
    /// Estimates below this are mostly overhead and teach nothing.
    const TOKENS_MIN: u64 = 50;

    /// Takes in what a request was estimated at, without correction, and what the provider counted.
    pub fn observe(&mut self, estimated: u64, reported: u64) {
        if estimated < Self::TOKENS_MIN || reported == 0 {
            return;
        }
        let sample = reported.saturating_mul(1000) / estimated;
        let sample = sample.clamp(*Self::PERMILLE.start(), *Self::PERMILLE.end());
        // The first report is better than no knowledge; later ones move the ratio half the way.
        self.permille = if self.observed { self.permille.midpoint(sample) } else { sample };
        self.observed = true;
    }

    /// The corrected estimate, rounded up.
    pub fn correct(&self, estimated: u64) -> u64 {
        estimated.saturating_mul(self.permille).div_ceil(1000)
    }

    /// The uncorrected estimate that stands for so many real tokens: moves a budget instead of every count.
    pub fn uncorrected(&self, real: u64) -> u64 {
        real.saturating_mul(1000) / self.permille.max(1)
    }
}

#[cfg(test)]
mod tests;
