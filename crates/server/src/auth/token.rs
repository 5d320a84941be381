//! The text of a token: `prv_`, its id, and a secret that only its holder has.
//!
//! Invariant: a secret is never stored and never logged; what is kept is its SHA-256.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use provost_core::TokenId;
use sha2::{Digest, Sha256};

/// What every token begins with, so that scanners of secrets find it.
const PREFIX: &str = "prv_";
/// Digits of the id.
const ID_LEN: usize = 26;
/// Characters of the secret: 32 bytes in base 64.
const SECRET_LEN: usize = 43;
/// Characters of a token.
const TOKEN_LEN: usize = PREFIX.len() + ID_LEN + 1 + SECRET_LEN;

/// The hash of a secret.
pub(crate) type Hash = [u8; 32];

/// A token as a caller shows it: which one, and the hash of its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) id: TokenId,
    pub(crate) hash: Hash,
}

/// A fresh secret, or nothing if the machine has no random source.
pub(crate) fn secret() -> Option<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// The token's text: what goes behind `Bearer`.
pub(crate) fn text(id: TokenId, secret: &str) -> String {
    let id = id.to_string();
    let digits = id.split_once('_').map_or(id.as_str(), |(_, digits)| digits);
    format!("{PREFIX}{digits}_{secret}")
}

/// Reads a token. Its length is bounded before anything else is looked at.
pub(crate) fn parse(text: &str) -> Option<Shown> {
    if text.len() != TOKEN_LEN || !text.is_ascii() {
        return None;
    }
    let (digits, secret) = text.strip_prefix(PREFIX)?.split_at(ID_LEN);
    let secret = secret.strip_prefix('_')?;
    let mut id = *b"tok_00000000000000000000000000";
    id.last_chunk_mut::<ID_LEN>()?.copy_from_slice(digits.as_bytes());
    let id = std::str::from_utf8(&id).ok()?.parse().ok()?;
    Some(Shown { id, hash: hash(secret) })
}

/// The hash of a secret.
pub(crate) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// A hash as it is stored.
pub(crate) fn to_hex(hash: Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stored hash.
pub(crate) fn from_hex(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (place, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// Whether two hashes are the same, in a time that does not tell how much of them is.
pub(crate) fn same(one: &Hash, other: &Hash) -> bool {
    let differs = one.iter().zip(other).fold(0, |seen, (one, other)| seen | (one ^ other));
    std::hint::black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is() {
        let (id, secret) = (Env::system().id(), secret().unwrap());
        let text = text(id, &secret);
        assert_eq!(text.len(), TOKEN_LEN);
        assert_eq!(parse(&text), Some(Shown { id, hash: hash(&secret) }));
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
        assert!(same(&hash, &hash));
        for place in 0..32 {
            let mut other = hash;
            other[place] ^= 1;
            assert!(!same(&hash, &other));
        }
    }
}
