//! Every limit of `write`.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::limits::WRITE_BYTES_MAX;
use crate::testing::Stage;

#[test]
fn a_file_is_made_with_the_directories_above_it() {
    for stage in Stage::both() {
        let got = stage.call("write", json!({ "path": "./a/b//c.txt", "content": "grüße" }));
        assert_eq!(got.unwrap(), "Wrote a/b/c.txt (7 bytes)");
        assert_eq!(stage.text("a/b/c.txt"), "grüße");
        let mode = |path: &str| std::fs::metadata(stage.path(path)).unwrap().mode() & 0o777;
        // Rights are less the umask, which a test cannot change for others.
        let umask = umask();
        assert_eq!(mode("a"), 0o755 & !umask);
        assert_eq!(mode("a/b"), 0o755 & !umask);
        assert_eq!(mode("a/b/c.txt"), 0o644 & !umask);
        assert_eq!(std::fs::read_dir(stage.path("a/b")).unwrap().count(), 1, "nothing is left");
    }
}

/// The umask, told by what it does to a new directory.
fn umask() -> u32 {
    let dir = tempfile::tempdir().unwrap();
    let probe = dir.path().join("probe");
    std::fs::create_dir(&probe).unwrap();
    0o777 & !std::fs::metadata(probe).unwrap().mode()
}

#[test]
fn a_file_is_replaced_as_a_whole_and_keeps_its_rights() {
    let stage = Stage::new();
    stage.put("run.sh", "old and longer");
    let rights = std::fs::Permissions::from_mode(0o751);
    std::fs::set_permissions(stage.path("run.sh"), rights).unwrap();
    // Another name of the same file is another file from now on.
    std::fs::hard_link(stage.path("run.sh"), stage.dir.path().join("other")).unwrap();
    let before = std::fs::metadata(stage.path("run.sh")).unwrap().ino();
    for _ in 0..2 {
        let got = stage.call("write", json!({ "path": "run.sh", "content": "new" })).unwrap();
        assert_eq!(got, "Wrote run.sh (3 bytes)");
    }
    let meta = std::fs::metadata(stage.path("run.sh")).unwrap();
    assert_eq!(stage.text("run.sh"), "new");
    assert_eq!(meta.mode() & 0o7777, 0o751);
    assert_ne!(meta.ino(), before);
    assert_eq!(std::fs::read_to_string(stage.dir.path().join("other")).unwrap(), "old and longer");
}

#[test]
fn what_cannot_be_written_is_refused_and_changes_nothing() {
    let stage = Stage::new();
    stage.put("file", "x");
    let large = "x".repeat(WRITE_BYTES_MAX + 1);
    for (path, content, why) in [
        ("file/below", "y", "ot a directory"),
        (".", "y", "is a directory"),
        ("new/", "y", "names a directory"),
        ("", "y", "empty"),
        (".provost-0.unfinished", "y", "reserved name"),
        ("large", &*large, "at most 1048576 are accepted"),
    ] {
        let refusal = stage.error_text("write", json!({ "path": path, "content": content }));
        assert!(refusal.contains(why), "{path}: {refusal}");
    }
    assert_eq!(std::fs::read_dir(stage.path(".")).unwrap().count(), 1);
    assert_eq!(stage.text("file"), "x");
    // The largest that an agent can send at all is a little smaller than the bound, as its arguments count too.
    let content = "x".repeat(WRITE_BYTES_MAX - 100);
    stage.call("write", json!({ "path": "large", "content": content })).unwrap();
}

#[test]
fn an_unfinished_file_of_a_crash_is_not_shown() {
    let stage = Stage::new();
    stage.put(".provost-0123456789abcdef.unfinished", "half");
    assert_eq!(stage.call("list", json!({})).unwrap(), "[no entries]");
    let found = stage.call("search", json!({ "pattern": "half" })).unwrap();
    assert!(found.starts_with("[0 matches"), "{found}");
}

#[test]
fn a_stopped_call_leaves_nothing_behind() {
    use provost_workspace::{Replacement, WorkspacePath};
    let stage = Stage::new();
    let stop = CancellationToken::new();
    stop.cancel();
    let path = WorkspacePath::parse("a").unwrap();
    let replacement = Replacement { content: b"x", expected: None, markers: None };
    assert!(stage.workspace.replace(&path, replacement, &stop).is_err());
    assert_eq!(std::fs::read_dir(stage.path(".")).unwrap().count(), 0);
}
