//! Canonical JSON text and hashes.
//!
//! Two JSON values with the same content have the same canonical text: keys are sorted and there is no whitespace
//! between tokens. Numbers keep their form, so `1` and `1.0` differ. The worst consequence of that is an unnecessary
//! approval request.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Returns the canonical text of a JSON value: without spaces, members sorted by name.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

/// Appends the canonical text of a value.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, item)) in fields.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(item, text);
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of the canonical JSON of `body`.
pub fn body_hash<T: Serialize>(body: &T) -> Result<String, serde_json::Error> {
    Ok(sha256_hex(canonical_json(&serde_json::to_value(body)?).as_bytes()))
}

/// Hashes `fields` under a domain name (`kind`). The length of each field is hashed before the field, so that
/// different splits of the same bytes have different hashes.
pub(crate) fn fields_hash(kind: &str, fields: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for field in std::iter::once(kind.as_bytes()).chain(fields.iter().copied()) {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().into()
}

/// Encodes `bytes` in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_and_the_spaces_do_not_count() {
        let one: Value =
            serde_json::from_str(r#"{"b": [1, {"z":null,"a":"ä\n"}], "a": true}"#).unwrap();
        let two: Value =
            serde_json::from_str(r#"{"a":true,"b":[1,{"a":"ä\n","z":null}]}"#).unwrap();
        assert_eq!(canonical_json(&one), r#"{"a":true,"b":[1,{"a":"ä\n","z":null}]}"#);
        assert_eq!(body_hash(&one).unwrap(), body_hash(&two).unwrap());
    }

    #[test]
    fn what_means_something_else_has_another_hash() {
        let bodies = [
            json!({}),
            json!([]),
            json!(null),
            json!(""),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": [1]}),
            json!({"a": null}),
            json!({"b": 1}),
            json!([1, 2]),
            json!([2, 1]),
            json!("{}"),
            json!({"a": {"b": 1}}),
            json!({"a\":1,\"b": 1}),
            json!({"a": 1, "b": 1}),
        ];
        let hashes: std::collections::HashSet<_> =
            bodies.iter().map(|body| body_hash(body).unwrap()).collect();
        assert_eq!(hashes.len(), bodies.len());
    }

    #[test]
    fn sha256_of_a_known_text() {
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        assert_ne!(fields_hash("k", &[b"ab", b"c"]), fields_hash("k", &[b"a", b"bc"]));
        assert_ne!(fields_hash("k", &[b"ab"]), fields_hash("ka", &[b"b"]));
        assert_ne!(fields_hash("k", &[]), fields_hash("k", &[b""]));
    }
}
