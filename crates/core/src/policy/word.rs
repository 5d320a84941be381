//! The one form in which names and permissions are compared.

/// Lower case, without spaces, with `/`, `\` and `-` as `_`. There are no wildcards.
pub fn canonical(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '/' | '\\' | '-' => word.push('_'),
            letter if letter.is_whitespace() => {}
            letter if letter.is_ascii() => word.push(letter.to_ascii_lowercase()),
            letter => word.extend(letter.to_lowercase()),
        }
    }
    word
}

/// A reference without the namespace if it is the one that is meant anyway.
pub(super) fn in_namespace<'a>(reference: &'a str, namespace: &str) -> &'a str {
    let reference = reference.trim();
    match reference.split_once('/') {
        Some((place, name)) if place.trim() == namespace => name.trim(),
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
            assert_eq!(canonical(given), form);
        }
    }

    #[test]
    fn only_the_own_namespace_is_taken_off() {
        assert_eq!(in_namespace("ops/deploy", "ops"), "deploy");
        assert_eq!(in_namespace("ops/deploy", "dev"), "ops/deploy");
        assert_eq!(in_namespace(" deploy ", "dev"), "deploy");
    }
}
