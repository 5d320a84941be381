//! Agents on the wire.

use provost_api::{Agent, AgentConfig, Problem};
use provost_engine::AgentProfile;
use serde_json::{Map, Value};

use crate::error;

/// An agent as it stands.
pub(crate) fn view(profile: AgentProfile) -> Agent {
    let AgentProfile { name, revision, title, config: stored } = profile;
    Agent { name, revision, title, config: config(stored) }
}

/// How an agent is configured.
pub(crate) fn config(stored: provost_engine::AgentConfig) -> AgentConfig {
    AgentConfig {
        runner: stored.runner,
        provider: stored.provider,
        model: stored.model,
        system_prompt: stored.system_prompt,
        workspace_dir: stored.workspace_dir,
        policy: Some(stored.policy).filter(|policy| *policy != Default::default()),
        queue: Some(stored.queue).filter(|queue| *queue != Default::default()),
        more: stored.more,
    }
}

/// What a caller says about a configuration, as a change of the default.
fn config_map(said: &AgentConfig) -> Result<Map<String, Value>, Problem> {
    match serde_json::to_value(said) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(error::bug(&format!("a configuration became {other}"))),
        Err(error) => Err(error::bug(&error)),
    }
}

/// A new agent's configuration: the default, with what the caller says.
pub(crate) fn new_config(
    name: &str,
    said: &AgentConfig,
) -> Result<provost_engine::AgentConfig, Problem> {
    let default = provost_engine::AgentConfig::default_for(name);
    default.merged(&config_map(said)?).map_err(error::of_engine)
}
