//! Import of OpenAPI documents: each operation becomes one `http` tool.
//!
//! Invariants: no other document is fetched; every document is imported in bounded time and memory; an operation that
//! is not fully supported is skipped with a reason.

mod operation;
mod parameter;
mod schema;
mod security;

use std::collections::{BTreeMap, HashSet};

use provost_core::resource::{HttpMethod, ToolResource};
use provost_core::usage::limits::NAME_CHARS_MAX;
use serde_json::Value;
use url::Url;

use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_TOOLS_MAX};
use operation::Operation;
use schema::Resolver;

/// Options for importing tools from an OpenAPI document.
#[derive(Debug, Clone, Default)]
pub struct OpenApiOptions {
    /// Base URL of the service. `None` selects the first server of the document.
    pub base_url: Option<Url>,
    /// Prefix of tool names, such as `shop_`.
    pub prefix: String,
    /// Secret names by security scheme. A scheme that is not listed uses its own name.
    pub secrets: BTreeMap<String, String>,
    /// True if the service may be in the private network.
    pub allow_private: bool,
}

/// Imported tools and skipped operations of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportResult {
    /// One tool for each supported operation.
    pub tools: Vec<ToolResource>,
    /// Skipped operations with reasons.
    pub skipped: Vec<SkippedOperation>,
}

/// An operation that was not imported, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedOperation {
    /// Method and path of the operation.
    pub operation: String,
    /// Reason.
    pub reason: String,
}

/// The error of a document that cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenApiError {
    /// The document is too large.
    #[error("the OpenAPI document has {bytes} bytes, the maximum is {DOCUMENT_BYTES_MAX}")]
    TooLarge {
        /// Size of the document in bytes.
        bytes: usize,
    },
    /// The document is not valid JSON.
    #[error("the OpenAPI document is not valid JSON: {0}")]
    Syntax(String),
    /// The document is not an OpenAPI document of a supported version.
    #[error("not an OpenAPI 3.0 or 3.1 document: {0}")]
    Version(String),
    /// The document does not name a usable server.
    #[error("the OpenAPI document names no usable server: {0}; set the base URL")]
    Server(String),
}

/// HTTP methods that are imported, in order.
const METHODS: [(&str, HttpMethod); 6] = [
    ("get", HttpMethod::Get),
    ("head", HttpMethod::Head),
    ("post", HttpMethod::Post),
    ("put", HttpMethod::Put),
    ("patch", HttpMethod::Patch),
    ("delete", HttpMethod::Delete),
];

/// Parses a JSON document and imports its operations as tools. Returns an error if the document is too large or
/// invalid.
pub fn read_openapi(text: &[u8], options: &OpenApiOptions) -> Result<ImportResult, OpenApiError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(OpenApiError::TooLarge { bytes: text.len() });
    }
    let document =
        serde_json::from_slice(text).map_err(|error| OpenApiError::Syntax(error.to_string()))?;
    import_openapi(&document, options)
}

/// Imports the operations of a document as tools. An unsupported operation is skipped. Returns an error if the version
/// or the server of the document is not supported.
pub fn import_openapi(
    document: &Value,
    options: &OpenApiOptions,
) -> Result<ImportResult, OpenApiError> {
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if !["3.0", "3.1"].iter().any(|known| version.starts_with(known)) {
        let version = match document.get("swagger").and_then(Value::as_str) {
            Some(old) => {
                format!("it is Swagger {}", crate::transport::error::truncate_for_error(old))
            }
            None => {
                format!("its version is `{}`", crate::transport::error::truncate_for_error(version))
            }
        };
        return Err(OpenApiError::Version(version));
    }
    let base = base_url(document, options)?;
    let context =
        ImportContext { document, options, base, resolver: Resolver::new(document, version) };
    let mut imported = ImportResult { tools: Vec::new(), skipped: Vec::new() };
    let mut names = HashSet::new();
    let Some(Value::Object(paths)) = document.get("paths") else {
        return Ok(imported);
    };
    for (path, item) in paths {
        let Ok(item) = context.resolver.follow(item) else { continue };
        for (method_name, method) in METHODS {
            let Some(described) = item.get(method_name) else { continue };
            let operation = Operation { path, method_name, method, item, described };
            let made = match imported.tools.len() < DOCUMENT_TOOLS_MAX {
                true => operation.to_tool(&context),
                false => Err(format!("the document has more than {DOCUMENT_TOOLS_MAX} tools")),
            };
            match made {
                Ok(mut tool) => {
                    tool.name = unique_name(&mut names, &tool.name);
                    imported.tools.push(tool);
                }
                Err(reason) => {
                    let operation = format!("{} {path}", method_name.to_uppercase());
                    imported.skipped.push(SkippedOperation { operation, reason });
                }
            }
        }
    }
    Ok(imported)
}

/// Document, options and base URL of an import.
struct ImportContext<'a> {
    document: &'a Value,
    options: &'a OpenApiOptions,
    base: Url,
    resolver: Resolver<'a>,
}

/// Returns the base URL: from the options, or of the first server with the defaults of its variables.
fn base_url(document: &Value, options: &OpenApiOptions) -> Result<Url, OpenApiError> {
    if let Some(base) = &options.base_url {
        return validate_base_url(base.clone());
    }
    let server = document.pointer("/servers/0");
    let text = server.and_then(|server| server.get("url")).and_then(Value::as_str);
    let mut text = text.unwrap_or_default().to_owned();
    let variables = server.and_then(|server| server.get("variables")).and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten() {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        text = text.replace(&format!("{{{name}}}"), default);
    }
    let url = Url::parse(&text).map_err(|error| {
        OpenApiError::Server(format!(
            "`{}` ({error})",
            crate::transport::error::truncate_for_error(&text)
        ))
    })?;
    validate_base_url(url)
}

/// Returns the URL unchanged. Returns an error if it is not HTTP or HTTPS or has a password.
fn validate_base_url(url: Url) -> Result<Url, OpenApiError> {
    let clean = url.username().is_empty() && url.password().is_none();
    if matches!(url.scheme(), "http" | "https") && url.host_str().is_some() && clean {
        return Ok(url);
    }
    Err(OpenApiError::Server("it is not a plain http:// or https:// URL".to_owned()))
}

/// Converts a text to a tool name that all model vendors accept. An empty result becomes `operation`.
fn sanitize_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if c != '_' || !name.ends_with('_') {
            name.push(c);
        }
    }
    let name = name.trim_matches('_');
    let name = if name.is_empty() { "operation" } else { name };
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// Returns a name that no other tool of the document has, and adds it to `names`. The first tool in document order gets
/// the plain name.
fn unique_name(names: &mut HashSet<String>, name: &str) -> String {
    let mut candidate = name.to_owned();
    let mut number: u64 = 2;
    while !names.insert(candidate.clone()) {
        let suffix = format!("_{number}");
        let truncated: String = name.chars().take(NAME_CHARS_MAX - suffix.len()).collect();
        candidate = truncated + &suffix;
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests;
