//! Validation of the definition of an agent.

use super::super::ResourceError;
use super::super::text::invalid_field;
use super::{AgentSpec, DEFAULT_RUNNER};
use crate::text::first_chars;
use crate::usage::limits::NAME_CHARS_MAX;

/// The supported model providers.
const PROVIDERS: [&str; 5] = ["anthropic", "openai", "openrouter", "ollama", "openai-compatible"];

/// Fields that earlier versions stored. [`AgentSpec::from_stored`] converts them.
const RESERVED: [&str; 2] = ["terminal", "declared"];

impl AgentSpec {
    /// Validates everything that needs no other data. The path of an error is relative to the definition.
    pub fn validate(&self) -> Result<(), ResourceError> {
        if let Some(runner) = self.runner.as_deref().filter(|runner| *runner != DEFAULT_RUNNER) {
            return Err(unusable("runner", runner, format!("use `{DEFAULT_RUNNER}`, or omit it")));
        }
        self.validate_model()?;
        if let Some(dir) = &self.workspace_dir
            && (dir.is_empty() || dir.starts_with('/') || dir.split('/').any(|part| part == ".."))
        {
            let fix = "use a path below the workspace, such as agents/lead";
            return Err(unusable("workspace_dir", dir, fix.to_owned()));
        }
        if let Some(name) = &self.workspace
            && check_agent_name(name).is_err()
        {
            let fix =
                format!("use a name of at most {NAME_CHARS_MAX} of a-z, A-Z, 0-9, _, - and .");
            return Err(unusable("workspace", name, fix));
        }
        if let Some(key) = RESERVED.into_iter().find(|key| self.extensions.contains_key(*key)) {
            return Err(invalid_field(key, "an earlier version used it", "use another name"));
        }
        Ok(())
    }

    fn validate_model(&self) -> Result<(), ResourceError> {
        let of_model = self.model.as_deref().and_then(|model| model.split_once('/'));
        let provider = self.provider.as_deref();
        if let Some(provider) = provider.filter(|provider| !PROVIDERS.contains(provider)) {
            let fix = format!("use one of {}", PROVIDERS.join(", "));
            return Err(unusable("provider", provider, fix));
        }
        if let (Some(provider), Some((named, _))) = (provider, of_model)
            && PROVIDERS.contains(&named)
            && named != provider
        {
            let problem = format!("the model belongs to `{named}`");
            let fix = "omit the provider, or use one of its models";
            return Err(invalid_field("provider", problem, fix));
        }
        Ok(())
    }
}

/// Checks the name of an agent. Names are short, because paths, keys and events contain them.
pub fn check_agent_name(name: &str) -> Result<(), ResourceError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(legal) {
        return Ok(());
    }
    let fix = format!("use 1 to {NAME_CHARS_MAX} of a-z, A-Z, 0-9, _, - and .");
    Err(unusable("name", name, fix))
}

fn unusable(path: &str, value: &str, fix: String) -> ResourceError {
    invalid_field(path, format!("`{}` cannot be used", first_chars(value, 64)), fix)
}
