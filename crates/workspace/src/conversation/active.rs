//! Active directories of conversations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::Timestamp;
use rustix::fs::{FlockOperation, flock};

use super::record::{Snapshot, SnapshotLabel, SnapshotManifest, WorkspaceRecord};
use super::tree::FileStamp;
use super::{
    ConversationInner, RestoreStatus, WorkspaceError, WorkspaceHandle, WorkspaceKey, snapshot,
};
use crate::limits::WORKSPACE_SLOTS_MAX;

/// Label of the snapshot that is stored when a workspace becomes idle.
const IDLE: &str = "idle";

/// State of one directory in this process.
#[derive(Debug)]
pub(super) struct ActiveWorkspace {
    key: String,
    handles: usize,
    last_used: Timestamp,
    /// Stamp and content hash of each file at the last snapshot.
    pub(super) stamps: HashMap<String, (FileStamp, String)>,
    /// Content hashes of each stored manifest, by the hash of the manifest.
    pub(super) lists: BTreeMap<String, BTreeSet<String>>,
}

impl ActiveWorkspace {
    /// Creates the state of a directory without handles.
    pub(super) fn idle_since(key: String, now: Timestamp) -> Self {
        let (stamps, lists) = (HashMap::new(), BTreeMap::new());
        Self { key, handles: 0, last_used: now, stamps, lists }
    }

    /// Returns the name of the directory.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Counts a dropped handle and records the time of the last use.
    pub(super) fn released(&mut self, now: Timestamp) {
        self.handles = self.handles.saturating_sub(1);
        self.last_used = now;
    }
}

/// A parent directory that belongs to this process as long as it lives.
#[derive(Debug)]
pub(super) struct OwnedDir {
    dir: PathBuf,
    _lock: File,
}

impl OwnedDir {
    /// Claims the first directory below `parent` that no living process owns, and keeps its content. Creates the
    /// directory if it does not exist. Fails if [`WORKSPACE_SLOTS_MAX`] processes own one each.
    pub(super) fn claim(parent: &Path) -> io::Result<Self> {
        create_private_dir(parent)?;
        for number in 0..WORKSPACE_SLOTS_MAX {
            let lock = File::create(parent.join(format!("{number}.lock")))?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let dir = parent.join(number.to_string());
                    create_private_dir(&dir)?;
                    return Ok(Self { dir: dir.canonicalize()?, _lock: lock });
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("{WORKSPACE_SLOTS_MAX} processes already use it")))
    }

    /// Returns the keys of the existing workspace directories.
    pub(super) fn existing_keys(&self) -> io::Result<impl Iterator<Item = String>> {
        let names = fs::read_dir(&self.dir)?.filter_map(|entry| {
            let entry = entry.ok()?;
            let is_dir = entry.file_type().ok()?.is_dir();
            entry.file_name().into_string().ok().filter(|_| is_dir)
        });
        Ok(names)
    }

    /// Returns the path of a workspace's directory.
    fn dir(&self, key: &str) -> PathBuf {
        self.dir.join(key)
    }

    /// Returns the path of the file that stores a directory's generation.
    fn generation_file(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.mark"))
    }

    /// Returns the generation of the record to which the directory corresponds. `None` if there is no valid file.
    fn generation(&self, key: &str) -> Option<u64> {
        if !self.dir(key).is_dir() {
            return None;
        }
        fs::read_to_string(self.generation_file(key)).ok()?.trim().parse().ok()
    }

    /// Writes the generation file of a directory atomically.
    fn set_generation(&self, key: &str, generation: u64) -> io::Result<()> {
        let draft = self.dir.join(format!("{key}.draft-mark"));
        fs::write(&draft, generation.to_string())?;
        fs::rename(draft, self.generation_file(key))
    }

    /// Deletes the directory of a workspace and its generation file, if they exist.
    fn remove(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.generation_file(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        remove_tree(&self.dir(key))
    }

    /// Replaces a directory by a new one with the files that `fill` creates. If `fill` fails, the old directory stays.
    fn install(&self, key: &str, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let draft = self.dir.join(format!("{key}.draft"));
        remove_tree(&draft)?;
        create_private_dir(&draft)?;
        fill(&draft)?;
        self.remove(key)?;
        fs::rename(draft, self.dir(key))
    }
}

/// Creates a directory, with its parents, that only its owner can access.
fn create_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Deletes a directory tree, including directories without access permissions. Does nothing if it does not exist.
fn remove_tree(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            snapshot::make_accessible(dir)?;
            fs::remove_dir_all(dir)
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

const STORE_ERROR: &str = "cannot access the store of workspaces";
const DIR_ERROR: &str = "cannot access the directory of a workspace";

impl ConversationInner {
    /// Reads the record of a workspace from the store. `None` if there is none.
    pub(super) fn record(&self, key: &str) -> Result<Option<WorkspaceRecord>, WorkspaceError> {
        let wrap_error = WorkspaceError::io(STORE_ERROR);
        let bytes = self.options.store.record(key).map_err(&wrap_error)?;
        let read = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        read.map_err(|error| wrap_error(error.into()))
    }

    /// Writes the record of a workspace to the store.
    fn put_record(&self, key: &str, record: &WorkspaceRecord) -> Result<(), WorkspaceError> {
        let wrap_error = WorkspaceError::io(STORE_ERROR);
        let bytes = serde_json::to_vec(record).map_err(|error| wrap_error(error.into()))?;
        self.options.store.put_record(key, &bytes).map_err(wrap_error)
    }

    /// Returns the state of a directory. Registers an idle one for a new key.
    fn entry(&self, key: &str) -> Arc<Mutex<ActiveWorkspace>> {
        let new_entry = || ActiveWorkspace::idle_since(key.to_owned(), self.options.env.now());
        let mut entries = self.active.lock();
        let entry =
            entries.entry(key.to_owned()).or_insert_with(|| Arc::new(Mutex::new(new_entry())));
        Arc::clone(entry)
    }

    /// Acquires a workspace, see [`ConversationWorkspaces::acquire`](super::ConversationWorkspaces::acquire). Before
    /// it returns, the record says that the files may change.
    pub(super) fn acquire(
        self: &Arc<Self>,
        workspace: &WorkspaceKey,
    ) -> Result<WorkspaceHandle, WorkspaceError> {
        let key = workspace.key();
        let shared = self.entry(&key);
        let mut active = shared.lock();
        let record = self.record(&key)?;
        let mut record = record.unwrap_or_else(|| WorkspaceRecord::of(workspace));
        record.check(workspace)?;
        let mut status =
            self.prepare_dir(&mut active, &record).map_err(WorkspaceError::io(DIR_ERROR))?;
        let is_lost_now = match (&status, &record.lost) {
            (RestoreStatus::Reset(reason), _) => {
                record.lost = Some(reason.clone());
                true
            }
            // No call has ended since it received the report, so it is reported again.
            (_, Some(reason)) if active.handles == 0 => {
                status = RestoreStatus::Reset(reason.clone());
                false
            }
            _ => false,
        };
        if !record.is_open || is_lost_now {
            // From here on, the directory of any other process is outdated. The generation file is written first:
            // without the record, it has no effect.
            (record.is_open, record.generation) = (true, record.generation + 1);
            let result = self.owned.set_generation(&key, record.generation);
            result.map_err(WorkspaceError::io(DIR_ERROR))?;
            self.put_record(&key, &record)?;
        }
        active.handles += 1;
        drop(active);
        let dir = self.owned.dir(&key);
        Ok(WorkspaceHandle { dir, status, active: shared, inner: Arc::downgrade(self) })
    }

    /// Makes the directory match the record. The caller updates the generation file after it has stored the result.
    fn prepare_dir(
        &self,
        active: &mut ActiveWorkspace,
        record: &WorkspaceRecord,
    ) -> io::Result<RestoreStatus> {
        let key = active.key.clone();
        if active.handles > 0 || self.owned.generation(&key) == Some(record.generation) {
            return Ok(RestoreStatus::Unchanged);
        }
        active.stamps.clear();
        Ok(match record.snapshots.last() {
            Some(last) => match self.restore(&key, &last.list) {
                Ok(()) if record.is_open => RestoreStatus::Reset(
                    "changes since the last completed call are lost".to_owned(),
                ),
                Ok(()) => RestoreStatus::Restored,
                Err(error) => {
                    tracing::warn!(%error, "cannot restore a snapshot of a workspace");
                    self.owned.install(&key, |_| Ok(()))?;
                    RestoreStatus::Reset(
                        "all files are lost: the snapshot cannot be read".to_owned(),
                    )
                }
            },
            None => {
                self.owned.install(&key, |_| Ok(()))?;
                match record.is_open {
                    true => {
                        RestoreStatus::Reset("all files are lost: no call had completed".to_owned())
                    }
                    false => RestoreStatus::New,
                }
            }
        })
    }

    /// Replaces the directory by the files of a snapshot. `list` is the hash of its manifest.
    fn restore(&self, key: &str, list: &str) -> io::Result<()> {
        let store = self.options.store.as_ref();
        let list = snapshot::manifest(store, key, list)?;
        self.owned.install(key, |dir| snapshot::restore(store, key, &list, dir))
    }

    /// Stores a snapshot unless the files equal the last one, and deletes contents that no snapshot uses. Any label
    /// but [`IDLE`] clears the report of a loss. Does nothing for a workspace without a record.
    pub(super) fn save(
        &self,
        active: &mut ActiveWorkspace,
        label: &SnapshotLabel,
    ) -> Result<(), WorkspaceError> {
        let key = active.key.clone();
        let Some(mut record) = self.record(&key)? else { return Ok(()) };
        let snapshot = snapshot::create(&self.options, active, &self.owned.dir(&key), label)?;
        let is_same = record.snapshots.last().is_some_and(|last| last.list == snapshot.list);
        if !is_same {
            record.add(snapshot);
        }
        if label.label != IDLE {
            record.lost = None;
        }
        // A remaining caller may change a file at any moment.
        record.is_open = active.handles > 1;
        self.put_record(&key, &record)?;
        if is_same {
            return Ok(());
        }
        self.owned
            .set_generation(&key, record.generation)
            .map_err(WorkspaceError::io(DIR_ERROR))?;
        self.remove_unused(active, &record).map_err(WorkspaceError::io(STORE_ERROR))
    }

    /// Deletes stored contents that no snapshot references.
    fn remove_unused(
        &self,
        active: &mut ActiveWorkspace,
        record: &WorkspaceRecord,
    ) -> io::Result<()> {
        let lists: BTreeSet<String> =
            record.snapshots.iter().map(|snapshot| snapshot.list.clone()).collect();
        let is_stale = active.lists.keys().any(|list| !lists.contains(list));
        for list in &lists {
            if !active.lists.contains_key(list) {
                let read = snapshot::manifest(self.options.store.as_ref(), &active.key, list)?;
                let hashes =
                    SnapshotManifest::hashes(&read).into_iter().map(str::to_owned).collect();
                active.lists.insert(list.clone(), hashes);
            }
        }
        if !is_stale {
            return Ok(());
        }
        active.lists.retain(|list, _| lists.contains(list));
        let mut needed: BTreeSet<String> = active.lists.values().flatten().cloned().collect();
        needed.extend(lists);
        self.options.store.retain(&active.key, &needed)
    }

    /// Returns true if the directory or its last snapshot has the newest files, and no loss is left to report.
    pub(super) fn is_intact(&self, key: &str) -> Result<bool, WorkspaceError> {
        let shared = self.entry(key);
        let active = shared.lock();
        let Some(record) = self.record(key)? else { return Ok(true) };
        let is_here = active.handles > 0 || self.owned.generation(key) == Some(record.generation);
        let is_reported = active.handles > 0 || record.lost.is_none();
        Ok(is_reported && (is_here || !record.is_open))
    }

    /// Deletes the snapshots after the matching one, and restores the directory from it.
    pub(super) fn rewind(
        &self,
        workspace: &WorkspaceKey,
        name: &str,
    ) -> Result<(), WorkspaceError> {
        let key = workspace.key();
        let shared = self.entry(&key);
        let mut active = shared.lock();
        let missing = || WorkspaceError::NoSnapshot(name.to_owned());
        let mut record = self.record(&key)?.ok_or_else(missing)?;
        record.check(workspace)?;
        if active.handles > 0 {
            return Err(WorkspaceError::InUse);
        }
        let is_match = |snapshot: &Snapshot| snapshot.label == name || snapshot.turn == name;
        let at = record.snapshots.iter().rposition(is_match);
        record.snapshots.truncate(at.ok_or_else(missing)? + 1);
        record.generation += 1;
        record.is_open = false;
        self.put_record(&key, &record)?;
        let placed = self.prepare_dir(&mut active, &record);
        let result = placed.and_then(|_| self.owned.set_generation(&key, record.generation));
        result.map_err(WorkspaceError::io(DIR_ERROR))
    }

    /// Deletes the record, the snapshots and the directory of a workspace.
    pub(super) fn delete(&self, workspace: &WorkspaceKey) -> Result<(), WorkspaceError> {
        let key = workspace.key();
        let shared = self.entry(&key);
        let mut active = shared.lock();
        if let Some(record) = self.record(&key)? {
            record.check(workspace)?;
        }
        if active.handles > 0 {
            return Err(WorkspaceError::InUse);
        }
        self.options.store.delete(&key).map_err(WorkspaceError::io(STORE_ERROR))?;
        *active = ActiveWorkspace::idle_since(key.clone(), self.options.env.now());
        self.owned.remove(&key).map_err(WorkspaceError::io(DIR_ERROR))
    }

    /// Removes all idle directories, and forgets the state of workspaces without a directory. Returns the number of
    /// removed directories.
    pub(super) fn remove_idle(&self) -> usize {
        let all: Vec<_> = self.active.lock().values().cloned().collect();
        let removed = all.iter().filter(|active| self.remove_if_idle(&mut active.lock())).count();
        drop(all);
        // An entry that only this table references has no waiting caller.
        self.active.lock().retain(|key, active| {
            Arc::strong_count(active) > 1 || self.owned.generation(key).is_some()
        });
        removed
    }

    /// Stores a snapshot of the directory and deletes it if it has been idle long enough. Returns false if it is kept.
    fn remove_if_idle(&self, active: &mut ActiveWorkspace) -> bool {
        let key = active.key.clone();
        let idle = self.options.env.now().since(active.last_used);
        if active.handles > 0 || idle < self.options.idle || !self.owned.dir(&key).is_dir() {
            return false;
        }
        let is_open = matches!(self.record(&key), Ok(Some(record)) if record.is_open
            && self.owned.generation(&key) == Some(record.generation));
        if is_open && let Err(error) = self.save(active, &IDLE.into()) {
            tracing::warn!(%error, "cannot store an idle workspace");
            // A workspace that is too large is lost, and the next caller is informed. A storage failure may be
            // temporary, so the directory stays.
            if !matches!(error, WorkspaceError::TooLarge(_)) {
                return false;
            }
        }
        active.stamps.clear();
        active.lists.clear();
        match self.owned.remove(&key) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "cannot remove an idle workspace");
                false
            }
        }
    }
}
