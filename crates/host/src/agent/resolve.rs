//! Resolves definitions to what this host has: models, directories and the shell.

use std::collections::BTreeMap;
use std::path::PathBuf;

use provost_core::resource::{AgentShell, AgentSpec, FileAccess, ModelEndpoint, workspace_name};

use crate::model::ModelRequest;
use crate::tool::{Files, Shell};

/// Name of the workspace of agents that name none.
pub const DEFAULT_WORKSPACE: &str = "default";

/// Directories that agents can use, by the names of their workspaces.
#[derive(Default)]
pub struct Workspaces(BTreeMap<String, Files>);

impl Workspaces {
    /// Creates the workspaces of a host with one directory, which is the default workspace. `None` without a
    /// workspace.
    pub fn new(files: Option<Files>) -> Self {
        let named = |files: Files| {
            let own = workspace_name(&files.dir);
            [(DEFAULT_WORKSPACE.to_owned(), files.clone()), (own, files)]
        };
        Self(files.into_iter().flat_map(named).collect())
    }

    /// Returns the files of an agent. The access of the host limits that of the agent.
    fn files(&self, spec: &AgentSpec) -> Result<Option<Files>, String> {
        if spec.files == FileAccess::None {
            return Ok(None);
        }
        let files = match &spec.workspace {
            None => self.0.get(DEFAULT_WORKSPACE),
            Some(name) => Some(self.0.get(name).ok_or_else(|| {
                format!(
                    "it uses the workspace `{name}`, which this process does not have: start with --workspace DIR"
                )
            })?),
        };
        let write = spec.files == FileAccess::ReadWrite;
        Ok(files.map(|files| Files { write: files.write && write, ..files.clone() }))
    }
}

/// What a host has for its agents.
///
/// An API client must not choose the server that receives a key, or a directory. The host determines both.
pub struct HostDefaults {
    /// Model of agents that have no model, and the server of models that have no provider.
    pub model: ModelRequest,
    /// Directory of notes.
    pub notes_dir: PathBuf,
    /// Directories that agents can use.
    pub workspaces: Workspaces,
    /// Shell that agents can use. `None` if agents have no shell.
    pub shell: Option<Shell>,
    /// True if the process runs the agents of its own user, who chooses model servers and shells.
    pub is_terminal: bool,
}

/// What an agent gets from this host.
pub(super) struct ResolvedAgent {
    pub(super) model: ModelRequest,
    pub(super) files: Option<Files>,
    pub(super) shell: Option<Shell>,
}

impl HostDefaults {
    pub(super) fn resolve(&self, spec: &AgentSpec) -> Result<ResolvedAgent, String> {
        Ok(ResolvedAgent {
            model: self.model_request(spec)?,
            files: self.workspaces.files(spec)?,
            shell: self.shell(&spec.shell)?,
        })
    }

    fn model_request(&self, spec: &AgentSpec) -> Result<ModelRequest, String> {
        if let Some(ModelEndpoint { base_url, api_key_env }) = &spec.endpoint {
            let is_own = *base_url == self.model.base_url && *api_key_env == self.model.api_key_env;
            if !self.is_terminal && !is_own {
                return Err("its model has a custom address or key, which only the terminal that created the agent can \
                     use: continue there with `provost exec --resume`"
                    .to_owned());
            }
            return Ok(ModelRequest::of_spec(spec));
        }
        Ok(match (&spec.provider, &spec.model) {
            (_, None) => self.model.clone(),
            (Some(provider), Some(model)) if !model.contains('/') => {
                self.model.with_model(&format!("{provider}/{model}"))
            }
            (_, Some(model)) => self.model.with_model(model),
        })
    }

    fn shell(&self, shell: &AgentShell) -> Result<Option<Shell>, String> {
        match shell {
            AgentShell::Host(uses_shell) => Ok(self.shell.clone().filter(|_| *uses_shell)),
            AgentShell::Own(settings) if self.is_terminal => {
                Shell::new(settings.clone()).map(Some).map_err(|error| error.message)
            }
            AgentShell::Own(_) => {
                Err("only the terminal that created the agent can use its shell: continue there with `provost exec --resume`"
                    .to_owned())
            }
        }
    }
}
