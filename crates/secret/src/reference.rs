//! References to secrets.

use std::fmt;
use std::str::FromStr;

use crate::SecretError;

/// Key of a secret with only one value.
pub const VALUE_KEY: &str = "value";
/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 128;

/// Reference to a secret: `name`, `name:key`, `namespace/name` or `namespace/name:key`.
///
/// ```
/// use provost_secret::SecretRef;
///
/// let found: SecretRef = "mail:password".parse().unwrap();
/// assert_eq!((found.namespace, found.name.as_str(), found.key.as_str()), (None, "mail", "password"));
/// assert_eq!("mail".parse::<SecretRef>().unwrap().key, "value");
/// assert!("../mail".parse::<SecretRef>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretRef {
    /// Namespace of the secret. `None`: the namespace of the caller.
    pub namespace: Option<String>,
    /// Name of the secret.
    pub name: String,
    /// Key of one value of the secret.
    pub key: String,
}

impl SecretRef {
    /// Returns a reference to another value of the same secret.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// Fails if the namespace, the name or the key is not a valid name. A parsed reference is always valid.
    pub fn check(&self) -> Result<(), SecretError> {
        let parts = [self.namespace.as_deref(), Some(&self.name), Some(&self.key)];
        match parts.into_iter().flatten().find_map(|part| name_problem(part).err()) {
            None => Ok(()),
            Some(problem) => Err(SecretError::Reference { text: self.to_string(), problem }),
        }
    }
}

impl FromStr for SecretRef {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let trimmed = text.trim();
        let (namespace, rest) = match trimmed.split_once('/') {
            Some((namespace, rest)) => (Some(namespace.to_owned()), rest),
            None => (None, trimmed),
        };
        let (name, key) = rest.split_once(':').unwrap_or((rest, VALUE_KEY));
        let found = Self { namespace, name: name.to_owned(), key: key.to_owned() };
        found.check()?;
        Ok(found)
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)?;
        if self.key != VALUE_KEY {
            write!(f, ":{}", self.key)?;
        }
        Ok(())
    }
}

/// Fails with the reason if a text is not a valid name: 1 to 128 ASCII letters, digits, `-`, `_` and `.`, the first
/// one a letter or digit. Names become parts of file names and rows, so they must not contain separators.
pub(crate) fn name_problem(name: &str) -> Result<(), &'static str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() {
        return Err("a part is empty");
    }
    if name.len() > NAME_CHARS_MAX {
        return Err("a part exceeds 128 characters");
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err("each part must start with a letter or a digit");
    }
    if !name.chars().all(is_name) {
        return Err("only letters, digits, `-`, `_` and `.` are allowed");
    }
    Ok(())
}
