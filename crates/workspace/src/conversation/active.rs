//! The directories of conversations in use, and what is done with them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use provost_core::Timestamp;
use rustix::fs::{FlockOperation, flock};

use super::record::{Kept, List, Mark, Record};
use super::tree::Stamp;
use super::{Found, Inner, Seat, Tenant, WorkspaceError, locked, snapshot};
use crate::limits::WORKSPACE_SLOTS_MAX;

/// The label of what is kept when a workspace becomes idle.
const IDLE: &str = "idle";

/// What this process knows of one directory.
#[derive(Debug)]
pub(super) struct Live {
    key: String,
    seats: usize,
    last_used: Timestamp,
    /// What was in the files when they were last kept, and what tells that it still is.
    pub(super) stamps: HashMap<String, (Stamp, String)>,
    /// The contents of lists that are kept, by the hash of the list.
    pub(super) lists: BTreeMap<String, BTreeSet<String>>,
}

impl Live {
    /// Of a directory that nobody uses.
    pub(super) fn idle_since(key: String, now: Timestamp) -> Self {
        let (stamps, lists) = (HashMap::new(), BTreeMap::new());
        Self { key, seats: 0, last_used: now, stamps, lists }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Somebody has left.
    pub(super) fn left(&mut self, now: Timestamp) {
        self.seats = self.seats.saturating_sub(1);
        self.last_used = now;
    }
}

/// A directory of directories that belongs to this process as long as it lives.
#[derive(Debug)]
pub(super) struct Slot {
    dir: PathBuf,
    _lock: File,
}

impl Slot {
    /// Takes the first that no living process has, with whatever is in it.
    pub(super) fn take(parent: &Path) -> io::Result<Self> {
        private(parent)?;
        for number in 0..WORKSPACE_SLOTS_MAX {
            let lock = File::create(parent.join(format!("{number}.lock")))?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let dir = parent.join(number.to_string());
                    private(&dir)?;
                    return Ok(Self { dir: dir.canonicalize()?, _lock: lock });
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("{WORKSPACE_SLOTS_MAX} processes use it already")))
    }

    /// The directories that are there.
    pub(super) fn left(&self) -> io::Result<impl Iterator<Item = String>> {
        let names = fs::read_dir(&self.dir)?.filter_map(|entry| {
            let entry = entry.ok()?;
            let is_dir = entry.file_type().ok()?.is_dir();
            entry.file_name().into_string().ok().filter(|_| is_dir)
        });
        Ok(names)
    }

    fn dir(&self, key: &str) -> PathBuf {
        self.dir.join(key)
    }

    fn mark(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.mark"))
    }

    /// The generation that a directory was made of or kept as.
    fn generation(&self, key: &str) -> Option<u64> {
        if !self.dir(key).is_dir() {
            return None;
        }
        fs::read_to_string(self.mark(key)).ok()?.trim().parse().ok()
    }

    fn note(&self, key: &str, generation: u64) -> io::Result<()> {
        let draft = self.dir.join(format!("{key}.draft-mark"));
        fs::write(&draft, generation.to_string())?;
        fs::rename(draft, self.mark(key))
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.mark(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        gone(&self.dir(key))
    }

    /// Puts a directory with these files in place.
    fn place(&self, key: &str, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let draft = self.dir.join(format!("{key}.draft"));
        gone(&draft)?;
        private(&draft)?;
        fill(&draft)?;
        self.remove(key)?;
        fs::rename(draft, self.dir(key))
    }
}

fn private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Takes a directory away, also one whose owner may not look into it.
fn gone(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            snapshot::open_up(dir)?;
            fs::remove_dir_all(dir)
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

const NO_STORAGE: &str = "the storage of workspaces";
const NO_DIR: &str = "the directory of a workspace";

impl Inner {
    pub(super) fn record(&self, key: &str) -> Result<Option<Record>, WorkspaceError> {
        let told = WorkspaceError::io(NO_STORAGE);
        let bytes = self.options.keep.record(key).map_err(&told)?;
        let read = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        read.map_err(|error| told(error.into()))
    }

    fn put(&self, key: &str, record: &Record) -> Result<(), WorkspaceError> {
        let told = WorkspaceError::io(NO_STORAGE);
        let bytes = serde_json::to_vec(record).map_err(|error| told(error.into()))?;
        self.options.keep.put_record(key, &bytes).map_err(told)
    }

    fn live(&self, key: &str) -> Arc<Mutex<Live>> {
        let fresh = || Live::idle_since(key.to_owned(), self.options.env.now());
        let mut known = locked(&self.known);
        let live = known.entry(key.to_owned()).or_insert_with(|| Arc::new(Mutex::new(fresh())));
        Arc::clone(live)
    }

    pub(super) fn enter(self: &Arc<Self>, tenant: &Tenant) -> Result<Seat, WorkspaceError> {
        let key = tenant.key();
        let shared = self.live(&key);
        let mut live = locked(&shared);
        let record = self.record(&key)?;
        let mut record = record.unwrap_or_else(|| Record::of(tenant));
        record.check(tenant)?;
        let mut found = self.found(&mut live, &record).map_err(WorkspaceError::io(NO_DIR))?;
        let is_lost_now = match (&found, &record.lost) {
            (Found::Reset(reason), _) => {
                record.lost = Some(reason.clone());
                true
            }
            // Whoever was told of it has not come to an end.
            (_, Some(reason)) if live.seats == 0 => {
                found = Found::Reset(reason.clone());
                false
            }
            _ => false,
        };
        if !record.is_open || is_lost_now {
            // From here on the directory of any other process is old. The mark comes first: without the record it means nothing.
            (record.is_open, record.generation) = (true, record.generation + 1);
            let noted = self.slot.note(&key, record.generation);
            noted.map_err(WorkspaceError::io(NO_DIR))?;
            self.put(&key, &record)?;
        }
        live.seats += 1;
        drop(live);
        let dir = self.slot.dir(&key);
        Ok(Seat { dir, found, live: shared, inner: Arc::downgrade(self) })
    }

    /// Sees to it that the directory is what the record says. It is marked as that by whoever has put down what was found.
    fn found(&self, live: &mut Live, record: &Record) -> io::Result<Found> {
        let key = live.key.clone();
        if live.seats > 0 || self.slot.generation(&key) == Some(record.generation) {
            return Ok(Found::Same);
        }
        live.stamps.clear();
        Ok(match record.snapshots.last() {
            Some(last) => match self.restore(&key, &last.list) {
                Ok(()) if record.is_open => Found::Reset(
                    "what was changed since the last call that ended is lost".to_owned(),
                ),
                Ok(()) => Found::Restored,
                Err(error) => {
                    tracing::warn!(%error, "a snapshot of a workspace cannot be used");
                    self.slot.place(&key, |_| Ok(()))?;
                    Found::Reset("all files are lost: they could not be read back".to_owned())
                }
            },
            None => {
                self.slot.place(&key, |_| Ok(()))?;
                match record.is_open {
                    true => Found::Reset("all files are lost: no call had ended".to_owned()),
                    false => Found::Fresh,
                }
            }
        })
    }

    fn restore(&self, key: &str, list: &str) -> io::Result<()> {
        let keep = self.options.keep.as_ref();
        let list = snapshot::list(keep, key, list)?;
        self.slot.place(key, |dir| snapshot::restore(keep, key, &list, dir))
    }

    pub(super) fn save(&self, live: &mut Live, mark: &Mark) -> Result<(), WorkspaceError> {
        let key = live.key.clone();
        let Some(mut record) = self.record(&key)? else { return Ok(()) };
        let kept = snapshot::take(&self.options, live, &self.slot.dir(&key), mark)?;
        let is_same = record.snapshots.last().is_some_and(|last| last.list == kept.list);
        if !is_same {
            record.add(kept);
        }
        if mark.label != IDLE {
            record.lost = None;
        }
        // Who is still there may change something at any moment.
        record.is_open = live.seats > 1;
        self.put(&key, &record)?;
        if is_same {
            return Ok(());
        }
        self.slot.note(&key, record.generation).map_err(WorkspaceError::io(NO_DIR))?;
        self.tidy(live, &record).map_err(WorkspaceError::io(NO_STORAGE))
    }

    /// Takes away contents that no snapshot has any more.
    fn tidy(&self, live: &mut Live, record: &Record) -> io::Result<()> {
        let lists: BTreeSet<String> =
            record.snapshots.iter().map(|kept| kept.list.clone()).collect();
        let is_stale = live.lists.keys().any(|list| !lists.contains(list));
        for list in &lists {
            if !live.lists.contains_key(list) {
                let read = snapshot::list(self.options.keep.as_ref(), &live.key, list)?;
                let hashes = List::hashes(&read).into_iter().map(str::to_owned).collect();
                live.lists.insert(list.clone(), hashes);
            }
        }
        if !is_stale {
            return Ok(());
        }
        live.lists.retain(|list, _| lists.contains(list));
        let mut needed: BTreeSet<String> = live.lists.values().flatten().cloned().collect();
        needed.extend(lists);
        self.options.keep.retain(&live.key, &needed)
    }

    pub(super) fn survived(&self, key: &str) -> Result<bool, WorkspaceError> {
        let shared = self.live(key);
        let live = locked(&shared);
        let Some(record) = self.record(key)? else { return Ok(true) };
        let is_here = live.seats > 0 || self.slot.generation(key) == Some(record.generation);
        let is_told = live.seats > 0 || record.lost.is_none();
        Ok(is_told && (is_here || !record.is_open))
    }

    pub(super) fn rewind(&self, tenant: &Tenant, name: &str) -> Result<(), WorkspaceError> {
        let key = tenant.key();
        let shared = self.live(&key);
        let mut live = locked(&shared);
        let missing = || WorkspaceError::NoSnapshot(name.to_owned());
        let mut record = self.record(&key)?.ok_or_else(missing)?;
        record.check(tenant)?;
        if live.seats > 0 {
            return Err(WorkspaceError::InUse);
        }
        let is_it = |kept: &Kept| kept.label == name || kept.turn == name;
        let at = record.snapshots.iter().rposition(is_it);
        record.snapshots.truncate(at.ok_or_else(missing)? + 1);
        record.generation += 1;
        record.is_open = false;
        self.put(&key, &record)?;
        let placed = self.found(&mut live, &record);
        let noted = placed.and_then(|_| self.slot.note(&key, record.generation));
        noted.map_err(WorkspaceError::io(NO_DIR))
    }

    pub(super) fn forget(&self, tenant: &Tenant) -> Result<(), WorkspaceError> {
        let key = tenant.key();
        let shared = self.live(&key);
        let mut live = locked(&shared);
        if let Some(record) = self.record(&key)? {
            record.check(tenant)?;
        }
        if live.seats > 0 {
            return Err(WorkspaceError::InUse);
        }
        self.options.keep.forget(&key).map_err(WorkspaceError::io(NO_STORAGE))?;
        *live = Live::idle_since(key.clone(), self.options.env.now());
        self.slot.remove(&key).map_err(WorkspaceError::io(NO_DIR))
    }

    pub(super) fn reap(&self) -> usize {
        let all: Vec<_> = locked(&self.known).values().cloned().collect();
        let reaped = all.iter().filter(|live| self.reap_one(&mut locked(live))).count();
        drop(all);
        // Nobody waits for one that only this table has.
        locked(&self.known)
            .retain(|key, live| Arc::strong_count(live) > 1 || self.slot.generation(key).is_some());
        reaped
    }

    /// Keeps and takes away one directory, if it is idle.
    fn reap_one(&self, live: &mut Live) -> bool {
        let key = live.key.clone();
        let idle = self.options.env.now().since(live.last_used);
        if live.seats > 0 || idle < self.options.idle || !self.slot.dir(&key).is_dir() {
            return false;
        }
        let is_open = matches!(self.record(&key), Ok(Some(record)) if record.is_open
            && self.slot.generation(&key) == Some(record.generation));
        if is_open && let Err(error) = self.save(live, &IDLE.into()) {
            tracing::warn!(%error, "an idle workspace is not kept");
            // One that is too large is lost, and whoever comes back is told. What storage could not take may be taken later.
            if !matches!(error, WorkspaceError::TooLarge(_)) {
                return false;
            }
        }
        live.stamps.clear();
        live.lists.clear();
        match self.slot.remove(&key) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "an idle workspace stays");
                false
            }
        }
    }
}
