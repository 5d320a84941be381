//! Resolution of references.

mod env;
mod file;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::Secret;

use crate::{SecretError, SecretRef};

pub use env::{ENV_PREFIX, EnvResolver};
pub use file::FileResolver;
pub use store::StoreResolver;

/// Result of a resolver. Only `Ok(None)` continues the search.
pub(crate) type Resolved = Result<Option<Secret<String>>, SecretError>;

/// Finds the value of a reference.
pub trait SecretResolver: Send + Sync + 'static {
    /// Finds the value for a caller in a namespace. `Ok(None)` means that this resolver does not have the secret.
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> BoxFuture<'a, Result<Option<Secret<String>>, SecretError>>;
}

/// Queries several resolvers in order. An error ends the search, because the content of that resolver is unknown.
#[derive(Clone, Default)]
pub struct ChainResolver {
    resolvers: Vec<Arc<dyn SecretResolver>>,
}

impl ChainResolver {
    /// Creates a chain without resolvers, which finds no secret.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a resolver, which is queried after all others.
    #[must_use]
    pub fn then(mut self, resolver: impl SecretResolver) -> Self {
        self.resolvers.push(Arc::new(resolver));
        self
    }
}

impl SecretResolver for ChainResolver {
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> BoxFuture<'a, Resolved> {
        Box::pin(async move {
            for resolver in &self.resolvers {
                if let Some(value) = resolver.resolve(namespace, reference).await? {
                    return Ok(Some(value));
                }
            }
            Ok(None)
        })
    }
}

/// Namespaces that every caller may read besides its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedNamespaces(BTreeSet<String>);

impl SharedNamespaces {
    /// Permits every caller to read a namespace.
    pub(crate) fn add(&mut self, namespace: impl Into<String>) {
        self.0.insert(namespace.into());
    }

    /// Returns the namespace of the reference, by default the namespace of the caller. Fails if the reference is
    /// invalid, or if its namespace is neither the caller's nor shared.
    pub(crate) fn resolve<'a>(
        &self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> Result<&'a str, SecretError> {
        reference.check()?;
        let requested = reference.namespace.as_deref().unwrap_or(namespace);
        if requested != namespace && !self.0.contains(requested) {
            let reference = reference.to_string();
            return Err(SecretError::Namespace { namespace: namespace.to_owned(), reference });
        }
        Ok(requested)
    }
}

/// Returns the value. Fails with [`SecretError::Empty`] if it contains only white space.
pub(crate) fn require_value(
    value: Secret<String>,
    reference: &SecretRef,
    place: impl FnOnce() -> String,
) -> Resolved {
    if value.expose().trim().is_empty() {
        return Err(SecretError::Empty { reference: reference.to_string(), place: place() });
    }
    Ok(Some(value))
}
