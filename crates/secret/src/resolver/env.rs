//! Secrets in environment variables.

use std::env::VarError;
use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use provost_core::{ErrorKind, Secret};

use super::{Resolved, SecretResolver, SharedNamespaces, require_value};
use crate::{SecretError, SecretRef, VALUE_KEY};

/// Prefix of the variables. Without a prefix, a reference could name any variable of the process.
pub const ENV_PREFIX: &str = "PROVOST_SECRET_";
/// Namespace whose variables contain no namespace.
const NAMESPACE_DEFAULT: &str = "default";

/// Reads a variable.
type Read = dyn Fn(&str) -> Result<String, VarError> + Send + Sync;

/// Finds secrets in environment variables.
///
/// `mail:password` is `PROVOST_SECRET_MAIL__PASSWORD` in the namespace `default` and
/// `PROVOST_SECRET__TEAM_A__MAIL__PASSWORD` in `team-a`. The key `value` is omitted. References whose variable name
/// would be ambiguous are not found.
#[derive(Clone)]
pub struct EnvResolver {
    prefix: String,
    shared_namespaces: SharedNamespaces,
    read: Arc<Read>,
}

impl EnvResolver {
    /// Creates a resolver that reads the environment of the process.
    pub fn new() -> Self {
        Self::with_reader(|name| std::env::var(name))
    }

    /// Creates a resolver that reads variables with a function instead of the environment.
    pub fn with_reader(
        read: impl Fn(&str) -> Result<String, VarError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            prefix: ENV_PREFIX.to_owned(),
            shared_namespaces: SharedNamespaces::default(),
            read: Arc::new(read),
        }
    }

    /// Permits callers of every namespace to read the secrets of this namespace.
    #[must_use]
    pub fn share(mut self, namespace: impl Into<String>) -> Self {
        self.shared_namespaces.add(namespace);
        self
    }

    /// Reads the variable of a reference. `None` if it is not set, or if its name would be ambiguous. Fails if the
    /// value is empty or not UTF-8.
    fn find(&self, namespace: &str, reference: &SecretRef) -> Resolved {
        let namespace = self.shared_namespaces.resolve(namespace, reference)?;
        let Some(name) = self.variable(namespace, reference) else { return Ok(None) };
        match (self.read)(&name) {
            Ok(value) => {
                require_value(Secret::new(value), reference, || format!("the variable {name}"))
            }
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => {
                let place = format!("the variable {name}");
                Err(SecretError::unreadable(
                    place,
                    ErrorKind::Invalid,
                    "the value is not valid UTF-8",
                ))
            }
        }
    }

    /// Returns the variable of a reference. `None` if the name would be ambiguous.
    fn variable(&self, namespace: &str, reference: &SecretRef) -> Option<String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let mut name = self.prefix.clone();
        if namespace != NAMESPACE_DEFAULT {
            // Two namespaces must never share a variable: `_` and capitals would make them ambiguous.
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

/// Converts `mail-server.x` to `MAIL_SERVER_X`. `None` if the parts of the variable name would be ambiguous.
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
