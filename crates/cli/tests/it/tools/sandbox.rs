//! What the doctor says of sandboxes, with the binary as its own launcher.

use provost_testkit::Reply;
use serde_json::json;

use crate::World;
use crate::support::Stage;

#[test]
fn the_doctor_tries_what_sandboxes_hold() {
    let world = World::new();
    let ran = world.run(&["doctor", "--sandbox", "--json"]);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let states = |state: &str| checks.iter().filter(|check| check["state"] == state).count();
    assert_eq!(states("error"), 0, "{}", ran.out);
    // Where no sandbox works that is what it says, and nothing else.
    let is_missing =
        checks.iter().any(|check| check["detail"].as_str().unwrap().starts_with("process:"));
    assert!(is_missing || states("ok") >= 7, "{}", ran.out);
    let is_held = |what: &str| {
        checks.iter().any(|check| {
            let detail = check["detail"].as_str().unwrap();
            check["name"] == "wasm"
                && check["state"] == "ok"
                && detail.starts_with(&format!("{what}: enforced"))
        })
    };
    for what in ["modules", "imports", "files", "network", "fuel", "time", "memory", "output"] {
        assert!(is_held(what), "{what}: {}", ran.out);
    }
    let told = world.run(&["doctor", "--sandbox"]);
    assert!(told.out.contains("files") || is_missing, "{}", told.out);
}

#[test]
fn what_is_no_order_for_the_launcher_is_refused() {
    let world = World::new();
    for args in [&["__sandbox"][..], &["__sandbox", "x"], &["__sandbox", "landlock", "{}"]] {
        let ran = world.run(args);
        assert_eq!(ran.code, 125, "{} {}", ran.out, ran.err);
        assert!(ran.err.starts_with("sandbox: "), "{}", ran.err);
    }
}

/// A program as a tool: the arguments of the model are arguments of the program, in a sandbox.
#[test]
fn a_declared_program_runs_in_a_sandbox_or_not_at_all() {
    const HOUSE: &str = "
kind: Tool
metadata: {name: count}
spec:
  type: cli
  effect: pure
  cli: {command: wc, args: ['-c'], stdin_from_input: true}
---
kind: Tool
metadata: {name: look}
spec:
  type: cli
  effect: pure
  cli: {command: cat, args: ['{{ path }}']}
---
kind: Tool
metadata: {name: boxed}
spec: {type: cli, effect: pure, runtime: {isolation_mode: container}, cli: {command: wc}}
---
kind: AgentRole
metadata: {name: anybody}
spec: {permissions: ['tool:count:invoke', 'tool:look:invoke', 'tool:boxed:invoke']}
";
    let world = World::new();
    std::fs::write(world.path().join("house.yaml"), HOUSE).unwrap();
    std::fs::write(world.path().join("canary"), "canary-of-the-house").unwrap();
    let call = |name: &str, arguments: &str| {
        let args = [
            "tool",
            "call",
            name,
            arguments,
            "--manifests",
            "house.yaml",
            "--role",
            "anybody",
            "--yes",
        ];
        world.run(&[&args[..], &["--allow-command", "wc", "--allow-command", "cat"]].concat())
    };
    let counted = call("count", r#"{"a":1}"#);
    if counted.err.contains("isolation_unavailable") {
        return;
    }
    assert_eq!((counted.code, counted.out.trim()), (0, "7"), "{counted:?}");
    let path = world.path().join("canary");
    let looked = call("look", &serde_json::json!({ "path": path }).to_string());
    assert!(looked.code != 0 && !looked.out.contains("canary-of"), "{looked:?}");
    let boxed = call("boxed", "{}");
    assert!(boxed.code != 0 && boxed.err.contains("isolation_unavailable"), "{boxed:?}");
    let bare = world.run(&["tool", "list", "--manifests", "house.yaml"]);
    assert!(bare.code == 2 && bare.err.contains("is not allowed"), "{bare:?}");
}

fn commands(lines: &[&str]) -> Vec<Reply> {
    let call = |(number, line): (usize, &&str)| {
        Reply::call(format!("c{number}"), "shell", &json!({ "command": line }))
    };
    lines.iter().enumerate().map(call).chain([Reply::text("Done.")]).collect()
}

/// What the model was told of its calls, in their order.
fn told(stage: &Stage) -> Vec<String> {
    let last = stage.asked().pop().unwrap();
    let results = last.as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_a_shell_only_if_it_is_given_one_and_only_in_its_files() {
    let lines = ["cat note; pwd", "cat ../outside", "echo x > new && cat new", "env"];
    let stage = Stage::new(commands(&lines)).await;
    let dir = stage.world.path().join("files");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("note"), "of the house\n").unwrap();
    std::fs::write(stage.world.path().join("outside"), "canary").unwrap();
    let ran = stage.run(&["exec", "look", "--workspace", "files", "--shell", "full"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = told(&stage);
    assert!(told[0].contains("of the house"), "{told:?}");
    assert!(!told[1].contains("canary"), "{told:?}");
    assert!(told[2].contains("Read-only") || told[2].contains("denied"), "{told:?}");
    assert!(!told[3].contains("OPENAI"), "{told:?}");
    assert!(!dir.join("new").exists());
    // Without the flag there is none.
    let stage = Stage::new([Reply::text("Hello.")]).await;
    assert_eq!(stage.run(&["exec", "hi"]).await.code, 0);
    assert!(!stage.provider.bodies()[0]["tools"].to_string().contains("shell"));
}

/// What one message leaves the next one of the conversation finds, and no other conversation does. What is too long to show can
/// be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_shell_can_have_the_files_of_its_conversation() {
    let line = |line: &str| Reply::call("c", "shell", &json!({ "command": line }));
    let long = "head -c 200000 /dev/zero | tr '\\0' x";
    let lines = ["echo one > a; cat a", "echo two >> a; cat a", "ls -A", long];
    let replies = lines.iter().flat_map(|text| [line(text), Reply::text("Done.")]);
    let stage = Stage::new(replies.collect::<Vec<_>>()).await;
    for session in ["first", "first", "second", "second"] {
        let shell = ["--shell", "full", "--shell-workspace", "session"];
        let ran = stage.run(&[&["exec", "go", "--session", session], &shell[..]].concat()).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let bodies = stage.provider.bodies();
    let last = |at: usize| {
        let messages = bodies[at]["messages"].as_array().unwrap();
        let results = messages.iter().rev().find(|message| message["role"] == "tool");
        results.unwrap()["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(last(1), "one\n");
    assert_eq!(last(3), "one\ntwo\n");
    assert!(last(5).contains("no output"), "{}", last(5));
    assert!(bodies[0]["tools"].to_string().contains("read_output"));
    assert!(last(7).contains("outputs/shell-"), "{}", last(7).split_at(200).0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_no_rule_names_does_not_run_unless_somebody_agrees() {
    let lines = ["echo yes", "touch made", "echo $(touch made)"];
    let allow =
        ["--workspace", ".", "--workspace-write", "--shell", "allowlist", "--shell-allow", "echo"];
    for (ask, answer) in [("never", &[][..]), ("unlisted", &[]), ("unlisted", &["--yes"])] {
        let stage = Stage::new(commands(&lines)).await;
        let args = [&["exec", "do it", "--shell-approval", ask], &allow[..], answer].concat();
        let ran = stage.run(&args).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let told = told(&stage);
        assert!(told[0].contains("yes"), "{ask}: {told:?}");
        let is_made = stage.world.path().join("made").exists();
        assert_eq!(is_made, !answer.is_empty(), "{ask}: {told:?}");
    }
}

#[test]
fn a_rule_that_is_none_is_refused_before_anything_runs() {
    let world = World::new();
    let args = ["tool", "list", "--shell", "allowlist", "--shell-allow", "a; b"];
    let ran = world.run(&args);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--shell-allow"), "{ran:?}");
    let ran =
        world.run(&["tool", "call", "shell", "{\"command\": \"echo hi\"}", "--shell", "full"]);
    assert_eq!((ran.code, ran.out.trim()), (0, "hi"), "{ran:?}");
}
