//! Secrets in files, as orchestrators mount them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use provost_core::{ErrorKind, Secret};
use provost_redact::VALUE_BYTES_MAX;
use zeroize::{Zeroize, Zeroizing};

use super::{Resolved, SecretResolver, SharedNamespaces, require_value};
use crate::{SecretError, SecretRef};

/// Finds secrets in files: `DIRECTORY/namespace/name/key`. One trailing line end is not part of the value.
#[derive(Debug, Clone)]
pub struct FileResolver {
    dir: PathBuf,
    shared_namespaces: SharedNamespaces,
}

impl FileResolver {
    /// Creates a resolver for a directory. The directory must exist when a secret is read; a missing one is an error.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), shared_namespaces: SharedNamespaces::default() }
    }

    /// Permits callers of every namespace to read the secrets of this namespace.
    #[must_use]
    pub fn share(mut self, namespace: impl Into<String>) -> Self {
        self.shared_namespaces.add(namespace);
        self
    }
}

impl SecretResolver for FileResolver {
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> BoxFuture<'a, Resolved> {
        Box::pin(async move {
            let namespace = self.shared_namespaces.resolve(namespace, reference)?;
            // The names were checked, so the path cannot leave the directory.
            let space =
                SecretRef { namespace: None, name: namespace.to_owned(), key: "x".to_owned() };
            space.check()?;
            let path = self.dir.join(namespace).join(&reference.name).join(&reference.key);
            let (dir, file) = (self.dir.clone(), path.clone());
            let read = tokio::task::spawn_blocking(move || read(&dir, &file)).await;
            let read = read.map_err(io::Error::other).and_then(|read| read);
            match read {
                Ok(Some(value)) => require_value(value, reference, || path.display().to_string()),
                Ok(None) => Ok(None),
                Err(error) => {
                    let kind = match error.kind() {
                        io::ErrorKind::InvalidData => ErrorKind::Invalid,
                        _ => ErrorKind::Unavailable,
                    };
                    Err(SecretError::unreadable(path.display().to_string(), kind, error))
                }
            }
        })
    }
}

/// Reads the value in a file, without a trailing line end. `None` if the file does not exist, but the directory does.
/// Fails if the value is not UTF-8 or too large.
fn read(dir: &Path, path: &Path) -> io::Result<Option<Secret<String>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        // A missing directory is an error: an absent mount does not mean that the secret does not exist.
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(VALUE_BYTES_MAX as u64 + 2).read_to_end(&mut bytes)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.len() > VALUE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the value is too large for a secret",
        ));
    }
    let value = Secret::from(text);
    bytes.zeroize();
    Ok(Some(value))
}
