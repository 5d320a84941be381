//! Creating a snapshot of a directory, and restoring a directory from one.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::active::ActiveWorkspace;
use super::record::{ManifestEntry, Snapshot, SnapshotLabel, SnapshotManifest, hash};
use super::snapshot_store::SnapshotStore;
use super::tree::{self, ScanEntry};
use super::{WorkspaceError, WorkspaceOptions};

/// Stores the manifest of a directory and the contents of its files. Reads only files that changed since the last
/// snapshot. Fails if the directory exceeds the limits of the options.
pub(super) fn create(
    options: &WorkspaceOptions,
    active: &mut ActiveWorkspace,
    dir: &Path,
    label: &SnapshotLabel,
) -> Result<Snapshot, WorkspaceError> {
    let mut builder = SnapshotBuilder {
        options,
        active,
        list: SnapshotManifest::default(),
        bytes: 0,
        excess: None,
    };
    let walked = tree::walk(dir, &mut |path, scanned| builder.add(path, scanned));
    if let Some(excess) = builder.excess {
        return Err(WorkspaceError::TooLarge(excess));
    }
    walked.map_err(WorkspaceError::io("cannot read the workspace"))?;
    let SnapshotBuilder { active, list, bytes, .. } = builder;
    active.stamps.retain(|path, _| list.0.contains_key(path));
    let wrap_error = WorkspaceError::io("cannot access the store of workspaces");
    let text = serde_json::to_vec(&list).map_err(|error| wrap_error(error.into()))?;
    let name = hash(&text);
    options.store.put_content(active.key(), &name, &text).map_err(wrap_error)?;
    Ok(Snapshot {
        label: label.label.clone(),
        turn: label.turn.clone(),
        at: options.env.now(),
        files: list.0.len(),
        bytes,
        list: name,
    })
}

/// Builds the manifest of a snapshot and checks the limits.
struct SnapshotBuilder<'a> {
    options: &'a WorkspaceOptions,
    active: &'a mut ActiveWorkspace,
    list: SnapshotManifest,
    bytes: u64,
    /// The exceeded limit, if any.
    excess: Option<String>,
}

impl SnapshotBuilder<'_> {
    /// Adds an entry to the manifest. Reads and stores the content of a file that changed. Fails if a limit is
    /// exceeded.
    fn add(&mut self, path: String, scanned: ScanEntry) -> io::Result<()> {
        let WorkspaceOptions { files_max, bytes_max, .. } = self.options;
        if self.list.0.len() >= *files_max {
            return self.refuse(format!("it has more than {files_max} files"));
        }
        let entry = match scanned {
            ScanEntry::Complete(entry) => entry,
            ScanEntry::File { file, mode, stamp } => {
                let known = self.active.stamps.get(&path).filter(|(known, _)| *known == stamp);
                let (size, hash) = match known {
                    Some((_, hash)) => (stamp.size(), hash.clone()),
                    None => {
                        let remaining = bytes_max.saturating_sub(self.bytes);
                        let bytes = match tree::read(file, remaining) {
                            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                                return self.refuse(format!("it has more than {bytes_max} bytes"));
                            }
                            other => other?,
                        };
                        let hash = hash(&bytes);
                        self.options.store.put_content(self.active.key(), &hash, &bytes)?;
                        self.active.stamps.insert(path.clone(), (stamp, hash.clone()));
                        (bytes.len() as u64, hash)
                    }
                };
                self.bytes = self.bytes.saturating_add(size);
                if self.bytes > *bytes_max {
                    return self.refuse(format!("it has more than {bytes_max} bytes"));
                }
                ManifestEntry::File { mode, size, hash }
            }
        };
        self.list.0.insert(path, entry);
        Ok(())
    }

    /// Records the exceeded limit and returns it as an error.
    fn refuse(&mut self, excess: String) -> io::Result<()> {
        let error = io::Error::other(excess.clone());
        self.excess = Some(excess);
        Err(error)
    }
}

/// Returns the manifest with this hash. Fails if it is missing or invalid.
pub(super) fn manifest(
    store: &dyn SnapshotStore,
    key: &str,
    name: &str,
) -> io::Result<SnapshotManifest> {
    Ok(serde_json::from_slice(&content(store, key, name)?)?)
}

/// Creates the files of a manifest in a directory that no other code uses yet.
pub(super) fn restore(
    store: &dyn SnapshotStore,
    key: &str,
    list: &SnapshotManifest,
    dir: &Path,
) -> io::Result<()> {
    // The manifest is sorted by path, so a directory precedes its content.
    for (path, entry) in &list.0 {
        let bytes = match entry {
            ManifestEntry::File { hash, .. } => content(store, key, hash)?,
            ManifestEntry::Dir { .. } | ManifestEntry::Link { .. } => Vec::new(),
        };
        tree::create(dir, path, entry, &bytes)?;
    }
    for (path, entry) in list.0.iter().rev() {
        if let ManifestEntry::Dir { mode } = entry {
            tree::finish_dir(dir, path, *mode)?;
        }
    }
    Ok(())
}

/// Returns a stored content. Fails if it is missing or does not match its hash.
fn content(store: &dyn SnapshotStore, key: &str, name: &str) -> io::Result<Vec<u8>> {
    let bytes = store.content(key, name)?.ok_or(io::ErrorKind::NotFound)?;
    match hash(&bytes) == name {
        true => Ok(bytes),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "a stored file is damaged")),
    }
}

/// Grants the owner access to every directory of a tree, so that it can be removed. Does not follow links.
pub(super) fn make_accessible(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_accessible(&entry.path())?;
        }
    }
    Ok(())
}
