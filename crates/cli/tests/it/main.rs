//! The built binary from outside: what it prints, where, and how it exits.

#![expect(clippy::unwrap_used, reason = "a test whose world is broken cannot go on")]

#[cfg(unix)]
mod chat_server;
mod db;
#[cfg(unix)]
mod durable;
#[cfg(unix)]
mod end_to_end;
#[cfg(unix)]
mod entry_points;
mod model;
#[cfg(unix)]
mod operate;
mod pipe;
mod provider;
#[cfg(unix)]
mod pty;
#[cfg(unix)]
mod reconnect;
#[cfg(unix)]
mod remote;
#[cfg(unix)]
mod secret_leaks;
mod secrets;
#[cfg(unix)]
mod sessions;
#[cfg(unix)]
mod support;
#[cfg(unix)]
mod terminal;
mod tools;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use provost_core::{Event, EventKind};

/// A directory of its own for each test, and an environment with nothing in it.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provost"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.path())
            // A port that nothing listens on: a real Ollama must not answer.
            .env("OLLAMA_HOST", "127.0.0.1:1")
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().unwrap())
    }

    pub(crate) fn pipe(&self, args: &[&str], stdin: impl AsRef<[u8]>) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // A program that refuses its input does not read the rest.
        pipe.write_all(stdin.as_ref()).ok();
        drop(pipe);
        Ran::of(&child.wait_with_output().unwrap())
    }
}

/// Sends a signal by its name.
#[cfg(unix)]
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }
}

/// The commands, and what each can do.
const COMMANDS: &[(&str, &[&str])] = &[
    ("chat", &[]),
    ("exec", &[]),
    ("db", &[]),
    ("secret", &["set", "list", "rotate", "delete"]),
    ("tool", &["list", "get", "call", "test", "new", "import"]),
    ("audit", &[]),
    ("doctor", &[]),
    ("completions", &[]),
    ("serve", &[]),
    ("explain", &[]),
    ("approval", &["list", "approve", "deny", "reply"]),
    ("model", &["list", "search", "get", "price", "refresh"]),
    ("top", &[]),
    ("openapi", &[]),
    (
        "task",
        &[
            "submit", "list", "get", "wait", "cancel", "archive", "retry", "runs", "send",
            "inputs", "logs", "events",
        ],
    ),
    (
        "run",
        &[
            "list",
            "get",
            "steps",
            "attempts",
            "events",
            "wait",
            "send",
            "inputs",
            "delete-input",
            "pending",
            "transitions",
            "export-cassette",
            "fork",
            "replay",
            "cancel",
            "resume",
        ],
    ),
    ("session", &["list", "get", "messages", "events", "queue"]),
    ("agent", &["list", "get", "default-config", "create", "update", "delete"]),
    ("class", &["list", "set"]),
    ("budget", &["list", "set", "remove"]),
    ("schedule", &["list", "get", "set", "pause", "resume", "delete"]),
    ("grant", &["list", "revoke"]),
    ("delivery", &["list", "get", "retry", "dismiss"]),
    ("webhook", &["create", "list", "get", "delete", "deliveries", "redeliver"]),
    ("server", &["status", "whoami", "metrics"]),
    ("token", &["create", "list", "revoke"]),
];

#[test]
fn version_and_help_work_and_every_command_has_examples() {
    let world = World::new();
    let version = world.run(&["--version"]);
    assert_eq!(version.code, 0);
    assert!(version.out.starts_with("provost "), "{version:?}");
    let actions = COMMANDS.iter().flat_map(|(command, actions)| {
        [vec![*command]]
            .into_iter()
            .chain(actions.iter().map(move |action| vec![*command, *action]))
    });
    for command in [vec![]].into_iter().chain(actions) {
        let args = [&command[..], &["--help"]].concat();
        let help = world.run(&args);
        assert_eq!(help.code, 0);
        assert!(help.out.contains("Example"), "{help:?}");
    }
}

#[test]
fn what_needs_no_database_makes_none() {
    let world = World::new();
    for args in [
        &["--version"][..],
        &["--help"],
        &["completions", "bash"],
        &["exec", ""],
        &["openapi"],
        &["task", "list"],
    ] {
        world.run(args);
        assert_eq!(std::fs::read_dir(world.path()).unwrap().count(), 0, "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn the_data_directory_is_where_it_is_wanted_and_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.run(&["exec", "--data-dir", "flag", "hello"]);
    let output = world.command(&["exec", "hello"]).env("PROVOST_DATA", "variable").output();
    assert_eq!(Ran::of(&output.unwrap()).code, 0);
    for dir in ["flag", "variable"] {
        let dir = world.path().join(dir);
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        let file = std::fs::metadata(dir.join("provost.db")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
    assert!(!world.path().join(".local").exists());
    std::fs::write(world.path().join("file"), "").unwrap();
    let ran = world.run(&["exec", "--data-dir", "file", "hello"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.err.contains("help: select another directory with --data-dir DIR"), "{ran:?}");
}

#[test]
fn without_key_or_server_the_demo_plays_a_whole_turn() {
    let world = World::new();
    let ran = world.run(&["exec", "what is (2 + 3) * 4?"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("The calculator says **20**"), "{ran:?}");
    assert!(ran.out.contains("export OPENAI_API_KEY="), "{ran:?}");
    assert!(ran.err.contains("demo: no key"), "{ran:?}");
    assert!(ran.err.contains("· calculator {\"expression\""), "{ran:?}");
    assert!(!ran.out.contains('\x1b') && !ran.err.contains('\x1b'));
}

#[test]
fn json_lines_are_events_without_gaps_and_end_with_the_end() {
    let world = World::new();
    let ran = world.run(&["exec", "--json", "hello"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let events: Vec<Event> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    let expected: Vec<u64> = (0..events.len() as u64).collect();
    assert_eq!(numbers, expected);
    let (last, before) = events.split_last().unwrap();
    assert!(matches!(last.kind, EventKind::Finished { .. }));
    assert!(before.iter().all(|event| !event.kind.is_terminal()));
    let tools = before.iter().filter(|event| matches!(event.kind, EventKind::ToolFinished { .. }));
    assert_eq!(tools.count(), 2);
    assert_eq!(ran.err, "");
}

#[test]
fn the_prompt_can_come_from_standard_input() {
    let world = World::new();
    for args in [&["exec"][..], &["exec", "-"]] {
        let ran = world.pipe(args, "what is 6*7?\n");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains("**42**"), "{ran:?}");
    }
    let ran = world.pipe(&["exec", "-"], "  \n");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("error: the prompt is empty"), "{ran:?}");
}

#[test]
fn an_effect_needs_consent_and_without_a_terminal_that_is_yes() {
    let world = World::new();
    let ran = world.run(&["exec", "save a note: buy milk"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("**not saved**"), "{ran:?}");
    assert!(ran.err.contains("--yes approves it"), "{ran:?}");
    assert!(!world.path().join("notes").exists());

    let ran = world.run(&["exec", "--yes", "save a note: buy milk"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let note = world.path().join("notes/buy-milk.txt");
    assert_eq!(std::fs::read_to_string(note).unwrap(), "buy milk");
}

#[test]
fn a_piped_chat_is_plain_and_remembers() {
    let world = World::new();
    let lines = "hello\n\nnice weather\n/quit\nnever\n";
    let ran = world.pipe(&["chat"], lines);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("Let me use two tools at once."), "{ran:?}");
    assert!(ran.out.contains("You said “nice weather”"), "{ran:?}");
    assert!(!ran.out.contains("never"));
    assert!(!ran.out.contains('\x1b') && !ran.err.contains('\x1b'));
}

#[test]
fn a_named_session_goes_on_in_another_process() {
    let world = World::new();
    let first = world.run(&["exec", "--session", "work", "hello"]);
    assert!(first.out.contains("Connect a real model"), "{first:?}");
    let second = world.run(&["exec", "--session", "work", "nice weather"]);
    assert!(second.out.contains("You said “nice weather”"), "{second:?}");
    let other = world.run(&["exec", "--session", "other", "nice weather"]);
    assert!(other.out.contains("Connect a real model"), "{other:?}");
    // A name is a name and not a path.
    let odd = world.run(&["exec", "--session", "../../x", "hi"]);
    assert_eq!(odd.code, 0, "{odd:?}");
    let entries = std::fs::read_dir(world.path()).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".local"]);
    let empty = world.run(&["exec", "--session", "", "hi"]);
    assert_eq!(empty.code, 2, "{empty:?}");
}

#[test]
fn bad_input_is_refused_with_the_way_out_and_a_stable_code() {
    let world = World::new();
    for (args, code, error, help) in [
        (&["exec", "--frob", "x"][..], 2, "--frob", "--help"),
        (&["frob"], 2, "frob", "--help"),
        (&["exec", "-m", "nope/x", "hi"], 2, "unknown provider `nope`", "help: use --model"),
        (&["exec", "-m", "gpt-5", "hi"], 2, "has no provider", "--model openai/gpt-5"),
        (&["exec", "-m", "openai/x", "hi"], 3, "no key for openai", "export OPENAI_API_KEY"),
        (&["exec", "-m", "m", "--base-url", "x", "hi"], 2, "not a base URL", "https://host/v1"),
        (&["exec", "--base-url", "http://h/v1", "hi"], 2, "requires --model", "--model"),
        (&["exec", "--timeout", "soon", "hi"], 2, "--timeout", "500ms"),
        (&["exec", "--max-turns", "x", "hi"], 2, "--max-turns", "--help"),
        (&["exec", ""], 2, "prompt is empty", "provost exec"),
        (&["exec", "-m", "demo", "--api-key-env", "NOSUCH", "hi"], 2, "--api-key-env", "remove"),
        (
            &["exec", "-m", "ollama/x", "--api-key-env", "NOSUCH", "hi"],
            3,
            "NOSUCH",
            "export NOSUCH",
        ),
        (&["chat", "-m", "anthropic/c"], 3, "no key for anthropic", "ANTHROPIC_API_KEY"),
        (&["completions", "tcsh"], 2, "tcsh", "bash"),
    ] {
        let ran = world.run(args);
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        assert!(ran.err.contains(error), "{args:?}: {ran:?}");
        assert!(ran.err.contains(help), "{args:?}: {ran:?}");
        assert_eq!(ran.out, "", "{args:?}");
    }
}

#[test]
fn the_instructions_are_text_and_never_a_template() {
    let world = World::new();
    let ran = world.run(&["exec", "--system-prompt", "use {{ braces }} {% x", "hello"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_limit_that_stops_the_run_is_an_exit_code() {
    let world = World::new();
    let ran = world.run(&["exec", "--max-turns", "0", "what is 6*7?"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.err.contains("limit on turns"), "{ran:?}");
    assert!(ran.err.contains("help: raise it with --max-turns\n"), "{ran:?}");
}

#[test]
fn a_session_name_that_is_too_long_gets_the_right_advice() {
    let world = World::new();
    let name = "n".repeat(129);
    let ran = world.run(&["exec", "--session", &name, "hi"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("has 129 bytes, the limit is 128"), "{ran:?}");
    assert!(ran.err.contains("help: use a shorter name"), "{ran:?}");
    let ran = world.run(&["exec", "--session", &name[1..], "hi"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_notes_directory_that_cannot_be_is_named() {
    let world = World::new();
    std::fs::write(world.path().join("file"), "").unwrap();
    let ran = world.run(&["exec", "--yes", "--notes-dir", "file/nope", "save a note: x"]);
    assert!(ran.err.contains("cannot write file/nope"), "{ran:?}");
}

#[test]
fn control_characters_reach_standard_error_neither_on_a_terminal_nor_in_a_file() {
    let world = World::new();
    let ran = world.run(&["exec", "-m", "no\x1b[31m\u{202e}pe/x", "hi"]);
    assert!(ran.err.contains("unknown provider `no[31mpe`"), "{ran:?}");
    let ran = world.run(&["exec", "-m", "demo", "save a note: a\u{202e}b"]);
    assert!(ran.err.contains("save_note"), "{ran:?}");
    assert!(!ran.err.contains('\u{202e}'), "{ran:?}");
}

#[test]
fn a_password_in_an_address_is_never_shown() {
    let world = World::new();
    let secret = "http://user:hunter2@h/v1?key=hunter2";
    for args in [
        &["exec", "-m", "m", "--base-url", secret, "hi"][..],
        &["exec", "-m", "ollama/m", "--base-url", secret, "hi"],
        &["doctor", "--offline"],
        &["doctor", "--offline", "--json"],
    ] {
        for variable in ["OPENAI_BASE_URL", "OLLAMA_HOST"] {
            let mut command = world.command(args);
            command.env("OPENAI_API_KEY", "k").env(variable, secret);
            let ran = Ran::of(&command.output().unwrap());
            assert!(ran.out.contains("`http://h/v1`") || ran.err.contains("`http://h/v1`"));
            assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"), "{ran:?}");
        }
    }
}

#[test]
fn doctor_tells_what_is_set_without_telling_the_key() {
    let world = World::new();
    let ran = world.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("OPENAI_API_KEY     not set"), "{ran:?}");
    assert!(ran.out.contains("Next:\n  provost chat"), "{ran:?}");
    assert!(!ran.out.contains('\x1b'));

    let output = world
        .command(&["doctor", "--json", "--offline"])
        .env("OPENAI_API_KEY", "sk-very-secret")
        .output();
    let ran = Ran::of(&output.unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("sk-very-secret"));
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["model"], "openai/gpt-5-mini");

    let output = world.command(&["doctor", "--offline"]).env("PROVOST_MODEL", "nope/x").output();
    let ran = Ran::of(&output.unwrap());
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("unknown provider `nope`"), "{ran:?}");
}

#[test]
fn completions_exist_for_every_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = world.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        assert!(ran.out.contains("provost"), "{shell}");
        assert!(ran.out.contains("doctor"), "{shell}");
    }
}

#[test]
fn colour_can_be_forced_and_never_reaches_the_answer() {
    let world = World::new();
    let ran = world.run(&["exec", "--color", "always", "hello"]);
    assert!(ran.err.contains("\x1b[2m"), "{ran:?}");
    assert!(!ran.out.contains('\x1b'));
}
