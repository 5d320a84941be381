//! Which files a walk comes to.

use provost_workspace::WorkspacePath;
use provost_workspace::limits::WALK_DEPTH_MAX;
use provost_workspace::walk::{SkipCounts, WalkControl, WalkEntry, walk};
use tokio_util::sync::CancellationToken;

use crate::testing::Stage;

fn files(stage: &Stage, start: &str) -> (Vec<String>, SkipCounts) {
    let mut files = Vec::new();
    let start = WorkspacePath::parse(start).unwrap();
    let visit = |found: &WalkEntry<'_>, _: &mut SkipCounts| {
        files.push(found.path.to_string());
        Ok(WalkControl::Continue)
    };
    let skipped = walk(&stage.workspace, &start, &CancellationToken::default(), visit).unwrap();
    (files, skipped)
}

#[test]
fn rules_are_those_of_git() {
    let stage = Stage::new();
    stage.put(".gitignore", "# comment\n*.log\n!keep.log\n/only-here\nbuild/\n\\[broken\n[\n");
    stage.put("sub/.gitignore", "!again.log\nlocal\n");
    stage.put("sub/.ignore", "quiet\n");
    for name in [
        "a.log",
        "keep.log",
        "only-here",
        "sub/only-here",
        "build/x",
        "sub/build/x",
        "sub/again.log",
        "sub/other.log",
        "sub/local",
        "local",
        "sub/deep/local",
        "sub/quiet",
        "quiet",
        "sub/build.txt",
    ] {
        stage.put(name, "");
    }
    let (found, skipped) = files(&stage, ".");
    let expected = [
        ".gitignore",
        "keep.log",
        "local",
        "quiet",
        "sub/.gitignore",
        "sub/.ignore",
        "sub/again.log",
        "sub/build.txt",
        "sub/only-here",
    ];
    assert_eq!(found, expected);
    assert_eq!(skipped.notes(), [""; 0]);
    // The rules from above hold further down as well.
    let (found, _) = files(&stage, "sub");
    assert_eq!(found, expected[4..]);
}

#[test]
fn rules_that_are_no_file_are_no_rules() {
    let stage = Stage::new();
    stage.put(".gitignore/x", "x");
    stage.link(".ignore", "../outside/secret.txt");
    let (found, _) = files(&stage, ".");
    assert_eq!(found, [".gitignore/x"]);
}

#[test]
fn depth_is_bounded() {
    let stage = Stage::new();
    let deep = format!("{}x", "d/".repeat(WALK_DEPTH_MAX));
    stage.put(&deep, "");
    stage.put("y", "");
    let (found, skipped) = files(&stage, ".");
    assert_eq!(found, ["y"]);
    assert_eq!(skipped.notes(), ["[1 directory skipped: nested too deeply]"]);
    let (found, _) = files(&stage, "d");
    assert_eq!(found, [deep]);
}

#[test]
fn a_walk_that_nobody_waits_for_ends() {
    let stage = Stage::new();
    stage.put("a", "");
    let stop = CancellationToken::new();
    stop.cancel();
    let walked =
        walk(&stage.workspace, &WorkspacePath::root(), &stop, |_, _| Ok(WalkControl::Continue));
    assert!(matches!(walked, Err(provost_workspace::Error::Cancelled)));
}
