//! `provost tool import-openapi`: prints one manifest for each operation of an OpenAPI document.

use std::path::{Path, PathBuf};
use std::{fs, io};

use provost_core::resource::ToolResource;
use provost_tool_runtime::{ImportResult, OpenApiOptions, read_openapi};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::render::printer::Printer;
use crate::stdin;

/// Fields that every manifest shows, also with their default values.
const SHOWN_FIELDS: [&str; 3] = ["type", "endpoint", "effect"];

/// Arguments of `provost tool import-openapi`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportOpenApiArgs {
    /// OpenAPI 3.0 or 3.1 document, in JSON or YAML; `-` is standard input
    #[arg(value_name = "DOCUMENT")]
    document: PathBuf,
    /// Base URL of the service; default: the first server of the document
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Prefix of the tool names
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: String,
    /// Secret of a security scheme; default: the secret with the scheme's name; repeatable
    #[arg(long, value_name = "SCHEME=SECRET", value_parser = parse_secret)]
    secret: Vec<SchemeSecret>,
    /// Let the tools reach private networks
    #[arg(long)]
    allow_private: bool,
}

/// The secret of a security scheme.
#[derive(Debug, Clone)]
struct SchemeSecret {
    scheme: String,
    secret: String,
}

fn parse_secret(text: &str) -> Result<SchemeSecret, String> {
    match text.split_once('=') {
        Some((scheme, secret)) if !scheme.is_empty() && !secret.is_empty() => {
            Ok(SchemeSecret { scheme: scheme.to_owned(), secret: secret.to_owned() })
        }
        _ => Err("use SCHEME=SECRET, such as api_key=shop-key".to_owned()),
    }
}

/// Prints the manifests of all supported operations. Notes name the skipped operations.
pub(super) fn run(
    args: &ImportOpenApiArgs,
    namespace: &str,
    printer: Printer,
) -> Result<u8, CliError> {
    let secrets = args.secret.iter().map(|given| (given.scheme.clone(), given.secret.clone()));
    let mut options = OpenApiOptions {
        prefix: args.prefix.clone(),
        secrets: secrets.collect(),
        allow_private: args.allow_private,
        ..OpenApiOptions::default()
    };
    if let Some(url) = &args.base_url {
        let parsed = url.parse();
        options.base_url = Some(parsed.map_err(|error| {
            CliError::invalid(format!("`{url}` is not a base URL: {error}"))
                .hint("use a URL such as https://api.example.com/v1")
        })?);
    }
    let imported = read_openapi(&document(&args.document)?, &options);
    let ImportResult { tools, skipped } =
        imported.map_err(|error| CliError::invalid(error.to_string()))?;
    for operation in &skipped {
        printer.output.note(&format!("skipped {}: {}", operation.operation, operation.reason));
    }
    if tools.is_empty() {
        return Err(CliError::invalid("the document has no operation that can be a tool"));
    }
    let manifests: Vec<String> =
        tools.iter().map(|tool| manifest(tool, namespace)).collect::<Result<_, _>>()?;
    printer.write(&manifests.join("---\n"))?;
    printer.output.note(&format!("imported {} operations", tools.len()));
    Ok(0)
}

/// Reads the document as JSON. A document that is not JSON is read as YAML.
fn document(path: &Path) -> Result<Vec<u8>, CliError> {
    let text = if path == Path::new("-") {
        stdin::read_all(io::stdin().lock())?
    } else {
        let read = fs::read_to_string(path);
        read.map_err(|error| CliError::io(format!("the document {}", path.display()), &error))?
    };
    if text.trim_start().starts_with('{') {
        return Ok(text.into_bytes());
    }
    let value: Value = serde_yaml_ng::from_str(&text)
        .map_err(|error| CliError::invalid(format!("the document is not valid YAML: {error}")))?;
    serde_json::to_vec(&value).map_err(|error| CliError::invalid(error.to_string()))
}

/// Returns the manifest of a tool, in YAML, without fields that have their default value.
fn manifest(tool: &ToolResource, namespace: &str) -> Result<String, CliError> {
    let failed = |error: &dyn std::fmt::Display| {
        CliError::invalid(format!("the tool `{}` has no manifest: {error}", tool.name))
    };
    let minimal = serde_json::from_value::<ToolResource>(json!({ "name": "" }));
    let defaults = json!(minimal.map_err(|error| failed(&error))?);
    let mut spec = json!(tool);
    if let Value::Object(fields) = &mut spec {
        fields.remove("name");
        fields.retain(|name, value| {
            SHOWN_FIELDS.contains(&name.as_str()) || defaults.get(name) != Some(value)
        });
    }
    let mut metadata = json!({ "name": tool.name });
    if namespace != provost_core::id::name::Namespace::default().as_str() {
        metadata["namespace"] = json!(namespace);
    }
    let manifest = json!({ "kind": "Tool", "metadata": metadata, "spec": spec });
    serde_yaml_ng::to_string(&manifest).map_err(|error| failed(&error))
}
