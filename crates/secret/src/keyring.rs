//! Sealing with XChaCha20-Poly1305: what is sealed opens only with its key and only in its place.

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

use crate::{SealedRow, SecretError, SecretRef};

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Bytes of a nonce. It is so long that a random one never comes twice.
const NONCE_BYTES: usize = 24;
/// Keys in a keyring.
const KEYS_MAX: usize = 64;
/// Says what is sealed, so that nothing sealed for another purpose opens here.
const PURPOSE: &str = "provost secret row 1";

/// Names a key: a hash of it, so that nobody has to number keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(String);

impl KeyId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Keys: the first one seals, all of them open. Clones share them.
#[derive(Clone)]
pub struct Keyring {
    keys: Arc<Vec<(KeyId, Zeroizing<[u8; KEY_BYTES]>)>>,
}

impl Keyring {
    /// A keyring with one new key.
    pub fn generate() -> Result<Self, SecretError> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *key)
            .map_err(|error| key_problem(format!("no random source: {error}")))?;
        Ok(Self { keys: Arc::new(vec![(id_of(&key), key)]) })
    }

    /// Reads keys: 32 bytes each, in base64 or as 64 hexadecimal digits, apart by blanks, commas or lines, the newest first.
    /// What follows a `#` in a line is a comment.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let mut keys: Vec<(KeyId, Zeroizing<[u8; KEY_BYTES]>)> = Vec::new();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = lines.flat_map(|line| line.split([' ', '\t', ',']));
        for word in words.filter(|word| !word.is_empty()) {
            let key = key_of(word).ok_or_else(|| {
                let number = keys.len() + 1;
                key_problem(format!("number {number} is no key; it must be 32 bytes in base64 or 64 hexadecimal digits"))
            })?;
            let id = id_of(&key);
            if !keys.iter().any(|(known, _)| *known == id) {
                keys.push((id, key));
            }
        }
        if keys.is_empty() {
            return Err(key_problem("there is none; make one with `provost secret set`"));
        }
        if keys.len() > KEYS_MAX {
            return Err(key_problem("there are more than 64; forget those that seal nothing"));
        }
        Ok(Self { keys: Arc::new(keys) })
    }

    /// The keys as they are read again. This is the one way to them: for the file that keeps them.
    pub fn to_text(&self) -> Secret<String> {
        let mut text = String::from(
            "# Keys of provost, the newest first. Whoever has this file can read all secrets.\n",
        );
        for (id, key) in self.keys.iter() {
            text.push_str(&format!("{} # {id}\n", BASE64_STANDARD.encode(**key)));
        }
        Secret::new(text)
    }

    /// The key that seals.
    pub fn current(&self) -> &KeyId {
        &self.keys[0].0
    }

    /// All keys, the newest first.
    pub fn ids(&self) -> impl Iterator<Item = &KeyId> {
        self.keys.iter().map(|(id, _)| id)
    }

    /// The same keys behind a new one.
    pub fn with_new_key(&self) -> Result<Self, SecretError> {
        let mut keys = (*Self::generate()?.keys).clone();
        keys.extend(self.keys.iter().cloned());
        keys.truncate(KEYS_MAX);
        Ok(Self { keys: Arc::new(keys) })
    }

    /// The newest key alone.
    #[must_use]
    pub fn only_current(&self) -> Self {
        Self { keys: Arc::new(self.keys.iter().take(1).cloned().collect()) }
    }

    /// Seals a value for its place and revision.
    pub fn seal(
        &self,
        namespace: &str,
        reference: &SecretRef,
        revision: u64,
        updated: Timestamp,
        value: &Secret<String>,
    ) -> Result<SealedRow, SecretError> {
        let (id, key) = &self.keys[0];
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|error| key_problem(format!("no random source: {error}")))?;
        let row = SealedRow {
            namespace: namespace.to_owned(),
            name: reference.name.clone(),
            key: reference.key.clone(),
            key_id: id.0.clone(),
            sealed: Vec::new(),
            revision,
            updated,
        };
        let aad = place_of(&row);
        let payload = Payload { msg: value.expose().as_bytes(), aad: &aad };
        let sealed = cipher(key)
            .encrypt(&nonce.into(), payload)
            .map_err(|error| key_problem(format!("the value cannot be sealed: {error}")))?;
        Ok(SealedRow { sealed: [&nonce[..], &sealed].concat(), ..row })
    }

    /// Opens a row. It must be the one that was sealed, in the place that it was sealed for.
    pub fn open(&self, row: &SealedRow) -> Result<Secret<String>, SecretError> {
        let reference = || format!("{}/{}:{}", row.namespace, row.name, row.key);
        let Some((_, key)) = self.keys.iter().find(|(id, _)| id.0 == row.key_id) else {
            return Err(SecretError::KeyMissing {
                reference: reference(),
                key_id: row.key_id.clone(),
            });
        };
        let sealed = || SecretError::Sealed { reference: reference() };
        let (nonce, text) = row.sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(sealed)?;
        let aad = place_of(row);
        let payload = Payload { msg: text, aad: &aad };
        let opened = cipher(key).decrypt(&(*nonce).into(), payload);
        // That it does not open is all that there is to say.
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

/// What the seal is bound to. Each part has its length before it, so that no two places look alike.
fn place_of(row: &SealedRow) -> Vec<u8> {
    let mut bytes = Vec::new();
    let revision = row.revision.to_string();
    for part in [PURPOSE, &row.namespace, &row.name, &row.key, &row.key_id, &revision] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

fn cipher(key: &[u8; KEY_BYTES]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&(*key).into())
}

fn id_of(key: &[u8; KEY_BYTES]) -> KeyId {
    let hash = Sha256::new().chain_update(b"provost key id 1").chain_update(key).finalize();
    KeyId(HEXLOWER.encode(&hash[..8]))
}

fn key_of(word: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    if word.len() == 2 * KEY_BYTES {
        HEXLOWER_PERMISSIVE.decode_mut(word.as_bytes(), &mut *key).ok()?;
        return Some(key);
    }
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(word).ok()?);
    *key = bytes.as_slice().try_into().ok()?;
    Some(key)
}

fn key_problem(problem: impl Into<String>) -> SecretError {
    SecretError::Key { problem: problem.into() }
}
