//! Values in files: one directory for each tool, one file for each key, each put in place as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::Env;
use provost_core::hash::sha256_hex;

use super::{KeyValues, KvError, KvScope};
use crate::error::WasmError;
use crate::limits::KEYS_MAX;
use crate::private_dir;

/// Keeps values in a directory that nobody else may use.
#[derive(Debug, Clone)]
pub struct FileKeyValues {
    dir: PathBuf,
}

impl FileKeyValues {
    /// In a directory, which is made if it is not there.
    pub fn open(dir: &Path) -> Result<Self, WasmError> {
        private_dir::dir(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Names of files say nothing of tools and keys, and no key can be a path.
    fn shelf(&self, scope: &KvScope) -> PathBuf {
        let KvScope { namespace, tool } = scope;
        self.dir.join(sha256_hex(format!("{namespace}\0{tool}").as_bytes()))
    }

    fn place(&self, scope: &KvScope, key: &str) -> PathBuf {
        self.shelf(scope).join(sha256_hex(key.as_bytes()))
    }

    /// Does something with files where waiting for a disk holds nobody up.
    fn on_disk<T: Send + 'static>(
        act: impl FnOnce() -> Result<T, KvError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, KvError>> {
        let done = tokio::task::spawn_blocking(act);
        async move { done.await.map_err(|error| KvError::Unavailable(error.to_string()))? }.boxed()
    }
}

fn broken(error: &io::Error) -> KvError {
    KvError::Unavailable(error.to_string())
}

impl KeyValues for FileKeyValues {
    fn get<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, KvError>> {
        let place = self.place(scope, key);
        Self::on_disk(move || match fs::read(place) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(broken(&error)),
        })
    }

    fn set<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), KvError>> {
        let (shelf, place) = (self.shelf(scope), self.place(scope, key));
        Self::on_disk(move || {
            fs::create_dir_all(&shelf).map_err(|error| broken(&error))?;
            if !place.exists() {
                let keys = fs::read_dir(&shelf).map_err(|error| broken(&error))?.count();
                if keys >= KEYS_MAX {
                    return Err(KvError::Full);
                }
            }
            private_dir::put(&place, &value, &Env::system()).map_err(|error| broken(&error))
        })
    }

    fn delete<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), KvError>> {
        let place = self.place(scope, key);
        Self::on_disk(move || match fs::remove_file(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(broken(&error)),
            _ => Ok(()),
        })
    }
}
