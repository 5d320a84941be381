//! Truncation of text, and text formats.

pub mod sse;
pub(crate) mod string_enum;

/// Returns the longest prefix of at most `bytes_max` bytes that ends at a character boundary.
pub fn first_bytes(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Returns the prefix of at most `chars_max` characters.
pub fn first_chars(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

/// Truncates to `chars_max` characters and appends an ellipsis if anything was removed.
pub fn truncate_chars(text: &str, chars_max: usize) -> String {
    let short = first_chars(text, chars_max);
    if short.len() == text.len() { text.to_owned() } else { format!("{short}…") }
}

/// Truncates to at most `bytes_max` bytes at a character boundary and appends an ellipsis if anything was removed.
pub fn truncate_bytes(text: &str, bytes_max: usize) -> String {
    let short = first_bytes(text, bytes_max);
    if short.len() == text.len() { text.to_owned() } else { format!("{short}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(
            [first_bytes("aäb", 2), first_bytes("aäb", 3), first_bytes("a", 9)],
            ["a", "aä", "a"]
        );
        assert_eq!(
            [first_chars("aäb", 2), first_chars("aäb", 3), first_chars("", 1)],
            ["aä", "aäb", ""]
        );
    }

    #[test]
    fn a_cut_is_marked() {
        assert_eq!(["", "äöü", "äöüß"].map(|text| truncate_chars(text, 3)), ["", "äöü", "äöü…"]);
        assert_eq!(["", "aä", "aäb"].map(|text| truncate_bytes(text, 3)), ["", "aä", "aä…"]);
    }
}
