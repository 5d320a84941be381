//! Nothing leaves the workspace: tables, properties, and others who change directories meanwhile.

use std::fs::File;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use provost_workspace::{Access, Replacement, WorkspacePath, WorkspaceRoot, open_in};
use rustix::fs::OFlags;
use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::testing::{SECRET, Stage};

#[test]
fn paths_are_read_as_everywhere_and_never_lead_up() {
    for (text, read) in [
        ("a", "a"),
        ("./a//b/", "a/b"),
        (".", "."),
        ("./", "."),
        ("a/./b", "a/b"),
        ("..a/b..", "..a/b.."),
        ("ü/日本", "ü/日本"),
    ] {
        assert_eq!(WorkspacePath::parse(text).unwrap().as_str(), read, "{text}");
    }
    let long_name = "n".repeat(256);
    let long_path = "n/".repeat(3000);
    let deep = "n/".repeat(200);
    for (text, why) in [
        ("", "empty"),
        ("/", "absolute"),
        ("/etc/passwd", "absolute"),
        ("..", "cannot leave"),
        ("a/../../b", "cannot leave"),
        ("a/..", "cannot leave"),
        ("a\0b", "NUL"),
        (&long_name, "255"),
        (&long_path, "4096"),
        (&deep, "128 names"),
    ] {
        let error = WorkspacePath::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
        assert!(error.len() < 400);
    }
}

#[test]
fn a_link_that_stays_inside_is_followed_where_the_kernel_can_tell() {
    for (stage, follows) in Stage::both().into_iter().zip([true, false]) {
        stage.put("dir/real.txt", "real");
        stage.link("dir/link.txt", "real.txt");
        stage.link("updown", "dir/../dir");
        for path in ["dir/link.txt", "updown/real.txt"] {
            let got = stage.call("read", json!({ "path": path }));
            assert_eq!(got.is_ok(), follows, "{path}: {got:?}");
        }
        // A link is never written through.
        let refusal = stage.error_text("write", json!({ "path": "dir/link.txt", "content": "x" }));
        assert!(refusal.contains("link"), "{refusal}");
        assert_eq!(stage.text("dir/real.txt"), "real");
    }
}

#[test]
fn links_that_lead_out_are_refused_for_every_tool() {
    for stage in Stage::both() {
        let outside = stage.dir.path().join("outside");
        stage.put("dir/x", "x");
        stage.link("up", "../outside");
        stage.link("absolute", &outside);
        stage.link("file", outside.join("secret.txt"));
        stage.link("dir/deep", "../../outside/secret.txt");
        stage.link("first", "second");
        stage.link("second", "up");
        stage.link("loop", "loop");
        stage.link("proc", "/proc/self/root");
        let host = outside.display().to_string();
        let paths = [
            "up/secret.txt",
            "absolute/secret.txt",
            "file",
            "dir/deep",
            "first/secret.txt",
            "loop",
            "up/new.txt",
            "absolute/new/new.txt",
            "first/new.txt",
            "loop/new.txt",
            "up",
            "absolute",
            "../outside/secret.txt",
            "dir/../../outside/secret.txt",
            &host,
            "proc/etc/passwd",
        ];
        for path in paths {
            for (tool, arguments) in [
                ("read", json!({ "path": path })),
                ("list", json!({ "path": path })),
                ("list", json!({ "path": path, "glob": "*" })),
                ("search", json!({ "path": path, "pattern": "secret" })),
                ("write", json!({ "path": path, "content": "attack" })),
                ("edit", json!({ "path": path, "old_string": "secret", "new_string": "attack" })),
            ] {
                let refusal = stage.error_text(tool, arguments);
                assert!(!refusal.contains(SECRET), "{path}: {refusal}");
            }
        }
        // A walk sees the links and does not follow them.
        let found = stage.call("search", json!({ "pattern": "secret" })).unwrap();
        assert!(found.starts_with("[0 matches"), "{found}");
        stage.assert_outside_untouched();
    }
}

#[test]
fn what_is_no_regular_file_is_refused_without_being_opened() {
    for stage in Stage::both() {
        mkfifoat(CWD, stage.path("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let _socket = UnixListener::bind(stage.path("socket")).unwrap();
        stage.put("dir/x", "x");
        for (name, what) in [("pipe", "a pipe"), ("socket", "a socket"), ("dir", "a directory")] {
            for (tool, arguments) in [
                ("read", json!({ "path": name })),
                ("write", json!({ "path": name, "content": "x" })),
                ("edit", json!({ "path": name, "old_string": "x", "new_string": "y" })),
            ] {
                let refusal = stage.error_text(tool, arguments);
                assert!(refusal.contains(what), "{tool} {name}: {refusal}");
            }
        }
        // A walk passes them by.
        assert!(stage.call("search", json!({ "pattern": "x" })).unwrap().contains("dir/x:1: x"));
        let listed = stage.call("list", json!({})).unwrap();
        assert_eq!(listed, "dir/\npipe [a pipe]\nsocket [a socket]");
        assert!(stage.error_text("list", json!({ "path": "pipe" })).contains("a pipe"));
    }
    let dev = WorkspaceRoot::open("/dev", Access::ReadOnly).unwrap();
    let refusal = dev.open_file(&WorkspacePath::parse("null").unwrap()).err().unwrap().to_string();
    assert!(refusal.contains("a device"), "{refusal}");
}

#[test]
fn a_workspace_must_be_a_directory_that_is_there() {
    let stage = Stage::new();
    stage.put("file", "");
    assert!(WorkspaceRoot::open(stage.path("file"), Access::ReadOnly).is_err());
    let error = WorkspaceRoot::open(stage.path("missing"), Access::ReadOnly).unwrap_err();
    assert_eq!(error.kind(), provost_core::ErrorKind::NotFound);
}

#[test]
fn a_workspace_stays_the_directory_that_was_opened() {
    let stage = Stage::new();
    stage.put("a", "mine");
    let inside = stage.dir.path().join("inside");
    std::fs::rename(&inside, stage.dir.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("outside", &inside).unwrap();
    assert_eq!(stage.call("read", json!({ "path": "a" })).unwrap(), "mine");
    stage.error_text("read", json!({ "path": "secret.txt" }));
    stage.call("write", json!({ "path": "b", "content": "new" })).unwrap();
    assert!(stage.dir.path().join("moved/b").exists());
    stage.assert_outside_untouched();
}

/// Rounds of a race; each is a handful of system calls.
const ROUNDS: usize = 1_000;
/// Rounds after which a race in which nothing ever goes through has failed.
const ROUNDS_MAX: usize = 200_000;

/// Ends the race also when a call fails its test.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Somebody exchanges the directory `dir` with a link that leads out, again and again, while `act` goes on.
fn while_a_directory_becomes_a_link(stage: &Stage, mut act: impl FnMut() -> bool) {
    stage.put("dir/secret.txt", "harmless");
    stage.link("trap", "../outside");
    let (dir, trap) = (stage.path("dir"), stage.path("trap"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &dir, CWD, &trap, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let over = SetOnDrop(&is_over);
        let mut through = 0;
        for round in 0..ROUNDS_MAX {
            through += usize::from(act());
            if round >= ROUNDS && through > 0 {
                break;
            }
            std::thread::yield_now();
        }
        drop(over);
        assert!(through > 0, "the race never let a call through");
    });
    stage.assert_outside_untouched();
}

#[test]
fn nothing_outside_is_read_while_a_directory_becomes_a_link() {
    for stage in Stage::both() {
        let path = WorkspacePath::parse("dir/secret.txt").unwrap();
        while_a_directory_becomes_a_link(&stage, || {
            let Ok(opened) = stage.workspace.open_file(&path) else { return false };
            assert_ne!(std::io::read_to_string(opened.file).unwrap(), SECRET);
            true
        });
    }
}

#[test]
fn nothing_outside_is_written_while_a_directory_becomes_a_link() {
    for stage in Stage::both() {
        let stop = CancellationToken::new();
        let mut round = 0;
        while_a_directory_becomes_a_link(&stage, || {
            round += 1;
            let path = match round % 3 {
                0 => "dir/secret.txt".to_owned(),
                1 => format!("dir/new-{}", round % 16),
                _ => format!("dir/sub-{}/file", round % 16),
            };
            let path = WorkspacePath::parse(&path).unwrap();
            let content = Replacement { content: b"attack", expected: None, markers: None };
            stage.workspace.replace(&path, content, &stop).is_ok()
        });
    }
}

#[test]
fn nothing_outside_is_found_while_a_directory_becomes_a_link() {
    for stage in Stage::both() {
        let stop = CancellationToken::new();
        stage.put("dir/sub/x", "x");
        while_a_directory_becomes_a_link(&stage, || {
            let mut seen = 0;
            for start in [WorkspacePath::root(), WorkspacePath::parse("dir").unwrap()] {
                let visit =
                    |found: &provost_workspace::walk::WalkEntry<'_>,
                     _: &mut provost_workspace::walk::SkipCounts| {
                        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                        if let Ok(opened) = open_in(found.directory, found.name, flags) {
                            let text = std::io::read_to_string(File::from(opened)).unwrap();
                            assert_ne!(text, SECRET, "{}", found.path);
                            seen += 1;
                        }
                        Ok(provost_workspace::walk::WalkControl::Continue)
                    };
                provost_workspace::walk::walk(&stage.workspace, &start, &stop, visit).ok();
            }
            seen > 0
        });
    }
}

/// Names that tempt, beside harmless ones.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just(String::new()),
        Just("up".to_owned()),
        Just("absolute".to_owned()),
        Just("root".to_owned()),
        Just("dir".to_owned()),
        Just("back".to_owned()),
        Just("outside".to_owned()),
        Just("inside".to_owned()),
        Just("secret.txt".to_owned()),
        Just("tmp".to_owned()),
        "[a-z.]{1,3}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_path_leaves_the_workspace(
        names in prop::collection::vec(name(), 1..8),
        is_absolute in any::<bool>(),
    ) {
        let slash = if is_absolute { "/" } else { "" };
        let path = format!("{slash}{}", names.join("/"));
        for stage in Stage::both() {
            let outside = stage.dir.path().join("outside");
            stage.put("dir/secret.txt", "harmless");
            stage.link("up", "..");
            stage.link("absolute", &outside);
            stage.link("root", "/");
            stage.link("dir/back", "../../outside");
            if let Ok(text) = stage.call("read", json!({ "path": path })) {
                prop_assert!(!text.contains(SECRET), "{path}: {text}");
            }
            for arguments in [json!({ "path": path }), json!({ "path": path, "glob": "**" })] {
                if let Ok(text) = stage.call("list", arguments) {
                    // The root of the workspace holds a link to it, which may be seen.
                    prop_assert!(!text.contains("outside/"), "{path}: {text}");
                }
            }
            if let Ok(text) = stage.call("search", json!({ "path": path, "pattern": "secret" })) {
                prop_assert!(text.starts_with("[0 matches"), "{path}: {text}");
            }
            let edit = json!({ "path": path, "old_string": "secret", "new_string": "attack" });
            stage.call("edit", edit).ok();
            stage.call("write", json!({ "path": path, "content": "attack" })).ok();
            stage.assert_outside_untouched();
            let mut beside: Vec<_> = std::fs::read_dir(stage.dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            beside.sort();
            prop_assert_eq!(beside, ["inside", "outside"]);
        }
    }
}
