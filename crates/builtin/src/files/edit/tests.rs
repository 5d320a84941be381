//! Edits: exactly one match, nothing lost, and what can be told after a crash.

use std::sync::Arc;

use proptest::prelude::*;
use provost_tool::{ProbeOutcome, Tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::verify::{EditStatus, edit_status, find_positions};
use super::*;
use crate::testing::{Stage, call, key};

fn arguments(old: &str, new: &str) -> Value {
    json!({ "path": "a", "old_string": old, "new_string": new })
}

#[test]
fn exactly_one_match_is_replaced() {
    let stage = Stage::new();
    for (content, old, new, after) in [
        ("one two three", "two", "2", "one 2 three"),
        ("one two", "one two", "", ""),
        ("a\r\nb\r\n", "a\r\n", "c\n", "c\nb\r\n"),
        ("grüße", "ü", "ue", "grueße"),
        ("x = 1", "x", "x.x", "x.x = 1"),
    ] {
        stage.put("a", content);
        let got = stage.call("edit", arguments(old, new)).unwrap();
        assert_eq!(got, format!("Edited a ({} bytes)", after.len()));
        assert_eq!(stage.text("a"), after);
    }
    // Bytes that are no text stay what they are.
    stage.put("a", b"caf\xe9 one");
    stage.call("edit", arguments("one", "two")).unwrap();
    assert_eq!(std::fs::read(stage.path("a")).unwrap(), b"caf\xe9 two");
}

#[test]
fn everything_else_is_refused_and_changes_nothing() {
    let stage = Stage::new();
    for (content, old, new, why) in [
        ("one", "two", "2", "was not found in `a`"),
        ("one one", "one", "1", "occurs 2 times in `a`"),
        // Overlapping ones count: nobody could say which is meant.
        ("aaa", "aa", "b", "occurs 2 times"),
        ("xxxxx", "x", "b", "occurs 5 times"),
        ("one", "", "b", "old_string is empty"),
        ("one", "one", "one", "are the same"),
        ("bin\0ary", "bin", "x", "binary"),
    ] {
        stage.put("a", content);
        let refusal = stage.error_text("edit", arguments(old, new));
        assert!(refusal.contains(why), "{content} {old}: {refusal}");
        assert_eq!(stage.text("a"), content);
    }
    stage.put("a", "x".repeat(1_500));
    assert!(stage.error_text("edit", arguments("x", "y")).contains("at least 1000 times"));
    let refusal =
        stage.error_text("edit", json!({ "path": "b", "old_string": "a", "new_string": "" }));
    assert_eq!(refusal, "`b` does not exist");
    assert!(!stage.path("b").exists());
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let stage = Stage::new();
    stage.put("a", "one");
    let file = std::fs::File::options().write(true).open(stage.path("a")).unwrap();
    file.set_len(EDIT_FILE_BYTES_MAX + 1).unwrap();
    assert!(stage.error_text("edit", arguments("one", "two")).contains("at most"));
}

#[test]
fn a_file_that_somebody_else_changes_meanwhile_is_not_overwritten() {
    let stage = Stage::new();
    stage.put("a", "one");
    let path = WorkspacePath::parse("a").unwrap();
    let opened = stage.workspace.open_file(&path).unwrap();
    stage.put("a", "somebody else was here");
    let replacement = Replacement { content: b"two", expected: Some(&opened.stat), markers: None };
    let error =
        stage.workspace.replace(&path, replacement, &CancellationToken::default()).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert_eq!(stage.text("a"), "somebody else was here");
}

#[test]
fn of_many_edits_at_once_none_is_lost() {
    let stage = Stage::new();
    let content: String = (0..32).map(|n| format!("<{n}>\n")).collect();
    stage.put("a", content);
    let tool: Arc<dyn Tool> = Arc::new(edit(&stage.workspace).unwrap());
    std::thread::scope(|scope| {
        for n in 0..32 {
            let tool = &tool;
            scope.spawn(move || {
                let arguments = arguments(&format!("<{n}>"), &format!("[{n}]"));
                call(tool, arguments, &key(n)).unwrap()
            });
        }
    });
    let after: String = (0..32).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(stage.text("a"), after);
}

fn probe_of(stage: &Stage, key_of: u64, arguments: Value) -> ProbeOutcome {
    let tool = edit(&stage.workspace).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tool.probe(key(key_of), arguments))
}

fn is_done(probe: &ProbeOutcome) -> bool {
    matches!(probe, ProbeOutcome::Completed(_))
}

#[test]
fn after_a_crash_the_file_tells_whether_the_edit_has_happened() {
    for (content, old, new) in [
        ("one two three", "two", "2"),
        ("one two", "two", ""),
        // The dangerous ones: applied once, the old text is there again.
        ("import a\n", "import a\n", "import a\nimport b\n"),
        ("x = 1", "x", "x.x"),
        ("aabb", "ab", ""),
    ] {
        let stage = Stage::new();
        let arguments = arguments(old, new);
        stage.put("a", content);
        // Before: it has not happened, and doing it is right. Without markers, of a deletion nobody can say.
        let before = probe_of(&stage, 1, arguments.clone());
        let is_told = !new.is_empty() || keeps_marks(&stage);
        assert_eq!(
            before,
            if is_told { ProbeOutcome::NotExecuted } else { ProbeOutcome::Unknown },
            "{content}"
        );
        let answer = stage.call("edit", arguments.clone()).unwrap();
        // After: it has happened, with the same answer. Without the mark it is at least never done twice.
        if keeps_marks(&stage) {
            assert_eq!(
                probe_of(&stage, 1, arguments.clone()),
                ProbeOutcome::Completed(ToolOutput::text(answer))
            );
        }
        let text = stage.text("a");
        std::fs::remove_file(stage.path("a")).unwrap();
        stage.put("a", text);
        if content != "aabb" {
            assert_ne!(probe_of(&stage, 1, arguments), ProbeOutcome::NotExecuted, "{content}");
        }
    }
}

/// Does the file system of the test keep attributes?
fn keeps_marks(stage: &Stage) -> bool {
    let path = WorkspacePath::parse("a").unwrap();
    EditMarkers::read(stage.workspace.open_file(&path).unwrap().file).is_some()
}

#[test]
fn later_edits_and_writes_do_not_hide_an_earlier_one() {
    let stage = Stage::new();
    stage.put("a", "one\n");
    let first = arguments("one\n", "one\ntwo\n");
    stage.call("edit", first.clone()).unwrap();
    if !keeps_marks(&stage) {
        return;
    }
    let tool: Arc<dyn Tool> = Arc::new(edit(&stage.workspace).unwrap());
    call(&tool, arguments("two", "three"), &key(2)).unwrap();
    assert!(is_done(&probe_of(&stage, 1, first.clone())));
    assert!(is_done(&probe_of(&stage, 2, arguments("two", "three"))));
    stage.call("write", json!({ "path": "a", "content": "one\n" })).unwrap();
    assert!(is_done(&probe_of(&stage, 1, first)));
}

#[test]
fn what_cannot_be_looked_at_is_unsure() {
    let stage = Stage::new();
    assert_eq!(probe_of(&stage, 1, arguments("one", "two")), ProbeOutcome::Unknown);
    assert_eq!(probe_of(&stage, 1, json!({ "path": 1 })), ProbeOutcome::Unknown);
    stage.put("a", "bin\0");
    assert_eq!(probe_of(&stage, 1, arguments("one", "two")), ProbeOutcome::Unknown);
}

#[test]
fn common_edits_are_proved_by_content_alone() {
    for (content, old, new, told) in [
        ("let x = 1;", "x = 1", "x = 2", EditStatus::NotApplied),
        ("let x = 2;", "x = 1", "x = 2", EditStatus::Applied),
        ("a\n", "a\n", "a\nb\n", EditStatus::NotApplied),
        ("a\nb\n", "a\n", "a\nb\n", EditStatus::Unknown),
        ("a", "b", "", EditStatus::Applied),
        ("ab", "b", "", EditStatus::NotApplied),
        ("old", "old", "", EditStatus::ProbablyNotApplied),
        ("neither", "old", "new", EditStatus::NotApplied),
        ("old old", "old", "", EditStatus::NotApplied),
    ] {
        assert_eq!(
            edit_status(content.as_bytes(), old.as_bytes(), new.as_bytes()),
            told,
            "{content} {old} {new}"
        );
    }
}

proptest! {
    /// Over a small alphabet, where everything overlaps: what the edit has made is never taken for undone.
    #[test]
    fn an_edit_that_happened_is_never_called_undone(
        content in "[ab]{0,12}", old in "[ab]{1,4}", new in "[ab]{0,5}",
    ) {
        let places = find_positions(content.as_bytes(), old.as_bytes(), 100);
        if let [place] = places[..] && old != new {
            let after = format!("{}{new}{}", &content[..place], &content[place + old.len()..]);
            let told = edit_status(after.as_bytes(), old.as_bytes(), new.as_bytes());
            prop_assert_ne!(told, EditStatus::NotApplied, "{} became {}", content, after);
        }
    }

    /// What is called done needs no second try: the old piece is not there exactly once.
    #[test]
    fn what_is_called_done_could_not_be_done_again(
        content in "[ab]{0,12}", old in "[ab]{1,4}", new in "[ab]{0,5}",
    ) {
        if edit_status(content.as_bytes(), old.as_bytes(), new.as_bytes()) == EditStatus::Applied {
            prop_assert_ne!(find_positions(content.as_bytes(), old.as_bytes(), 2).len(), 1);
        }
    }
}
