//! `provost serve` from outside: tokens, restarts, exit codes, and what is printed where.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command};

use provost_testkit::Reply;
use serde_json::Value;

use crate::support::{Stage, ended, slow};
use crate::terminal::Terminal;
use crate::{Ran, World, signal};

/// A server in a world.
pub(crate) struct Server {
    child: Child,
    errors: Option<BufReader<ChildStderr>>,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

impl Server {
    /// Starts one and waits until it says where it listens.
    pub(crate) fn start(world: &World, args: &[&str], env: &[(&str, &str)]) -> Self {
        let args = [&["serve", "--json"], args].concat();
        let mut child = world.command(&args).envs(env.iter().copied()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let token = told["token"].as_str().map(str::to_owned);
        Self { child, errors: None, url: told["url"].as_str().unwrap().to_owned(), token }
    }

    pub(crate) fn any_port(world: &World) -> Self {
        Self::start(world, &["--listen", "127.0.0.1:0"], &[])
    }

    /// Sends it SIGHUP and waits for the next line that it says to people.
    pub(crate) fn hang_up(&mut self) -> String {
        signal(&self.child, "-HUP");
        let errors =
            self.errors.get_or_insert_with(|| BufReader::new(self.child.stderr.take().unwrap()));
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        line
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A command that speaks to a server.
pub(crate) fn command(world: &World, url: &str, token: &str, args: &[&str]) -> Command {
    let mut command = world.command(args);
    command.env("PROVOST_SERVER", url).env("PROVOST_TOKEN", token);
    command
}

fn ask(world: &World, server: &Server, token: &str, args: &[&str]) -> Ran {
    Ran::of(&command(world, &server.url, token, args).output().unwrap())
}

/// The provider as the environment of a server names it.
pub(crate) fn provider_env(stage: &Stage) -> [(&str, &str); 2] {
    [("OPENAI_API_KEY", "sk-test"), ("OPENAI_BASE_URL", &stage.url)]
}

#[test]
fn the_first_token_is_shown_once_and_opens_everything() {
    let world = World::new();
    let mut server = Server::any_port(&world);
    let token = server.token.clone().unwrap();
    assert!(token.starts_with("prv_"), "{token}");
    assert_eq!(ask(&world, &server, &token, &["task", "list"]).code, 0);
    assert_eq!(ask(&world, &server, "prv_wrong", &["task", "list"]).code, 3);
    let none =
        Ran::of(&world.command(&["task", "list", "--server", &server.url]).output().unwrap());
    assert_eq!(none.code, 3, "{none:?}");
    assert!(none.err.contains("PROVOST_TOKEN"), "{none:?}");
    // A second server on the same data shows none, and takes the same one.
    let second = Server::any_port(&world);
    assert_eq!(second.token, None);
    assert_eq!(ask(&world, &second, &token, &["task", "list"]).code, 0);
    // What is stored is not the token.
    let data = world.path().join(".local/share/provost");
    let secret = token.rsplit('_').next().unwrap().as_bytes().to_vec();
    for file in std::fs::read_dir(&data).unwrap().map(|file| file.unwrap().path()) {
        if file.is_file() {
            let bytes = std::fs::read(&file).unwrap();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{file:?}");
        }
    }
    // It is told to end, and does.
    signal(&server.child, "-TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_token_in_a_file_and_tokens_with_less() {
    let world = World::new();
    let server = Server::any_port(&world);
    let token = server.token.clone().unwrap();
    let file = world.path().join("token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let output = world
        .command(&[
            "token",
            "create",
            "ci",
            "--scope",
            "read",
            "--allow-namespace",
            "team",
            "-o",
            "json",
        ])
        .env("PROVOST_SERVER", &server.url)
        .env("PROVOST_TOKEN_FILE", &file)
        .output();
    let made = Ran::of(&output.unwrap());
    assert_eq!(made.code, 0, "{made:?}");
    let made: Value = serde_json::from_str(&made.out).unwrap();
    let reader = made["secret"].as_str().unwrap();
    let id = made["token"]["id"].as_str().unwrap();
    // It may look, there only, and nothing else.
    assert_eq!(ask(&world, &server, reader, &["task", "list", "-n", "team"]).code, 0);
    assert_eq!(ask(&world, &server, reader, &["task", "list"]).code, 5);
    assert_eq!(ask(&world, &server, reader, &["task", "submit", "-n", "team", "hi"]).code, 4);
    assert_eq!(ask(&world, &server, reader, &["token", "list"]).code, 4);
    assert_eq!(ask(&world, &server, &token, &["token", "revoke", id]).code, 0);
    assert_eq!(ask(&world, &server, reader, &["task", "list", "-n", "team"]).code, 3);
    // Whoever has the data needs no token.
    let list = world.run(&["token", "list", "-o", "json"]);
    assert!(list.out.contains(id) && !list.out.contains(reader), "{list:?}");
}

#[test]
fn what_is_wrong_has_its_exit_code_and_says_what_to_do() {
    let world = World::new();
    let server = Server::any_port(&world);
    let token = server.token.clone().unwrap();
    let missing = "run_01jd0000000000000000000000";
    for (args, code, help) in [
        (&["run", "get", missing][..], 5, "provost run list"),
        (&["explain", missing], 5, "provost"),
        (&["approval", "approve", "appr_01jd0000000000000000000000"], 5, "provost approval list"),
        (&["agent", "get", "nobody"], 5, "help"),
        (&["run", "get", "nonsense"], 2, "run_"),
        (&["runs", "lst"], 2, "list"),
        (&["task", "list", "--state", "odd"], 2, "running"),
        (&["agent", "create", "default"], 6, "help"),
        (&["task", "submit", "x", "--agent", "nobody"], 5, "help"),
        (&["task", "submit", " "], 2, "help"),
    ] {
        let ran = ask(&world, &server, &token, args);
        assert_eq!(ran.code, code, "{args:?} {ran:?}");
        assert!(ran.err.contains(help) && ran.out.is_empty(), "{args:?} {ran:?}");
    }
    let address = server.url.strip_prefix("http://").unwrap();
    let taken = world.run(&["serve", "--listen", address]);
    assert_eq!(taken.code, 6, "{taken:?}");
    let open = world.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, 4, "{open:?}");
    assert!(open.err.contains("--allow-non-loopback"), "{open:?}");
    let away = world.run(&["task", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(away.code, 9, "{away:?}");
    assert!(away.err.contains("provost serve"), "{away:?}");
    let clear = world.run(&["task", "list", "--server", "http://10.0.0.1:1"]);
    assert_eq!(clear.code, 2, "{clear:?}");
}

#[test]
fn everything_that_is_shown_is_also_data() {
    let world = World::new();
    let server = Server::any_port(&world);
    let token = server.token.clone().unwrap();
    let submitted =
        ask(&world, &server, &token, &["task", "submit", "what is 6 * 7?", "-o", "json"]);
    let submitted: Value = serde_json::from_str(&submitted.out).unwrap();
    let [task, run] = ["task", "run"].map(|field| submitted[field].as_str().unwrap());
    let session = submitted["session"].as_str().unwrap();
    let waited = ask(&world, &server, &token, &["task", "wait", task, "-o", "json"]);
    assert_eq!(waited.code, 0, "{waited:?}");
    let waited: Value = serde_json::from_str(&waited.out).unwrap();
    assert!(waited["answer"].as_str().unwrap().contains("**42**"), "{waited}");
    for args in [
        &["task", "list"][..],
        &["task", "get", task],
        &["run", "list"],
        &["run", "get", run],
        &["run", "steps", run],
        &["run", "attempts", run],
        &["run", "replay", run],
        &["explain", run],
        &["explain", task],
        &["approval", "list"],
        &["session", "list"],
        &["session", "get", session],
        &["session", "messages", session],
        &["session", "show", session],
        &["agent", "list"],
        &["agent", "get", "default"],
        &["class", "list"],
        &["token", "list"],
        &["top", "--once"],
    ] {
        let json = ask(&world, &server, &token, &[args, &["-o", "json"]].concat());
        assert_eq!((json.code, json.err.as_str()), (0, ""), "{args:?} {json:?}");
        let json: Value = serde_json::from_str(&json.out).unwrap();
        let yaml = ask(&world, &server, &token, &[args, &["-o", "yaml"]].concat());
        let yaml: Value = serde_yaml_ng::from_str(&yaml.out).unwrap();
        // Times that were told between the two calls may differ.
        assert_eq!(json.as_object().unwrap().len(), yaml.as_object().unwrap().len(), "{args:?}");
        let table = ask(&world, &server, &token, args);
        assert_eq!(table.code, 0, "{args:?} {table:?}");
        assert!(!table.out.contains('\x1b'), "{args:?} {table:?}");
    }
    for args in [&["task", "logs", task][..], &["task", "events", task], &["run", "events", run]] {
        let lines = ask(&world, &server, &token, &[args, &["-o", "jsonl"]].concat());
        assert!(lines.out.lines().count() > 2, "{args:?} {lines:?}");
        for line in lines.out.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
    let names = ask(&world, &server, &token, &["task", "list", "-o", "name"]);
    assert_eq!(names.out, format!("{task}\n"));
    let document = world.run(&["openapi"]);
    let document: Value = serde_json::from_str(&document.out).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_comes_back_and_whoever_follows_hears_the_end() {
    let stage = Stage::new([Reply::text("It is ").hang_midway(), Reply::text("It is 42.")]).await;
    let env = provider_env(&stage);
    let mut server = Server::start(&stage.world, &["--listen", "127.0.0.1:0"], &env);
    let token = server.token.clone().unwrap();
    let args = ["task", "submit", "hi", "--follow"];
    let follower = command(&stage.world, &server.url, &token, &args).spawn().unwrap();
    stage.provider.wait_for_requests(1).await;
    server.kill();
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let back = Server::start(&stage.world, &["--listen", &address], &env);
    assert_eq!(back.token, None);
    let ran = ended(follower).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("It is 42."), "{ran:?}");
    assert_eq!(stage.provider.request_count(), 2);
    let list = ask(&stage.world, &back, &token, &["task", "list"]);
    assert!(list.out.contains("done"), "{list:?}");
    let check = stage.world.run(&["db", "check"]);
    assert_eq!(check.code, 0, "{check:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_waiting_leaves_the_run_alone() {
    let stage = Stage::new([slow(100)]).await;
    let env = provider_env(&stage);
    let server = Server::start(&stage.world, &["--listen", "127.0.0.1:0"], &env);
    let token = server.token.clone().unwrap();
    let args = ["task", "submit", "hi", "--wait"];
    let waiting = command(&stage.world, &server.url, &token, &args).spawn().unwrap();
    stage.provider.wait_for_requests(1).await;
    signal(&waiting, "-INT");
    let left = ended(waiting).await;
    assert_eq!(left.code, 130, "{left:?}");
    assert!(
        left.err.contains("continues on the server") && left.err.contains("provost run wait run_")
    );
    let run = ask(&stage.world, &server, &token, &["run", "list", "-o", "name"]).out;
    let run = run.trim();
    // Waiting out is no failure of the run either.
    let late = ask(&stage.world, &server, &token, &["run", "wait", run, "--timeout", "1ms"]);
    assert_eq!(late.code, 10, "{late:?}");
    assert!(late.err.contains("provost explain run_"), "{late:?}");
    let ran = ask(&stage.world, &server, &token, &["run", "wait", run]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("piece99"), "{ran:?}");
    assert_eq!(stage.provider.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_there_is_progress_and_a_live_view() {
    let stage = Stage::new([slow(50)]).await;
    let env = provider_env(&stage);
    let server = Server::start(&stage.world, &["--listen", "127.0.0.1:0"], &env);
    let token = server.token.clone().unwrap();
    let flags = ["--server", &server.url, "--token", &token];
    let args = [&["task", "submit", "hi", "--wait"][..], &flags].concat();
    let mut waiting = Terminal::start(&stage.world, &args);
    waiting.expect("turn started");
    waiting.expect("piece49");
    assert!(waiting.child.wait().unwrap().success());

    let mut table = Terminal::start(&stage.world, &[&["task", "list"][..], &flags].concat());
    table.expect("\u{1b}[32mdone");
    assert!(table.child.wait().unwrap().success());
    let args = [&["task", "list", "--color", "never"][..], &flags].concat();
    let mut plain = Terminal::start(&stage.world, &args);
    plain.expect("  done");
    assert!(plain.child.wait().unwrap().success());

    let mut top = Terminal::start(&stage.world, &[&["top"][..], &flags].concat());
    top.expect("top");
    top.expect("quits");
    top.press("q");
    assert!(top.child.wait().unwrap().success());
    assert!(top.is_cooked());
}

#[test]
fn shells_complete_the_commands() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(&["completions", shell]);
        for word in ["explain", "approval", "replay", "revoke", "idempotency-key"] {
            assert!(script.out.contains(word), "{shell} {word}");
        }
    }
}
