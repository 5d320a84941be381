//! Workspaces of conversations: files that stay from call to call, and come back after a crash.
//!
//! A conversation has one directory. Whoever works in it takes a [`Seat`] first and leaves it afterwards; leaving keeps a
//! snapshot in durable storage ([`Keep`]) before it returns, so a result that was recorded never speaks of files that are
//! lost. A directory that nobody has used for a while is taken away, and made again from its last snapshot when it is needed.
//!
//! Invariants: a conversation belongs to whoever first worked in it, and to nobody else. Before the first change after a
//! snapshot storage knows that there will be one; so whatever is lost, [`Found::Reset`] says so. Nothing here follows a
//! symbolic link of a workspace.

mod active;
mod record;
mod snapshot;
mod snapshot_store;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use provost_core::Env;
use provost_core::contract::{ToolContractError, ToolErrorCode};

use self::active::{Live, Slot};
pub use self::record::{Kept, Mark};
pub use self::snapshot_store::{DirKeep, Keep};
use crate::limits::{WORKSPACE_BYTES_DEFAULT, WORKSPACE_FILES_DEFAULT, WORKSPACE_IDLE_DEFAULT};

/// Whose workspace it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Where the conversation belongs.
    pub namespace: String,
    /// Which one it is there.
    pub conversation: String,
    /// Who speaks in it.
    pub principal: String,
}

/// How workspaces are kept.
pub struct WorkspacesOptions {
    /// Where the directories of conversations in use are.
    pub dir: PathBuf,
    /// Where their snapshots are.
    pub keep: Arc<dyn Keep>,
    /// After how long without a seat a directory is taken away.
    pub idle: Duration,
    /// Bytes of one workspace that are kept.
    pub bytes_max: u64,
    /// Files and directories of one workspace that are kept.
    pub files_max: usize,
    /// Time.
    pub env: Env,
}

impl WorkspacesOptions {
    /// Both in a directory, with the usual bounds.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            keep: Arc::new(DirKeep::new(dir.join("kept"))),
            dir: dir.join("live"),
            idle: WORKSPACE_IDLE_DEFAULT,
            bytes_max: WORKSPACE_BYTES_DEFAULT,
            files_max: WORKSPACE_FILES_DEFAULT,
            env: Env::system(),
        }
    }
}

/// What somebody who takes a seat finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An empty directory: nobody has worked here.
    Fresh,
    /// What was left.
    Same,
    /// What was left, from its last snapshot.
    Restored,
    /// Not what was left, for this reason.
    Reset(String),
}

/// Why there is no seat.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The conversation is somebody else's.
    #[error("the workspace of this conversation belongs to somebody else")]
    Principal,
    /// There is more in it than is kept.
    #[error("the workspace is not kept: {0}")]
    TooLarge(String),
    /// There is no such snapshot.
    #[error("there is no snapshot `{0}` of this workspace")]
    NoSnapshot(String),
    /// Somebody works in it.
    #[error("somebody works in the workspace: wait until the calls are over")]
    InUse,
    /// The operating system says no.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

impl WorkspaceError {
    fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// The same in the words of the tool contract.
    pub fn fault(&self) -> ToolContractError {
        let code = match self {
            Self::Principal => ToolErrorCode::PermissionDenied,
            Self::TooLarge(_) | Self::NoSnapshot(_) | Self::InUse => ToolErrorCode::InvalidInput,
            Self::Io { .. } => ToolErrorCode::ExecutionFailed,
        };
        ToolContractError::new(code, self.to_string())
    }
}

/// The workspaces of conversations. Cheap to clone; the directories go when they are idle, the snapshots stay.
#[derive(Clone)]
pub struct Workspaces(Arc<Inner>);

struct Inner {
    slot: Slot,
    options: WorkspacesOptions,
    /// By the name of the directory.
    known: Mutex<BTreeMap<String, Arc<Mutex<Live>>>>,
}

/// A place in the workspace of a conversation. While there is one, the directory stays.
#[derive(Debug)]
pub struct Seat {
    dir: PathBuf,
    found: Found,
    live: Arc<Mutex<Live>>,
    inner: Weak<Inner>,
}

impl Workspaces {
    /// Takes over what a process that is no more left in the directory, and looks after what is idle from then on.
    pub async fn open(options: WorkspacesOptions) -> Result<Self, WorkspaceError> {
        let opened = blocking(move || {
            let slot = Slot::take(&options.dir)
                .map_err(WorkspaceError::io("no directory for workspaces"))?;
            let left = slot.left().map_err(WorkspaceError::io("no directory for workspaces"))?;
            let now = options.env.now();
            let idle = |key: String| Arc::new(Mutex::new(Live::idle_since(key, now)));
            let known = left.map(|key| (key.clone(), idle(key)));
            let known = Mutex::new(known.collect());
            Ok(Self(Arc::new(Inner { slot, options, known })))
        });
        let opened = opened.await?;
        tokio::spawn(reap_from_time_to_time(
            Arc::downgrade(&opened.0),
            opened.0.options.idle.max(Duration::from_secs(4)) / 4,
        ));
        Ok(opened)
    }

    /// Takes a seat in the workspace of a conversation. What is there is there when this returns.
    pub async fn enter(&self, tenant: &Tenant) -> Result<Seat, WorkspaceError> {
        let (inner, tenant) = (Arc::clone(&self.0), tenant.clone());
        blocking(move || inner.enter(&tenant)).await
    }

    /// True if a conversation that goes on would find what it left. One that has no workspace has lost none.
    pub async fn survived(&self, namespace: &str, conversation: &str) -> bool {
        let key = record::key(namespace, conversation);
        let inner = Arc::clone(&self.0);
        let looked = blocking(move || inner.survived(&key));
        looked.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "nobody can say what became of a workspace");
            false
        })
    }

    /// The snapshots that are kept of a conversation's workspace, oldest first.
    pub async fn snapshots(&self, tenant: &Tenant) -> Result<Vec<Kept>, WorkspaceError> {
        let (inner, tenant) = (Arc::clone(&self.0), tenant.clone());
        blocking(move || {
            let record = inner.record(&tenant.key())?;
            let record = record.unwrap_or_else(|| record::Record::of(&tenant));
            record.check(&tenant)?;
            Ok(record.snapshots)
        })
        .await
    }

    /// Puts a workspace back to what a call left, by its label, or a whole turn. What came after it is forgotten. Nobody may
    /// work there.
    pub async fn rewind(&self, tenant: &Tenant, name: &str) -> Result<(), WorkspaceError> {
        let (inner, tenant, name) = (Arc::clone(&self.0), tenant.clone(), name.to_owned());
        blocking(move || inner.rewind(&tenant, &name)).await
    }

    /// Takes away a workspace with everything that is kept of it. Nobody may work there.
    pub async fn forget(&self, tenant: &Tenant) -> Result<(), WorkspaceError> {
        let (inner, tenant) = (Arc::clone(&self.0), tenant.clone());
        blocking(move || inner.forget(&tenant)).await
    }

    /// Takes away the directories of conversations that nobody has used for a while; gives how many. It happens by itself from
    /// time to time.
    pub async fn reap(&self) -> usize {
        let inner = Arc::clone(&self.0);
        blocking(move || Ok(inner.reap())).await.unwrap_or_default()
    }
}

impl Seat {
    /// Where the files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was found.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// What whoever works here must know of what was found, if anything is lost.
    pub fn loss(&self) -> Option<&str> {
        match &self.found {
            Found::Reset(reason) => Some(reason),
            Found::Fresh | Found::Same | Found::Restored => None,
        }
    }

    /// Keeps what is there now, as what a call has left, and leaves. Dropping a seat leaves without that: the files are kept
    /// when the workspace becomes idle.
    pub async fn leave(self, mark: impl Into<Mark>) -> Result<(), WorkspaceError> {
        let mark = mark.into();
        blocking(move || match self.inner.upgrade() {
            Some(inner) => inner.save(&mut locked(&self.live), &mark),
            None => Ok(()),
        })
        .await
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        locked(&self.live).left(inner.options.env.now());
    }
}

impl std::fmt::Debug for Workspaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspaces").field("dir", &self.0.options.dir).finish_non_exhaustive()
    }
}

async fn reap_from_time_to_time(workspaces: Weak<Inner>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = workspaces.upgrade() else { return };
        Workspaces(inner).reap().await;
    }
}

/// Files are worked on where waiting for a disk holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(WorkspaceError::Io {
            what: "the work was cut off",
            source: io::Error::other(error),
        }),
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
