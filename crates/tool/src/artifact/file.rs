//! Artifacts as files that only their owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::sweep::{Bounds, sweep};
use super::{Artifact, Spill, SpillWriter};

/// Bytes of one artifact unless it is said otherwise.
const ARTIFACT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Characters of an artifact's name.
const NAME_CHARS_MAX: usize = 128;

/// Keeps artifacts as files of one directory. Those that are too old go when a new one is opened, and the oldest of those that
/// are too many or too large together.
#[derive(Debug, Clone)]
pub struct FileSpill {
    dir: PathBuf,
    shown: String,
    bytes_max: u64,
    bounds: Bounds,
    opened: Arc<AtomicU64>,
}

impl FileSpill {
    /// Keeps them in `dir`, which is made when it is needed; agents know the directory as `shown`.
    pub fn new(dir: impl Into<PathBuf>, shown: impl Into<String>) -> Self {
        let shown = shown.into().trim_end_matches('/').to_owned();
        Self {
            dir: dir.into(),
            shown,
            bytes_max: ARTIFACT_BYTES_MAX,
            bounds: Bounds::default(),
            opened: Arc::default(),
        }
    }

    /// Sets how many bytes of one artifact are kept at most.
    #[must_use]
    pub fn bytes_max(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Sets how many bytes of all artifacts are kept before the oldest go. The one that is being written does not count.
    #[must_use]
    pub fn total_bytes_max(mut self, total_bytes_max: u64) -> Self {
        self.bounds.bytes_max = total_bytes_max;
        self
    }

    /// Sets how long an artifact is kept.
    #[must_use]
    pub fn age_max(mut self, age_max: Duration) -> Self {
        self.bounds.age_max = age_max;
        self
    }
}

impl Spill for FileSpill {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Box<dyn SpillWriter>>> {
        async move {
            let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(legal) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "an artifact's name is 1 to 128 letters, digits, `_` or `-`",
                ));
            }
            let number = self.opened.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("{name}.txt"));
            let unfinished = self.dir.join(format!(".{name}.{}.{number}", std::process::id()));
            let reference = format!("{}/{name}.txt", self.shown);
            let (dir, bytes_max, bounds) = (self.dir.clone(), self.bytes_max, self.bounds);
            let file = blocking(move || {
                // Room is made first: what is kept from now on is not the oldest.
                sweep(&dir, bounds);
                create(&dir, &unfinished).map(|file| (file, unfinished))
            })
            .await?;
            let (file, unfinished) = (file.0, Unfinished(file.1));
            let writer = FileWriter {
                file: Some(file),
                unfinished,
                path,
                reference,
                bytes: 0,
                bytes_max,
                cut: false,
            };
            Ok(Box::new(writer) as Box<dyn SpillWriter>)
        }
        .boxed()
    }
}

struct FileWriter {
    /// Gone while a write is on its way, and for good after one that failed.
    file: Option<File>,
    unfinished: Unfinished,
    path: PathBuf,
    reference: String,
    bytes: u64,
    bytes_max: u64,
    cut: bool,
}

/// A file that is removed unless it got its final name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It may have its final name already; then there is nothing here.
        drop(fs::remove_file(&self.0));
    }
}

impl SpillWriter for FileWriter {
    fn write(&mut self, mut chunk: Vec<u8>) -> BoxFuture<'_, io::Result<()>> {
        async move {
            let room = usize::try_from(self.bytes_max - self.bytes).unwrap_or(usize::MAX);
            self.cut |= chunk.len() > room;
            chunk.truncate(room);
            if chunk.is_empty() {
                return Ok(());
            }
            let Some(mut file) = self.file.take() else { return Err(broken()) };
            self.bytes += chunk.len() as u64;
            self.file = Some(blocking(move || file.write_all(&chunk).map(|()| file)).await?);
            Ok(())
        }
        .boxed()
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, io::Result<Artifact>> {
        async move {
            let Self { file, unfinished, path, reference, bytes, cut, .. } = *self;
            let Some(file) = file else { return Err(broken()) };
            blocking(move || {
                file.sync_all()?;
                fs::rename(&unfinished.0, path)
            })
            .await?;
            Ok(Artifact { reference, bytes, cut })
        }
        .boxed()
    }
}

fn broken() -> io::Error {
    io::Error::other("an earlier write did not go through")
}

fn create(dir: &Path, path: &Path) -> io::Result<File> {
    let mut made = fs::DirBuilder::new();
    made.recursive(true);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        made.mode(0o700);
        options.mode(0o600);
    }
    made.create(dir)?;
    options.open(path)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
