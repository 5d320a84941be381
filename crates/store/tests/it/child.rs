//! Other processes: this test binary starts itself again in a role.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use provost_core::{Env, WorkerId};
use provost_store::{Durability, Store, StoreError, StoreOptions, WorkerLock, params};

use crate::kill;

/// The variable that names the role, and with it makes [`entry`] do something.
const ROLE: &str = "PROVOST_STORE_TEST_ROLE";
const DIR: &str = "PROVOST_STORE_TEST_DIR";

/// Starts the line of a word that the parent waits for; the test harness prints lines of its own.
const MARK: &str = "said: ";

/// A process in a role. It is killed when it goes out of scope.
pub(crate) struct Process {
    child: Child,
    /// Closing it tells the process to end.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(role: &str, dir: &Path) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), role, dir)
    }

    /// Started as the user nobody, if this is root, whom no permission stops.
    pub(crate) fn start_unprivileged(role: &str, dir: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        Self::spawn(command, role, dir)
    }

    /// Started with a limit on the size of files, in blocks of 512 bytes, that fails writes instead of killing.
    pub(crate) fn start_limited(role: &str, dir: &Path, blocks: u32) -> Self {
        let mut command = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command.arg("-c").arg(script).arg(std::env::current_exe().unwrap());
        Self::spawn(command, role, dir)
    }

    fn spawn(mut command: Command, role: &str, dir: &Path) -> Self {
        let mut child = command
            .args(["child::entry", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, stdin, lines: BufReader::new(stdout).lines() }
    }

    /// The next word that it says; nothing if it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        // The harness prints the test's name without an end of line before the first word.
        self.lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once(MARK).map(|(_, word)| word.to_owned()))
    }

    /// Lets it end by itself and waits until it has.
    pub(crate) fn finish(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Ends it at once and returns everything it had said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.hear()).collect()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Says a word to the parent.
pub(crate) fn say(word: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{word}").unwrap();
    out.flush().unwrap();
}

/// Waits until the parent lets this process end.
pub(crate) fn wait_for_parent() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// What another process does. On its own, without a role, it does nothing.
#[test]
fn entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    match role.as_str() {
        "append" => kill::append(&dir),
        "append-many" => kill::append_many(&dir),
        "hold-write-lock" => hold_write_lock(&dir),
        "hold-node-lock" => hold_node_lock(&dir),
        "open" => say(outcome(Store::open(StoreOptions::in_dir(&dir)))),
        "fill" => fill(&dir),
        other => panic!("there is no role {other}"),
    }
}

/// `ok`, or the code of the error.
fn outcome<T>(result: Result<T, StoreError>) -> &'static str {
    result.map_or_else(|error| error.code(), |_| "ok")
}

fn hold_write_lock(dir: &Path) {
    let database = StoreOptions::in_dir(dir).path;
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    say("locked");
    wait_for_parent();
}

fn hold_node_lock(dir: &Path) {
    let worker: WorkerId = Env::system().id();
    let lock = WorkerLock::acquire(dir, worker).unwrap();
    // What a worker starts must not keep its lock alive.
    let mut command = Command::new("sleep");
    command.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut orphan = command.spawn().unwrap();
    say(format!("{} {}", orphan.id(), lock.path().display()));
    wait_for_parent();
    orphan.kill().unwrap();
    orphan.wait().unwrap();
}

/// Writes until the disk refuses, then says how that looked and whether the store still works.
fn fill(dir: &Path) {
    let options = StoreOptions::in_dir(dir);
    let store =
        Store::open(StoreOptions { durability: Durability::ProcessExit, ..options }).unwrap();
    let mut written = 0;
    let error = loop {
        let result = store.write(move |tx| {
            tx.execute(
                "INSERT INTO meta (key, value) VALUES (?1, ?2)",
                params![format!("fill {written:06}"), "x".repeat(10_000)],
            )
        });
        match result.wait() {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    say(written);
    say(error.code());
    let sql = "SELECT count(*) FROM meta WHERE key LIKE 'fill%'";
    let read = store.write(move |tx| tx.fetch_one::<u64>(sql, params![]));
    say(read.wait().unwrap());
    // The last page of the disk may have room for a small change.
    let refused = (0..1000).find_map(|_| store.probe_write().wait().err());
    say(outcome(refused.map_or(Ok(()), Err)));
}
