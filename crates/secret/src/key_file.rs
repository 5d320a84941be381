//! Source of the master key: an environment variable, a file that a variable names, or a file in the data directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::{Keyring, SecretError};

/// Environment variable that contains the keys.
pub const KEY_VARIABLE: &str = "PROVOST_MASTER_KEY";
/// Environment variable that names the key file.
pub const KEY_FILE_VARIABLE: &str = "PROVOST_MASTER_KEY_FILE";
/// Name of the key file in the data directory.
const FILE_NAME: &str = "secrets.key";
/// Maximum size of a key file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Permission bits of the group and of other users.
#[cfg(unix)]
const GROUP_AND_OTHERS: u32 = 0o077;

/// Place that the encryption keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The environment, which this process cannot change.
    Variable,
    /// A file.
    File(PathBuf),
}

impl KeySource {
    /// Selects the source: [`KEY_VARIABLE`], [`KEY_FILE_VARIABLE`], or a file in the data directory. Fails if both
    /// variables are set, or one is empty. Does not read the file.
    pub fn find(dir: &Path, env: impl Fn(&str) -> Option<String>) -> Result<Self, SecretError> {
        let named = |name: &str| match env(name) {
            Some(value) if value.trim().is_empty() => {
                Err(problem(format!("{name} is set but empty; set or remove it")))
            }
            value => Ok(value),
        };
        match (named(KEY_VARIABLE)?, named(KEY_FILE_VARIABLE)?) {
            (Some(_), Some(_)) => Err(problem(format!(
                "{KEY_VARIABLE} and {KEY_FILE_VARIABLE} are both set; keep one"
            ))),
            (Some(_), None) => Ok(Self::Variable),
            (None, Some(file)) => Ok(Self::File(PathBuf::from(file))),
            (None, None) => Ok(Self::File(dir.join(FILE_NAME))),
        }
    }

    /// Reads the keys. `None` if the key file does not exist. Fails if other users can access the file.
    pub fn load(
        &self,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Keyring>, SecretError> {
        match self {
            Self::Variable => {
                let text = Zeroizing::new(env(KEY_VARIABLE).unwrap_or_default());
                Keyring::parse(&text).map(Some)
            }
            Self::File(path) => {
                let text = read(path).map_err(|error| unreadable(path, &error))?;
                text.map(|text| Keyring::parse(&text)).transpose()
            }
        }
    }

    /// Generates a keyring with one key and stores it in the key file. If the file exists, returns its keys instead.
    /// Fails for [`KeySource::Variable`].
    pub fn create(&self) -> Result<Keyring, SecretError> {
        let Self::File(path) = self else {
            return Err(problem(format!("{KEY_VARIABLE} contains no key")));
        };
        let keys = Keyring::generate()?;
        match write_new(path, &keys) {
            Ok(()) => Ok(keys),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.load(|_| None)?.ok_or_else(|| problem("the key file disappeared"))
            }
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// Replaces the content of the key file atomically. Fails for [`KeySource::Variable`].
    pub fn replace(&self, keys: &Keyring) -> Result<(), SecretError> {
        let Self::File(path) = self else {
            let message = format!(
                "the keys come from {KEY_VARIABLE}; put the new key first there, keep the old keys after it, and rotate again"
            );
            return Err(problem(message));
        };
        let new_path = path.with_extension("key.new");
        let written = remove(&new_path)
            .and_then(|()| write_new(&new_path, keys))
            .and_then(|()| fs::rename(&new_path, path))
            .and_then(|()| sync_dir(path));
        written.map_err(|error| unreadable(path, &error))
    }
}

/// Reads the key file. `None` if it does not exist. Fails if other users can access it, or if it is larger than
/// [`FILE_BYTES_MAX`].
fn read(path: &Path) -> io::Result<Option<Zeroizing<String>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & GROUP_AND_OTHERS != 0 {
        let message = "other users can read or change it; run `chmod 600` on it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the key file is too large"));
    }
    Ok(Some(text))
}

/// Creates a file that only its owner can access, and syncs it to disk. It appears with its complete content or not at
/// all. Fails if it exists.
fn write_new(path: &Path, keys: &Keyring) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    remove(&draft)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = file
        .write_all(keys.to_text().expose().as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&draft, path))
        .and_then(|()| sync_dir(path));
    remove(&draft)?;
    written
}

/// Deletes a file if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Syncs the directory of a path to disk, so that a new or renamed file survives a crash. Does nothing on other
/// systems than Unix.
fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        #[cfg(unix)]
        Some(dir) => File::open(dir)?.sync_all(),
        _ => Ok(()),
    }
}

/// Creates the error of a key file that cannot be read or written.
fn unreadable(path: &Path, error: &io::Error) -> SecretError {
    problem(format!("{}: {error}", path.display()))
}

/// Creates a [`SecretError::Key`].
fn problem(problem: impl Into<String>) -> SecretError {
    SecretError::Key { problem: problem.into() }
}
