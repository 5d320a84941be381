//! Access to secrets, with registration for redaction.

use std::sync::Arc;

use provost_core::Secret;
use provost_redact::Redactor;

use crate::{SecretError, SecretRef, SecretResolver};

/// Resolves secrets and registers their values for redaction. Clones share the resolver and the redactor.
#[derive(Clone)]
pub struct SecretService {
    resolver: Arc<dyn SecretResolver>,
    redactor: Redactor,
}

impl SecretService {
    /// Creates a service from a resolver and a redactor.
    pub fn new(resolver: Arc<dyn SecretResolver>, redactor: Redactor) -> Self {
        Self { resolver, redactor }
    }

    /// Resolves a secret for a caller in a namespace and registers its value for redaction. Fails if the secret does
    /// not exist.
    pub async fn get(
        &self,
        namespace: &str,
        reference: &SecretRef,
    ) -> Result<Secret<String>, SecretError> {
        let found = self.resolver.resolve(namespace, reference).await?;
        let missing = || SecretError::NotFound { reference: reference.to_string() };
        let value = found.ok_or_else(missing)?;
        self.register(reference, &value)?;
        Ok(value)
    }

    /// Registers a value for redaction that was derived from a secret, such as a token. Fails if the redactor rejects
    /// it.
    pub fn register(
        &self,
        reference: &SecretRef,
        value: &Secret<String>,
    ) -> Result<(), SecretError> {
        self.redactor.register(value).map_err(|problem| SecretError::Unredactable {
            reference: reference.to_string(),
            problem,
        })
    }
}

impl std::fmt::Debug for SecretService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretService").finish_non_exhaustive()
    }
}
