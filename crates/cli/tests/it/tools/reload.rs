//! What is declared in files, read anew while the server runs.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use provost_testkit::Reply;
use serde_json::{Value, json};

use crate::Ran;
use crate::remote::{Server, command, provider_env};
use crate::support::{Stage, ended};
use crate::tools::governed::{ToolServer, respond};

/// How long a test waits for what must come.
const LONG: Duration = Duration::from_secs(60);

/// A tool that may be used, or not.
fn house(address: SocketAddr, verdict: &str) -> String {
    format!(
        "
kind: Tool
metadata: {{name: pay}}
spec: {{endpoint: 'http://{address}/pay', description: Pays}}
---
kind: ToolPermission
metadata: {{name: pay}}
spec: {{operationRules: [{{operationClass: write, verdict: {verdict}}}]}}
---
kind: Agent
metadata: {{name: clerk}}
spec: {{tools: ['*']}}
"
    )
}

/// A tool that is answered when the test says so.
fn held() -> (ToolServer, mpsc::Sender<()>) {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let tools = ToolServer::start(move |_, stream| {
        wait.lock().unwrap().recv_timeout(LONG).ok();
        respond(stream, "200 OK", "text/plain", b"paid");
    });
    (tools, go)
}

#[tokio::test(flavor = "multi_thread")]
async fn declarations_are_read_anew_and_the_next_call_goes_by_them() {
    let (tools, go) = held();
    let pay = || Reply::call("c1", "pay", &json!({}));
    let stage = Stage::new([pay(), pay(), Reply::text("Once."), Reply::text("Nothing.")]).await;
    let write = |name: &str, text: &str| {
        std::fs::write(stage.world.path().join("house").join(name), text).unwrap();
    };
    std::fs::create_dir(stage.world.path().join("house")).unwrap();
    write("a.yaml", &house(tools.address, "allow"));
    let args = ["--listen", "127.0.0.1:0", "--manifests", "house", "--tool-network", "local"];
    let mut server = Server::start(&stage.world, &args, &provider_env(&stage));
    let token = server.token.clone().unwrap();
    let url = server.url.clone();
    let ask = |args: &[&str]| command(&stage.world, &url, &token, args);
    let waiting = ask(&["task", "submit", "pay twice", "--agent", "clerk", "--wait"]).spawn();
    while tools.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    // While the first call is under way, the rule changes and an agent comes.
    write("a.yaml", &house(tools.address, "deny"));
    write("b.yaml", "kind: Agent\nmetadata: {name: guest}\nspec: {tools: [pay]}\n");
    let told = server.hang_up();
    for part in ["added Agent default/guest", "changed ToolPermission default/pay"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!told.contains("Tool default/pay"), "the tool is what it was: {told}");
    go.send(()).unwrap();
    let ran = ended(waiting.unwrap()).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Once.\n"), "{ran:?}");
    assert_eq!(tools.seen().len(), 1, "what was let through went on, and the next call did not");
    let bodies = stage.provider.bodies();
    assert!(bodies[1].to_string().contains("paid"), "{}", bodies[1]);
    assert!(
        !bodies[2]["messages"].as_array().unwrap().last().unwrap().to_string().contains("paid")
    );
    let asked = ask(&["task", "submit", "hi", "--agent", "guest", "--wait"]).output();
    let ran = Ran::of(&asked.unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "Nothing.\n"), "the new agent is there: {ran:?}");
    assert!(server.hang_up().contains("no changes"));
    // What is wrong is not used, and what was there stays.
    write("b.yaml", "kind: Agent\nmetadata: {name: guest}\nspec: {tools: [nothing]}\n");
    let told = server.hang_up();
    assert!(
        told.contains("the previous manifests stay active") && told.contains("nothing"),
        "{told}"
    );
    let audit = Ran::of(&ask(&["audit", "-o", "json"]).output().unwrap());
    let audit: Value = serde_json::from_str(&audit.out).unwrap();
    let outcomes: Vec<&str> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["denied", "succeeded", "allowed"]);
}
