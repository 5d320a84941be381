//! Estimates the number of tokens of a request.
//!
//! Vocabularies are large and differ between models, so the default counts by kinds of characters. [`TokenCalibration`]
//! corrects the estimate by the reported usage.

use std::sync::Arc;

use provost_core::{
    ContentPart, Document, MediaSource, Message, Role, ToolDefinition, ToolResultPart,
};
use serde::{Deserialize, Serialize};

/// Tokens of the instructions in addition to their text.
const SYSTEM_TOKENS: u64 = 15;
/// Tokens of a message in addition to its parts.
const MESSAGE_TOKENS: u64 = 10;
/// Tokens of a tool call in addition to its name and arguments.
const TOOL_CALL_TOKENS: u64 = 10;
/// Tokens of a tool result in addition to its parts.
const TOOL_RESULT_TOKENS: u64 = 10;
/// Tokens of a tool definition in addition to its texts.
const TOOL_TOKENS: u64 = 20;
/// Tokens of an image or a linked document.
const IMAGE_TOKENS: u64 = 512;
/// Bytes per token of a binary document. PDF pages have many bytes and few tokens.
const DOCUMENT_BYTES_PER_TOKEN: u64 = 32;
/// Bytes per token of plain text and of opaque provider data.
const TEXT_BYTES_PER_TOKEN: u64 = 4;

/// Counts the tokens of a text.
pub trait TokenCounter: Send + Sync + 'static {
    /// Returns the number of tokens. It is the same for equal texts.
    fn count(&self, text: &str) -> u64;
}

/// Counter without a vocabulary: about four Latin letters per token, and one token per Chinese, Japanese or Korean
/// character.
///
/// It tends to count too many tokens, because a request that is too large fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeuristicCounter;

impl TokenCounter for HeuristicCounter {
    fn count(&self, text: &str) -> u64 {
        let mut hundredths = 0u64;
        let mut after_space = false;
        for letter in text.chars() {
            // A token includes the space before a word, and a run of spaces is one token.
            let is_space = letter == ' ';
            hundredths += match letter {
                ' ' if after_space => 4,
                ' ' => 20,
                'a'..='z' => 24,
                'A'..='Z' => 32,
                '0'..='9' => 40,
                _ if letter.is_ascii() => 60,
                // Latin letters with accents, Greek, Cyrillic, Hebrew and Arabic.
                '\u{80}'..='\u{7ff}' => 50,
                // Emoji and rare characters take several tokens.
                '\u{1f000}'.. => 250,
                _ => 100,
            };
            after_space = is_space;
        }
        hundredths.div_ceil(100)
    }
}

/// Numbers of tokens in the instructions, messages and tools of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenCount {
    /// Tokens of the instructions.
    pub system: u64,
    /// Tokens of the messages.
    pub messages: u64,
    /// Tokens of the tool definitions.
    pub tools: u64,
}

impl TokenCount {
    /// Returns the number of all tokens.
    pub fn total(&self) -> u64 {
        self.system.saturating_add(self.messages).saturating_add(self.tools)
    }
}

/// Counts the tokens of a request.
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

/// Counts the tokens of the instructions. Zero if they are empty.
pub fn count_system(counter: &dyn TokenCounter, system: &str) -> u64 {
    if system.is_empty() {
        return 0;
    }
    SYSTEM_TOKENS + counter.count(system)
}

/// Counts the tokens of a message. A system message counts zero, because the instructions are counted separately.
pub fn count_message(counter: &dyn TokenCounter, message: &Message) -> u64 {
    if message.role == Role::System {
        return 0;
    }
    let parts = message.parts.iter().map(|part| count_part(counter, part));
    MESSAGE_TOKENS + parts.sum::<u64>()
}

/// Counts the tokens of the tool definitions.
pub fn count_tools(counter: &dyn TokenCounter, tools: &[Arc<ToolDefinition>]) -> u64 {
    let count = |tool: &Arc<ToolDefinition>| {
        TOOL_TOKENS
            + counter.count(&tool.name)
            + counter.count(&tool.description)
            + counter.count(&tool.input_schema.to_string())
    };
    tools.iter().map(count).sum()
}

/// Counts the tokens of a part of a message. Unknown parts count 0.
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
        // The part is kept for newer versions and is never sent.
        ContentPart::Unknown(_) => 0,
    }
}

/// Estimates the tokens of a document from its size, or from [`IMAGE_TOKENS`] if it is a link.
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

/// Corrects estimates by the usage that the provider reported for earlier requests of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenCalibration {
    /// Actual tokens per thousand estimated tokens.
    permille: u64,
    /// True once the provider reported a usage.
    observed: bool,
}

impl Default for TokenCalibration {
    fn default() -> Self {
        Self { permille: 1000, observed: false }
    }
}

impl TokenCalibration {
    /// Limits of the correction. A report outside of them counts other things than the estimate.
    const RATIO_RANGE: std::ops::RangeInclusive<u64> = 500..=3000;
    /// Smaller estimates are mostly overhead and are ignored.
    const TOKENS_MIN: u64 = 50;

    /// Records the uncorrected estimate of a request and the reported number of tokens. Ignores small estimates and
    /// empty reports.
    pub fn observe(&mut self, estimated: u64, reported: u64) {
        if estimated < Self::TOKENS_MIN || reported == 0 {
            return;
        }
        let sample = reported.saturating_mul(1000) / estimated;
        let sample = sample.clamp(*Self::RATIO_RANGE.start(), *Self::RATIO_RANGE.end());
        // The first report replaces the default. Each later report moves the ratio halfway.
        self.permille = if self.observed { self.permille.midpoint(sample) } else { sample };
        self.observed = true;
    }

    /// Returns the corrected estimate, rounded up.
    pub fn correct(&self, estimated: u64) -> u64 {
        estimated.saturating_mul(self.permille).div_ceil(1000)
    }

    /// Returns the uncorrected estimate for an actual number of tokens. It converts a limit once instead of every
    /// count.
    pub fn uncorrected(&self, actual: u64) -> u64 {
        actual.saturating_mul(1000) / self.permille.max(1)
    }
}

#[cfg(test)]
mod tests;
