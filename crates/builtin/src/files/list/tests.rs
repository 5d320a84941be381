//! Every limit of `list`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::limits::OUTPUT_BYTES_MAX;
use crate::testing::Stage;

#[test]
fn a_directory_is_listed_in_order_with_sizes() {
    for stage in Stage::both() {
        stage.put("b.txt", "12");
        stage.put("a/x", "1");
        stage.put(".hidden", "");
        stage.link("link", "b.txt");
        let listed = stage.call("list", json!({})).unwrap();
        assert_eq!(listed, ".hidden (0 bytes)\na/\nb.txt (2 bytes)\nlink -> b.txt");
        assert_eq!(stage.call("list", json!({ "path": "a" })).unwrap(), "x (1 byte)");
        let refusal = stage.error_text("list", json!({ "path": "b.txt" }));
        assert_eq!(refusal, "`b.txt` is a file, not a directory");
    }
}

#[test]
fn names_that_are_no_text_are_shown_without_loss() {
    let stage = Stage::new();
    std::fs::write(stage.path(".").join(OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
    stage.put("new\nline", "");
    let listed = stage.call("list", json!({})).unwrap();
    assert_eq!(listed, "caf\\xE9 (1 byte) [not UTF-8: cannot be opened]\nnew\\nline (0 bytes)");
    let listed = stage.call("list", json!({ "glob": "*" })).unwrap();
    assert_eq!(listed, "new\\nline\n[1 entry skipped: the name is not UTF-8]");
}

#[test]
fn a_glob_lists_files_below_without_what_is_ignored() {
    let stage = Stage::new();
    for name in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/c.ts", "target/d.rs", ".git/e.rs"] {
        stage.put(name, "");
    }
    stage.put(".gitignore", "target/\n");
    for (glob, path, files) in [
        ("*.rs", ".", "a.rs\nsrc/b.rs\nsrc/deep/c.rs"),
        ("*.rs", "src", "src/b.rs\nsrc/deep/c.rs"),
        ("src/*.rs", ".", "src/b.rs"),
        ("/*.rs", ".", "a.rs"),
        ("**/deep/*", ".", "src/deep/c.rs"),
        ("*.{ts,rs}", "src", "src/b.rs\nsrc/c.ts\nsrc/deep/c.rs"),
        ("*.py", ".", "[no entries]"),
        // Who names a directory wants what is in it.
        ("*", "target", "target/d.rs"),
    ] {
        let listed = stage.call("list", json!({ "path": path, "glob": glob })).unwrap();
        assert_eq!(listed, files, "{glob} in {path}");
    }
    assert!(stage.error_text("list", json!({ "glob": "[" })).contains("is not a valid glob"));
    let long = "*".repeat(600);
    assert!(stage.error_text("list", json!({ "glob": long })).contains("longer"));
}

#[test]
fn a_long_list_comes_in_pages() {
    let stage = Stage::new();
    for n in 0..2_345 {
        stage.put(&format!("f{n:04}"), "");
    }
    let first = stage.call("list", json!({})).unwrap();
    assert!(first.starts_with("[showing 1 to 2000 of 2345 entries]\nf0000 "), "{}", &first[..60]);
    assert!(first.ends_with("\n[Use offset=2001 to continue]"));
    let second = stage.call("list", json!({ "offset": 2001 })).unwrap();
    assert!(second.starts_with("[showing 2001 to 2345 of 2345 entries]\nf2000 "));
    assert!(second.ends_with("f2344 (0 bytes)"));
    let refusal = stage.error_text("list", json!({ "offset": 2346 }));
    assert_eq!(refusal, "offset 2346 is past the end: there are 2345 entries");
}

#[test]
fn long_names_fill_a_page_by_bytes() {
    let stage = Stage::new();
    for n in 0..400 {
        stage.put(&format!("{}{n:03}", "n".repeat(240)), "");
    }
    let mut offset = 1;
    let mut names = 0;
    while offset <= 400 {
        let page = stage.call("list", json!({ "offset": offset })).unwrap();
        assert!(page.len() <= OUTPUT_BYTES_MAX);
        let shown = page.lines().filter(|line| line.starts_with('n')).count();
        assert!(shown > 0);
        names += shown;
        offset += shown;
    }
    assert_eq!(names, 400);
}
