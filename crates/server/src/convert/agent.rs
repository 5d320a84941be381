//! Converts agents.

use provost_api::{Agent, AgentConfig, Problem};
use provost_engine::AgentRevision;
use serde_json::{Map, Value};

use crate::error;

/// Converts an agent.
pub(crate) fn view(profile: AgentRevision) -> Agent {
    let AgentRevision { name, revision, title, config: parse_json } = profile;
    Agent { name, revision, title, config: config(parse_json) }
}

/// Converts the configuration of an agent.
pub(crate) fn config(parse_json: provost_engine::AgentConfig) -> AgentConfig {
    AgentConfig {
        runner: parse_json.runner,
        provider: parse_json.provider,
        model: parse_json.model,
        system_prompt: parse_json.system_prompt,
        workspace_dir: parse_json.workspace_dir,
        policy: Some(parse_json.policy).filter(|policy| *policy != Default::default()),
        queue: Some(parse_json.queue).filter(|queue| *queue != Default::default()),
        more: parse_json.more,
    }
}

/// Converts a configuration of the API to changes of the default.
fn config_map(config: &AgentConfig) -> Result<Map<String, Value>, Problem> {
    match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(error::internal(&format!("a configuration was serialized as {other}"))),
        Err(error) => Err(error::internal(&error)),
    }
}

/// Returns the configuration of a new agent: the default with the keys of the request.
pub(crate) fn new_config(
    name: &str,
    config: &AgentConfig,
) -> Result<provost_engine::AgentConfig, Problem> {
    let default = provost_engine::AgentConfig::default_for(name);
    default.merged(&config_map(config)?).map_err(error::from_engine)
}
