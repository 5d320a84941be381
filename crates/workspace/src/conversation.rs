//! Workspaces of conversations: files that persist between calls and are restored after a crash.
//!
//! A conversation has one directory. A caller acquires a [`WorkspaceHandle`] before it works in the directory and
//! releases it afterwards. Releasing stores a snapshot durably ([`SnapshotStore`]) before it returns, so a recorded
//! result never refers to lost files. An idle directory is removed, and restored from its last snapshot when it is
//! needed again.
//!
//! Invariants: a conversation belongs to the principal that first used it. Before the first change after a snapshot,
//! the store records that changes follow, so a loss is always reported as [`RestoreStatus::Reset`]. No code in this
//! module follows a symbolic link of a workspace.

mod active;
mod record;
mod snapshot;
mod snapshot_store;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use provost_core::Env;
use provost_core::contract::{ToolContractError, ToolErrorCode};

use self::active::{ActiveWorkspace, OwnedDir};
pub use self::record::{Snapshot, SnapshotLabel};
pub use self::snapshot_store::{DirSnapshotStore, SnapshotStore};
use crate::limits::{WORKSPACE_BYTES_DEFAULT, WORKSPACE_FILES_DEFAULT, WORKSPACE_IDLE_DEFAULT};

/// Identifies the workspace of a conversation by its namespace and id. The principal is not part of the identity: the
/// workspace belongs to the principal that first acquired it, and any other principal is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceKey {
    /// Namespace of the conversation.
    pub namespace: String,
    /// Id of the conversation.
    pub conversation: String,
    /// Principal of the conversation.
    pub principal: String,
}

/// Options of conversation workspaces.
pub struct WorkspaceOptions {
    /// Parent directory of the active directories.
    pub dir: PathBuf,
    /// Store of the snapshots.
    pub store: Arc<dyn SnapshotStore>,
    /// Time without use after which a directory is removed.
    pub idle: Duration,
    /// Maximum size of one workspace, in bytes.
    pub bytes_max: u64,
    /// Maximum number of files and directories of one workspace.
    pub files_max: usize,
    /// Source of time.
    pub env: Env,
}

impl WorkspaceOptions {
    /// Returns the default options, with directories and snapshots below `dir`.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            store: Arc::new(DirSnapshotStore::new(dir.join("kept"))),
            dir: dir.join("live"),
            idle: WORKSPACE_IDLE_DEFAULT,
            bytes_max: WORKSPACE_BYTES_DEFAULT,
            files_max: WORKSPACE_FILES_DEFAULT,
            env: Env::system(),
        }
    }
}

/// State of a workspace when it is acquired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreStatus {
    /// An empty directory of a new workspace.
    New,
    /// The directory of the previous call.
    Unchanged,
    /// The files of the previous call, restored from a snapshot.
    Restored,
    /// Files were lost. Contains the reason.
    Reset(String),
}

/// A workspace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The conversation belongs to another principal.
    #[error("the workspace of this conversation belongs to another principal")]
    WrongPrincipal,
    /// The workspace exceeds a limit.
    #[error("the workspace cannot be stored: {0}")]
    TooLarge(String),
    /// The snapshot does not exist.
    #[error("the workspace has no snapshot `{0}`")]
    NoSnapshot(String),
    /// The workspace is in use.
    #[error("the workspace is in use: wait until its calls have ended")]
    InUse,
    /// An operating system call failed.
    #[error("{operation}: {source}")]
    Io {
        /// Operation that failed.
        operation: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl WorkspaceError {
    /// Returns a function that wraps an error of the operating system with the operation that failed.
    fn io(operation: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }

    /// Converts the error into an error of the tool contract.
    pub fn to_contract_error(&self) -> ToolContractError {
        let code = match self {
            Self::WrongPrincipal => ToolErrorCode::PermissionDenied,
            Self::TooLarge(_) | Self::NoSnapshot(_) | Self::InUse => ToolErrorCode::InvalidInput,
            Self::Io { .. } => ToolErrorCode::ExecutionFailed,
        };
        ToolContractError::new(code, self.to_string())
    }
}

/// The workspaces of conversations. Idle directories are removed; their snapshots remain.
#[derive(Clone)]
pub struct ConversationWorkspaces(Arc<ConversationInner>);

/// The directories of this process, and the options.
struct ConversationInner {
    owned: OwnedDir,
    options: WorkspaceOptions,
    /// Active workspaces by the name of their directory.
    active: Mutex<BTreeMap<String, Arc<Mutex<ActiveWorkspace>>>>,
}

/// Shared access to the workspace of a conversation: several handles may exist at the same time. The directory exists
/// at least as long as a handle.
#[derive(Debug)]
pub struct WorkspaceHandle {
    dir: PathBuf,
    status: RestoreStatus,
    active: Arc<Mutex<ActiveWorkspace>>,
    inner: Weak<ConversationInner>,
}

impl ConversationWorkspaces {
    /// Opens the workspaces below a directory. Adopts the directories of a process that no longer exists. Starts a
    /// task that stores and removes idle directories until the last clone is dropped.
    pub async fn open(options: WorkspaceOptions) -> Result<Self, WorkspaceError> {
        let opened = blocking(move || {
            let owned = OwnedDir::claim(&options.dir)
                .map_err(WorkspaceError::io("cannot create the directory for workspaces"))?;
            let existing = owned
                .existing_keys()
                .map_err(WorkspaceError::io("cannot create the directory for workspaces"))?;
            let now = options.env.now();
            let idle = |key: String| Arc::new(Mutex::new(ActiveWorkspace::idle_since(key, now)));
            let active = existing.map(|key| (key.clone(), idle(key)));
            let active = Mutex::new(active.collect());
            Ok(Self(Arc::new(ConversationInner { owned, options, active })))
        });
        let opened = opened.await?;
        tokio::spawn(remove_idle_periodically(
            Arc::downgrade(&opened.0),
            opened.0.options.idle.max(Duration::from_secs(4)) / 4,
        ));
        Ok(opened)
    }

    /// Acquires the workspace of a conversation: creates its directory, keeps it, or restores it from the last
    /// snapshot. Records in the store that its files may change. If files were lost, the status of the handle is
    /// [`RestoreStatus::Reset`]. Fails for another principal.
    pub async fn acquire(
        &self,
        workspace: &WorkspaceKey,
    ) -> Result<WorkspaceHandle, WorkspaceError> {
        let (inner, workspace) = (Arc::clone(&self.0), workspace.clone());
        blocking(move || inner.acquire(&workspace)).await
    }

    /// Returns true if a conversation would find its files unchanged, or has no workspace. Returns false if the store
    /// cannot be read.
    pub async fn is_intact(&self, namespace: &str, conversation: &str) -> bool {
        let key = record::key(namespace, conversation);
        let inner = Arc::clone(&self.0);
        let intact = blocking(move || inner.is_intact(&key));
        intact.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot determine the state of a workspace");
            false
        })
    }

    /// Returns the stored snapshots of a conversation's workspace, oldest first. Empty for a conversation without a
    /// workspace.
    pub async fn snapshots(
        &self,
        workspace: &WorkspaceKey,
    ) -> Result<Vec<Snapshot>, WorkspaceError> {
        let (inner, workspace) = (Arc::clone(&self.0), workspace.clone());
        blocking(move || {
            let record = inner.record(&workspace.key())?;
            let record = record.unwrap_or_else(|| record::WorkspaceRecord::of(&workspace));
            record.check(&workspace)?;
            Ok(record.snapshots)
        })
        .await
    }

    /// Restores a workspace to the last snapshot whose label or turn is `name`. Later snapshots are deleted. Fails if
    /// there is no such snapshot, or if the workspace is in use.
    pub async fn rewind(&self, workspace: &WorkspaceKey, name: &str) -> Result<(), WorkspaceError> {
        let (inner, workspace, name) = (Arc::clone(&self.0), workspace.clone(), name.to_owned());
        blocking(move || inner.rewind(&workspace, &name)).await
    }

    /// Deletes a workspace and its snapshots. Fails if the workspace is in use.
    pub async fn delete(&self, workspace: &WorkspaceKey) -> Result<(), WorkspaceError> {
        let (inner, workspace) = (Arc::clone(&self.0), workspace.clone());
        blocking(move || inner.delete(&workspace)).await
    }

    /// Stores a snapshot of every directory that was idle for the configured time and deletes the directory. Returns
    /// the number of deleted directories. Also runs periodically.
    pub async fn remove_idle(&self) -> usize {
        let inner = Arc::clone(&self.0);
        blocking(move || Ok(inner.remove_idle())).await.unwrap_or_default()
    }
}

impl WorkspaceHandle {
    /// Returns the directory of the workspace.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the state in which the workspace was acquired.
    pub fn restore_status(&self) -> &RestoreStatus {
        &self.status
    }

    /// Returns the reason if files were lost, so that the caller can report it. Otherwise `None`.
    pub fn data_loss(&self) -> Option<&str> {
        match &self.status {
            RestoreStatus::Reset(reason) => Some(reason),
            RestoreStatus::New | RestoreStatus::Unchanged | RestoreStatus::Restored => None,
        }
    }

    /// Releases the workspace. If the files have changed since the last snapshot, stores a new snapshot under the
    /// label; otherwise the label is not stored. If the handle is dropped instead, the files are stored when the
    /// workspace becomes idle.
    pub async fn release(self, label: impl Into<SnapshotLabel>) -> Result<(), WorkspaceError> {
        let label = label.into();
        blocking(move || match self.inner.upgrade() {
            Some(inner) => inner.save(&mut self.active.lock(), &label),
            None => Ok(()),
        })
        .await
    }
}

impl Drop for WorkspaceHandle {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        self.active.lock().released(inner.options.env.now());
    }
}

impl std::fmt::Debug for ConversationWorkspaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversationWorkspaces")
            .field("dir", &self.0.options.dir)
            .finish_non_exhaustive()
    }
}

/// Calls [`ConversationWorkspaces::remove_idle`] after every pause until the workspaces are dropped.
async fn remove_idle_periodically(workspaces: Weak<ConversationInner>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = workspaces.upgrade() else { return };
        ConversationWorkspaces(inner).remove_idle().await;
    }
}

/// Runs file operations on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(WorkspaceError::Io {
            operation: "the file operation was aborted",
            source: io::Error::other(error),
        }),
    }
}
