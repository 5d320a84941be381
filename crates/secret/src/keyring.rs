//! Encryption with XChaCha20-Poly1305. A sealed value can be decrypted only with its key and only in its location.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use provost_core::{Secret, Timestamp};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use crate::{SealedSecret, SecretError, SecretRef};

/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// Length of a nonce, in bytes. Random nonces of this length do not collide in practice.
const NONCE_BYTES: usize = 24;
/// Maximum number of keys in a keyring.
const KEYS_MAX: usize = 64;
/// Domain separation: values that were sealed for another purpose cannot be opened here.
const PURPOSE: &str = "provost secret row 1";

/// Id of a key: a hash of the key, so that keys need no numbering.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(String);

impl KeyId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Encryption keys: the first one encrypts, and all of them decrypt. Clones share the keys.
#[derive(Clone)]
pub struct Keyring {
    keys: Arc<Vec<(KeyId, Zeroizing<[u8; KEY_BYTES]>)>>,
}

impl Keyring {
    /// Creates a keyring with one new key.
    pub fn generate() -> Result<Self, SecretError> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *key)
            .map_err(|error| key_problem(format!("no random source: {error}")))?;
        Ok(Self { keys: Arc::new(vec![(id_of(&key), key)]) })
    }

    /// Parses keys: 32 bytes each, in base64 or as 64 hexadecimal digits, separated by blanks, commas or lines, the
    /// newest first. `#` starts a comment. Repeated keys are dropped. Fails if there is no key or more than 64.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let mut keys: Vec<(KeyId, Zeroizing<[u8; KEY_BYTES]>)> = Vec::new();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let key_texts = lines.flat_map(|line| line.split([' ', '\t', ',']));
        for key_text in key_texts.filter(|key_text| !key_text.is_empty()) {
            let key = key_of(key_text).ok_or_else(|| {
                let number = keys.len() + 1;
                key_problem(format!("key {number} is invalid; it must be 32 bytes in base64 or 64 hexadecimal digits"))
            })?;
            let id = id_of(&key);
            if !keys.iter().any(|(known, _)| *known == id) {
                keys.push((id, key));
            }
        }
        if keys.is_empty() {
            return Err(key_problem("there is no key; create one with `provost secret set`"));
        }
        if keys.len() > KEYS_MAX {
            return Err(key_problem("there are more than 64 keys; remove the unused ones"));
        }
        Ok(Self { keys: Arc::new(keys) })
    }

    /// Returns the keys in the format of [`parse`](Self::parse). This is the only access to the keys, for the file that
    /// stores them.
    pub fn to_text(&self) -> Secret<String> {
        let mut text = String::from(
            "# Keys of provost, the newest first. Anyone with this file can read all secrets.\n",
        );
        for (id, key) in self.keys.iter() {
            text.push_str(&format!("{} # {id}\n", BASE64_STANDARD.encode(**key)));
        }
        Secret::new(text)
    }

    /// Returns the id of the key that encrypts.
    pub fn current(&self) -> &KeyId {
        &self.keys[0].0
    }

    /// Returns the ids of all keys, the newest first.
    pub fn ids(&self) -> impl Iterator<Item = &KeyId> {
        self.keys.iter().map(|(id, _)| id)
    }

    /// Returns a keyring with a new key before the existing ones. The oldest of more than 64 keys is dropped.
    pub fn with_new_key(&self) -> Result<Self, SecretError> {
        let mut keys = (*Self::generate()?.keys).clone();
        keys.extend(self.keys.iter().cloned());
        keys.truncate(KEYS_MAX);
        Ok(Self { keys: Arc::new(keys) })
    }

    /// Returns a keyring with only the newest key.
    #[must_use]
    pub fn only_current(&self) -> Self {
        Self { keys: Arc::new(self.keys.iter().take(1).cloned().collect()) }
    }

    /// Encrypts a value with the newest key, bound to its location and revision. `namespace` replaces the namespace of
    /// the reference.
    pub fn seal(
        &self,
        namespace: &str,
        reference: &SecretRef,
        revision: u64,
        updated: Timestamp,
        value: &Secret<String>,
    ) -> Result<SealedSecret, SecretError> {
        let (id, key) = &self.keys[0];
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|error| key_problem(format!("no random source: {error}")))?;
        let row = SealedSecret {
            namespace: namespace.to_owned(),
            name: reference.name.clone(),
            key: reference.key.clone(),
            key_id: id.0.clone(),
            sealed: Vec::new(),
            revision,
            updated,
        };
        let aad = associated_data(&row);
        let payload = Payload { msg: value.expose().as_bytes(), aad: &aad };
        let sealed = cipher(key)
            .encrypt(&nonce.into(), payload)
            .map_err(|error| key_problem(format!("the value cannot be encrypted: {error}")))?;
        Ok(SealedSecret { sealed: [&nonce[..], &sealed].concat(), ..row })
    }

    /// Decrypts a secret. Fails if it was modified or belongs to another location.
    pub fn open(&self, row: &SealedSecret) -> Result<Secret<String>, SecretError> {
        let reference = || format!("{}/{}:{}", row.namespace, row.name, row.key);
        let Some((_, key)) = self.keys.iter().find(|(id, _)| id.0 == row.key_id) else {
            return Err(SecretError::KeyMissing {
                reference: reference(),
                key_id: row.key_id.clone(),
            });
        };
        let sealed = || SecretError::Sealed { reference: reference() };
        let (nonce, text) = row.sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(sealed)?;
        let aad = associated_data(row);
        let payload = Payload { msg: text, aad: &aad };
        let opened = cipher(key).decrypt(&(*nonce).into(), payload);
        // The decryption error contains no further information.
        let mut bytes = Zeroizing::new(opened.ok().ok_or_else(sealed)?);
        match String::from_utf8(std::mem::take(&mut *bytes)) {
            Ok(value) => Ok(Secret::new(value)),
            Err(error) => {
                error.into_bytes().zeroize();
                Err(sealed())
            }
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

/// Returns the associated data of the encryption. Each part is preceded by its length, so that different locations
/// never have the same data.
fn associated_data(row: &SealedSecret) -> Vec<u8> {
    let mut bytes = Vec::new();
    let revision = row.revision.to_string();
    for part in [PURPOSE, &row.namespace, &row.name, &row.key, &row.key_id, &revision] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

/// Creates the cipher of a key.
fn cipher(key: &[u8; KEY_BYTES]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&(*key).into())
}

/// Returns the id of a key: the first 8 bytes of its salted SHA-256, in hexadecimal.
fn id_of(key: &[u8; KEY_BYTES]) -> KeyId {
    let hash = Sha256::new().chain_update(b"provost key id 1").chain_update(key).finalize();
    KeyId(HEXLOWER.encode(&hash[..8]))
}

/// Parses one key. `None` if it is neither 64 hexadecimal digits nor 32 bytes in base64.
fn key_of(key_text: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    if key_text.len() == 2 * KEY_BYTES {
        HEXLOWER_PERMISSIVE.decode_mut(key_text.as_bytes(), &mut *key).ok()?;
        return Some(key);
    }
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(key_text).ok()?);
    *key = bytes.as_slice().try_into().ok()?;
    Some(key)
}

/// Creates a [`SecretError::Key`].
fn key_problem(problem: impl Into<String>) -> SecretError {
    SecretError::Key { problem: problem.into() }
}
