//! What a vendor's error answer means. One table for all wires: vendors copy each other's words.

use serde::Deserialize;
use serde_json::Value;

use crate::{ModelError, ModelErrorClass};

/// Characters of a vendor's own words that are kept.
const MESSAGE_CHARS_MAX: usize = 500;

/// The words of an error answer, wherever the vendor put them.
#[derive(Debug, Default, PartialEq)]
struct Words {
    kind: String,
    code: String,
    message: String,
    status: Option<u16>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
}

/// Reads an error answer.
#[cold]
pub(crate) fn read(status: Option<u16>, body: &[u8]) -> ModelError {
    let words = words(body);
    let status = status.or(words.status);
    let class = classify(status, &words);
    let mut message = sentence(class).to_owned();
    if let Some(status) = status {
        message.push_str(&format!(" (status {status})"));
    }
    if !words.message.is_empty() {
        message.push_str(": ");
        message.push_str(&words.message);
    }
    let mut error = ModelError::new(class, message);
    error.status = status;
    error
}

fn words(body: &[u8]) -> Words {
    let Ok(body) = serde_json::from_slice::<ErrorBody>(body) else {
        return Words { message: clip(&String::from_utf8_lossy(body)), ..Words::default() };
    };
    match body.error.or(body.message).or(body.detail) {
        Some(Value::Object(error)) => {
            let field = |name: &str| match error.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            };
            let code = field("code");
            Words {
                status: code.parse().ok().filter(|status| (400..600).contains(status)),
                kind: field("type"),
                code,
                message: clip(&field("message")),
            }
        }
        Some(Value::String(text)) => Words { message: clip(&text), ..Words::default() },
        Some(other) => Words { message: clip(&other.to_string()), ..Words::default() },
        None => Words::default(),
    }
}

fn clip(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn classify(status: Option<u16>, words: &Words) -> ModelErrorClass {
    by_code(words)
        .or_else(|| by_message(status, &words.message))
        .unwrap_or_else(|| by_status(status, words))
}

fn by_code(words: &Words) -> Option<ModelErrorClass> {
    use ModelErrorClass as Class;
    for word in [words.code.as_str(), words.kind.as_str()] {
        let class = match word {
            "context_length_exceeded" | "exceed_context_size_error" => Class::ContextLength,
            "insufficient_quota"
            | "billing_error"
            | "billing_hard_limit_reached"
            | "billing_not_active" => Class::QuotaExceeded,
            "content_filter" | "content_policy_violation" => Class::ContentFilter,
            "model_not_found" => Class::UnknownModel,
            "invalid_api_key" | "authentication_error" | "permission_error" => Class::Auth,
            "rate_limit_error" | "rate_limit_exceeded" => Class::RateLimited,
            "overloaded_error" | "api_error" | "server_error" => Class::Overloaded,
            "timeout_error" => Class::Timeout,
            _ => continue,
        };
        return Some(class);
    }
    None
}

/// Vendors say some things only in prose.
fn by_message(status: Option<u16>, message: &str) -> Option<ModelErrorClass> {
    let message = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    let is_refusal = matches!(status, None | Some(400 | 413 | 422));
    if is_refusal
        && says(&[
            "maximum context length",
            "context window",
            "context length",
            "context size",
            "prompt is too long",
            "exceed context limit",
            "too many tokens",
        ])
    {
        return Some(ModelErrorClass::ContextLength);
    }
    if is_refusal && says(&["credit balance is too low"]) {
        return Some(ModelErrorClass::QuotaExceeded);
    }
    if is_refusal && says(&["content filtering policy", "content management policy"]) {
        return Some(ModelErrorClass::ContentFilter);
    }
    None
}

fn by_status(status: Option<u16>, words: &Words) -> ModelErrorClass {
    use ModelErrorClass as Class;
    match status {
        Some(401 | 403) => Class::Auth,
        Some(402) => Class::QuotaExceeded,
        Some(404) if words.message.to_ascii_lowercase().contains("model") => Class::UnknownModel,
        Some(408 | 504) => Class::Timeout,
        Some(429) => Class::RateLimited,
        Some(409 | 425 | 500..=599) => Class::Overloaded,
        Some(_) => Class::InvalidRequest,
        None if words.kind.contains("invalid_request") => Class::InvalidRequest,
        None => Class::Overloaded,
    }
}

fn sentence(class: ModelErrorClass) -> &'static str {
    use ModelErrorClass as Class;
    match class {
        Class::Auth => "the provider refused the API key: check the key and what it may use",
        Class::RateLimited => "the provider limits the rate of requests",
        Class::QuotaExceeded => "the account has no quota left: check its billing",
        Class::Overloaded => "the provider is overloaded or broken",
        Class::ContextLength => "the conversation is longer than the model's context: shorten it",
        Class::ContentFilter => "the provider's content filter refused the request",
        Class::UnknownModel => "the provider does not have this model: check its name",
        Class::Timeout => "the provider took too long",
        _ => "the provider refused the request: check the settings and the base URL",
    }
}

#[cfg(test)]
mod tests;
