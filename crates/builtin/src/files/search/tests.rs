//! Every limit of `search`.

use serde_json::json;

use crate::limits::{OUTPUT_BYTES_MAX, SEARCH_LINE_BYTES_MAX};
use crate::testing::{Stage, guard_with_secrets};

#[test]
fn lines_are_found_with_path_and_number() {
    for stage in Stage::both() {
        stage.put("a.rs", "fn one() {}\nfn two() {}\r\nstruct X;\n");
        stage.put("src/b.rs", "fn three() {}");
        stage.put("src/c.txt", "FN upper\n");
        for (arguments, found) in [
            (
                json!({ "pattern": r"^fn \w+" }),
                "a.rs:1: fn one() {}\na.rs:2: fn two() {}\nsrc/b.rs:1: fn three() {}\n[3 matches in 2 files]",
            ),
            (
                json!({ "pattern": "fn", "path": "src" }),
                "src/b.rs:1: fn three() {}\n[1 match in 1 file]",
            ),
            (
                json!({ "pattern": "fn", "path": "src", "ignore_case": true }),
                "src/b.rs:1: fn three() {}\nsrc/c.txt:1: FN upper\n[2 matches in 2 files]",
            ),
            (
                json!({ "pattern": "fn", "glob": "*.txt", "ignore_case": true }),
                "src/c.txt:1: FN upper\n[1 match in 1 file]",
            ),
            (
                json!({ "pattern": "struct", "path": "a.rs" }),
                "a.rs:3: struct X;\n[1 match in 1 file]",
            ),
            (
                json!({ "pattern": "struct", "context": 1 }),
                "a.rs-2- fn two() {}\na.rs:3: struct X;\n[1 match in 1 file]",
            ),
            (json!({ "pattern": "nowhere" }), "[0 matches in 0 files]"),
        ] {
            assert_eq!(stage.call("search", arguments.clone()).unwrap(), found, "{arguments}");
        }
    }
}

#[test]
fn patterns_that_are_none_are_refused() {
    let stage = Stage::new();
    let long = "x".repeat(1001);
    for (pattern, why) in [
        ("", "1 to 1000"),
        (&*long, "1 to 1000"),
        ("(", "not a valid pattern"),
        ("a\\nb", "not a valid pattern"),
        // Would take far more memory than it may.
        (r"((\pL{100}){100}){100}", "not a valid pattern"),
    ] {
        let refusal = stage.error_text("search", json!({ "pattern": pattern }));
        assert!(refusal.contains(why), "{pattern}: {refusal}");
        assert!(refusal.len() < 600, "{refusal}");
    }
    for arguments in [
        json!({ "pattern": "x", "limit": 0 }),
        json!({ "pattern": "x", "limit": 1001 }),
        json!({ "pattern": "x", "context": 11 }),
    ] {
        assert!(stage.error_text("search", arguments).contains("schema"));
    }
    assert!(
        stage
            .error_text("search", json!({ "pattern": "x", "path": "none" }))
            .contains("does not exist")
    );
}

#[test]
fn ignored_binary_and_git_files_are_left_out() {
    let stage = Stage::new();
    stage.put(".gitignore", "ignored\n");
    stage.put("ignored", "needle");
    stage.put(".git/config", "needle");
    stage.put("binary", b"needle\0needle\n");
    stage.put(".github/ci.yml", "needle");
    let found = stage.call("search", json!({ "pattern": "needle" })).unwrap();
    assert_eq!(found, ".github/ci.yml:1: needle\n[1 match in 1 file]");
}

#[test]
fn matches_lines_and_bytes_are_bounded() {
    let stage = Stage::new();
    stage.put("many", "x\n".repeat(5_000));
    let found = stage.call("search", json!({ "pattern": "x" })).unwrap();
    assert_eq!(found.lines().count(), 101);
    assert!(
        found.contains("[showing the first 100 matches, in 1 file; there may be more"),
        "{found}"
    );
    let found = stage.call("search", json!({ "pattern": "x", "limit": 1000 })).unwrap();
    assert_eq!(found.lines().count(), 1001);
    // Exactly as many as are allowed are all.
    stage.put("many", "x\n".repeat(100));
    let found = stage.call("search", json!({ "pattern": "x" })).unwrap();
    assert!(found.ends_with("[100 matches in 1 file]"), "{found}");
    stage.put("many", format!("x{}é{}\n", "y".repeat(398), "z".repeat(5_000)));
    let found = stage.call("search", json!({ "pattern": "x" })).unwrap();
    assert!(found.contains("y [… 5002 more bytes]"), "{found}");
    stage.put("many", format!("x{}\n", "z".repeat(500)).repeat(2_000));
    let found =
        stage.call("search", json!({ "pattern": "x", "limit": 1000, "context": 10 })).unwrap();
    assert!(
        found.len() <= OUTPUT_BYTES_MAX && found.len() > OUTPUT_BYTES_MAX - 2_000,
        "{}",
        found.len()
    );
    assert!(found.contains("there may be more"));
}

#[test]
fn bytes_that_are_no_text_are_shown_without_loss() {
    let stage = Stage::new();
    stage.put("a", b"needle caf\xe9\n");
    let found = stage.call("search", json!({ "pattern": "needle" })).unwrap();
    assert_eq!(found, "a:1: needle caf\\xE9\n[1 match in 1 file]");
}

#[test]
fn a_line_that_is_longer_than_memory_allows_does_not_end_the_search() {
    let stage = Stage::new();
    stage.put("a", "y".repeat(5 * 1024 * 1024));
    stage.put("b", "needle\n");
    let found = stage.call("search", json!({ "pattern": "needle" })).unwrap();
    assert_eq!(found, "b:1: needle\n[1 match in 1 file]\n[1 entry could not be read]");
}

#[test]
fn a_sparse_gibibyte_is_passed_by() {
    let stage = Stage::new();
    std::fs::File::create(stage.path("a")).unwrap().set_len(1 << 30).unwrap();
    let found = stage.call("search", json!({ "pattern": "needle" })).unwrap();
    assert_eq!(found, "[0 matches in 0 files]");
}

#[test]
fn no_line_is_cut_within_a_secret() {
    let secret = "swordfish-swordfish-swordfish";
    let guard = guard_with_secrets(&[secret]);
    let stage = Stage::new();
    let leaks = |shown: &str| shown.contains("sword") || shown.contains("dfish");
    for before in SEARCH_LINE_BYTES_MAX - 40..SEARCH_LINE_BYTES_MAX + 4 {
        stage.put("a", format!("{} {secret} tail\n", "a".repeat(before)));
        let got = stage.call_under(&guard, "search", json!({ "pattern": "aaa" })).unwrap();
        assert!(!leaks(&got), "{before}: {got}");
    }
    let open = stage.call("search", json!({ "pattern": "sword" })).unwrap();
    assert!(open.contains("aaa") && open.contains("more bytes"), "{open}");
}
