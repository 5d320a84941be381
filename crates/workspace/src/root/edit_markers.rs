//! Which edits a file has seen, kept with the file itself.
//!
//! The keys of the last edits are an extended attribute of the file. An edit puts a new file in the place of the old one by one
//! rename, so content and key appear in the same instant: a key that is there proves that its edit has happened. One that is
//! not there proves nothing: some file systems have no attributes, and other programs may drop them.

use std::os::fd::AsFd;

use provost_core::recovery::EffectKey;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

/// Where the keys are.
const NAME: &str = "user.provost.edits";
/// Keys that a file keeps: more than can be under way at once.
const KEYS_MAX: usize = 16;
/// Bytes that are read at most.
const BYTES_MAX: usize = 2_048;

/// The keys of the last edits of a file, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks(Vec<String>);

impl Marks {
    /// Those of an open file; nothing if its file system keeps none.
    pub fn read(file: impl AsFd) -> Option<Self> {
        let mut bytes = [0u8; BYTES_MAX];
        let length = match fgetxattr(file, NAME, &mut bytes) {
            Ok(length) => length,
            Err(Errno::NODATA) => 0,
            Err(_) => return None,
        };
        let text = bytes.get(..length).map(String::from_utf8_lossy).unwrap_or_default();
        let keys = text.split('\n').filter(|key| !key.is_empty());
        Some(Self(keys.take(KEYS_MAX).map(str::to_owned).collect()))
    }

    /// The same with one key more.
    #[must_use]
    pub fn with(mut self, key: &EffectKey) -> Self {
        self.0.insert(0, key.as_str().to_owned());
        self.0.truncate(KEYS_MAX);
        self
    }

    /// Has this edit happened?
    pub fn has(&self, key: &EffectKey) -> bool {
        self.0.iter().any(|known| known == key.as_str())
    }

    /// Keeps them with a file. Where that cannot be done, the proof is left to the content.
    pub(super) fn keep(&self, file: impl AsFd) {
        if !self.0.is_empty() {
            fsetxattr(file, NAME, self.0.join("\n").as_bytes(), XattrFlags::empty()).ok();
        }
    }
}
