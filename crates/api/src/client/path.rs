//! Encodes paths and queries.

use serde::Serialize;
use serde_json::Value;

use super::ApiError;

/// Encodes a name as one segment of a path. Empty names and dot segments are invalid, because no encoding protects them.
pub(super) fn segment(name: &str) -> Result<String, ApiError> {
    if matches!(name, "" | "." | "..") {
        return Err(ApiError::invalid(format!("`{name}` is not a valid path segment")));
    }
    Ok(encode(name))
}

/// Encodes the fields of a struct as a query with its question mark. Empty if all fields are absent.
pub(super) fn query(fields: &impl Serialize) -> Result<String, ApiError> {
    let fields = serde_json::to_value(fields);
    let fields = fields.map_err(|error| ApiError::Unreadable(error.to_string()))?;
    let mut text = String::new();
    for (name, value) in fields.as_object().into_iter().flatten() {
        let value = match value {
            Value::Null => continue,
            Value::String(value) => value.clone(),
            other => other.to_string(),
        };
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(&encode(name));
        text.push('=');
        text.push_str(&encode(&value));
    }
    Ok(text)
}

/// Percent-encodes all characters except the unreserved ones of RFC 3986.
fn encode(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
            encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunQuery, TaskQuery};

    #[test]
    fn a_name_stays_one_part_of_the_path() {
        for (name, encoded) in [
            ("main", "main"),
            ("agent:lead/../x?y#z", "agent%3Alead%2F..%2Fx%3Fy%23z"),
            ("a b%20", "a%20b%2520"),
            ("ä", "%C3%A4"),
        ] {
            assert_eq!(segment(name).unwrap(), encoded);
        }
        for name in ["", ".", ".."] {
            assert_eq!(segment(name).unwrap_err().code(), "invalid", "{name}");
        }
    }

    #[test]
    fn a_query_has_what_was_said_and_nothing_else() {
        assert_eq!(query(&TaskQuery::default()).unwrap(), "");
        let filter = TaskQuery {
            state: Some(provost_core::lifecycle::TaskState::Running),
            session: Some("a&b=c".to_owned()),
            archived: Some(true),
            limit: Some(7),
            ..TaskQuery::default()
        };
        assert_eq!(
            query(&filter).unwrap(),
            "?state=running&session=a%26b%3Dc&archived=true&limit=7"
        );
        let filter = RunQuery { cursor: Some("x+y".to_owned()), ..RunQuery::default() };
        assert_eq!(query(&filter).unwrap(), "?cursor=x%2By");
    }
}
