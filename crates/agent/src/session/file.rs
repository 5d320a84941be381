//! Sessions in a directory: one append-only file each, safe against crashes and against other processes.
//!
//! A commit is one line; it is on the disk before [`SessionStore::commit`] returns. Half a line at the end of a file is a
//! commit that never returned: readers skip it, the next writer cuts it off. A line that is whole and wrong is damage wherever
//! it stands: nothing is read or written then, for the line may be a commit that did return. Writers hold an advisory lock
//! from reading the revision until the line is on the disk. Locks are files of their own, so replacing or removing a session
//! file never leaves two processes locking different files.

mod name;
mod private;
mod record;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::{Env, Message};

use self::record::{Damage, Head, Log, Problem, Tail};
use super::memory::newest_first;
use super::{
    Change, SessionError, SessionFuture, SessionInfo, SessionStore, Transcript, check_base,
    check_id,
};

/// Files of locks; sessions share them, which costs a wait now and then and bounds their number.
const LOCKS: u32 = 64;
/// The directory of the locks within that of the sessions.
const LOCKS_DIR: &str = "locks";
/// Bytes read from the end of a file at first to find its last line.
const TAIL_BYTES: u64 = 64 * 1024;
/// Popped messages a file holds before it is worth rewriting.
const DEAD_MESSAGES_MIN: usize = 64;
/// Files of torn lines beside one session's file; more than a machine that loses power now and then ever makes.
const TORN_FILES_MAX: u32 = 16;

/// Keeps sessions in a directory. Clones share it, and so can other processes on the same machine.
#[derive(Debug, Clone)]
pub struct FileSessions {
    dir: Arc<Dir>,
}

impl FileSessions {
    /// Opens a directory, made if it does not exist. On Unix a new one has mode 0700, and files in it have 0600.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, SessionError> {
        Self::open_with(dir, Env::system())
    }

    /// Opens a directory and takes the time of changes from `env`.
    pub fn open_with(dir: impl Into<PathBuf>, env: Env) -> Result<Self, SessionError> {
        let path = dir.into();
        let locks = path.join(LOCKS_DIR);
        private::create_dir_all(&locks).map_err(storage("create", &locks))?;
        sync_dir(&path)?;
        let dir = Arc::new(Dir { path, env });
        Ok(Self { dir })
    }

    /// Runs blocking work where it blocks nobody. The work goes on to its end even if nobody waits for it any more.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Dir) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let dir = Arc::clone(&self.dir);
        let done = tokio::task::spawn_blocking(move || work(&dir)).await;
        done.unwrap_or_else(|error| {
            Err(SessionError::Storage {
                message: "the file operation did not end".to_owned(),
                source: io::Error::other(error),
            })
        })
    }
}

impl SessionStore for FileSessions {
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>> {
        let id = id.to_owned();
        Box::pin(self.blocking(move |dir| dir.load(&id)))
    }

    fn commit<'a>(&'a self, id: &'a str, change: Change) -> SessionFuture<'a, u64> {
        let id = id.to_owned();
        Box::pin(self.blocking(move |dir| dir.commit(&id, &change)))
    }

    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool> {
        let id = id.to_owned();
        Box::pin(self.blocking(move |dir| dir.delete(&id)))
    }

    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>> {
        Box::pin(self.blocking(Dir::list))
    }
}

/// The directory, used from blocking threads only.
#[derive(Debug)]
struct Dir {
    path: PathBuf,
    env: Env,
}

impl Dir {
    fn load(&self, id: &str) -> Result<Option<Transcript>, SessionError> {
        check_id(id)?;
        let _lock = self.lock(id, File::lock_shared)?;
        let log = self.replay(id)?;
        Ok((log.head.revision > 0)
            .then_some(Transcript { messages: log.messages, revision: log.head.revision }))
    }

    fn commit(&self, id: &str, change: &Change) -> Result<u64, SessionError> {
        check_id(id)?;
        let _lock = self.lock(id, File::lock)?;
        let path = self.file(id);
        let (head, sound_bytes) = self.state(id, &path)?;
        check_base(id, change.base, head.revision)?;
        self.cut_torn(&path, sound_bytes)?;
        let next = head.next(change.pop, change.add.len(), self.env.now());
        if next.dead >= DEAD_MESSAGES_MIN && next.dead > next.live {
            let mut messages = self.replay(id)?.messages;
            messages.truncate(messages.len() - next.pop);
            messages.extend(change.add.iter().cloned());
            self.rewrite(&path, &encode(next.alone(), &messages)?)?;
        } else {
            self.append(&path, sound_bytes, &encode(next, &change.add)?)?;
        }
        Ok(next.revision)
    }

    fn delete(&self, id: &str) -> Result<bool, SessionError> {
        check_id(id)?;
        let _lock = self.lock(id, File::lock)?;
        let path = self.file(id);
        // A damaged session is there, and must be removable.
        let existed = match self.state(id, &path) {
            Ok((head, _)) => head.revision > 0,
            Err(SessionError::Corrupt { .. }) => true,
            Err(error) => return Err(error),
        };
        let torn = (1..=TORN_FILES_MAX).map(|number| torn_file(&path, number));
        for path in torn.chain([path.with_extension("tmp"), path.clone()]) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(storage("remove", &path)(error));
                }
                _ => {}
            }
        }
        sync_dir(&self.path)?;
        Ok(existed)
    }

    fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        let mut infos = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(storage("list", &self.path))? {
            let name = entry.map_err(storage("list", &self.path))?.file_name();
            let Some(id) = name.to_str().and_then(name::decode) else {
                continue;
            };
            let _lock = self.lock(&id, File::lock_shared)?;
            let head = match self.state(&id, &self.file(&id)) {
                Ok((head, _)) => head,
                // One damaged session must not hide the others; loading it says what is wrong.
                Err(SessionError::Corrupt { id, problem }) => {
                    tracing::warn!(session.id = id, problem, "session {id} is damaged");
                    continue;
                }
                Err(error) => return Err(error),
            };
            if head.revision > 0 {
                infos.push(SessionInfo { id, messages: head.live, updated_at: head.at });
            }
        }
        newest_first(&mut infos);
        Ok(infos)
    }

    fn file(&self, id: &str) -> PathBuf {
        self.path.join(name::encode(id))
    }

    /// Takes the lock of a session; it ends with the returned file.
    fn lock(&self, id: &str, take: fn(&File) -> io::Result<()>) -> Result<File, SessionError> {
        let place = id
            .bytes()
            .fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
            .wrapping_rem(LOCKS);
        let path = self.path.join(LOCKS_DIR).join(format!("{place:02}.lock"));
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = private::open(&path, &mut options).map_err(storage("open", &path))?;
        take(&file).map_err(storage("lock", &path))?;
        Ok(file)
    }

    /// The state after the last good line, and the bytes up to its end. Reads no more of the file than it must.
    fn state(&self, id: &str, path: &Path) -> Result<(Head, u64), SessionError> {
        let failed = storage("read", path);
        let Some(mut file) = open_existing(path)? else {
            return Ok((Head::default(), 0));
        };
        let len = file.metadata().map_err(&failed)?.len();
        let mut window = TAIL_BYTES;
        loop {
            let start = len.saturating_sub(window);
            let mut end = Vec::new();
            file.seek(SeekFrom::Start(start)).map_err(&failed)?;
            (&mut file).take(len - start).read_to_end(&mut end).map_err(&failed)?;
            if let Tail::Found { head, torn_bytes } = record::tail(&end, start == 0) {
                return Ok((head, len.saturating_sub(torn_bytes as u64)));
            }
            if start == 0 {
                let log = record::replay(&end).map_err(|damage| corrupt(id, path, &damage))?;
                return Ok((log.head, log.sound_bytes as u64));
            }
            window = window.saturating_mul(4);
        }
    }

    fn replay(&self, id: &str) -> Result<Log, SessionError> {
        let path = self.file(id);
        let Some(mut file) = open_existing(&path)? else {
            return Ok(Log::default());
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(storage("read", &path))?;
        let log = record::replay(&bytes).map_err(|damage| corrupt(id, &path, &damage))?;
        if record::has_holes(&bytes[log.sound_bytes..]) {
            tracing::warn!(
                session.id = id,
                file = %path.display(),
                "the last commit of session {id} did not wholly reach the disk and is skipped"
            );
        }
        Ok(log)
    }

    /// Cuts off what follows the last good line. The cut is on the disk before anything else is written there.
    fn cut_torn(&self, path: &Path, sound_bytes: u64) -> Result<(), SessionError> {
        let Some(mut file) = open_existing(path)? else {
            return Ok(());
        };
        let mut torn = Vec::new();
        file.seek(SeekFrom::Start(sound_bytes))
            .and_then(|_| file.read_to_end(&mut torn))
            .map_err(storage("read", path))?;
        if torn.is_empty() {
            return Ok(());
        }
        // Lost blocks may also be those of a commit that returned, on a disk that failed since: no byte of it is thrown away.
        if record::has_holes(&torn) {
            self.keep_torn(path, &torn)?;
        }
        private::open(path, OpenOptions::new().write(true))
            .and_then(|file| file.set_len(sound_bytes).and_then(|()| file.sync_all()))
            .map_err(storage("cut", path))
    }

    /// Writes bytes to a new file beside the session's.
    fn keep_torn(&self, path: &Path, bytes: &[u8]) -> Result<(), SessionError> {
        for kept in (1..=TORN_FILES_MAX).map(|number| torn_file(path, number)) {
            let mut file =
                match private::open(&kept, OpenOptions::new().write(true).create_new(true)) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    opened => opened.map_err(storage("create", &kept))?,
                };
            if let Err(error) = file.write_all(bytes).and_then(|()| file.sync_all()) {
                drop(fs::remove_file(&kept));
                return Err(storage("write", &kept)(error));
            }
            tracing::warn!(
                file = %kept.display(),
                "a commit that did not wholly reach the disk is kept in {}", kept.display()
            );
            return sync_dir(&self.path);
        }
        let full = format!("there are {TORN_FILES_MAX} torn files beside it, move them away");
        Err(storage("cut", path)(io::Error::new(io::ErrorKind::AlreadyExists, full)))
    }

    /// Writes a line after the last good one and waits until it is on the disk.
    fn append(&self, path: &Path, sound_bytes: u64, line: &[u8]) -> Result<(), SessionError> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let mut file = private::open(path, &mut options).map_err(storage("open", path))?;
        // The name first: a writer that died may have left a file, or a rewritten one, whose name is not on the disk yet.
        sync_dir(&self.path)?;
        // The line break is the last byte of the one write: a line that has it was handed over whole.
        let written = file.write_all(line).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // The caller is told that nothing changed, so nobody may see the line. Should this fail too, a torn line is
            // skipped anyway; a whole one that did not reach the disk is what remains of the risk.
            drop(file.set_len(sound_bytes));
            return Err(storage("write", path)(error));
        }
        Ok(())
    }

    /// Replaces the file by one of a single line. A crash leaves the old file or the new one.
    fn rewrite(&self, path: &Path, line: &[u8]) -> Result<(), SessionError> {
        let new = path.with_extension("tmp");
        let failed = storage("rewrite", path);
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        let mut file = private::open(&new, &mut options).map_err(&failed)?;
        file.write_all(line).map_err(&failed)?;
        file.sync_all().map_err(&failed)?;
        fs::rename(&new, path).map_err(&failed)?;
        sync_dir(&self.path)
    }
}

fn encode(head: Head, messages: &[Arc<Message>]) -> Result<Vec<u8>, SessionError> {
    record::encode(head, messages).map_err(|error| SessionError::Storage {
        message: "a message cannot be written as JSON".to_owned(),
        source: error.into(),
    })
}

fn open_existing(path: &Path) -> Result<Option<File>, SessionError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage("open", path)(error)),
    }
}

/// Makes new, renamed and removed names in a directory survive a crash.
fn sync_dir(path: &Path) -> Result<(), SessionError> {
    // Elsewhere a directory cannot be opened as a file, and the system orders its changes itself.
    if cfg!(unix) {
        File::open(path).and_then(|dir| dir.sync_all()).map_err(storage("sync", path))?;
    }
    Ok(())
}

fn storage(what: &'static str, path: &Path) -> impl Fn(io::Error) -> SessionError {
    move |source| SessionError::Storage {
        message: format!("cannot {what} `{}`: {source}", path.display()),
        source,
    }
}

/// Where bytes that follow the last good line of a file are kept.
fn torn_file(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".torn-{number}"));
    PathBuf::from(name)
}

fn corrupt(id: &str, path: &Path, damage: &Damage) -> SessionError {
    let Damage { line, problem } = damage;
    let remedy = match problem {
        Problem::Version(_) => "use a newer program".to_owned(),
        Problem::Changed(_) => format!(
            "restore the file from a copy, or remove line {line} and all after it to go on without them"
        ),
    };
    SessionError::Corrupt {
        id: id.to_owned(),
        problem: format!("line {line} of `{}`: {problem}; {remedy}", path.display()),
    }
}

#[cfg(test)]
mod tests;
