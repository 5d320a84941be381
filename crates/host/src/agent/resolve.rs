//! Resolves the profiles of agents that API clients created.

use std::path::PathBuf;

use provost_engine::AgentRevision;
use serde::Deserialize;

use super::{AgentSpec, INSTRUCTIONS, LOCAL_SPEC_KEY};
use crate::model::ModelRequest;
use crate::tool::{Files, Shell};

/// Defaults of the host for agents that API clients created.
///
/// A client must not choose the server that receives a key, or the directory of files. The host determines both.
pub struct HostDefaults {
    /// Model of agents that have no model.
    pub model: ModelRequest,
    /// Directory of notes.
    pub notes_dir: PathBuf,
    /// Files that agents can use. `None` without a workspace.
    pub files: Option<Files>,
    /// Shell that agents can use. `None` if agents have no shell.
    pub shell: Option<Shell>,
}

/// Options in the stored profile of an agent besides its model and system prompt.
#[derive(Deserialize)]
#[serde(default)]
struct ProfileOptions {
    tools: bool,
    /// `None` to allow questions exactly if the agent is interactive.
    ask_user: Option<bool>,
    children: bool,
    /// Access to the files of the host.
    files: FileAccess,
    /// True if the agent uses the shell of the host.
    shell: bool,
    /// Names of the declared tools that the agent uses.
    declared_tools: Vec<String>,
    max_turns: Option<u32>,
    timeout_ms: Option<u64>,
}

/// Access of an agent to the files of the host, limited by the access of the host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileAccess {
    #[default]
    None,
    #[serde(rename = "ro")]
    ReadOnly,
    #[serde(rename = "rw")]
    ReadWrite,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self {
            tools: true,
            ask_user: None,
            children: false,
            files: FileAccess::None,
            shell: false,
            declared_tools: Vec::new(),
            max_turns: None,
            timeout_ms: None,
        }
    }
}

impl HostDefaults {
    pub(super) fn resolve(&self, profile: &AgentRevision) -> Result<AgentSpec, String> {
        let config = &profile.config;
        if config.more.contains_key(LOCAL_SPEC_KEY) {
            let spec = AgentSpec::from_profile(profile)?;
            let has_own_endpoint = spec.base_url.is_some() || spec.api_key_env.is_some();
            let is_host_endpoint =
                spec.base_url == self.model.base_url && spec.api_key_env == self.model.api_key_env;
            if has_own_endpoint && !is_host_endpoint {
                return Err("its model has a custom address or key, which only the terminal that created the agent can \
                     use: continue there with `provost exec --resume`"
                    .to_owned());
            }
            // The directories and tools of a terminal are not those of the host.
            let resolved =
                AgentSpec { notes_dir: self.notes_dir.clone(), files: None, shell: None, ..spec };
            return Ok(AgentSpec { declared: Some(Vec::new()), ..resolved });
        }
        let more = serde_json::Value::Object(config.more.clone());
        let options = ProfileOptions::deserialize(more).map_err(|error| error.to_string())?;
        let request = match (&config.provider, &config.model) {
            (_, None) => self.model.clone(),
            (Some(provider), Some(model)) if !model.contains('/') => {
                self.model.with_model(&format!("{provider}/{model}"))
            }
            (_, Some(model)) => self.model.with_model(model),
        };
        Ok(AgentSpec {
            model: request.model.unwrap_or_default(),
            system_prompt: config.system_prompt.clone().unwrap_or_else(|| INSTRUCTIONS.to_owned()),
            is_interactive: true,
            base_url: request.base_url,
            api_key_env: request.api_key_env,
            tools: options.tools,
            ask_user: options.ask_user.or(config.policy.interactive).unwrap_or(false),
            children: options.children,
            notes_dir: self.notes_dir.clone(),
            files: self.files_for(options.files),
            shell: self.shell.clone().filter(|_| options.shell),
            manifests: None,
            declared: Some(options.declared_tools),
            max_turns: options.max_turns,
            timeout_ms: options.timeout_ms,
        })
    }

    fn files_for(&self, access: FileAccess) -> Option<Files> {
        let files = self.files.clone().filter(|_| access != FileAccess::None)?;
        Some(Files { write: files.write && access == FileAccess::ReadWrite, ..files })
    }
}
