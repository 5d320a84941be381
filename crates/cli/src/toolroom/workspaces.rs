//! The files of conversations, in the data directory: declared programs work on them, and a run that goes on after a crash is
//! told if they are gone.

use std::path::Path;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::ErrorKind;
use provost_engine::{Engine, Lease, Workspaces as Survivors};
use provost_sandbox::{Workspaces, WorkspacesOptions};

use super::Toolroom;
use crate::problem::Problem;

/// The directory of the files of conversations in the data directory.
const WORKSPACES: &str = "workspaces";

/// Opens them.
pub(super) async fn open(dir: &Path) -> Result<Workspaces, Problem> {
    let options = WorkspacesOptions::in_dir(dir.join(WORKSPACES));
    let opened = Workspaces::open(options).await;
    opened.map_err(|error| Problem::new(ErrorKind::Unavailable, error.to_string()))
}

impl Toolroom {
    /// Lets the engine ask whether the files of a run that goes on are what it left.
    pub(crate) fn tell_of_workspaces(&self, engine: &Engine) {
        if let Some(workspaces) = &self.workspaces {
            engine.set_workspaces(Asked(workspaces.clone()));
        }
    }
}

/// Answers the engine.
struct Asked(Workspaces);

impl Survivors for Asked {
    fn survived<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, bool> {
        self.0.survived(&lease.namespace, &lease.session).boxed()
    }
}
