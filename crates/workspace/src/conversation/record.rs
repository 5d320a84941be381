//! What storage knows of a workspace.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use provost_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Tenant, WorkspaceError};
use crate::limits::WORKSPACE_SNAPSHOTS_MAX;

/// Everything that storage knows of one workspace, besides the files themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Whose it is. The rest of the tenant is here for people who look.
    principal: String,
    namespace: String,
    conversation: String,
    /// Another number whenever somebody begins to work and for each snapshot: a directory that was left at another one is old.
    pub(super) generation: u64,
    /// True if files may have changed since the last snapshot.
    pub(super) is_open: bool,
    /// What is lost, until a call that was told of it has ended: if it is interrupted, the next one is told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<String>,
    /// The snapshots, oldest first.
    pub(super) snapshots: Vec<Kept>,
}

/// What a snapshot is kept under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The call that has ended.
    pub label: String,
    /// Its turn. A call that belongs to none is a turn of its own.
    pub turn: String,
}

impl From<&str> for Mark {
    fn from(label: &str) -> Self {
        Self { label: label.to_owned(), turn: String::new() }
    }
}

impl From<String> for Mark {
    fn from(label: String) -> Self {
        Self { label, turn: String::new() }
    }
}

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// After which call it was taken.
    pub label: String,
    /// The turn of that call; nothing for one that belongs to none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub turn: String,
    /// When.
    pub at: Timestamp,
    /// Files in it.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The hash of its list of files.
    pub(super) list: String,
}

/// The files of a snapshot by their paths, percent-encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct List(pub(super) BTreeMap<String, Entry>);

/// One file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Entry {
    /// A directory.
    Dir {
        /// Its permissions.
        mode: u32,
    },
    /// A file.
    File {
        /// Its permissions.
        mode: u32,
        /// Its bytes.
        size: u64,
        /// The hash of what it holds.
        hash: String,
    },
    /// A symbolic link.
    Link {
        /// Where it points, percent-encoded.
        to: String,
    },
}

impl Tenant {
    /// The name of its directory.
    pub(super) fn key(&self) -> String {
        key(&self.namespace, &self.conversation)
    }
}

/// The name of the directory of a conversation: nothing that a caller says can lead elsewhere.
pub(super) fn key(namespace: &str, conversation: &str) -> String {
    let mut hash = Sha256::new();
    for part in [namespace, conversation] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    HEXLOWER.encode(&hash.finalize()[..16])
}

/// The hash of some bytes.
pub(super) fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

impl Kept {
    /// Its turn: its own where it belongs to none.
    fn turn(&self) -> &str {
        if self.turn.is_empty() { &self.label } else { &self.turn }
    }
}

impl Record {
    /// Of a workspace that nobody has worked in.
    pub(super) fn of(tenant: &Tenant) -> Self {
        let Tenant { namespace, conversation, principal } = tenant.clone();
        let (generation, is_open, lost, snapshots) = (0, false, None, Vec::new());
        Self { principal, namespace, conversation, generation, is_open, lost, snapshots }
    }

    /// Refuses everybody but the one who first worked here.
    pub(super) fn check(&self, tenant: &Tenant) -> Result<(), WorkspaceError> {
        let is_same = self.principal == tenant.principal
            && self.namespace == tenant.namespace
            && self.conversation == tenant.conversation;
        if is_same { Ok(()) } else { Err(WorkspaceError::Principal) }
    }

    /// Takes in a snapshot in the place of an older one of the same label. Of its turn the last calls stay, of each turn before
    /// it what all of its calls have left; the oldest go.
    pub(super) fn add(&mut self, kept: Kept) {
        self.generation += 1;
        self.is_open = false;
        self.snapshots.retain(|other| other.label != kept.label);
        let all = std::mem::take(&mut self.snapshots);
        let (mut calls, mut turns) = (1, BTreeSet::from([kept.turn().to_owned()]));
        let stays = |other: &Kept| match other.turn() == kept.turn() {
            true => {
                calls += 1;
                calls <= WORKSPACE_SNAPSHOTS_MAX
            }
            // The newest comes first: it is the last one of its turn.
            false => {
                turns.insert(other.turn().to_owned()) && turns.len() <= WORKSPACE_SNAPSHOTS_MAX
            }
        };
        self.snapshots = all.into_iter().rev().filter(stays).collect();
        self.snapshots.reverse();
        self.snapshots.push(kept);
    }
}

impl List {
    /// The hashes of all contents.
    pub(super) fn hashes(&self) -> BTreeSet<&str> {
        let hashes = self.0.values().filter_map(|entry| match entry {
            Entry::File { hash, .. } => Some(hash.as_str()),
            Entry::Dir { .. } | Entry::Link { .. } => None,
        });
        hashes.collect()
    }
}
