//! Normalization: makes any conversation valid for any vendor. Pure.
//!
//! A conversation may start with one vendor's model and continue with another's, may have lost a tool result in a
//! crash, or may come from another application. Vendors reject such conversations. [`normalize_request`] runs before a
//! wire encodes: it adds a result to each call without one, removes results without a call, removes data that only
//! another vendor understands, and changes ids and names to the vendor's format. A valid conversation is not copied.

mod pairs;
mod rules;
mod tool_names;

use std::borrow::Cow;

use provost_model::ChatRequest;

pub use self::rules::{CallIdRule, Charset, ToolNameRule};
pub use self::tool_names::ToolNameMap;

/// A vendor's rules for tool names, call ids and reasoning in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageRules {
    /// Rule for the names of tools.
    pub tool_names: ToolNameRule,
    /// Rule for the ids of tool calls.
    pub call_ids: CallIdRule,
    /// Reasoning that is sent back.
    pub reasoning: ReasoningReplay,
}

/// Which earlier reasoning is sent back to a vendor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReasoningReplay {
    /// All reasoning. The wire sends it as plain text or omits it.
    #[default]
    AsText,
    /// Only reasoning that this provider signed or encrypted.
    OwnOnly(Cow<'static, str>),
}

impl ReasoningReplay {
    /// Allows only reasoning that this provider signed or encrypted.
    pub const fn own_only(provider: &'static str) -> Self {
        Self::OwnOnly(Cow::Borrowed(provider))
    }

    /// Returns true if data of this provider must not be sent.
    fn is_foreign(&self, provider: &str) -> bool {
        matches!(self, Self::OwnOnly(own) if own != provider)
    }
}

/// Adapts a request to the rules of a vendor: pairs tool calls with results and renames tools. Also returns the map
/// that restores the tool names in the response.
pub fn normalize_request(
    mut request: ChatRequest,
    rules: &MessageRules,
) -> (ChatRequest, ToolNameMap) {
    pairs::pair_tool_results(&mut request.messages, rules);
    let tool_names = tool_names::rename_tools(&mut request, &rules.tool_names);
    (request, tool_names)
}

#[cfg(test)]
mod tests;
