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
    let mut mover = Mover { options: options.clone(), moved: 0, helper: None };
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
    /// Pages of the log that are in the database file.
    moved: u32,
    /// Most connections never need one.
    helper: Option<Helper>,
}

impl Mover {
    fn after_commit(&mut self, log: &mut Wal, pages: u32) {
        if pages < self.moved {
            // The log has begun anew.
            self.moved = 0;
        }
        let behind = pages - self.moved;
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
        match log.checkpoint_v2(CheckpointMode::PASSIVE) {
            Ok((_, moved)) => self.moved = u32::try_from(moved).unwrap_or(0),
            // It is tried again after as many pages.
            Err(error) => {
                tracing::warn!(%error, "store: moving the log into the database file did not work");
                self.moved = pages;
            }
        }
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
