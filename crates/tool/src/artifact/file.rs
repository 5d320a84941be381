//! Artifacts as files that only their owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::sweep::{RetentionLimits, sweep};
use super::{Artifact, ArtifactStore, ArtifactWriter};

/// Default maximum size of one artifact.
const ARTIFACT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Maximum length of an artifact's name.
const NAME_CHARS_MAX: usize = 128;

/// Stores artifacts as files of one directory. When a new artifact is opened, it removes expired artifacts, and the
/// oldest ones if there are too many or if they are too large together.
#[derive(Debug, Clone)]
pub struct FileArtifactStore {
    dir: PathBuf,
    display_dir: String,
    bytes_max: u64,
    limits: RetentionLimits,
    opened: Arc<AtomicU64>,
}

impl FileArtifactStore {
    /// Creates a store in `dir`. The first artifact creates the directory. Agents see the directory as `display_dir`.
    pub fn new(dir: impl Into<PathBuf>, display_dir: impl Into<String>) -> Self {
        let display_dir = display_dir.into().trim_end_matches('/').to_owned();
        Self {
            dir: dir.into(),
            display_dir,
            bytes_max: ARTIFACT_BYTES_MAX,
            limits: RetentionLimits::default(),
            opened: Arc::default(),
        }
    }

    /// Sets the maximum size of one artifact in bytes. A longer output is cut.
    #[must_use]
    pub fn bytes_max(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Sets the maximum size of all artifacts in bytes. If it is exceeded, the oldest artifacts are removed. The
    /// artifact that is being written does not count.
    #[must_use]
    pub fn total_bytes_max(mut self, total_bytes_max: u64) -> Self {
        self.limits.bytes_max = total_bytes_max;
        self
    }

    /// Sets the retention time of artifacts.
    #[must_use]
    pub fn age_max(mut self, age_max: Duration) -> Self {
        self.limits.age_max = age_max;
        self
    }
}

impl ArtifactStore for FileArtifactStore {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ArtifactWriter>>> {
        async move {
            let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_valid) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the name of an artifact must have 1 to 128 letters, digits, `_` or `-`",
                ));
            }
            let number = self.opened.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("{name}.txt"));
            let partial = self.dir.join(format!(".{name}.{}.{number}", std::process::id()));
            let reference = format!("{}/{name}.txt", self.display_dir);
            let (dir, bytes_max, limits) = (self.dir.clone(), self.bytes_max, self.limits);
            let file = blocking(move || {
                // Sweeping first guarantees that the new artifact is not the oldest.
                sweep(&dir, limits);
                create(&dir, &partial).map(|file| (file, partial))
            })
            .await?;
            let (file, partial) = (file.0, PartialFile(file.1));
            let writer = FileWriter {
                file: Some(file),
                partial,
                path,
                reference,
                bytes: 0,
                bytes_max,
                is_truncated: false,
            };
            Ok(Box::new(writer) as Box<dyn ArtifactWriter>)
        }
        .boxed()
    }
}

/// Artifact that is being written to a partial file.
struct FileWriter {
    /// `None` while a write is in progress, and after a failed write.
    file: Option<File>,
    partial: PartialFile,
    path: PathBuf,
    reference: String,
    bytes: u64,
    bytes_max: u64,
    is_truncated: bool,
}

/// A file that is removed on drop unless it was renamed to its final name.
struct PartialFile(PathBuf);

impl Drop for PartialFile {
    fn drop(&mut self) {
        // Fails if the file already has its final name.
        drop(fs::remove_file(&self.0));
    }
}

impl ArtifactWriter for FileWriter {
    fn write(&mut self, mut chunk: Vec<u8>) -> BoxFuture<'_, io::Result<()>> {
        async move {
            let capacity = usize::try_from(self.bytes_max - self.bytes).unwrap_or(usize::MAX);
            self.is_truncated |= chunk.len() > capacity;
            chunk.truncate(capacity);
            if chunk.is_empty() {
                return Ok(());
            }
            let Some(mut file) = self.file.take() else { return Err(write_failed()) };
            self.bytes += chunk.len() as u64;
            self.file = Some(blocking(move || file.write_all(&chunk).map(|()| file)).await?);
            Ok(())
        }
        .boxed()
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, io::Result<Artifact>> {
        async move {
            let Self { file, partial, path, reference, bytes, is_truncated, .. } = *self;
            let Some(file) = file else { return Err(write_failed()) };
            blocking(move || {
                file.sync_all()?;
                fs::rename(&partial.0, path)
            })
            .await?;
            Ok(Artifact { reference, bytes, is_truncated })
        }
        .boxed()
    }
}

/// Creates the error of a write after a failed write.
fn write_failed() -> io::Error {
    io::Error::other("an earlier write failed")
}

/// Creates a private file, and its directory if needed. Returns an error if the file exists.
fn create(dir: &Path, path: &Path) -> io::Result<File> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        builder.mode(0o700);
        options.mode(0o600);
    }
    builder.create(dir)?;
    options.open(path)
}

/// Runs file operations on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
