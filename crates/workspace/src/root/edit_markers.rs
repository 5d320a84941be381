//! Markers of the edits of a file, stored with the file itself.
//!
//! The keys of the latest edits are an extended attribute of the file. An edit replaces the file with one rename, so
//! content and key appear at the same moment: a stored key proves that its edit was applied. A missing key proves
//! nothing, because some file systems have no attributes, and other programs may drop them.

use std::os::fd::AsFd;

use provost_core::recovery::EffectKey;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

/// Name of the extended attribute.
const NAME: &str = "user.provost.edits";
/// Maximum number of stored keys, which exceeds the number of concurrent edits.
const KEYS_MAX: usize = 16;
/// Maximum number of bytes that are read.
const BYTES_MAX: usize = 2_048;

/// The keys of the latest edits of a file, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditMarkers(Vec<String>);

impl EditMarkers {
    /// Returns the markers of an open file. Empty if it has none. `None` if the file system does not support extended
    /// attributes.
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

    /// Adds a key as the newest, and drops the oldest if there are too many.
    #[must_use]
    pub fn with(mut self, key: &EffectKey) -> Self {
        self.0.insert(0, key.as_str().to_owned());
        self.0.truncate(KEYS_MAX);
        self
    }

    /// Returns true if the markers contain the key of the edit.
    pub fn contains(&self, key: &EffectKey) -> bool {
        self.0.iter().any(|known| known == key.as_str())
    }

    /// Stores the markers in a file if there are any. An error is ignored: the edit is then verified by its content.
    pub(super) fn write(&self, file: impl AsFd) {
        if !self.0.is_empty() {
            fsetxattr(file, NAME, self.0.join("\n").as_bytes(), XattrFlags::empty()).ok();
        }
    }
}
