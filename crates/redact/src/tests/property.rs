//! Random texts, secrets and chunks.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use proptest::prelude::*;

use super::redactor_with;
use crate::{PLACEHOLDER, Redactor};

/// Pieces of texts that nearly match.
const PIECES: [&str; 40] = [
    "password",
    "=",
    ": ",
    "\"",
    "\\\"",
    "token",
    " ",
    "\n",
    "hunter2",
    "sk-",
    "sk-abc123def456",
    "Bearer ",
    "Authorization: ",
    "eyJhbGci",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0",
    ".",
    "://",
    "user:",
    "@",
    "-----BEGIN PRIVATE KEY-----",
    "-----END",
    "a1b2c3d4e5f6",
    "api_key",
    "?",
    "&",
    "ä",
    "漢字",
    "\\",
    "'",
    "<",
    ">",
    "--password ",
    "Basic ",
    "dXNlcjpwYXNz",
    "Cookie: a=",
    "[REDACTED]",
    "AKIAIOSFODNN7EXAMPLE",
    "%3D",
    "123456789:AAabcdefghijklmnopqrstuvwxyz0123456",
    "secret",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => "[ -~]{0,12}",
        1 => "\\PC{0,6}",
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9+/=_-]{4,40}",
        "[!-~]{4,24}",
        "[a-z]{2,8} [a-z]{2,8}",
        "\\PC{4,20}",
        "[ab]{4,8}",
    ]
    .prop_filter("too short", |value| value.trim().len() >= 4)
}

/// Splits bytes at arbitrary positions, also inside characters.
fn streamed(redactor: &Redactor, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    let mut rest = bytes;
    for cut in cuts {
        let (chunk, more) = rest.split_at((*cut).min(rest.len()));
        out.extend(stream.push(chunk));
        rest = more;
    }
    out.extend(stream.push(rest));
    out.extend(stream.finish());
    out
}

fn forms(value: &str) -> Vec<String> {
    let json = serde_json::to_string(value).unwrap();
    let percent = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    vec![
        value.to_owned(),
        json[1..json.len() - 1].to_owned(),
        value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        value.bytes().map(|byte| format!("{byte:02X}")).collect(),
        value.bytes().map(percent).collect(),
        BASE64_STANDARD.encode(value),
        BASE64_URL_SAFE.encode(value),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_is_redacted_like_the_whole(
        text in text(),
        secrets in proptest::collection::vec(secret(), 0..4),
        order in proptest::collection::vec((0usize..4, 0usize..7, 0usize..2000), 0..6),
        cuts in proptest::collection::vec(0usize..40, 0..60),
    ) {
        let redactor = redactor_with(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
        let mut text = text;
        for (which, form, place) in order {
            let Some(secret) = secrets.get(which) else { continue };
            let mut place = place.min(text.len());
            while !text.is_char_boundary(place) { place -= 1 }
            text.insert_str(place, &forms(secret)[form]);
        }
        let whole = redactor.redact(&text);
        let bytes = streamed(&redactor, text.as_bytes(), &cuts);
        prop_assert_eq!(whole.as_bytes(), bytes.as_slice());
        let ones = vec![1; text.len()];
        prop_assert_eq!(streamed(&redactor, text.as_bytes(), &ones), bytes);
        // No encoding of a secret remains, except inside the placeholder itself.
        for part in whole.split(PLACEHOLDER) {
            for form in secrets.iter().flat_map(|secret| forms(secret)) {
                prop_assert!(!part.contains(&form), "{:?} in {:?}", form, part);
            }
        }
        prop_assert_eq!(redactor.contains_secret(text.as_bytes()), matches!(whole, Cow::Owned(_)));
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        cuts in proptest::collection::vec(0usize..30, 0..20),
    ) {
        let redactor = redactor_with(&["swordfish"]);
        prop_assert_eq!(streamed(&redactor, &bytes, &cuts), redactor.redact_bytes(&bytes).into_owned());
    }

    #[test]
    fn text_without_secrets_is_what_it_was(words in proptest::collection::vec("[a-z]{1,9}", 0..80)) {
        let text = words.join(" ");
        let redactor = redactor_with(&["Sw0rdfish!", "AnotherOne7"]);
        prop_assert!(matches!(redactor.redact(&text), Cow::Borrowed(_)));
    }
}

#[test]
fn a_stream_holds_back_little_and_no_more_than_it_must() {
    let redactor = redactor_with(&["swordfish"]);
    let mut stream = redactor.stream();
    let mut given = 0;
    for n in 0..1000usize {
        given += stream.push(b"plain words. ").len();
        assert!((n + 1) * 13 - given <= 32, "{given} after {n}");
    }
    // A value without an end is scanned in constant memory.
    let mut stream = redactor.stream();
    let mut out = stream.push(b"password=");
    for _ in 0..2000 {
        out.extend(stream.push(&[b'q'; 4096]));
        assert!(stream.buffered_len() <= 8192);
    }
    out.extend(stream.finish());
    assert!(out == b"password=[REDACTED]", "{} bytes", out.len());
}
