//! Values in the environment of the process.

use std::env::VarError;
use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use provost_core::{ErrorKind, Secret};

use super::{Resolved, SecretResolver, Shared, filled};
use crate::{SecretError, SecretRef, VALUE_KEY};

/// What the names of variables begin with. Without a prefix a reference could name any variable of the process.
pub const ENV_PREFIX: &str = "PROVOST_SECRET_";
/// The namespace whose variables need no name of a namespace.
const NAMESPACE_DEFAULT: &str = "default";

/// Reads a variable.
type Read = dyn Fn(&str) -> Result<String, VarError> + Send + Sync;

/// Finds values in the environment.
///
/// `mail:password` is `PROVOST_SECRET_MAIL__PASSWORD` in the namespace `default` and `PROVOST_SECRET__TEAM_A__MAIL__PASSWORD`
/// in `team-a`; the key `value` is left out. Names that would not stay apart this way are not found here.
#[derive(Clone)]
pub struct EnvResolver {
    prefix: String,
    shared: Shared,
    read: Arc<Read>,
}

impl EnvResolver {
    /// Reads the process's environment.
    pub fn new() -> Self {
        Self::reading(|name| std::env::var(name))
    }

    /// Reads variables with a function.
    pub fn reading(
        read: impl Fn(&str) -> Result<String, VarError> + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: ENV_PREFIX.to_owned(), shared: Shared::default(), read: Arc::new(read) }
    }

    /// Lets everybody read a namespace.
    #[must_use]
    pub fn share(mut self, namespace: impl Into<String>) -> Self {
        self.shared.add(namespace);
        self
    }

    fn find(&self, namespace: &str, reference: &SecretRef) -> Resolved {
        let namespace = self.shared.place(namespace, reference)?;
        let Some(name) = self.variable(namespace, reference) else { return Ok(None) };
        match (self.read)(&name) {
            Ok(value) => filled(Secret::new(value), reference, || format!("the variable {name}")),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => {
                let place = format!("the variable {name}");
                Err(SecretError::unreadable(place, ErrorKind::Invalid, "it is no text"))
            }
        }
    }

    /// The variable for a place, unless it would be that of another place as well.
    fn variable(&self, namespace: &str, reference: &SecretRef) -> Option<String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let mut name = self.prefix.clone();
        if namespace != NAMESPACE_DEFAULT {
            // Two namespaces never share a variable: `_` and capitals would make them look alike.
            if !namespace.chars().all(is_plain) {
                return None;
            }
            name.push_str(&format!("_{}__", upper(namespace)?));
        }
        name.push_str(&upper(&reference.name)?);
        if reference.key != VALUE_KEY {
            name.push_str(&format!("__{}", upper(&reference.key)?));
        }
        Some(name)
    }
}

impl Default for EnvResolver {
    fn default() -> Self {
        Self::new()
    }
}

/// `mail-server.x` as `MAIL_SERVER_X`; nothing where the parts of a variable's name could not be told apart.
fn upper(part: &str) -> Option<String> {
    let upper: String = part
        .chars()
        .map(|c| if c == '-' || c == '.' { '_' } else { c.to_ascii_uppercase() })
        .collect();
    (!upper.contains("__") && !upper.starts_with('_') && !upper.ends_with('_')).then_some(upper)
}

impl SecretResolver for EnvResolver {
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> BoxFuture<'a, Resolved> {
        Box::pin(ready(self.find(namespace, reference)))
    }
}
