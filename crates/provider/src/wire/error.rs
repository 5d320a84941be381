//! Classification of error responses. All wires share one table, because vendors use similar codes.

use provost_core::text::truncate_chars;
use provost_model::{ModelError, ModelErrorClass};
use serde::Deserialize;
use serde_json::Value;

/// Largest number of characters of a vendor's message.
const MESSAGE_CHARS_MAX: usize = 500;

/// Fields of an error response, from any position in its JSON.
#[derive(Debug, Default, PartialEq)]
struct VendorError {
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

/// Parses an error response. `status` is `None` if the error came inside a stream.
pub(crate) fn parse(status: Option<u16>, body: &[u8]) -> ModelError {
    build_error(status, parse_vendor_error(body))
}

/// Parses an error of a stream event whose name is the type of the error.
pub(crate) fn parse_named(kind: &[u8], body: &[u8]) -> ModelError {
    let kind = String::from_utf8_lossy(kind).into_owned();
    build_error(None, VendorError { kind, ..parse_vendor_error(body) })
}

/// Creates the error: class, advice, status and the vendor's message.
fn build_error(status: Option<u16>, vendor: VendorError) -> ModelError {
    let status = status.or(vendor.status);
    let class = classify(status, &vendor);
    let mut message = advice(class, &vendor).to_owned();
    if let Some(status) = status {
        message.push_str(&format!(" (status {status})"));
    }
    if !vendor.message.is_empty() {
        message.push_str(": ");
        message.push_str(&vendor.message);
    }
    let mut error = ModelError::new(class, message);
    error.status = status;
    error
}

/// Parses the body of an error response. A body that is not JSON becomes the message.
fn parse_vendor_error(body: &[u8]) -> VendorError {
    // Gemini wraps its errors in a list.
    let inner = body.trim_ascii().strip_prefix(b"[").and_then(|body| body.strip_suffix(b"]"));
    let Ok(body) = serde_json::from_slice::<ErrorBody>(inner.unwrap_or(body)) else {
        return VendorError {
            message: describe_text(&String::from_utf8_lossy(body)),
            ..VendorError::default()
        };
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
            VendorError {
                status: code.parse().ok().filter(|status| (400..600).contains(status)),
                kind: Some(field("type"))
                    .filter(|kind| !kind.is_empty())
                    .unwrap_or(field("status")),
                code,
                message: truncate(&field("message")),
            }
        }
        Some(Value::String(text)) => {
            VendorError { message: truncate(&text), code, kind, status: None }
        }
        Some(other) => {
            VendorError { message: truncate(&other.to_string()), ..VendorError::default() }
        }
        None => VendorError::default(),
    }
}

/// Returns a JSON string as text. Empty for other values.
fn as_text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Describes a body that is not JSON. A web page is described by its title.
fn describe_text(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let end = lower.get(start..)?.find("</title>")? + start;
        text.get(start + "<title>".len()..end)
    });
    match title {
        Some(title) => format!("a web page, \"{}\"", truncate(title)),
        None => truncate(text),
    }
}

/// Trims a message and limits its length.
fn truncate(text: &str) -> String {
    truncate_chars(text.trim(), MESSAGE_CHARS_MAX)
}

/// Returns the class of an error by its code, otherwise by its message, otherwise by its status.
fn classify(status: Option<u16>, vendor: &VendorError) -> ModelErrorClass {
    class_by_code(vendor)
        .or_else(|| class_by_message(status, &vendor.message))
        .unwrap_or_else(|| class_by_status(status, vendor))
}

/// Returns the class by the code or type of the error. `None` if both are unknown.
fn class_by_code(vendor: &VendorError) -> Option<ModelErrorClass> {
    use ModelErrorClass as Class;
    for code in [vendor.code.as_str(), vendor.kind.as_str()] {
        let class = match code {
            "context_length_exceeded" | "exceed_context_size_error" => Class::ContextLength,
            "insufficient_quota"
            | "billing_error"
            | "billing_hard_limit_reached"
            | "billing_not_active" => Class::QuotaExceeded,
            "content_filter" | "content_policy_violation" => Class::ContentFilter,
            "model_not_found" => Class::ModelNotFound,
            "invalid_api_key" | "authentication_error" | "permission_error" => Class::Auth,
            "rate_limit_error" | "rate_limit_exceeded" => Class::RateLimited,
            "overloaded_error" | "api_error" | "server_error" => Class::Overloaded,
            "timeout_error" => Class::Timeout,
            "UNAUTHENTICATED" | "PERMISSION_DENIED" => Class::Auth,
            "UNAVAILABLE" | "INTERNAL" => Class::Overloaded,
            "DEADLINE_EXCEEDED" => Class::Timeout,
            "RESOURCE_EXHAUSTED" if vendor.message.contains("depleted") => Class::QuotaExceeded,
            "RESOURCE_EXHAUSTED" => Class::RateLimited,
            other => match class_by_exception(other) {
                Some(class) => class,
                None => continue,
            },
        };
        return Some(class);
    }
    None
}

/// Returns the class by the name of an AWS exception, which may have a prefix before `#`. `None` if the name is
/// unknown.
fn class_by_exception(code: &str) -> Option<ModelErrorClass> {
    use ModelErrorClass as Class;
    let code = code.rsplit('#').next().unwrap_or(code).to_ascii_lowercase();
    Some(match code.as_str() {
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

/// Returns the class by phrases in the message, because some errors have no code. `None` if no phrase matches.
fn class_by_message(status: Option<u16>, message: &str) -> Option<ModelErrorClass> {
    let message = message.to_ascii_lowercase();
    let contains = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    let is_client_error = matches!(status, None | Some(400 | 413 | 422));
    if is_client_error
        && contains(&[
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
    if status.is_none() && contains(&["too many requests", "too many concurrent", "rate limit"]) {
        return Some(ModelErrorClass::RateLimited);
    }
    if is_client_error && contains(&["credit balance is too low"]) {
        return Some(ModelErrorClass::QuotaExceeded);
    }
    if is_client_error && contains(&["api key not valid", "api key expired"]) {
        return Some(ModelErrorClass::Auth);
    }
    if is_client_error && contains(&["model identifier is invalid"]) {
        return Some(ModelErrorClass::ModelNotFound);
    }
    if is_client_error && contains(&["content filtering policy", "content management policy"]) {
        return Some(ModelErrorClass::ContentFilter);
    }
    None
}

/// Returns the class by the HTTP status, or by the type of the error if there is no status.
fn class_by_status(status: Option<u16>, vendor: &VendorError) -> ModelErrorClass {
    use ModelErrorClass as Class;
    match status {
        Some(401 | 403) => Class::Auth,
        Some(402) => Class::QuotaExceeded,
        Some(404) if vendor.message.to_ascii_lowercase().contains("model") => Class::ModelNotFound,
        Some(408 | 504) => Class::Timeout,
        Some(429) => Class::RateLimited,
        Some(409 | 425 | 500..=599) => Class::Overloaded,
        Some(_) => Class::InvalidRequest,
        None if vendor.kind.contains("invalid_request")
            || vendor.kind == "INVALID_ARGUMENT"
            || vendor.kind.eq_ignore_ascii_case("validationException") =>
        {
            Class::InvalidRequest
        }
        None => Class::Overloaded,
    }
}

/// Returns true if the vendor rejected the schema of a tool.
fn is_about_schema(vendor: &VendorError) -> bool {
    let message = vendor.message.to_ascii_lowercase();
    ["invalid schema for function", "input_schema", "inputschema", "function_declarations"]
        .iter()
        .any(|phrase| message.contains(phrase))
}

/// Returns the first part of the error message: the cause and what to do.
fn advice(class: ModelErrorClass, vendor: &VendorError) -> &'static str {
    use ModelErrorClass as Class;
    match class {
        Class::InvalidRequest if is_about_schema(vendor) => {
            "the provider rejected the schema of a tool: simplify the schema or remove the tool"
        }
        Class::Auth => "the provider rejected the API key: check the key and its permissions",
        Class::RateLimited => "the provider's rate limit is exceeded: wait or send fewer requests",
        Class::QuotaExceeded => "the account has no quota left: check its billing",
        Class::Overloaded => "the provider is overloaded or broken: try again later",
        Class::ContextLength => "the conversation is longer than the model's context: shorten it",
        Class::ContentFilter => {
            "the provider's content filter rejected the request: change the prompt"
        }
        Class::ModelNotFound => "the provider does not have this model: check its name",
        Class::Timeout => "the provider took too long: try again or request less output",
        _ => "the provider rejected the request: check the settings and the base URL",
    }
}

#[cfg(test)]
mod tests;
