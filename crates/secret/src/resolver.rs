//! Where values are found.

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

/// What a resolver found: nothing is the only thing that makes others be asked.
pub(crate) type Resolved = Result<Option<Secret<String>>, SecretError>;

/// Finds the value that a reference names.
pub trait SecretResolver: Send + Sync + 'static {
    /// Finds it for a caller in a namespace. `Ok(None)` means that it is not here, and nothing else means that.
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> BoxFuture<'a, Result<Option<Secret<String>>, SecretError>>;
}

/// Asks several places in order. A place that fails ends the search: what it would have said is not known.
#[derive(Clone, Default)]
pub struct ChainResolver {
    places: Vec<Arc<dyn SecretResolver>>,
}

impl ChainResolver {
    /// A chain without places, which finds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks this place after the others.
    #[must_use]
    pub fn then(mut self, place: impl SecretResolver) -> Self {
        self.places.push(Arc::new(place));
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
            for place in &self.places {
                if let Some(value) = place.resolve(namespace, reference).await? {
                    return Ok(Some(value));
                }
            }
            Ok(None)
        })
    }
}

/// Which namespaces a caller may read besides its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(BTreeSet<String>);

impl Shared {
    pub(crate) fn add(&mut self, namespace: impl Into<String>) {
        self.0.insert(namespace.into());
    }

    /// The namespace to look in.
    pub(crate) fn place<'a>(
        &self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> Result<&'a str, SecretError> {
        reference.check()?;
        let wanted = reference.namespace.as_deref().unwrap_or(namespace);
        if wanted != namespace && !self.0.contains(wanted) {
            let reference = reference.to_string();
            return Err(SecretError::Namespace { namespace: namespace.to_owned(), reference });
        }
        Ok(wanted)
    }
}

/// Refuses a value that is none.
pub(crate) fn filled(
    value: Secret<String>,
    reference: &SecretRef,
    place: impl FnOnce() -> String,
) -> Resolved {
    if value.expose().trim().is_empty() {
        return Err(SecretError::Empty { reference: reference.to_string(), place: place() });
    }
    Ok(Some(value))
}
