//! Normalization of names and permissions for comparison.

/// Converts to lower case, removes whitespace, and replaces `/`, `\` and `-` with `_`. There are no wildcards.
pub fn normalize_name(text: &str) -> String {
    let mut normalized = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '/' | '\\' | '-' => normalized.push('_'),
            character if character.is_whitespace() => {}
            character if character.is_ascii() => normalized.push(character.to_ascii_lowercase()),
            character => normalized.extend(character.to_lowercase()),
        }
    }
    normalized
}

/// Removes the namespace prefix from a reference if it is the given namespace.
pub(super) fn in_namespace<'a>(reference: &'a str, namespace: &str) -> &'a str {
    let reference = reference.trim();
    match reference.split_once('/') {
        Some((prefix, name)) if prefix.trim() == namespace => name.trim(),
        _ => reference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_one_form() {
        for (given, form) in [
            ("Tool:Search-All:Invoke", "tool:search_all:invoke"),
            (" a b\tc ", "abc"),
            ("ops/db\\x", "ops_db_x"),
            ("ÄRGER", "ärger"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(normalize_name(given), form);
        }
    }

    #[test]
    fn only_the_own_namespace_is_taken_off() {
        assert_eq!(in_namespace("ops/deploy", "ops"), "deploy");
        assert_eq!(in_namespace("ops/deploy", "dev"), "ops/deploy");
        assert_eq!(in_namespace(" deploy ", "dev"), "deploy");
    }
}
