//! Failpoints that end processes: this test binary starts itself again as a child that runs one test.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use provost_failpoint::{EXIT_CODE, MISUSE_CODE, failpoint};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

const MARKS: &str = "FAILPOINT_TEST_MARKS";

/// Child process: passes two failpoints three times and appends a mark before and after each.
///
/// The test harness runs it on a separate thread, which is the hard case for signals.
#[test]
fn child() {
    let Some(marks) = std::env::var_os(MARKS) else { return };
    let mark = |text: &str| {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&marks).unwrap();
        file.write_all(format!("{text} ").as_bytes()).unwrap();
    };
    let fallible = || {
        failpoint!("child.fallible", "failed");
        "passed"
    };
    for hit in 1..=3 {
        mark(&format!("before{hit}"));
        failpoint!("child.place");
        mark(&format!("after{hit}"));
        mark(fallible());
    }
}

struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn start(&self, rules: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::child", "--nocapture"]);
        command.env("PROVOST_FAILPOINTS", rules).env(MARKS, self.path("marks"));
        command.env("PROVOST_FAILPOINTS_TRACE", self.path("trace"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs the child to its end. Returns its exit code, its signal and its output.
    fn run(&self, rules: &str) -> (Option<i32>, Option<i32>, String) {
        let output = self.start(rules).wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code(), output.status.signal(), said)
    }
}

#[test]
fn without_rules_nothing_happens() {
    let case = Case::new();
    let (code, _, said) = case.run("");
    assert_eq!(code, Some(0), "{said}");
    let all = "before1 after1 passed before2 after2 passed before3 after3 passed ";
    assert_eq!(case.read("marks"), all);
    assert_eq!(case.read("trace"), "child.place\nchild.fallible\n", "each name once");
}

#[test]
fn kill_is_exact() {
    for _ in 0..20 {
        let case = Case::new();
        let (code, signal, said) = case.run("other=kill;child.place=kill");
        assert_eq!((code, signal), (None, Some(Signal::KILL.as_raw())), "{said}");
        assert_eq!(case.read("marks"), "before1 ");
        assert_eq!(case.read("trace"), "child.place\n", "traced before it happened");
    }
}

#[test]
fn kill_at_a_later_hit() {
    let case = Case::new();
    let (_, signal, said) = case.run("child.place=kill@2");
    assert_eq!(signal, Some(Signal::KILL.as_raw()), "{said}");
    assert_eq!(case.read("marks"), "before1 after1 passed before2 ");
}

#[test]
fn freeze_is_exact_and_can_be_thawed() {
    for _ in 0..20 {
        let case = Case::new();
        let mut child = case.start("child.place=freeze@2");
        let id = Pid::from_child(&child);
        let (_, status) = waitpid(Some(id), WaitOptions::UNTRACED).unwrap().unwrap();
        assert_eq!(status.stopping_signal(), Some(Signal::STOP.as_raw()), "{status:?}");
        assert_eq!(case.read("marks"), "before1 after1 passed before2 ");
        kill_process(id, Signal::CONT).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(case.read("marks").ends_with("before3 after3 passed "));
    }
}

#[test]
fn exit_has_its_own_code() {
    let case = Case::new();
    let (code, _, said) = case.run("child.place=exit");
    assert_eq!(code, Some(EXIT_CODE), "{said}");
    assert_eq!(case.read("marks"), "before1 ");
}

#[test]
fn pause_ends_with_the_file() {
    let case = Case::new();
    let go = case.path("go");
    fs::write(&go, "").unwrap();
    let (code, _, said) = case.run(&format!("child.place=pause:{}", go.display()));
    assert_eq!(code, Some(0), "{said}");
    fs::remove_file(&go).unwrap();
    fs::remove_file(case.path("marks")).unwrap();
    let mut child = case.start(&format!("child.place=pause:{};child.place=exit@2", go.display()));
    wait_for(&case.path("marks"));
    assert_eq!(case.read("marks"), "before1 ");
    fs::write(&go, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(EXIT_CODE));
    assert_eq!(case.read("marks"), "before1 after1 passed before2 ");
}

/// Waits until the child has begun to write its marks.
fn wait_for(path: &Path) {
    while fs::read(path).unwrap_or_default().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn panic_unwinds() {
    let case = Case::new();
    let (code, _, said) = case.run("child.place=panic");
    assert_eq!(code, Some(101), "{said}");
    assert!(said.contains("failpoint child.place"), "{said}");
}

#[test]
fn error_leaves_with_the_value() {
    let case = Case::new();
    let (code, _, said) = case.run("child.fallible=error@2+");
    assert_eq!(code, Some(0), "{said}");
    let all = "before1 after1 passed before2 after2 failed before3 after3 failed ";
    assert_eq!(case.read("marks"), all);
}

#[test]
fn rules_that_cannot_be_followed_end_the_process() {
    for (rules, problem) in [
        ("child.place", "PROVOST_FAILPOINTS: rule \"child.place\": it has no `=`"),
        ("child.place=die", "the actions are kill, freeze, exit, pause:<path>, panic and error"),
        ("child.place=kill@0", "hits are counted from 1"),
        ("child.place=error", "child.place=error: this failpoint cannot fail"),
    ] {
        let case = Case::new();
        let (code, _, said) = case.run(rules);
        assert_eq!(code, Some(MISUSE_CODE), "{rules}: {said}");
        assert!(said.contains(problem), "{rules}: {said}");
        assert_eq!(case.read("marks"), "before1 ", "{rules}");
    }
}

#[test]
fn a_trace_that_cannot_be_written_ends_the_process() {
    let case = Case::new();
    fs::create_dir(case.path("trace")).unwrap();
    let (code, _, said) = case.run("");
    assert_eq!(code, Some(MISUSE_CODE), "{said}");
    assert!(said.contains("PROVOST_FAILPOINTS_TRACE: "), "{said}");
}
