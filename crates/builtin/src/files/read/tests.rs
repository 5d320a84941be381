//! Every limit of `read`.

use std::os::unix::fs::FileExt;

use serde_json::json;

use crate::limits::{CONTENT_BYTES_MAX, OUTPUT_BYTES_MAX};
use crate::testing::{Stage, guard_with_secrets};

fn numbered(lines: usize) -> String {
    (1..=lines).map(|number| format!("line {number}\n")).collect()
}

#[test]
fn a_small_file_is_shown_as_it_is() {
    let stage = Stage::new();
    for content in ["hello", "hello\n", "a\r\nb\r\n", "\n", "\n\n\n", "ü 日本 🦀\n", "\u{feff}bom"]
    {
        stage.put("a.txt", content);
        assert_eq!(stage.call("read", json!({ "path": "a.txt" })).unwrap(), content);
    }
    stage.put("a.txt", "");
    assert_eq!(stage.call("read", json!({ "path": "a.txt" })).unwrap(), "[`a.txt` is empty]");
}

#[test]
fn offset_and_limit_choose_lines() {
    let stage = Stage::new();
    stage.put("a", numbered(5));
    for (offset, limit, shown) in [
        (1, 0, "line 1\nline 2\nline 3\nline 4\nline 5\n"),
        (4, 0, "[showing lines 4 to 5 of 5 lines (35 bytes total)]\nline 4\nline 5\n"),
        (
            1,
            2,
            "[showing first 2 of 5 lines (35 bytes total)]\nline 1\nline 2\n[Use offset=3 to continue reading]",
        ),
        (
            3,
            1,
            "[showing lines 3 to 3 of 5 lines (35 bytes total)]\nline 3\n[Use offset=4 to continue reading]",
        ),
        (5, 9, "[showing lines 5 to 5 of 5 lines (35 bytes total)]\nline 5\n"),
    ] {
        let got = stage.call("read", json!({ "path": "a", "offset": offset, "limit": limit }));
        assert_eq!(got.unwrap(), shown, "{offset} {limit}");
    }
    let refusal = stage.error_text("read", json!({ "path": "a", "offset": 6 }));
    assert_eq!(refusal, "offset 6 is past the end: `a` has 5 lines");
    assert!(stage.error_text("read", json!({ "path": "a", "offset": 0 })).contains("offset"));
    assert!(stage.error_text("read", json!({ "path": "a", "offset": -1 })).contains("offset"));
    assert!(stage.error_text("read", json!({ "path": "none" })).contains("does not exist"));
}

/// Follows the hints to the end.
fn pages(stage: &Stage, path: &str) -> Vec<String> {
    let mut pages = Vec::new();
    let mut offset = 1;
    loop {
        let page = stage.call("read", json!({ "path": path, "offset": offset })).unwrap();
        assert!(page.len() <= OUTPUT_BYTES_MAX, "{}", page.len());
        let next = page.rsplit_once("[Use offset=").map(|(_, hint)| {
            let digits = hint.strip_suffix(" to continue reading]").unwrap();
            digits.parse::<u64>().unwrap()
        });
        pages.push(page);
        match next {
            None => return pages,
            Some(next) => {
                assert!(next > offset, "every page moves on");
                offset = next;
            }
        }
    }
}

/// What pages show, without the words around it.
fn content(pages: &[String]) -> String {
    let is_note = |line: &str| line.starts_with("[showing") || line.starts_with("[Use offset=");
    pages.iter().flat_map(|page| page.split_inclusive('\n')).filter(|line| !is_note(line)).collect()
}

#[test]
fn two_thousand_lines_are_a_page() {
    let stage = Stage::new();
    stage.put("whole", numbered(2000));
    assert_eq!(stage.call("read", json!({ "path": "whole" })).unwrap(), numbered(2000));
    let text = numbered(4001);
    stage.put("more", &text);
    let pages = pages(&stage, "more");
    assert_eq!(pages.len(), 3);
    let header = format!("[showing first 2000 of 4001 lines ({} bytes total)]\n", text.len());
    assert!(pages[0].starts_with(&header), "{}", &pages[0][..80]);
    assert!(pages[0].ends_with("line 2000\n[Use offset=2001 to continue reading]"));
    assert!(pages[1].starts_with("[showing lines 2001 to 4000 of 4001 lines"));
    assert_eq!(content(&pages), text);
}

#[test]
fn fifty_kibibytes_are_a_page() {
    let stage = Stage::new();
    // Lines of many lengths, so that pages end everywhere in a buffer.
    let text: String = (0..900).map(|n| format!("{}\n", "é".repeat(n % 397))).collect();
    stage.put("a", &text);
    let pages = pages(&stage, "a");
    assert!(pages.len() > 6);
    assert_eq!(content(&pages), text);
}

#[test]
fn a_line_that_is_too_long_is_cut_and_passed() {
    let stage = Stage::new();
    let long = "ü".repeat(CONTENT_BYTES_MAX);
    stage.put("a", format!("x\n{long}\nlast\n"));
    let pages = pages(&stage, "a");
    assert_eq!(pages.len(), 3, "{:?}", pages.iter().map(String::len).collect::<Vec<_>>());
    assert!(pages[1].contains("[line 2 continues for "), "{}", &pages[1][pages[1].len() - 100..]);
    assert!(pages[1].ends_with("[Use offset=3 to continue reading]"));
    assert!(pages[2].ends_with("\nlast\n"));
    // The last line, without an end.
    stage.put("b", &long);
    let only = stage.call("read", json!({ "path": "b" })).unwrap();
    assert!(only.starts_with("[showing first 1 of 1 line ("), "{}", &only[..80]);
    assert!(only.ends_with(" bytes]"), "{}", &only[only.len() - 80..]);
}

#[test]
fn binary_is_told_by_the_first_8_kibibytes() {
    let stage = Stage::new();
    let mut bytes = vec![b'a'; 8 * 1024];
    bytes[8 * 1024 - 1] = 0;
    stage.put("a", &bytes);
    let refusal = stage.error_text("read", json!({ "path": "a" }));
    assert_eq!(refusal, "`a` is a binary file of 8192 bytes: only text can be read");
    bytes[8 * 1024 - 1] = b'a';
    bytes.push(0);
    stage.put("a", &bytes);
    stage.call("read", json!({ "path": "a" })).unwrap();
}

#[test]
fn what_is_not_utf8_is_named_and_not_replaced() {
    let stage = Stage::new();
    stage.put("a", b"one\ntwo\ncaf\xe9\n");
    let refusal = stage.error_text("read", json!({ "path": "a" }));
    assert!(refusal.contains("byte 11 of the file, in line 3, is 0xE9"), "{refusal}");
    let got = stage.call("read", json!({ "path": "a", "limit": 2 })).unwrap();
    assert!(got.contains("one\ntwo\n"), "{got}");
    let refusal = stage.error_text("read", json!({ "path": "a", "offset": 3 }));
    assert!(refusal.contains("byte 11 of the file, in line 3, is 0xE9"), "{refusal}");
}

#[test]
fn a_sparse_gibibyte_is_read_in_constant_memory() {
    let stage = Stage::new();
    stage.put("a", numbered(3000));
    let file = std::fs::File::options().write(true).open(stage.path("a")).unwrap();
    file.set_len(1024 * 1024 * 1024).unwrap();
    file.write_all_at(b"\nend\n", 1024 * 1024 * 1024 - 5).unwrap();
    let before = peak_memory();
    let page = stage.call("read", json!({ "path": "a" })).unwrap();
    assert!(
        page.starts_with("[showing first 2000 of more than 3000 lines (1073741824 bytes total)]"),
        "{}",
        &page[..90]
    );
    let last = stage.call("read", json!({ "path": "a", "offset": 3002 })).unwrap();
    assert!(last.ends_with("\nend\n"), "{last}");
    // A line of almost a gibibyte is passed without being held.
    let long = stage.call("read", json!({ "path": "a", "offset": 3001 }));
    assert!(long.unwrap().contains("[line 3001 continues for "));
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before < 64 * 1024, "{before} KiB became {after} KiB");
    }
}

/// Kibibytes that the process held at most, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Five bytes of a secret in a row, wherever they are.
fn leaks(secret: &str, shown: &str) -> bool {
    secret.as_bytes().windows(5).any(|part| shown.as_bytes().windows(5).any(|it| it == part))
}

#[test]
fn no_page_holds_a_part_of_a_secret() {
    let secret = "alpha-bravo-charlie\ndelta-echo-foxtrot";
    let guard = guard_with_secrets(&[secret]);
    let stage = Stage::new();
    stage.put("a", format!("first\nkey {secret} end\nlast\n"));
    // Of the two lines of the secret one is left.
    for (offset, shown) in [(1, "first\n"), (2, "key [REDACTED] end\n"), (3, "last\n")] {
        let arguments = json!({ "path": "a", "offset": offset, "limit": 1 });
        let got = stage.call_under(&guard, "read", arguments).unwrap();
        assert!(got.contains(shown) && !leaks(secret, &got), "{offset}: {got}");
    }
    assert!(leaks(secret, &stage.call("read", json!({ "path": "a", "limit": 2 })).unwrap()));
    // A line that is cut.
    let secret = "swordfish-swordfish-swordfish";
    let guard = guard_with_secrets(&[secret]);
    for before in CONTENT_BYTES_MAX - 40..CONTENT_BYTES_MAX + 4 {
        stage.put("b", format!("{} {secret} {}", "a".repeat(before), "z".repeat(1000)));
        let got = stage.call_under(&guard, "read", json!({ "path": "b" })).unwrap();
        assert!(!leaks(secret, &got), "{before}");
    }
}
