//! Agents that others have described: what of a description counts on this host.

use std::path::PathBuf;

use provost_engine::AgentProfile;
use serde::Deserialize;

use super::{AgentSpec, INSTRUCTIONS, MORE};
use crate::model::ModelRequest;
use crate::tool::{Files, Shell};

/// How agents are made that others have described, over the API maybe.
///
/// Whoever may describe an agent must not choose where a key is sent or where files are written: the host decides both.
pub struct HostDefaults {
    /// The model of those that name none.
    pub wanted: ModelRequest,
    /// Where notes are written.
    pub notes_dir: PathBuf,
    /// The files of the host.
    pub files: Option<Files>,
    /// The command lines that run on the host.
    pub shell: Option<Shell>,
}

/// What somebody may say about an agent beside its model and its instructions.
#[derive(Deserialize)]
#[serde(default)]
struct Described {
    tools: bool,
    /// Where nothing is said, it may ask if there is somebody to ask.
    ask_user: Option<bool>,
    children: bool,
    /// What it may do with the files of the host: nothing unless it says so.
    files: FilesUse,
    /// True if it may run the command lines that the host allows.
    shell: bool,
    /// The declared tools that it uses: none unless it says so.
    declared_tools: Vec<String>,
    max_turns: Option<u32>,
    timeout_ms: Option<u64>,
}

/// What an agent may do with the files of the host; never more than the host allows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FilesUse {
    #[default]
    None,
    Ro,
    Rw,
}

impl Default for Described {
    fn default() -> Self {
        Self {
            tools: true,
            ask_user: None,
            children: false,
            files: FilesUse::None,
            shell: false,
            declared_tools: Vec::new(),
            max_turns: None,
            timeout_ms: None,
        }
    }
}

impl HostDefaults {
    pub(super) fn resolve(&self, profile: &AgentProfile) -> Result<AgentSpec, String> {
        let config = &profile.config;
        if config.more.contains_key(MORE) {
            let spec = AgentSpec::read(profile)?;
            let has_own = spec.base_url.is_some() || spec.api_key_env.is_some();
            let is_ours = spec.base_url == self.wanted.base_url
                && spec.api_key_env == self.wanted.api_key_env;
            if has_own && !is_ours {
                return Err("its model has an address or a key of its own, which only the terminal may use that made \
                     it: `provost run --resume` goes on there"
                    .to_owned());
            }
            // A terminal's directory is not the host's, and neither are its tools.
            let own =
                AgentSpec { notes_dir: self.notes_dir.clone(), files: None, shell: None, ..spec };
            return Ok(AgentSpec { declared: Some(Vec::new()), ..own });
        }
        let more = serde_json::Value::Object(config.more.clone());
        let described = Described::deserialize(more).map_err(|error| error.to_string())?;
        let wanted = match (&config.provider, &config.model) {
            (_, None) => self.wanted.clone(),
            (Some(provider), Some(model)) if !model.contains('/') => {
                self.wanted.with_model(&format!("{provider}/{model}"))
            }
            (_, Some(model)) => self.wanted.with_model(model),
        };
        Ok(AgentSpec {
            model: wanted.model.unwrap_or_default(),
            system: config.system_prompt.clone().unwrap_or_else(|| INSTRUCTIONS.to_owned()),
            is_interactive: true,
            base_url: wanted.base_url,
            api_key_env: wanted.api_key_env,
            tools: described.tools,
            ask_user: described.ask_user.or(config.policy.interactive).unwrap_or(false),
            children: described.children,
            notes_dir: self.notes_dir.clone(),
            files: self.files_for(described.files),
            shell: self.shell.clone().filter(|_| described.shell),
            resources: None,
            declared: Some(described.declared_tools),
            max_turns: described.max_turns,
            timeout_ms: described.timeout_ms,
        })
    }

    fn files_for(&self, wanted: FilesUse) -> Option<Files> {
        let files = self.files.clone().filter(|_| wanted != FilesUse::None)?;
        Some(Files { write: files.write && wanted == FilesUse::Rw, ..files })
    }
}
