//! Every way to start an agent or a tool has the same guard services: the output of a tool is redacted, and its
//! call is in the audit log.

use provost_testkit::Reply;
use serde_json::{Value, json};

use crate::remote::{Server, command, provider_env};
use crate::support::{Stage, ended};
use crate::{Ran, World};

/// Looks like a secret; the calculator repeats it in its error.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";

fn replies() -> [Reply; 2] {
    [Reply::call("c1", "calculator", &json!({ "expression": SECRET })), Reply::text("done")]
}

/// The outcomes of the calls of a tool, oldest first, as a local command lists them.
fn audited(world: &World, tool: &str) -> Vec<String> {
    let ran = world.run(&["audit", "--tool", tool, "-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    let rows = found["items"].as_array().unwrap().iter().rev();
    rows.map(|row| row["outcome"].as_str().unwrap().to_owned()).collect()
}

/// Checks what the model was told about the call, and that the call was recorded.
fn overseen(stage: &Stage) {
    let asked = stage.asked();
    let told = asked[1].as_array().unwrap().iter().find(|message| message["role"] == "tool");
    let told = told.unwrap().to_string();
    assert!(told.contains("is neither a number") && !told.contains(SECRET), "{told}");
    assert_eq!(audited(&stage.world, "calculator"), ["allowed", "failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_overseen() {
    let stage = Stage::new(replies()).await;
    let ran = stage.run(&["exec", "hi"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    overseen(&stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_through_a_pipe_is_overseen() {
    let stage = Stage::new(replies()).await;
    let ran = tokio::task::block_in_place(|| stage.world.pipe(&stage.args(&["chat"]), "hi\n"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    overseen(&stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_server_is_overseen() {
    let stage = Stage::new(replies()).await;
    let mut command = stage.world.command(&["task", "submit", "hi", "--wait"]);
    command.envs(provider_env(&stage));
    let ran = ended(command.spawn().unwrap()).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    overseen(&stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_on_a_server_is_overseen() {
    let stage = Stage::new(replies()).await;
    let args = ["--listen", "127.0.0.1:0"];
    let server = Server::start(&stage.world, &args, &provider_env(&stage));
    let token = server.token.clone().unwrap();
    let submit = ["task", "submit", "hi", "--wait"];
    let mut command = command(&stage.world, &server.url, &token, &submit);
    let ran = ended(command.spawn().unwrap()).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    overseen(&stage);
}

#[test]
fn a_tool_call_is_overseen() {
    let world = World::new();
    let arguments = json!({ "expression": SECRET }).to_string();
    let ran: Ran = world.run(&["tool", "call", "calculator", &arguments]);
    assert!(ran.err.contains("is neither a number") && !ran.err.contains(SECRET), "{ran:?}");
    assert_eq!(audited(&world, "calculator"), ["allowed", "failed"]);
}

/// Rules under which no agent may call the calculator.
const RULES: &str = "\
kind: ToolPermission
metadata: {name: calculator}
spec: {operation_rules: [{operation_class: '*', verdict: deny}]}
";

/// Checks that the rules denied the call.
fn denied(stage: &Stage) {
    let asked = stage.asked();
    let told = asked[1].as_array().unwrap().iter().find(|message| message["role"] == "tool");
    let told = told.unwrap().to_string();
    assert!(!told.contains("is neither a number"), "the call ran: {told}");
    assert_eq!(audited(&stage.world, "calculator"), ["denied"]);
}

/// Applies manifests to the data directory, as `provost serve` does. Returns the admin token of its first start.
fn apply(stage: &Stage, manifests: &str) -> Option<String> {
    std::fs::write(stage.world.path().join("rules.yaml"), manifests).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--manifests", "rules.yaml"];
    Server::start(&stage.world, &args, &provider_env(stage)).token.clone()
}

/// A stage whose data directory has rules. No server runs.
async fn ruled() -> Stage {
    let stage = Stage::new(replies()).await;
    apply(&stage, RULES);
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_database_govern_a_run() {
    let stage = ruled().await;
    let ran = stage.run(&["exec", "hi"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    denied(&stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_database_govern_a_chat() {
    let stage = ruled().await;
    let ran = tokio::task::block_in_place(|| stage.world.pipe(&stage.args(&["chat"]), "hi\n"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    denied(&stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_database_govern_a_task_without_a_server() {
    let stage = ruled().await;
    let mut command = stage.world.command(&["task", "submit", "hi", "--wait"]);
    command.envs(provider_env(&stage));
    let ran = ended(command.spawn().unwrap()).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    denied(&stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_database_govern_a_server_without_manifests() {
    let stage = Stage::new(replies()).await;
    let token = apply(&stage, RULES).unwrap();
    let server = Server::start(&stage.world, &["--listen", "127.0.0.1:0"], &provider_env(&stage));
    let submit = ["task", "submit", "hi", "--wait"];
    let mut command = command(&stage.world, &server.url, &token, &submit);
    let ran = ended(command.spawn().unwrap()).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    denied(&stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_database_govern_a_tool_call() {
    let stage = ruled().await;
    let arguments = json!({ "expression": SECRET }).to_string();
    let ran = stage.world.run(&["tool", "call", "calculator", &arguments]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(audited(&stage.world, "calculator"), ["denied"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_manifests_without_rules_ends_them() {
    let stage = ruled().await;
    apply(&stage, "");
    let ran = stage.run(&["exec", "hi"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
    overseen(&stage);
}
