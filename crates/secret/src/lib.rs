//! Secrets: references, resolution and encrypted storage.
//!
//! A definition refers to a secret with a [`SecretRef`] and never contains a value. A [`SecretResolver`] finds the
//! value: in the encrypted store, then in the environment, then in files. The search continues only if a source does
//! not have the secret. A source that cannot be read ends the search, because its content is unknown. [`SecretService`]
//! registers each value for redaction before it returns the value.
//!
//! ```
//! use provost_core::Secret;
//! use provost_redact::Redactor;
//! use provost_secret::{InMemorySecretStore, Keyring, SecretRef, SecretService, StoreResolver, Vault};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, keys) = (Arc::new(InMemorySecretStore::default()), Keyring::generate()?);
//! let vault = Vault::new(store.clone(), keys.clone());
//! vault.set("team-a", &"mail:password".parse()?, &Secret::from("swordfish")).await?;
//!
//! let redactor = Redactor::new();
//! let secrets = SecretService::new(Arc::new(StoreResolver::new(store, keys)), redactor.clone());
//! let found = secrets.get("team-a", &"mail:password".parse()?).await?;
//! assert_eq!(found.expose(), "swordfish");
//! assert_eq!(redactor.redact("it is swordfish"), "it is [REDACTED]");
//! assert!(secrets.get("team-b", &"team-a/mail:password".parse()?).await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: no error, log line or `Debug` output contains a value. A namespace can access only its own secrets and
//! shared namespaces. An encrypted secret can be decrypted only in its own location.

mod error;
mod key_file;
mod keyring;
mod reference;
mod resolver;
mod sealed;
mod secrets;
mod sqlite;
mod vault;

pub use error::SecretError;
pub use key_file::{KEY_FILE_VARIABLE, KEY_VARIABLE, KeySource};
pub use keyring::{KeyId, Keyring};
pub use reference::{SecretRef, VALUE_KEY};
pub use resolver::{
    ChainResolver, ENV_PREFIX, EnvResolver, FileResolver, SecretResolver, StoreResolver,
};
pub use sealed::{InMemorySecretStore, SealedSecret, SecretLocation, SecretStore};
pub use secrets::SecretService;
pub use vault::{RotationReport, SecretMetadata, Vault};

#[cfg(test)]
mod tests;
