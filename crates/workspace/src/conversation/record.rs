//! The stored record of a workspace.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use provost_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{WorkspaceError, WorkspaceKey};
use crate::limits::WORKSPACE_SNAPSHOTS_MAX;

/// Metadata of one workspace in the store: its owner, snapshots and generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkspaceRecord {
    /// Owner of the workspace. Namespace and conversation are for diagnosis only.
    principal: String,
    namespace: String,
    conversation: String,
    /// Increases with every acquisition after a snapshot and with every snapshot. A directory with another generation
    /// is outdated.
    pub(super) generation: u64,
    /// True if files may have changed since the last snapshot.
    pub(super) is_open: bool,
    /// Reason of a loss, until a call that received the report has ended. If that call is interrupted, the next one
    /// receives the report again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<String>,
    /// The snapshots, oldest first.
    pub(super) snapshots: Vec<Snapshot>,
}

/// Label of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLabel {
    /// The call that has ended.
    pub label: String,
    /// Turn of the call. Empty if the call has no turn; it then counts as a separate turn.
    pub turn: String,
}

impl From<&str> for SnapshotLabel {
    fn from(label: &str) -> Self {
        Self { label: label.to_owned(), turn: String::new() }
    }
}

impl From<String> for SnapshotLabel {
    fn from(label: String) -> Self {
        Self { label, turn: String::new() }
    }
}

/// A stored snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Call after which the snapshot was created.
    pub label: String,
    /// Turn of the call. Empty if the call has no turn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub turn: String,
    /// Time of the snapshot.
    pub at: Timestamp,
    /// Number of files.
    pub files: usize,
    /// Total size of the files, in bytes.
    pub bytes: u64,
    /// Hash of the manifest.
    pub(super) list: String,
}

/// Files of a snapshot by their percent-encoded paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotManifest(pub(super) BTreeMap<String, ManifestEntry>);

/// One file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ManifestEntry {
    /// A directory.
    Dir {
        /// Permissions.
        mode: u32,
    },
    /// A regular file.
    File {
        /// Permissions.
        mode: u32,
        /// Size, in bytes.
        size: u64,
        /// Hash of the content.
        hash: String,
    },
    /// A symbolic link.
    Link {
        /// Percent-encoded target.
        to: String,
    },
}

impl WorkspaceKey {
    /// Returns the name of the directory.
    pub(super) fn key(&self) -> String {
        key(&self.namespace, &self.conversation)
    }
}

/// Returns the directory name of a conversation. It is a hash, so input of a caller cannot lead elsewhere.
pub(super) fn key(namespace: &str, conversation: &str) -> String {
    let mut hash = Sha256::new();
    for part in [namespace, conversation] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    HEXLOWER.encode(&hash.finalize()[..16])
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub(super) fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

impl Snapshot {
    /// Returns the turn of the snapshot, or its label if the call has no turn.
    fn turn(&self) -> &str {
        if self.turn.is_empty() { &self.label } else { &self.turn }
    }
}

impl WorkspaceRecord {
    /// Creates the record of a new workspace.
    pub(super) fn of(workspace: &WorkspaceKey) -> Self {
        let WorkspaceKey { namespace, conversation, principal } = workspace.clone();
        let (generation, is_open, lost, snapshots) = (0, false, None, Vec::new());
        Self { principal, namespace, conversation, generation, is_open, lost, snapshots }
    }

    /// Fails for any principal except the owner.
    pub(super) fn check(&self, workspace: &WorkspaceKey) -> Result<(), WorkspaceError> {
        let is_same = self.principal == workspace.principal
            && self.namespace == workspace.namespace
            && self.conversation == workspace.conversation;
        if is_same { Ok(()) } else { Err(WorkspaceError::WrongPrincipal) }
    }

    /// Adds a snapshot and replaces an older one with the same label. Keeps the latest calls of the current turn and
    /// the last snapshot of each previous turn, up to the limit.
    pub(super) fn add(&mut self, snapshot: Snapshot) {
        self.generation += 1;
        self.is_open = false;
        self.snapshots.retain(|other| other.label != snapshot.label);
        let all = std::mem::take(&mut self.snapshots);
        let (mut calls, mut turns) = (1, BTreeSet::from([snapshot.turn().to_owned()]));
        let is_kept = |other: &Snapshot| match other.turn() == snapshot.turn() {
            true => {
                calls += 1;
                calls <= WORKSPACE_SNAPSHOTS_MAX
            }
            // The newest snapshot of a turn comes first.
            false => {
                turns.insert(other.turn().to_owned()) && turns.len() <= WORKSPACE_SNAPSHOTS_MAX
            }
        };
        self.snapshots = all.into_iter().rev().filter(is_kept).collect();
        self.snapshots.reverse();
        self.snapshots.push(snapshot);
    }
}

impl SnapshotManifest {
    /// Returns the hashes of all contents that the files of the manifest refer to.
    pub(super) fn hashes(&self) -> BTreeSet<&str> {
        let hashes = self.0.values().filter_map(|entry| match entry {
            ManifestEntry::File { hash, .. } => Some(hash.as_str()),
            ManifestEntry::Dir { .. } | ManifestEntry::Link { .. } => None,
        });
        hashes.collect()
    }
}
