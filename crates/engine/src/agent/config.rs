//! Configuration of an agent: defaults, validation and merging of changes.

use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::lifecycle::RequestError;
use provost_core::scheduling::{InputQueueOverride, InputQueueSettings};
use provost_core::text::first_chars;
use provost_core::usage::limits::{COMMAND_PROMPT_BYTES_MAX, NAME_CHARS_MAX};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::EngineError;

/// Name of the only supported runner: the agent loop of this program.
pub const DEFAULT_RUNNER: &str = "provost";

/// The supported model providers.
const PROVIDERS: [&str; 5] = ["anthropic", "openai", "openrouter", "ollama", "openai-compatible"];

/// Default instructions of a new agent.
const SYSTEM_PROMPT: &str = "You are a helpful agent. Complete the requested task with your tools, report what you did, and ask \
     if you cannot continue.";

/// Configuration of an agent. Keys that the engine does not know belong to the agent factory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentConfig {
    /// The runner; `provost` if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// The model provider, if the model name does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model, such as `anthropic/claude-sonnet-4-5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The working directory, relative to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_dir: Option<String>,
    /// The policy of its runs; unset fields keep the default.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: ExecutionPolicyPatch,
    /// Queue settings for inputs of its tasks; unset fields keep the default.
    #[serde(skip_serializing_if = "is_default")]
    pub queue: InputQueueOverride,
    /// All other keys, for the agent factory.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Returns true for the default value, which is not serialized.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl AgentConfig {
    /// Returns the default configuration of a new agent.
    pub fn default_for(name: &str) -> Self {
        Self {
            runner: Some(DEFAULT_RUNNER.to_owned()),
            system_prompt: Some(SYSTEM_PROMPT.to_owned()),
            workspace_dir: Some(format!("agents/{name}")),
            ..Self::default()
        }
    }

    /// Returns the default configuration after checking the name.
    pub fn default_named(name: &str) -> Result<Self, EngineError> {
        check_name(name)?;
        Ok(Self::default_for(name))
    }

    /// Fails if a value is invalid. Checks everything that needs no other data.
    pub fn validate(&self) -> Result<(), EngineError> {
        if let Some(runner) = self.runner.as_deref().filter(|runner| *runner != DEFAULT_RUNNER) {
            let fix = format!("use `{DEFAULT_RUNNER}`, or omit it");
            return Err(unknown("agent.runner", runner, fix));
        }
        let of_model = self.model.as_deref().and_then(|model| model.split_once('/'));
        let provider = self.provider.as_deref();
        if let Some(provider) = provider.filter(|provider| !PROVIDERS.contains(provider)) {
            let fix = format!("use one of {}", PROVIDERS.join(", "));
            return Err(unknown("agent.provider", provider, fix));
        }
        if let (Some(provider), Some((named, _))) = (provider, of_model)
            && PROVIDERS.contains(&named)
            && named != provider
        {
            let problem = format!("the model belongs to `{named}`");
            let fix = "omit the provider, or use one of its models";
            return Err(RequestError::invalid("agent.provider", problem, fix).into());
        }
        let bytes = self.system_prompt.as_ref().map_or(0, String::len);
        if bytes > COMMAND_PROMPT_BYTES_MAX {
            let (path, max) = ("agent.system_prompt".to_owned(), COMMAND_PROMPT_BYTES_MAX);
            return Err(RequestError::TooLarge { path, bytes, max }.into());
        }
        if let Some(dir) = &self.workspace_dir
            && (dir.is_empty() || dir.starts_with('/') || dir.split('/').any(|part| part == ".."))
        {
            let fix = "use a path below the workspace, such as agents/lead";
            return Err(unknown("agent.workspace_dir", dir, fix.to_owned()));
        }
        self.policy.validate()?;
        InputQueueSettings::default().with(&[self.queue]).validate()?;
        Ok(())
    }

    /// Returns this configuration with a change: maps are merged, `null` removes a key, other values replace.
    pub fn merged(&self, change: &Map<String, Value>) -> Result<Self, EngineError> {
        let mut config = serde_json::to_value(self)?;
        merge(&mut config, &Value::Object(change.clone()));
        serde_json::from_value(config).map_err(|error| {
            RequestError::invalid("agent", error.to_string(), "send a value that the key accepts")
                .into()
        })
    }
}

/// Merges a change into a value: objects are merged member by member, `null` removes a member, and any other value
/// replaces.
fn merge(base: &mut Value, change: &Value) {
    let Value::Object(fields) = change else {
        *base = change.clone();
        return;
    };
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    let Value::Object(known) = base else { return };
    for (key, value) in fields {
        match value {
            Value::Null => drop(known.remove(key)),
            value => merge(known.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

/// Creates the error of a value that cannot be used.
fn unknown(path: &str, value: &str, fix: String) -> EngineError {
    let value = first_chars(value, 64);
    RequestError::invalid(path, format!("`{value}` cannot be used"), fix).into()
}

/// Fails for an invalid agent name. Names are short, because paths, keys and events contain them.
pub(super) fn check_name(name: &str) -> Result<(), EngineError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(legal) {
        return Ok(());
    }
    let fix = format!("use 1 to {NAME_CHARS_MAX} of a-z, A-Z, 0-9, _, - and .");
    Err(unknown("agent.name", name, fix))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_change_is_merged_into_what_is_there() {
        let base = AgentConfig::default_for("lead")
            .merged(&change(json!({"skills": {"a": 1, "b": {"c": 2}}, "model": "openai/x"})))
            .unwrap();
        let changed = base
            .merged(&change(json!({"skills": {"b": {"d": 3}, "a": null}, "model": null})))
            .unwrap();
        assert_eq!(changed.more["skills"], json!({"b": {"c": 2, "d": 3}}));
        assert_eq!(changed.model, None);
        assert_eq!(changed.system_prompt, base.system_prompt);
        assert_eq!(changed.workspace_dir.as_deref(), Some("agents/lead"));
    }

    #[test]
    fn what_nobody_can_carry_out_is_refused_by_its_place() {
        for (config, path) in [
            (json!({"runner": "claude_code"}), "agent.runner"),
            (json!({"provider": "nobody"}), "agent.provider"),
            (json!({"provider": "openai", "model": "anthropic/x"}), "agent.provider"),
            (json!({"workspace_dir": "../up"}), "agent.workspace_dir"),
            (json!({"queue": {"cap": 0}}), "queue.cap"),
        ] {
            let config: AgentConfig = serde_json::from_value(config).unwrap();
            let refused = config.validate().unwrap_err();
            assert!(refused.to_string().starts_with(path), "{path}: {refused}");
        }
        AgentConfig::default_for("lead").validate().unwrap();
        AgentConfig::default().validate().unwrap();
    }

    #[test]
    fn a_name_is_a_short_word() {
        check_name("lead-2.x").unwrap();
        for bad in ["", "a b", "a/b", &"x".repeat(65)] {
            assert_eq!(check_name(bad).unwrap_err().code(), "invalid", "{bad}");
        }
    }
}
