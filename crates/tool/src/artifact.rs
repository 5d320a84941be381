//! Artifacts: complete outputs that are too long for a model, stored where the agent can read them.

mod collect;
mod file;
mod sweep;

use std::io;

use futures::future::BoxFuture;

pub use collect::OutputCollector;
pub use file::FileArtifactStore;

/// Store for complete outputs.
pub trait ArtifactStore: Send + Sync + 'static {
    /// Opens an artifact for writing. An existing artifact with this name is replaced when the new one is finished.
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ArtifactWriter>>>;
}

/// Writer of one artifact. Dropping it before [`finish`](Self::finish) discards the artifact.
pub trait ArtifactWriter: Send {
    /// Appends bytes.
    fn write(&mut self, chunk: Vec<u8>) -> BoxFuture<'_, io::Result<()>>;

    /// Finishes the artifact, so that it can be read.
    fn finish(self: Box<Self>) -> BoxFuture<'static, io::Result<Artifact>>;
}

/// Location and size of a stored artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Path in the agent's workspace or URL by which the agent reads the artifact.
    pub reference: String,
    /// Size in bytes.
    pub bytes: u64,
    /// True if the output exceeded the size limit of the store, and only its beginning is stored.
    pub is_truncated: bool,
}

impl Artifact {
    /// Returns the note that tells the model where the artifact is and how large it is.
    pub fn note(&self) -> String {
        let Self { reference, bytes, is_truncated } = self;
        let part = if *is_truncated { "the first" } else { "the full output," };
        format!("[{part} {bytes} bytes are stored in `{reference}`: read it in parts]")
    }
}

/// Stores a text as an artifact. An existing artifact with this name is replaced.
pub(crate) async fn store_text(
    store: &dyn ArtifactStore,
    name: &str,
    text: &str,
) -> io::Result<Artifact> {
    /// Size of one write in bytes.
    const CHUNK_BYTES: usize = 256 * 1024;

    let mut writer = store.open(name).await?;
    for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
        writer.write(chunk.to_vec()).await?;
    }
    writer.finish().await
}
