//! The workspaces of sessions in the data directory. Declared programs work on them, and a resumed run receives an
//! event if its workspace was lost.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::ErrorKind;
use provost_engine::{Lease, WorkspaceProbe};
use provost_workspace::conversation::{ConversationWorkspaces, WorkspaceOptions};

use super::ToolProvider;
use crate::error::HostError;

/// Name of the workspaces directory in the data directory.
const WORKSPACES: &str = "workspaces";

/// Opens the workspaces.
pub(super) async fn open(dir: &Path) -> Result<ConversationWorkspaces, HostError> {
    let options = WorkspaceOptions::in_dir(dir.join(WORKSPACES));
    let opened = ConversationWorkspaces::open(options).await;
    opened.map_err(|error| HostError::new(ErrorKind::Unavailable, error.to_string()))
}

impl ToolProvider {
    /// Returns the probe that tells the engine whether the workspace of a resumed run is intact. `None` without
    /// workspaces.
    pub fn workspace_probe(&self) -> Option<Arc<dyn WorkspaceProbe>> {
        self.workspaces.clone().map(|workspaces| Arc::new(StoredWorkspaces(workspaces)) as _)
    }
}

/// Looks up the state of workspaces for explanations.
struct StoredWorkspaces(ConversationWorkspaces);

impl WorkspaceProbe for StoredWorkspaces {
    fn is_intact<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, bool> {
        self.0.is_intact(&lease.namespace, &lease.session).boxed()
    }
}
