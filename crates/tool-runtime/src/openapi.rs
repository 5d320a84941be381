//! An OpenAPI document as tools: each operation becomes one `http` tool.
//!
//! Invariants: nothing outside the document is fetched; a document, however it is knotted, costs bounded time and memory; an
//! operation that cannot be called rightly is left out with the reason, never half right.

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

/// How a document is read.
#[derive(Debug, Clone, Default)]
pub struct OpenApiOptions {
    /// Where the service is; by the document's own first server if nothing is said.
    pub base_url: Option<Url>,
    /// Put before each name, such as `shop_`.
    pub prefix: String,
    /// The secret for each security scheme; a scheme that is not here is its own secret's name.
    pub secrets: BTreeMap<String, String>,
    /// May the service be in the private network?
    pub allow_private: bool,
}

/// The tools of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// One for each operation that can be called.
    pub tools: Vec<ToolResource>,
    /// The operations that cannot, each with the reason.
    pub left_out: Vec<LeftOut>,
}

/// An operation that is no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Method and path.
    pub operation: String,
    /// Why.
    pub why: String,
}

/// Why a document has no tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenApiError {
    /// It is too large.
    #[error("the OpenAPI document has {bytes} bytes: at most {DOCUMENT_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is no JSON.
    #[error("the OpenAPI document is no JSON: {0}")]
    Syntax(String),
    /// It is another kind of document.
    #[error("this is no OpenAPI 3.0 or 3.1 document: {0}")]
    Version(String),
    /// It does not say where the service is.
    #[error(
        "the OpenAPI document names no usable server: {0}; give the service's address yourself"
    )]
    Server(String),
}

/// The methods that become tools, in the order in which they are read.
const METHODS: [(&str, HttpMethod); 6] = [
    ("get", HttpMethod::Get),
    ("head", HttpMethod::Head),
    ("post", HttpMethod::Post),
    ("put", HttpMethod::Put),
    ("patch", HttpMethod::Patch),
    ("delete", HttpMethod::Delete),
];

/// Reads a document that is JSON text.
pub fn read_openapi(text: &[u8], options: &OpenApiOptions) -> Result<Imported, OpenApiError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(OpenApiError::TooLarge { bytes: text.len() });
    }
    let document =
        serde_json::from_slice(text).map_err(|error| OpenApiError::Syntax(error.to_string()))?;
    import_openapi(&document, options)
}

/// Makes tools of a document.
pub fn import_openapi(
    document: &Value,
    options: &OpenApiOptions,
) -> Result<Imported, OpenApiError> {
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if !["3.0", "3.1"].iter().any(|known| version.starts_with(known)) {
        let shown = match document.get("swagger").and_then(Value::as_str) {
            Some(old) => format!("it is Swagger {}", crate::transport::fault::shown(old)),
            None => format!("its version is `{}`", crate::transport::fault::shown(version)),
        };
        return Err(OpenApiError::Version(shown));
    }
    let base = base(document, options)?;
    let reading = Reading { document, options, base, resolver: Resolver::new(document, version) };
    let mut imported = Imported { tools: Vec::new(), left_out: Vec::new() };
    let mut names = HashSet::new();
    let Some(Value::Object(paths)) = document.get("paths") else {
        return Ok(imported);
    };
    for (path, item) in paths {
        let Ok(item) = reading.resolver.follow(item) else { continue };
        for (word, method) in METHODS {
            let Some(described) = item.get(word) else { continue };
            let operation = Operation { path, word, method, item, described };
            let made = match imported.tools.len() < DOCUMENT_TOOLS_MAX {
                true => operation.tool(&reading),
                false => Err(format!("there are more than {DOCUMENT_TOOLS_MAX} tools")),
            };
            match made {
                Ok(mut tool) => {
                    tool.name = unique(&mut names, &tool.name);
                    imported.tools.push(tool);
                }
                Err(why) => {
                    let operation = format!("{} {path}", word.to_uppercase());
                    imported.left_out.push(LeftOut { operation, why });
                }
            }
        }
    }
    Ok(imported)
}

/// What everything in a document is read against.
struct Reading<'a> {
    document: &'a Value,
    options: &'a OpenApiOptions,
    base: Url,
    resolver: Resolver<'a>,
}

fn base(document: &Value, options: &OpenApiOptions) -> Result<Url, OpenApiError> {
    if let Some(base) = &options.base_url {
        return usable(base.clone());
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
        OpenApiError::Server(format!("`{}` ({error})", crate::transport::fault::shown(&text)))
    })?;
    usable(url)
}

fn usable(url: Url) -> Result<Url, OpenApiError> {
    let clean = url.username().is_empty() && url.password().is_none();
    if matches!(url.scheme(), "http" | "https") && url.host_str().is_some() && clean {
        return Ok(url);
    }
    Err(OpenApiError::Server("it is no plain http:// or https:// address".to_owned()))
}

/// A name that vendors accept.
fn legal(text: &str) -> String {
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

/// A name that no other tool of the document has. Which of two gets the plain one is the document's own order.
fn unique(names: &mut HashSet<String>, name: &str) -> String {
    let mut candidate = name.to_owned();
    let mut number: u64 = 2;
    while !names.insert(candidate.clone()) {
        let suffix = format!("_{number}");
        let kept: String = name.chars().take(NAME_CHARS_MAX - suffix.len()).collect();
        candidate = kept + &suffix;
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests;
