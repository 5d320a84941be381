//! Moving the log to the database file beside the writer.
//!
//! SQLite would do it within a commit, once the log is long enough: then everybody waits until thousands of pages are written and
//! synced. Here another thread does most of it while the writer goes on. A log begins anew only if all of it was moved and nothing
//! came meanwhile, so the writer moves the last few pages itself.
//!
//! Nothing rests on it: what is in the log is on disk, and is read there.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;

use super::{Role, Sqlite, connect};
use crate::StoreError;
use crate::options::StoreOptions;

/// After this many pages in the log they are moved. The same page is written again and again, so the more wait the fewer are
/// moved; but a reader looks through the index of the log, which has 4096 entries to a piece.
pub(super) const LOG_PAGES: u32 = 8_000;

/// With so many pages that were not moved the writer waits, so that the log does not grow without end.
const BEHIND_PAGES_MAX: u32 = 4 * LOG_PAGES;

/// So few pages are left to the writer.
const LEFT_PAGES: u32 = 400;

/// How often the thread moves what came while it moved the pages before.
const ROUNDS_MAX: usize = 5;

/// Moves the log of a connection that writes; takes the place of `wal_autocheckpoint`.
pub(super) fn install(db: &mut Sqlite, options: &StoreOptions) -> Result<(), StoreError> {
    let mut mover = Mover { options: options.clone(), tried: 0, helper: None };
    let after_commit = move |log: &mut Wal, pages| {
        // The commit stands, whatever becomes of this.
        mover.after_commit(log, u32::try_from(pages).unwrap_or(0));
        Ok(())
    };
    let installed = db.connection_mut().wal_hook(Some(after_commit));
    installed.map_err(|cause| db.fault(cause))
}

struct Mover {
    options: StoreOptions,
    /// Pages that the log had when they were moved last, or when that was tried: somebody who reads may be in the way.
    tried: u32,
    /// Most connections never need one.
    helper: Option<Helper>,
}

impl Mover {
    fn after_commit(&mut self, log: &mut Wal, pages: u32) {
        if pages < self.tried {
            // The log has begun anew.
            self.tried = 0;
        }
        let behind = pages - self.tried;
        let news = match &mut self.helper {
            Some(helper) if helper.at_work => helper.news(behind >= BEHIND_PAGES_MAX),
            _ if behind < LOG_PAGES => return,
            Some(helper) => helper.ask(),
            helper @ None => match Helper::start(&self.options) {
                Ok(started) => helper.insert(started).ask(),
                Err(error) => News::Gone(error),
            },
        };
        match news {
            News::None => return,
            News::Moved => {}
            News::Gone(error) => {
                tracing::warn!(%error, "store: the writer moves the log itself");
                self.helper = None;
            }
        }
        if let Err(error) = log.checkpoint_v2(CheckpointMode::PASSIVE) {
            tracing::warn!(%error, "store: moving the log into the database file did not work");
        }
        self.tried = pages;
    }
}

/// What is heard of the helper.
enum News {
    None,
    /// It has moved what there was.
    Moved,
    Gone(StoreError),
}

/// The thread that moves.
struct Helper {
    at_work: bool,
    /// Taken at the end, which the thread sees.
    asked: Option<Sender<()>>,
    told: Receiver<Result<(), StoreError>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    fn start(options: &StoreOptions) -> Result<Self, StoreError> {
        let options = options.clone();
        let (asked, asks) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("provost-log".into())
            .spawn(move || serve(&options, &asks, &tell))
            .map_err(|error| StoreError::Io { detail: format!("starting a thread: {error}") })?;
        Ok(Self { at_work: false, asked: Some(asked), told, thread: Some(thread) })
    }

    fn ask(&mut self) -> News {
        match self.asked.as_ref().map(|asked| asked.send(())) {
            Some(Ok(())) => {
                self.at_work = true;
                News::None
            }
            _ => News::Gone(StoreError::bug("the thread that moves the log has ended")),
        }
    }

    fn news(&mut self, wait: bool) -> News {
        let told = match self.told.try_recv() {
            Err(TryRecvError::Empty) if wait => self.told.recv().map_err(TryRecvError::from),
            told => told,
        };
        match told {
            Err(TryRecvError::Empty) => return News::None,
            Ok(Err(error)) => return News::Gone(error),
            Err(TryRecvError::Disconnected) => {
                return News::Gone(StoreError::bug("the thread that moves the log has ended"));
            }
            Ok(Ok(())) => {}
        }
        self.at_work = false;
        News::Moved
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.asked.take();
        if let Some(thread) = self.thread.take() {
            // It has told why, if it ended by a defect.
            thread.join().unwrap_or(());
        }
    }
}

/// Moves the log whenever it is asked to. Ends with the writer, or with the first failure.
fn serve(options: &StoreOptions, asks: &Receiver<()>, tell: &Sender<Result<(), StoreError>>) {
    let moving = connect(options, Role::Reader).and_then(|db| {
        for () in asks {
            move_log(&db)?;
            if tell.send(Ok(())).is_err() {
                break;
            }
        }
        Ok(())
    });
    if let Err(error) = moving {
        // The writer may have gone.
        tell.send(Err(error)).unwrap_or(());
    }
}

/// Moves the log until hardly anything is left that came meanwhile.
fn move_log(db: &Sqlite) -> Result<(), StoreError> {
    let mut moved = 0;
    for _ in 0..ROUNDS_MAX {
        let before = moved;
        let pages;
        (pages, moved) = db.move_log()?;
        // Somebody who reads is in the way, or somebody else moves it.
        let stuck = moved < pages;
        if stuck || moved.saturating_sub(before) <= LEFT_PAGES {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{BEHIND_PAGES_MAX, LOG_PAGES};
    use crate::options::{Durability, StoreOptions};
    use crate::{Store, StoreError, params};

    /// Bytes of a page in the log, with its header.
    const PAGE: u64 = 4096 + 24;

    fn options(dir: &Path) -> StoreOptions {
        StoreOptions { durability: Durability::ProcessExit, ..StoreOptions::in_dir(dir) }
    }

    /// Writes so many pages, some in each commit.
    async fn write(store: &Store, pages: u32) {
        for number in 0..pages / 100 {
            // What stays the same is not written.
            let text = ["x", "y"][number as usize % 2].repeat(100 * 4096);
            let written = store.write(move |tx| {
                let sql = "INSERT INTO meta (key, value) VALUES ('filled', ?1)
                            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
                tx.execute(sql, params![text]).map(drop)
            });
            let written: Result<(), StoreError> = written.await;
            written.unwrap();
        }
    }

    fn log_pages(store: &Store) -> u64 {
        fs::metadata(format!("{}-wal", store.path().display())).unwrap().len() / PAGE
    }

    #[tokio::test]
    async fn a_log_that_is_written_without_a_pause_stays_short() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(options(dir.path())).unwrap();
        // Ten times what the log may have.
        write(&store, 10 * LOG_PAGES).await;
        let longest = log_pages(&store);
        assert!(longest >= u64::from(LOG_PAGES), "{longest}");
        assert!(longest <= u64::from(LOG_PAGES + BEHIND_PAGES_MAX + 200), "{longest}");
        assert_eq!(store.check().await.unwrap().problems, []);
        store.close().await;
        let kept = fs::metadata(format!("{}-wal", store.path().display()));
        assert!(kept.is_err(), "whoever closes it last takes away its log");
    }

    #[tokio::test]
    async fn somebody_who_reads_for_long_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(options(dir.path())).unwrap();
        write(&store, 100).await;
        let reader = rusqlite::Connection::open(store.path()).unwrap();
        let length = "SELECT length(value) FROM meta WHERE key = 'filled'";
        reader.execute_batch("BEGIN").unwrap();
        let before: i64 = reader.query_row(length, [], |row| row.get(0)).unwrap();
        write(&store, 3 * LOG_PAGES).await;
        assert!(log_pages(&store) >= u64::from(3 * LOG_PAGES), "what is read stays");
        assert_eq!(reader.query_row(length, [], |row| row.get::<_, i64>(0)).unwrap(), before);
        reader.execute_batch("COMMIT").unwrap();
        // Once nobody is in the way, it is moved and begins anew.
        let longest = log_pages(&store);
        write(&store, 4 * LOG_PAGES).await;
        assert!(log_pages(&store) <= longest + u64::from(2 * LOG_PAGES));
        assert_eq!(store.check().await.unwrap().problems, []);
    }
}
