//! Cutting texts to a length.

pub mod sse;
pub(crate) mod string_enum;

/// The first `bytes_max` bytes of a text, or fewer: a character is never cut in two.
pub fn first_bytes(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// The first `chars_max` characters of a text.
pub fn first_chars(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

/// Cuts a text after `chars_max` characters and marks the cut with an ellipsis.
pub fn truncate_chars(text: &str, chars_max: usize) -> String {
    let short = first_chars(text, chars_max);
    if short.len() == text.len() { text.to_owned() } else { format!("{short}…") }
}

/// Cuts a text after `bytes_max` bytes, between two characters, and marks the cut with an ellipsis.
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
