//! Where the master key is: in a variable, in a file that a variable names, or in a file beside the database.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::{Keyring, SecretError};

/// The variable that holds the keys.
pub const KEY_VARIABLE: &str = "PROVOST_MASTER_KEY";
/// The variable that names the file of the keys.
pub const KEY_FILE_VARIABLE: &str = "PROVOST_MASTER_KEY_FILE";
/// The name of the file beside the database.
const FILE_NAME: &str = "secrets.key";
/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Whoever is not the owner has no business with it.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// Where the keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In the environment, where we cannot change them.
    Variable,
    /// In a file.
    File(PathBuf),
}

impl KeySource {
    /// Looks where the keys are: [`KEY_VARIABLE`], [`KEY_FILE_VARIABLE`], or a file in the data directory.
    pub fn find(dir: &Path, env: impl Fn(&str) -> Option<String>) -> Result<Self, SecretError> {
        let named = |name: &str| match env(name) {
            Some(value) if value.trim().is_empty() => {
                Err(problem(format!("{name} is set and empty; set it or remove it")))
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

    /// Reads the keys; nothing if the file is not there.
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

    /// Makes the first key and keeps it, unless somebody else has just made one: then that one counts.
    pub fn create(&self) -> Result<Keyring, SecretError> {
        let Self::File(path) = self else {
            return Err(problem(format!("{KEY_VARIABLE} holds no key")));
        };
        let keys = Keyring::generate()?;
        match write_new(path, &keys) {
            Ok(()) => Ok(keys),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.load(|_| None)?.ok_or_else(|| problem("the file came and went"))
            }
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// Replaces the keys, all or nothing.
    pub fn replace(&self, keys: &Keyring) -> Result<(), SecretError> {
        let Self::File(path) = self else {
            let what = format!(
                "they come from {KEY_VARIABLE}; put the new key first there, keep the old ones behind it, and rotate again"
            );
            return Err(problem(what));
        };
        let beside = path.with_extension("key.new");
        let written = remove(&beside)
            .and_then(|()| write_new(&beside, keys))
            .and_then(|()| fs::rename(&beside, path))
            .and_then(|()| sync_dir(path));
        written.map_err(|error| unreadable(path, &error))
    }
}

fn read(path: &Path) -> io::Result<Option<Zeroizing<String>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & OTHERS != 0 {
        let what = "others than its owner may read or change it; run `chmod 600` on it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large for keys"));
    }
    Ok(Some(text))
}

/// Writes a file that was not there, for its owner only. It appears with its keys in it, or not at all.
fn write_new(path: &Path, keys: &Keyring) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    remove(&draft)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let made = file
        .write_all(keys.to_text().expose().as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&draft, path))
        .and_then(|()| sync_dir(path));
    remove(&draft)?;
    made
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        #[cfg(unix)]
        Some(dir) => File::open(dir)?.sync_all(),
        _ => Ok(()),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> SecretError {
    problem(format!("{}: {error}", path.display()))
}

fn problem(problem: impl Into<String>) -> SecretError {
    SecretError::Key { problem: problem.into() }
}
