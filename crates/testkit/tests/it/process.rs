//! Processes that print, stop, die and leave others behind.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use provost_testkit::{Process, ProcessError, Stream};

/// Long enough for a loaded machine; nothing waits for so long when all is well.
const LONG: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn start(script: &str) -> Process {
    Process::start(shell(script)).unwrap()
}

fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

#[tokio::test]
async fn lines_of_both_streams_are_found() {
    let process = start("echo one; echo two >&2; printf 'three'");
    assert_eq!(process.wait_for_line("wo", LONG).await.unwrap(), "two");
    assert_eq!(process.wait_for_line("three", LONG).await.unwrap(), "three", "without its newline");
    assert_eq!(process.wait_for_line("one", LONG).await.unwrap(), "one", "printed before");
    assert!(process.wait(LONG).await.unwrap().success());
    assert_eq!(process.lines_of(Stream::Out), ["one", "three"]);
    assert_eq!(process.lines_of(Stream::Err), ["two"]);
    assert_eq!(process.lines().len(), 3);
}

#[tokio::test]
async fn several_lines_can_be_waited_for() {
    let process = start("for i in 1 2 3; do echo step $i; echo other; done");
    let lines = process.wait_for_lines("step", 3, LONG).await.unwrap();
    assert_eq!(lines, ["step 1", "step 2", "step 3"]);
    let error = process.wait_for_lines("step", 4, LONG).await.unwrap_err();
    assert!(error.to_string().contains("closed its output without the line \"step\""), "{error}");
}

#[tokio::test]
async fn a_wait_that_fails_shows_the_output() {
    let mut process = Process::start_with_input(shell("echo hello; echo bad >&2; cat")).unwrap();
    process.wait_for_line("hello", LONG).await.unwrap();
    process.wait_for_line("bad", LONG).await.unwrap();
    let error = process.wait_for_line("ready", Duration::from_millis(1)).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("no line \"ready\" within 1ms; it said so far:\n"), "{text}");
    assert!(text.contains("  out| hello\n") && text.contains("  err| bad\n"), "{text}");
    assert!(text.ends_with("  (still open)"), "{text}");
    let error = process.wait(Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().contains("no end within 1ms"), "{error}");
    process.close_input();
    process.wait(LONG).await.unwrap();
    let error = process.wait_for_line("ready", LONG).await.unwrap_err();
    assert!(error.to_string().ends_with("  (end)"), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let error = Process::start(Command::new("/no/such/program")).unwrap_err();
    assert!(error.to_string().starts_with("/no/such/program: "), "{error}");
}

#[tokio::test]
async fn input_environment_and_exit_code_get_through() {
    let mut command = shell("read line; echo got $line $WORD; exit 7");
    command.env("WORD", "there");
    let mut process = Process::start_with_input(command).unwrap();
    process.send("hi\n").unwrap();
    process.wait_for_line("got hi there", LONG).await.unwrap();
    assert_eq!(process.wait(LONG).await.unwrap().code(), Some(7));
    let mut closed = start("cat; echo over");
    closed.wait_for_line("over", LONG).await.unwrap();
    let error = closed.send("x").unwrap_err();
    assert!(error.to_string().contains("start_with_input"), "{error}");
}

#[tokio::test]
async fn kill_ends_the_process_and_nothing_else() {
    let process = start("sleep 1000 & echo child $!; wait");
    let line = process.wait_for_line("child", LONG).await.unwrap();
    let child = line.strip_prefix("child ").unwrap().parse().unwrap();
    let status = process.kill().await.unwrap();
    assert_eq!(status.signal(), Some(9));
    assert_eq!(process.wait(LONG).await.unwrap(), status, "the end can be asked for again");
    assert!(is_alive(child), "as after kill -9");
    assert_eq!(process.descendants(), [child]);
    let error = process.wait_for_exit_of_all(Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("processes [{child}] still live")), "{error}");
    drop(process);
    wait_until_dead(child);
}

/// A killed process needs a moment to go.
fn wait_until_dead(id: u32) {
    while is_alive(id) {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_frozen_process_stands_still() {
    // It counts as fast as it can, so any step it makes while frozen is seen.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count");
    let mut command = shell("i=0; echo begun; while :; do i=$((i+1)); echo $i > \"$FILE\"; done");
    command.env("FILE", &file);
    let process = Process::start(command).unwrap();
    process.wait_for_line("begun", LONG).await.unwrap();
    for _ in 0..5 {
        process.freeze().await.unwrap();
        let modified = std::fs::metadata(&file).map(|data| data.modified().unwrap()).ok();
        for _ in 0..100 {
            std::thread::yield_now();
        }
        assert_eq!(std::fs::metadata(&file).map(|data| data.modified().unwrap()).ok(), modified);
        process.thaw().unwrap();
    }
    process.freeze().await.unwrap();
    assert_eq!(process.kill().await.unwrap().signal(), Some(9), "a frozen process can be killed");
    let error = process.wait_until_frozen(LONG).await.unwrap_err();
    assert!(error.to_string().contains("not frozen, it has ended: signal: 9"), "{error}");
}

#[tokio::test]
async fn a_process_that_freezes_itself_is_noticed() {
    let process = start("kill -STOP $$; kill -STOP $$; echo thawed");
    for _ in 0..2 {
        process.wait_until_frozen(LONG).await.unwrap();
        assert_eq!(process.lines(), [""; 0]);
        process.thaw().unwrap();
    }
    process.wait_for_line("thawed", LONG).await.unwrap();
    let error = process.wait_until_frozen(LONG).await.unwrap_err();
    assert!(error.to_string().contains("not frozen, it has ended: exit status: 0"), "{error}");
}

#[tokio::test]
async fn signals_that_can_be_caught_are_caught() {
    type Send = fn(&Process) -> Result<(), ProcessError>;
    let signals: [(&str, Send); 3] =
        [("TERM", Process::terminate), ("INT", Process::interrupt), ("HUP", Process::hang_up)];
    for (name, send) in signals {
        let script = format!("trap 'exit 5' {name}; echo ready; while :; do read line; done");
        // A shell cannot catch what was ignored when it started, and whoever runs the tests may ignore anything.
        let mut heeding = Command::new("env");
        heeding.args(["--default-signal", "/bin/sh", "-c", &script]);
        let process = Process::start_with_input(heeding).unwrap();
        process.wait_for_line("ready", LONG).await.unwrap();
        send(&process).unwrap();
        assert_eq!(process.wait(LONG).await.unwrap().code(), Some(5), "{name}");
    }
}

#[tokio::test]
async fn a_drop_leaves_nobody_behind() {
    // One child stays in the group, one leaves it for a session of its own, and one has lost its parent.
    let script = "sleep 1000 & echo child $!; \
                  setsid sh -c 'echo child $$; exec sleep 1000' & \
                  (sleep 1000 & echo child $!); wait";
    let process = start(script);
    let lines = process.wait_for_lines("child", 3, LONG).await.unwrap();
    let children = lines.iter().map(|line| line.strip_prefix("child ").unwrap().parse().unwrap());
    let mut descendants: Vec<u32> = children.chain([process.id()]).collect();
    descendants.sort_unstable();
    assert_eq!(process.descendants(), descendants);
    drop(process);
    descendants.into_iter().for_each(wait_until_dead);
}

#[tokio::test]
async fn all_are_gone_when_the_last_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = shell("setsid sh -c 'read line < \"$PIPE\"' & echo started");
    command.env("PIPE", &pipe);
    let process = Process::start(command).unwrap();
    process.wait(LONG).await.unwrap();
    let error = process.wait_for_exit_of_all(Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().contains("still live after 1ms"), "{error}");
    std::fs::write(&pipe, "go\n").unwrap();
    process.wait_for_exit_of_all(LONG).await.unwrap();
    assert_eq!(process.descendants(), [0; 0]);
}
