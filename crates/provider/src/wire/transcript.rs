//! Any conversation, made valid for any vendor: a pure function.
//!
//! A conversation may have been written by one vendor's model and go on with another's, may have lost a result in a crash, or
//! may come from an application that keeps its own books. Vendors refuse all of that, each with other words. [`fit`] settles
//! it before a wire encodes anything: calls without a result get one that says so, results without a call go, what only
//! another vendor understands goes, and ids and names take the form that the vendor wants. A conversation that is in order
//! is not copied.

mod alias;
mod rule;
mod settle;

use std::borrow::Cow;

use provost_model::ChatRequest;

pub use self::alias::Aliases;
pub use self::rule::{Charset, IdRule, NameRule};

/// What a vendor wants of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// How tools may be called.
    pub tool_names: NameRule,
    /// How ids of calls may look.
    pub call_ids: IdRule,
    /// Whose reasoning may come back.
    pub reasoning: Replay,
}

/// Whose reasoning may come back to a vendor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Replay {
    /// All of it: the wire sends plain text, if any.
    #[default]
    Text,
    /// Only what this provider itself signed or sealed.
    Own(Cow<'static, str>),
}

impl Replay {
    /// Only what this provider itself signed or sealed.
    pub const fn own(provider: &'static str) -> Self {
        Self::Own(Cow::Borrowed(provider))
    }

    fn is_foreign(&self, provider: &str) -> bool {
        matches!(self, Self::Own(own) if own != provider)
    }
}

/// The request as the vendor takes it, and the names that must be given back when its model calls a tool.
pub fn fit(mut request: ChatRequest, rules: &Rules) -> (ChatRequest, Aliases) {
    settle::settle(&mut request.messages, rules);
    let aliases = alias::apply(&mut request, &rules.tool_names);
    (request, aliases)
}

#[cfg(test)]
mod tests;
