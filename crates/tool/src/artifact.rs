//! Output that is too long for a model is kept whole elsewhere, where the agent can read it.

mod collect;
mod file;
mod sweep;

use std::io;

use futures::future::BoxFuture;

pub use collect::OutputCollector;
pub use file::FileSpill;

/// Where whole outputs are kept.
pub trait Spill: Send + Sync + 'static {
    /// Opens an artifact. The same name again replaces what was kept under it once the new one is finished.
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Box<dyn SpillWriter>>>;
}

/// An artifact that is being written. Dropped before it is finished it leaves nothing behind.
pub trait SpillWriter: Send {
    /// Adds bytes.
    fn write(&mut self, chunk: Vec<u8>) -> BoxFuture<'_, io::Result<()>>;

    /// Finishes it.
    fn finish(self: Box<Self>) -> BoxFuture<'static, io::Result<Artifact>>;
}

/// Something that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// What an agent reads it by: a path in its workspace, or an address.
    pub reference: String,
    /// Its bytes.
    pub bytes: u64,
    /// True if it was too long even for here, and only its beginning is kept.
    pub cut: bool,
}

impl Artifact {
    /// What the model is told.
    pub fn note(&self) -> String {
        let Self { reference, bytes, cut } = self;
        let what = if *cut { "the first" } else { "the whole output," };
        format!("[{what} {bytes} bytes are kept in `{reference}`: read it in parts]")
    }
}

/// Keeps a whole text.
pub(crate) async fn keep(spill: &dyn Spill, name: &str, text: &str) -> io::Result<Artifact> {
    /// Bytes that are handed over at once.
    const CHUNK_BYTES: usize = 256 * 1024;

    let mut writer = spill.open(name).await?;
    for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
        writer.write(chunk.to_vec()).await?;
    }
    writer.finish().await
}
