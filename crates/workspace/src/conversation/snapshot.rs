//! Taking a snapshot of a directory, and making a directory of one.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::active::Live;
use super::record::{Entry, Kept, List, Mark, hash};
use super::snapshot_store::Keep;
use super::tree::{self, Sight};
use super::{WorkspaceError, WorkspacesOptions};

/// Keeps what a directory holds. Only files that changed since the last time are read.
pub(super) fn take(
    options: &WorkspacesOptions,
    live: &mut Live,
    dir: &Path,
    mark: &Mark,
) -> Result<Kept, WorkspaceError> {
    let mut taking = Taking { options, live, list: List::default(), bytes: 0, excess: None };
    let walked = tree::walk(dir, &mut |path, sight| taking.add(path, sight));
    if let Some(excess) = taking.excess {
        return Err(WorkspaceError::TooLarge(excess));
    }
    walked.map_err(WorkspaceError::io("the workspace cannot be kept"))?;
    let Taking { live, list, bytes, .. } = taking;
    live.stamps.retain(|path, _| list.0.contains_key(path));
    let told = WorkspaceError::io("the storage of workspaces");
    let text = serde_json::to_vec(&list).map_err(|error| told(error.into()))?;
    let name = hash(&text);
    options.keep.put_content(live.key(), &name, &text).map_err(told)?;
    Ok(Kept {
        label: mark.label.clone(),
        turn: mark.turn.clone(),
        at: options.env.now(),
        files: list.0.len(),
        bytes,
        list: name,
    })
}

/// A snapshot in the making.
struct Taking<'a> {
    options: &'a WorkspacesOptions,
    live: &'a mut Live,
    list: List,
    bytes: u64,
    /// Which bound was broken.
    excess: Option<String>,
}

impl Taking<'_> {
    fn add(&mut self, path: String, sight: Sight) -> io::Result<()> {
        let WorkspacesOptions { files_max, bytes_max, .. } = self.options;
        if self.list.0.len() >= *files_max {
            return self.refuse(format!("it has more than {files_max} files"));
        }
        let entry = match sight {
            Sight::Known(entry) => entry,
            Sight::File { file, mode, stamp } => {
                let known = self.live.stamps.get(&path).filter(|(known, _)| *known == stamp);
                let (size, hash) = match known {
                    Some((_, hash)) => (stamp.size(), hash.clone()),
                    None => {
                        let room = bytes_max.saturating_sub(self.bytes);
                        let bytes = match tree::read(file, room) {
                            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                                return self.refuse(format!("it has more than {bytes_max} bytes"));
                            }
                            other => other?,
                        };
                        let hash = hash(&bytes);
                        self.options.keep.put_content(self.live.key(), &hash, &bytes)?;
                        self.live.stamps.insert(path.clone(), (stamp, hash.clone()));
                        (bytes.len() as u64, hash)
                    }
                };
                self.bytes = self.bytes.saturating_add(size);
                if self.bytes > *bytes_max {
                    return self.refuse(format!("it has more than {bytes_max} bytes"));
                }
                Entry::File { mode, size, hash }
            }
        };
        self.list.0.insert(path, entry);
        Ok(())
    }

    fn refuse(&mut self, excess: String) -> io::Result<()> {
        let error = io::Error::other(excess.clone());
        self.excess = Some(excess);
        Err(error)
    }
}

/// The list of files of a snapshot.
pub(super) fn list(keep: &dyn Keep, key: &str, name: &str) -> io::Result<List> {
    Ok(serde_json::from_slice(&content(keep, key, name)?)?)
}

/// Fills a directory that nobody else knows yet.
pub(super) fn restore(keep: &dyn Keep, key: &str, list: &List, dir: &Path) -> io::Result<()> {
    // The order of the list is that of the paths: a directory comes before what is in it.
    for (path, entry) in &list.0 {
        let bytes = match entry {
            Entry::File { hash, .. } => content(keep, key, hash)?,
            Entry::Dir { .. } | Entry::Link { .. } => Vec::new(),
        };
        tree::make(dir, path, entry, &bytes)?;
    }
    for (path, entry) in list.0.iter().rev() {
        if let Entry::Dir { mode } = entry {
            tree::finish_dir(dir, path, *mode)?;
        }
    }
    Ok(())
}

/// A content that is what its hash says.
fn content(keep: &dyn Keep, key: &str, name: &str) -> io::Result<Vec<u8>> {
    let bytes = keep.content(key, name)?.ok_or(io::ErrorKind::NotFound)?;
    match hash(&bytes) == name {
        true => Ok(bytes),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "a content is damaged")),
    }
}

/// Lets the owner look into every directory of a tree, so that it can be taken away. No link is followed.
pub(super) fn open_up(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
