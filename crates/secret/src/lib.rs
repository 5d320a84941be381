//! Secrets: where they are found and how they are kept.
//!
//! A definition names a secret by a [`SecretRef`] and never holds one. A [`SecretResolver`] finds the value: the sealed store
//! first, then the environment, then files. Only "there is none" goes on to the next place; a place that cannot be read ends the
//! search, because what it would have said is not known. [`Secrets`] teaches each value to redaction before anybody gets it.
//!
//! ```
//! use provost_core::Secret;
//! use provost_redact::Redactor;
//! use provost_secret::{Keyring, MemorySealedStore, SecretRef, Secrets, StoreResolver, Vault};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, keys) = (Arc::new(MemorySealedStore::default()), Keyring::generate()?);
//! let vault = Vault::new(store.clone(), keys.clone());
//! vault.set("team-a", &"mail:password".parse()?, &Secret::from("swordfish")).await?;
//!
//! let redactor = Redactor::new();
//! let secrets = Secrets::new(Arc::new(StoreResolver::new(store, keys)), redactor.clone());
//! let found = secrets.get("team-a", &"mail:password".parse()?).await?;
//! assert_eq!(found.expose(), "swordfish");
//! assert_eq!(redactor.redact("it is swordfish"), "it is [REDACTED]");
//! assert!(secrets.get("team-b", &"team-a/mail:password".parse()?).await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: no error, log line or `Debug` form holds a value; a namespace sees its own secrets and no others; a sealed row
//! opens only in its own place.

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
pub use sealed::{MemorySealedStore, SealedPlace, SealedRow, SealedStore};
pub use secrets::Secrets;
pub use vault::{Rotation, SecretFacts, Vault};

#[cfg(test)]
mod tests;
