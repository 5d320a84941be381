//! Key-value storage in files: one directory per tool, one file per key, each replaced atomically.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::Env;
use provost_core::hash::sha256_hex;

use super::{KeyValueError, KeyValueScope, KeyValueStore};
use crate::error::WasmError;
use crate::limits::KEYS_MAX;
use crate::private_dir;

/// Stores values as files in a private directory.
#[derive(Debug, Clone)]
pub struct FileKeyValueStore {
    dir: PathBuf,
}

impl FileKeyValueStore {
    /// Opens a directory. Creates it if it does not exist. Returns an error if other users can access it.
    pub fn open(dir: &Path) -> Result<Self, WasmError> {
        private_dir::create_dir(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Returns the directory of a tool. File names are hashes. They reveal neither tools nor keys, and a key cannot be
    /// a path.
    fn tool_dir(&self, scope: &KeyValueScope) -> PathBuf {
        let KeyValueScope { namespace, tool } = scope;
        self.dir.join(sha256_hex(format!("{namespace}\0{tool}").as_bytes()))
    }

    /// Returns the file of a value.
    fn path(&self, scope: &KeyValueScope, key: &str) -> PathBuf {
        self.tool_dir(scope).join(sha256_hex(key.as_bytes()))
    }

    /// Runs file operations on a blocking thread.
    fn on_disk<T: Send + 'static>(
        work: impl FnOnce() -> Result<T, KeyValueError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, KeyValueError>> {
        let done = tokio::task::spawn_blocking(work);
        async move { done.await.map_err(|error| KeyValueError::Unavailable(error.to_string()))? }
            .boxed()
    }
}

fn io_error(error: &io::Error) -> KeyValueError {
    KeyValueError::Unavailable(error.to_string())
}

impl KeyValueStore for FileKeyValueStore {
    fn get<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, KeyValueError>> {
        let path = self.path(scope, key);
        Self::on_disk(move || match fs::read(path) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&error)),
        })
    }

    fn set<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), KeyValueError>> {
        let (tool_dir, path) = (self.tool_dir(scope), self.path(scope, key));
        Self::on_disk(move || {
            fs::create_dir_all(&tool_dir).map_err(|error| io_error(&error))?;
            if !path.exists() {
                let keys = fs::read_dir(&tool_dir).map_err(|error| io_error(&error))?.count();
                if keys >= KEYS_MAX {
                    return Err(KeyValueError::Full);
                }
            }
            private_dir::write_atomic(&path, &value, &Env::system())
                .map_err(|error| io_error(&error))
        })
    }

    fn delete<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), KeyValueError>> {
        let path = self.path(scope, key);
        Self::on_disk(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&error)),
            _ => Ok(()),
        })
    }
}
