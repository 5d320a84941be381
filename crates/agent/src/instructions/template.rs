//! Templates: minijinja, strict about what is missing.

use std::collections::BTreeSet;
use std::fmt;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Map;

/// The name of the one template in an environment.
const NAME: &str = "prompt";

/// Why a prompt could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// The text is not a template.
    #[error("line {line} of the template: {problem}")]
    Syntax {
        /// Which line.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// Values the template needs are not there.
    #[error("the template needs {}: set it with `.state(name, value)`", quoted(.0))]
    Missing(Vec<String>),
    /// Filling it in failed.
    #[error("line {line} of the template: {problem}")]
    Render {
        /// Which line.
        line: usize,
        /// What went wrong.
        problem: String,
    },
    /// The program's own function failed.
    #[error("the instruction provider failed: {0}")]
    Provider(String),
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// A compiled template. The source is compiled once; the same source gives an equal template.
pub struct Template {
    environment: Environment<'static>,
    source: String,
    required: Vec<String>,
}

impl Template {
    /// Compiles a source.
    pub fn new(source: impl Into<String>) -> Result<Self, PromptError> {
        Self::with_functions(source, |_| {})
    }

    /// Compiles a source with functions and filters of the program's own; they win over the built-in ones.
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

    /// Names values that must be there, also where no path of the template reads them.
    #[must_use]
    pub fn require<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.required.extend(names.into_iter().map(Into::into));
        self
    }

    /// The source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Fills it in. Anything missing is an error that names it.
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
