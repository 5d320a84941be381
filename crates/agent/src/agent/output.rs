//! Typed output.

use std::sync::Arc;

use provost_core::ToolDefinition;
use provost_model::{ModelInfo, OutputSchema, StructuredOutputSupport};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::run::OutputMode;

/// The tool that returns the output, for models without native structured output.
const OUTPUT_TOOL: &str = "final_answer";

type OutputCheck = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// Output type of an agent: its schema, its tool and its checks.
#[derive(Clone)]
pub(crate) struct OutputSpec {
    pub(crate) schema: Arc<OutputSchema>,
    pub(crate) tool: Arc<ToolDefinition>,
    checks: Vec<Arc<OutputCheck>>,
}

impl OutputSpec {
    /// Creates the specification of a type.
    pub(crate) fn for_type<T: DeserializeOwned + JsonSchema + 'static>() -> Self {
        let schema = provost_tool::schema_of::<T>();
        let tool = ToolDefinition {
            name: OUTPUT_TOOL.to_owned(),
            description: "Gives the final answer. Call it once, when everything else is done."
                .to_owned(),
            input_schema: schema.clone(),
        };
        let description = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        let schema = OutputSchema { name: schema_name::<T>(), description, schema };
        Self {
            schema: Arc::new(schema),
            tool: Arc::new(tool),
            checks: vec![Arc::new(|raw: &str| parse::<T>(raw).map(drop))],
        }
    }

    /// Adds a check. Its error text goes back to the model.
    pub(crate) fn with_check<T: DeserializeOwned + 'static>(
        mut self,
        check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(Arc::new(move |raw| check(&parse::<T>(raw)?)));
        self
    }

    /// Returns an error for the model if the output does not parse or fails a check.
    pub(crate) fn check(&self, raw: &str) -> Result<(), String> {
        self.checks.iter().try_for_each(|check| check(raw))
    }

    /// Returns the best output mode that the model supports: native, by a tool, or by instructions.
    pub(crate) fn select_mode(&self, model: &ModelInfo, has_tools: bool) -> OutputMode {
        match model.native_output {
            StructuredOutputSupport::WithTools => OutputMode::Native,
            StructuredOutputSupport::WithoutTools if !has_tools => OutputMode::Native,
            // All vendors require the arguments of a tool to be an object.
            _ if model.tools && self.is_object() => OutputMode::Tool(OUTPUT_TOOL.to_owned()),
            _ => OutputMode::Prompted,
        }
    }

    fn is_object(&self) -> bool {
        self.schema.schema.get("type").is_some_and(|kind| kind == "object")
    }

    /// Returns the paragraph of the instructions that requests JSON, for models that support neither a schema nor
    /// tools.
    pub(crate) fn json_instructions(&self) -> String {
        format!(
            "Answer with one JSON value and nothing else: no explanation, no code fence. It must follow this JSON Schema:\n{}",
            self.schema.schema
        )
    }
}

/// Returns a name for the schema of a type that vendors accept.
fn schema_name<T: JsonSchema>() -> String {
    let name: String = T::schema_name()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
        .take(64)
        .collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

/// Parses a value from a response. Models often wrap JSON in text and code fences. Returns an error for the model if no
/// part of the text is a value of the type.
pub(crate) fn parse<T: DeserializeOwned>(raw: &str) -> Result<T, String> {
    let mut first_problem = None;
    for candidate in candidates(raw) {
        let mut reader = serde_json::Deserializer::from_str(candidate);
        match serde_path_to_error::deserialize(&mut reader) {
            Ok(value) => return Ok(value),
            Err(error) => {
                let path = error.path().to_string();
                let problem = if path == "." {
                    error.inner().to_string()
                } else {
                    format!("field `{path}`: {}", error.inner())
                };
                first_problem.get_or_insert(problem);
            }
        }
    }
    Err(first_problem.unwrap_or_else(|| "there is no JSON in it".to_owned()))
}

/// Returns the whole text, the content of a code fence, and the content of the outermost braces.
fn candidates(raw: &str) -> impl Iterator<Item = &str> {
    let whole = raw.trim();
    let fenced = whole.split_once("```").and_then(|(_, rest)| {
        let body = rest.split_once('\n').map_or(rest, |(_, body)| body);
        body.split_once("```").map(|(body, _)| body.trim())
    });
    let braced = match (whole.find(['{', '[']), whole.rfind(['}', ']'])) {
        (Some(start), Some(end)) if start < end => Some(&whole[start..=end]),
        _ => None,
    };
    std::iter::once(whole).chain(fenced).chain(braced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_found_in_words_and_fences() {
        for raw in
            ["[1,2]", " [1, 2]\n", "```json\n[1,2]\n```", "Here you are: [1,2]. Anything else?"]
        {
            assert_eq!(parse::<Vec<u8>>(raw), Ok(vec![1, 2]), "{raw}");
        }
    }

    #[test]
    fn the_problem_names_the_field() {
        #[derive(serde::Deserialize, Debug)]
        #[expect(dead_code, reason = "only its error is looked at")]
        struct Point {
            x: u8,
        }
        assert!(parse::<Point>(r#"{"x": "a"}"#).unwrap_err().contains("field `x`"));
        assert!(parse::<Point>("hello").is_err());
    }
}
