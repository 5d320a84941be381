//! The way to a value: it is found, and redaction knows it before anybody gets it.

use std::sync::Arc;

use provost_core::Secret;
use provost_redact::Redactor;

use crate::{SecretError, SecretRef, SecretResolver};

/// Finds values and teaches them to redaction. Clones share both.
#[derive(Clone)]
pub struct Secrets {
    resolver: Arc<dyn SecretResolver>,
    redactor: Redactor,
}

impl Secrets {
    /// Finds values with a resolver and teaches them to a redactor.
    pub fn new(resolver: Arc<dyn SecretResolver>, redactor: Redactor) -> Self {
        Self { resolver, redactor }
    }

    /// The value for a caller in a namespace. That there is none is an error here.
    pub async fn get(
        &self,
        namespace: &str,
        reference: &SecretRef,
    ) -> Result<Secret<String>, SecretError> {
        let found = self.resolver.resolve(namespace, reference).await?;
        let missing = || SecretError::NotFound { reference: reference.to_string() };
        let value = found.ok_or_else(missing)?;
        self.teach(reference, &value)?;
        Ok(value)
    }

    /// Teaches a value that was made of others, such as a token.
    pub fn teach(&self, reference: &SecretRef, value: &Secret<String>) -> Result<(), SecretError> {
        self.redactor.learn(value).map_err(|problem| SecretError::Unlearnable {
            reference: reference.to_string(),
            problem,
        })
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}
