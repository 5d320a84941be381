//! Kinds of durable events are named in one place: no other crate writes or matches one as text.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what tests share")]

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::DurableEventKind;

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test(&path) {
            found.push(path);
        }
    }
}

/// The source folders of all crates but this one.
fn folders() -> Vec<PathBuf> {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(core.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    crates
        .filter(|path| path.file_name() != core.file_name())
        .map(|path| path.join("src"))
        .filter(|path| path.is_dir())
        .collect()
}

/// True if the text holds the name in quotes, as Rust or as SQL writes it.
fn quotes(text: &str, name: &str) -> bool {
    text.contains(&format!("\"{name}\"")) || text.contains(&format!("'{name}'"))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|part| part == word)
}

/// The part of a line that may be a pattern of a `match`.
fn pattern_of(line: &str) -> Option<&str> {
    match line.split_once("=>") {
        Some((pattern, _)) => Some(pattern),
        None => Some(line).filter(|line| line.trim_start().starts_with(['"', '|', '('])),
    }
}

/// The names of kinds that a source uses, with the numbers of their lines. A name of one word is a common word: it counts
/// where the line speaks of a kind, and as a pattern of a `match` over one.
fn names_used(source: &str) -> Vec<(usize, &'static str)> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    if code.contains("\n#[test]\n") {
        // The whole file is a module of tests.
        return Vec::new();
    }
    let mut used = Vec::new();
    let mut matched_at: Option<usize> = None;
    for (number, line) in code.lines().enumerate() {
        let depth = line.len() - line.trim_start().len();
        // The stored name of a variant of another type: it names no event.
        if line.trim_start().starts_with("#[serde(rename") {
            continue;
        }
        if matched_at.is_some_and(|at| depth <= at && line.trim_start().starts_with('}')) {
            matched_at = None;
        }
        let speaks_of_kind = has_word(line, "kind") || has_word(line, "append_event");
        let pattern = pattern_of(line).filter(|_| matched_at.is_some());
        for kind in DurableEventKind::ALL {
            let name = kind.as_str();
            let is_used = if name.contains('_') || speaks_of_kind {
                quotes(line, name)
            } else {
                pattern.is_some_and(|pattern| quotes(pattern, name))
            };
            if is_used {
                used.push((number + 1, name));
            }
        }
        if has_word(line, "kind") && (has_word(line, "match") || line.contains("matches!(")) {
            matched_at = Some(depth);
        }
    }
    used
}

#[test]
fn kinds_of_durable_events_are_named_only_here() {
    let mut files = Vec::new();
    for folder in folders() {
        sources(&folder, &mut files);
    }
    assert!(files.len() > 100, "only {} files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        for (line, name) in names_used(&fs::read_to_string(&file).unwrap()) {
            found.push(format!("{}:{line}: \"{name}\"", file.display()));
        }
    }
    assert!(found.is_empty(), "use DurableEvent and DurableEventKind:\n{}", found.join("\n"));
}

#[test]
fn a_kind_that_is_written_as_text_is_found() {
    for (source, names) in [
        ("append(tx, \"tool_started\", body)", vec!["tool_started"]),
        ("WHERE e.kind = 'finished'", vec!["finished"]),
        ("if event.kind == \"parked\" {", vec!["parked"]),
        (
            "match kind {\n    \"failed\" | \"stopped\" => 1,\n    _ => 2,\n}",
            vec!["failed", "stopped"],
        ),
        ("match kind {\n    Kind::A => {\n        say(\"stopped\")\n    }\n}", vec![]),
        ("matches!(\n    \"failed\"\n)", vec![]),
        ("match state {\n    \"failed\" => 1,\n}", vec![]),
        ("match kind {\n    Kind::A => \"failed\",\n}\n\"finished\"", vec![]),
        ("\n#[cfg(test)]\nmod tests {\n    kind == \"parked\"", vec![]),
    ] {
        let mut found: Vec<&str> = names_used(source).iter().map(|(_, name)| *name).collect();
        found.sort_unstable();
        assert_eq!(found, names, "{source}");
    }
}
