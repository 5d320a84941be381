//! Templates: minijinja with strict handling of missing values.

use std::collections::BTreeSet;
use std::fmt;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Map;

/// Name of the only template in an environment.
const NAME: &str = "prompt";

/// An error in the instructions of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// The text is not a valid template.
    #[error("line {line} of the template: {problem}")]
    Syntax {
        /// The line of the template.
        line: usize,
        /// The syntax error.
        problem: String,
    },
    /// Values that the template needs are missing.
    #[error("the template needs {}: set it with `.state(name, value)`", quoted(.0))]
    Missing(Vec<String>),
    /// The template could not be rendered.
    #[error("line {line} of the template: {problem}")]
    Render {
        /// The line of the template.
        line: usize,
        /// The error.
        problem: String,
    },
    /// The instruction function of the program failed.
    #[error("the instruction provider failed: {0}")]
    Provider(String),
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// A compiled template. It is compiled once and can be rendered many times.
pub struct Template {
    environment: Environment<'static>,
    source: String,
    required: Vec<String>,
}

impl Template {
    /// Compiles a template.
    pub fn new(source: impl Into<String>) -> Result<Self, PromptError> {
        Self::with_functions(source, |_| {})
    }

    /// Compiles a template with additional functions and filters. They replace built-in ones with the same name.
    pub fn with_functions(
        source: impl Into<String>,
        add: impl FnOnce(&mut Environment<'static>),
    ) -> Result<Self, PromptError> {
        let source = source.into();
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        filter::add_all(&mut environment);
        add(&mut environment);
        environment.add_template_owned(NAME, source.clone()).map_err(|error| {
            PromptError::Syntax {
                line: error.line().unwrap_or(1),
                problem: error.detail().unwrap_or("it cannot be parsed").to_owned(),
            }
        })?;
        Ok(Self { environment, source, required: Vec::new() })
    }

    /// Adds names of values that must be present, even if the template does not use them.
    #[must_use]
    pub fn require<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.required.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns the source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders the template. A missing value is an error that names the value.
    pub fn render(&self, values: &Map<String, serde_json::Value>) -> Result<String, PromptError> {
        let missing: Vec<String> =
            self.required.iter().filter(|name| !values.contains_key(*name)).cloned().collect();
        if !missing.is_empty() {
            return Err(PromptError::Missing(missing));
        }
        let template = self.environment.get_template(NAME).map_err(|error| render_error(&error))?;
        template.render(Serde(values)).map_err(|error| {
            if error.kind() == minijinja::ErrorKind::UndefinedError {
                let globals: BTreeSet<&str> =
                    self.environment.globals().map(|(name, _)| name).collect();
                let missing: BTreeSet<String> = template
                    .undeclared_variables(false)
                    .into_iter()
                    .filter(|name| !values.contains_key(name) && !globals.contains(name.as_str()))
                    .collect();
                if !missing.is_empty() {
                    return PromptError::Missing(missing.into_iter().collect());
                }
            }
            render_error(&error)
        })
    }
}

fn render_error(error: &minijinja::Error) -> PromptError {
    PromptError::Render {
        line: error.line().unwrap_or(1),
        problem: error.detail().map_or_else(|| error.to_string(), str::to_owned),
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

#[path = "filter.rs"]
mod filter;

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
