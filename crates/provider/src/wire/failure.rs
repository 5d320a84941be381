//! What a vendor's error answer means. One table for all wires: vendors copy each other's words.

use provost_core::text::truncate_chars;
use provost_model::{ModelError, ModelErrorClass};
use serde::Deserialize;
use serde_json::Value;

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
    #[serde(alias = "Message")]
    message: Option<Value>,
    detail: Option<Value>,
    code: Option<Value>,
    #[serde(rename = "__type")]
    kind: Option<Value>,
}

/// Reads an error answer.
pub(crate) fn read(status: Option<u16>, body: &[u8]) -> ModelError {
    error(status, words(body))
}

/// Reads an error whose kind stands before it and not in it.
pub(crate) fn named(kind: &[u8], body: &[u8]) -> ModelError {
    let kind = String::from_utf8_lossy(kind).into_owned();
    error(None, Words { kind, ..words(body) })
}

fn error(status: Option<u16>, words: Words) -> ModelError {
    let status = status.or(words.status);
    let class = classify(status, &words);
    let mut message = sentence(class, &words).to_owned();
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
    // One vendor puts a list around its errors.
    let inner = body.trim_ascii().strip_prefix(b"[").and_then(|body| body.strip_suffix(b"]"));
    let Ok(body) = serde_json::from_slice::<ErrorBody>(inner.unwrap_or(body)) else {
        return Words { message: page(&String::from_utf8_lossy(body)), ..Words::default() };
    };
    let (code, kind) = (as_text(body.code), as_text(body.kind));
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
                kind: Some(field("type"))
                    .filter(|kind| !kind.is_empty())
                    .unwrap_or(field("status")),
                code,
                message: clip(&field("message")),
            }
        }
        Some(Value::String(text)) => Words { message: clip(&text), code, kind, status: None },
        Some(other) => Words { message: clip(&other.to_string()), ..Words::default() },
        None => Words::default(),
    }
}

fn as_text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// What is no JSON. Of a web page only its title says something.
fn page(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let end = lower.get(start..)?.find("</title>")? + start;
        text.get(start + "<title>".len()..end)
    });
    match title {
        Some(title) => format!("a web page, \"{}\"", clip(title)),
        None => clip(text),
    }
}

fn clip(text: &str) -> String {
    truncate_chars(text.trim(), MESSAGE_CHARS_MAX)
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
            "UNAUTHENTICATED" | "PERMISSION_DENIED" => Class::Auth,
            "UNAVAILABLE" | "INTERNAL" => Class::Overloaded,
            "DEADLINE_EXCEEDED" => Class::Timeout,
            "RESOURCE_EXHAUSTED" if words.message.contains("depleted") => Class::QuotaExceeded,
            "RESOURCE_EXHAUSTED" => Class::RateLimited,
            other => match by_exception(other) {
                Some(class) => class,
                None => continue,
            },
        };
        return Some(class);
    }
    None
}

/// The names of one vendor's exceptions, whatever stands around them.
fn by_exception(word: &str) -> Option<ModelErrorClass> {
    use ModelErrorClass as Class;
    let word = word.rsplit('#').next().unwrap_or(word).to_ascii_lowercase();
    Some(match word.as_str() {
        "throttlingexception" => Class::RateLimited,
        "servicequotaexceededexception" => Class::QuotaExceeded,
        "accessdeniedexception" | "unrecognizedclientexception" | "expiredtokenexception" => {
            Class::Auth
        }
        "serviceunavailableexception"
        | "internalserverexception"
        | "modelstreamerrorexception"
        | "modelnotreadyexception" => Class::Overloaded,
        "modeltimeoutexception" => Class::Timeout,
        _ => return None,
    })
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
            "input is too long",
            "maximum number of tokens",
            "input length exceeds",
        ])
    {
        return Some(ModelErrorClass::ContextLength);
    }
    if status.is_none() && says(&["too many requests", "too many concurrent", "rate limit"]) {
        return Some(ModelErrorClass::RateLimited);
    }
    if is_refusal && says(&["credit balance is too low"]) {
        return Some(ModelErrorClass::QuotaExceeded);
    }
    if is_refusal && says(&["api key not valid", "api key expired"]) {
        return Some(ModelErrorClass::Auth);
    }
    if is_refusal && says(&["model identifier is invalid"]) {
        return Some(ModelErrorClass::UnknownModel);
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
        None if words.kind.contains("invalid_request")
            || words.kind == "INVALID_ARGUMENT"
            || words.kind.eq_ignore_ascii_case("validationException") =>
        {
            Class::InvalidRequest
        }
        None => Class::Overloaded,
    }
}

/// True if what was refused is the schema of a tool.
fn is_about_schema(words: &Words) -> bool {
    let message = words.message.to_ascii_lowercase();
    ["invalid schema for function", "input_schema", "inputschema", "function_declarations"]
        .iter()
        .any(|phrase| message.contains(phrase))
}

fn sentence(class: ModelErrorClass, words: &Words) -> &'static str {
    use ModelErrorClass as Class;
    match class {
        Class::InvalidRequest if is_about_schema(words) => {
            "the provider refused the schema of a tool: simplify it or take the tool away"
        }
        Class::Auth => "the provider refused the API key: check the key and what it may use",
        Class::RateLimited => "the provider limits the rate of requests: wait or ask for less",
        Class::QuotaExceeded => "the account has no quota left: check its billing",
        Class::Overloaded => "the provider is overloaded or broken: try again later",
        Class::ContextLength => "the conversation is longer than the model's context: shorten it",
        Class::ContentFilter => {
            "the provider's content filter refused the request: change the prompt"
        }
        Class::UnknownModel => "the provider does not have this model: check its name",
        Class::Timeout => "the provider took too long: try again or ask for less",
        _ => "the provider refused the request: check the settings and the base URL",
    }
}

#[cfg(test)]
mod tests;
