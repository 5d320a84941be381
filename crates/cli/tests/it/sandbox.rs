//! What the doctor says of sandboxes, with the binary as its own launcher.

use crate::World;

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
            "--resources",
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
    let bare = world.run(&["tool", "list", "--resources", "house.yaml"]);
    assert!(bare.code == 2 && bare.err.contains("may not be started"), "{bare:?}");
}
