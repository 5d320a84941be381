//! The files of conversations, in the data directory: declared programs work on them, and a run that goes on after a crash is
//! told if they are gone.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::ErrorKind;
use provost_engine::{Lease, WorkspaceProbe as Survivors};
use provost_workspace::conversation::{Workspaces, WorkspacesOptions};

use super::ToolProvider;
use crate::error::HostError;

/// The directory of the files of conversations in the data directory.
const WORKSPACES: &str = "workspaces";

/// Opens them.
pub(super) async fn open(dir: &Path) -> Result<Workspaces, HostError> {
    let options = WorkspacesOptions::in_dir(dir.join(WORKSPACES));
    let opened = Workspaces::open(options).await;
    opened.map_err(|error| HostError::new(ErrorKind::Unavailable, error.to_string()))
}

impl ToolProvider {
    /// Tells an engine whether the files of a resumed run are intact, if any are kept.
    pub fn workspaces(&self) -> Option<Arc<dyn Survivors>> {
        self.workspaces.clone().map(|workspaces| Arc::new(Asked(workspaces)) as _)
    }
}

/// Answers the engine.
struct Asked(Workspaces);

impl Survivors for Asked {
    fn is_intact<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, bool> {
        self.0.survived(&lease.namespace, &lease.session).boxed()
    }
}
