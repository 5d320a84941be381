//! HTML character references.

/// Common names outside of Latin-1.
const NAMES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("hellip", '…'),
    ("bull", '•'),
    ("middot", '·'),
    ("trade", '™'),
    ("euro", '€'),
    ("larr", '←'),
    ("uarr", '↑'),
    ("rarr", '→'),
    ("darr", '↓'),
    ("harr", '↔'),
    ("minus", '−'),
    ("ne", '≠'),
    ("le", '≤'),
    ("ge", '≥'),
    ("asymp", '≈'),
    ("infin", '∞'),
    ("lsaquo", '‹'),
    ("rsaquo", '›'),
    ("dagger", '†'),
    ("permil", '‰'),
    ("prime", '′'),
    ("ensp", ' '),
    ("emsp", ' '),
    ("thinsp", ' '),
    ("zwj", '\u{200d}'),
    ("zwnj", '\u{200c}'),
    ("shy", '\u{ad}'),
    ("check", '✓'),
    ("star", '☆'),
    ("alpha", 'α'),
    ("beta", 'β'),
    ("gamma", 'γ'),
    ("delta", 'δ'),
    ("epsilon", 'ε'),
    ("lambda", 'λ'),
    ("mu", 'μ'),
    ("pi", 'π'),
    ("sigma", 'σ'),
    ("omega", 'ω'),
    ("Delta", 'Δ'),
    ("Sigma", 'Σ'),
    ("Omega", 'Ω'),
    ("OElig", 'Œ'),
    ("oelig", 'œ'),
    ("Scaron", 'Š'),
    ("scaron", 'š'),
    ("Yuml", 'Ÿ'),
    ("fnof", 'ƒ'),
    ("sum", '∑'),
    ("radic", '√'),
    ("lbrace", '{'),
    ("rbrace", '}'),
    ("lsqb", '['),
    ("rsqb", ']'),
    ("num", '#'),
    ("colon", ':'),
    ("comma", ','),
    ("period", '.'),
];

/// Names of U+00A0 to U+00FF, in order.
const LATIN: [&str; 96] = [
    "nbsp", "iexcl", "cent", "pound", "curren", "yen", "brvbar", "sect", "uml", "copy", "ordf",
    "laquo", "not", "shy", "reg", "macr", "deg", "plusmn", "sup2", "sup3", "acute", "micro",
    "para", "middot", "cedil", "sup1", "ordm", "raquo", "frac14", "frac12", "frac34", "iquest",
    "Agrave", "Aacute", "Acirc", "Atilde", "Auml", "Aring", "AElig", "Ccedil", "Egrave", "Eacute",
    "Ecirc", "Euml", "Igrave", "Iacute", "Icirc", "Iuml", "ETH", "Ntilde", "Ograve", "Oacute",
    "Ocirc", "Otilde", "Ouml", "times", "Oslash", "Ugrave", "Uacute", "Ucirc", "Uuml", "Yacute",
    "THORN", "szlig", "agrave", "aacute", "acirc", "atilde", "auml", "aring", "aelig", "ccedil",
    "egrave", "eacute", "ecirc", "euml", "igrave", "iacute", "icirc", "iuml", "eth", "ntilde",
    "ograve", "oacute", "ocirc", "otilde", "ouml", "divide", "oslash", "ugrave", "uacute", "ucirc",
    "uuml", "yacute", "thorn", "yuml",
];

/// Maximum length of a name or number, in bytes.
const NAME_BYTES_MAX: usize = 12;

/// Replaces character references by their characters. Unknown references stay unchanged.
pub(super) fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let window = &rest[..rest.floor_char_boundary(NAME_BYTES_MAX)];
        let found = window.find(';').and_then(|end| Some((resolve_reference(&rest[..end])?, end)));
        match found {
            Some((c, end)) => {
                decoded.push(c);
                rest = &rest[end + 1..];
            }
            None => decoded.push('&'),
        }
    }
    decoded.push_str(rest);
    decoded
}

/// Returns the character of a reference without `&` and `;`. `None` for an unknown name.
fn resolve_reference(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        return Some(if c == '\0' { char::REPLACEMENT_CHARACTER } else { c });
    }
    if let Some(at) = LATIN.iter().position(|known| *known == name) {
        return char::from_u32(0xA0 + u32::try_from(at).ok()?);
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c)
}
