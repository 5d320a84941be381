//! Text format of tokens: `prv_`, the id and a secret.
//!
//! Invariant: a secret is never stored and never logged. Only its SHA-256 hash is stored.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use provost_core::TokenId;
use sha2::{Digest, Sha256};

/// Prefix of every token. Secret scanners search for it.
const PREFIX: &str = "prv_";
/// Length of the id.
const ID_LEN: usize = 26;
/// Length of the secret: 32 bytes in Base64.
const SECRET_LEN: usize = 43;
/// Length of a token.
const TOKEN_LEN: usize = PREFIX.len() + ID_LEN + 1 + SECRET_LEN;

/// Hash of a secret.
pub(crate) type Hash = [u8; 32];

/// A token of a request: its id and the hash of its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PresentedToken {
    pub(crate) id: TokenId,
    pub(crate) hash: Hash,
}

/// Generates a random secret. `None` if the operating system has no random source.
pub(crate) fn generate_secret() -> Option<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the text of a token, as in the header `Authorization: Bearer`.
pub(crate) fn text(id: TokenId, secret: &str) -> String {
    let id = id.to_string();
    let digits = id.split_once('_').map_or(id.as_str(), |(_, digits)| digits);
    format!("{PREFIX}{digits}_{secret}")
}

/// Parses the text of a token, and hashes its secret. `None` if the text is malformed.
pub(crate) fn parse(text: &str) -> Option<PresentedToken> {
    if text.len() != TOKEN_LEN || !text.is_ascii() {
        return None;
    }
    let (digits, secret) = text.strip_prefix(PREFIX)?.split_at(ID_LEN);
    let secret = secret.strip_prefix('_')?;
    let mut id = *b"tok_00000000000000000000000000";
    id.last_chunk_mut::<ID_LEN>()?.copy_from_slice(digits.as_bytes());
    let id = std::str::from_utf8(&id).ok()?.parse().ok()?;
    Some(PresentedToken { id, hash: hash(secret) })
}

/// Returns the hash of a secret.
pub(crate) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// Encodes a hash for storage.
pub(crate) fn to_hex(hash: Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes a stored hash. `None` if the text is malformed.
pub(crate) fn from_hex(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// Returns true if two hashes are equal, in constant time.
pub(crate) fn constant_time_eq(left: &Hash, right: &Hash) -> bool {
    let differs = left.iter().zip(right).fold(0, |acc, (left, right)| acc | (left ^ right));
    std::hint::black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is() {
        let (id, secret) = (Env::system().id(), generate_secret().unwrap());
        let text = text(id, &secret);
        assert_eq!(text.len(), TOKEN_LEN);
        assert_eq!(parse(&text), Some(PresentedToken { id, hash: hash(&secret) }));
        for broken in [
            String::new(),
            text[1..].to_owned(),
            format!("{text}A"),
            format!("é{}", &text[2..]),
            text.replace("prv_", "tok_"),
            text.replacen(&text[4..6], "zz", 1),
            "x".repeat(1_000_000),
        ] {
            assert_eq!(parse(&broken), None, "{broken:.80}");
        }
    }

    #[test]
    fn a_hash_is_stored_as_text_and_compared_as_a_whole() {
        let hash = hash("secret");
        assert_eq!(from_hex(&to_hex(hash)), Some(hash));
        assert_eq!(from_hex("00"), None);
        assert_eq!(from_hex(&"zz".repeat(32)), None);
        assert!(constant_time_eq(&hash, &hash));
        for index in 0..32 {
            let mut right = hash;
            right[index] ^= 1;
            assert!(!constant_time_eq(&hash, &right));
        }
    }
}
