//! Tools declared in files, from the outside: rules, questions, records, and answers that come later.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use provost_testkit::Reply;
use serde_json::{Value, json};

use crate::remote::{Server, command, provider_env};
use crate::support::{Stage, ended};
use crate::{Ran, World};

/// How often something is looked for that must come.
const LOOKS_MAX: usize = 400;

/// A request to the tool server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A server whose answers are bytes: for tools that say what no framework would say.
pub(crate) struct ToolServer {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
}

impl ToolServer {
    pub(crate) fn start(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut stream = stream;
                    if let Some(request) = read(&mut stream) {
                        seen.lock().unwrap().push(request.clone());
                        answer(&request, &mut stream);
                    }
                });
            }
        });
        Self { address, asked }
    }

    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Asked { path, headers, body: String::new() };
    let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Some(request)
}

pub(crate) fn respond(stream: &mut TcpStream, status: &str, kind: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(body).ok();
}

fn house(address: SocketAddr) -> String {
    format!(
        "
kind: Tool
metadata: {{name: search}}
spec:
  endpoint: http://{address}/search
  effect: pure
  http: {{method: GET, query: {{q: '{{{{ q }}}}'}}}}
  input_schema: {{type: object, properties: {{q: {{type: string}}}}, required: [q]}}
  auth: {{secretRef: key}}
---
kind: Tool
metadata: {{name: pay}}
spec: {{endpoint: 'http://{address}/pay', description: Pays}}
---
kind: Tool
metadata: {{name: later}}
spec: {{type: webhook-callback, endpoint: 'http://{address}/later', effect: pure}}
---
kind: AgentRole
metadata: {{name: payer}}
spec: {{permissions: ['pay:invoke', 'tool:search:invoke', 'tool:later:invoke']}}
---
kind: ToolPermission
metadata: {{name: pay}}
spec:
  requiredPermissions: ['pay:invoke']
  operationRules: [{{operationClass: write, verdict: approval_required}}]
---
kind: Agent
metadata: {{name: clerk}}
spec: {{tools: ['*'], roles: [payer], prompt: You are a clerk.}}
---
kind: Agent
metadata: {{name: guest}}
spec: {{tools: [pay, search]}}
"
    )
}

struct House {
    stage: Stage,
    server: Server,
    token: String,
    tools: ToolServer,
}

impl House {
    async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let tools = ToolServer::start(|asked, stream| {
            if asked.path == "/later" {
                respond(stream, "202 Accepted", "application/json", b"");
            } else if asked.path.starts_with("/later/") {
                respond(stream, "404 Not Found", "text/plain", b"");
            } else {
                let said = asked.header("authorization").unwrap_or("nothing");
                respond(stream, "200 OK", "text/plain", format!("got {said}").as_bytes());
            }
        });
        let stage = Stage::new(replies).await;
        let path = stage.world.path().join("house.yaml");
        std::fs::write(&path, house(tools.address)).unwrap();
        let args =
            ["--listen", "127.0.0.1:0", "--manifests", "house.yaml", "--tool-network", "local"];
        let mut env = provider_env(&stage).to_vec();
        env.push(("PROVOST_SECRET_KEY", "swordfish-and-chips"));
        let server = Server::start(&stage.world, &args, &env);
        let token = server.token.clone().unwrap();
        Self { stage, server, token, tools }
    }

    fn ask(&self, args: &[&str]) -> Ran {
        Ran::of(&command(&self.stage.world, &self.server.url, &self.token, args).output().unwrap())
    }

    fn list(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.ask(&[args, &["-o", "json"]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        let list: Value = serde_json::from_str(&ran.out).unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn outcomes(&self) -> Vec<String> {
        let mut found = self.list(&["audit"]);
        found.reverse();
        let told = |record: &Value| {
            let word = |name: &str| record[name].as_str().unwrap().to_owned();
            format!("{} {}", word("resource"), word("outcome"))
        };
        found.iter().map(told).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_tool_is_called_with_its_secret_and_the_model_never_sees_it() {
    let replies =
        [Reply::call("c1", "search", &json!({"q": "pears"})), Reply::text("They grow on trees.")];
    let house = House::new(replies).await;
    let ran = house.ask(&["task", "submit", "pears?", "--agent", "clerk", "--wait"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "They grow on trees.\n"), "{ran:?}");
    let seen = house.tools.seen();
    let told = house.stage.provider.bodies()[1].to_string();
    assert_eq!(seen.len(), 1, "{told}");
    assert_eq!(seen[0].path, "/search?q=pears");
    assert_eq!(seen[0].header("authorization"), Some("Bearer swordfish-and-chips"));
    assert!(told.contains("got Bearer [REDACTED]") && !told.contains("swordfish"), "{told}");
    assert!(told.contains("You are a clerk."), "{told}");
    assert_eq!(house.outcomes(), ["search allowed", "search succeeded"]);
    let tools = house.list(&["audit", "--tool", "search", "--outcome", "succeeded"]);
    assert_eq!(tools[0]["record"]["metadata"]["agent"], "clerk");
    let who: Value =
        serde_json::from_str(&house.ask(&["server", "whoami", "-o", "json"]).out).unwrap();
    assert_eq!(tools[0]["record"]["principal"], who["name"], "who handed the task in: {who}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_rules_deny_is_denied_and_what_they_ask_about_is_asked() {
    let pay = || Reply::call("c1", "pay", &json!({}));
    let replies = [pay(), Reply::text("I may not."), pay(), Reply::text("Paid.")];
    let house = House::new(replies).await;
    let ran = house.ask(&["task", "submit", "pay", "--agent", "guest", "--wait"]);
    assert_eq!(ran.out, "I may not.\n", "{ran:?}");
    let told = house.stage.provider.bodies()[1].to_string();
    assert!(told.contains("requires `pay:invoke`"), "{told}");
    assert!(house.tools.seen().is_empty());

    let args = ["task", "submit", "pay", "--agent", "clerk", "--wait"];
    let waiting = command(&house.stage.world, &house.server.url, &house.token, &args);
    let waiting = { waiting }.spawn().unwrap();
    let question = (0..LOOKS_MAX).find_map(|_| house.list(&["approval", "list"]).first().cloned());
    let id = question.unwrap()["id"].as_str().unwrap().to_owned();
    assert!(house.tools.seen().is_empty(), "nothing happens before the answer");
    assert_eq!(house.ask(&["approval", "approve", &id]).code, 0);
    let ran = ended(waiting).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Paid.\n"), "{ran:?}");
    assert_eq!(house.tools.seen().len(), 1);
    let expected = ["pay denied", "pay approval_required", "pay allowed", "pay succeeded"];
    assert_eq!(house.outcomes(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_later_is_handed_in_over_http() {
    let replies = [Reply::call("c1", "later", &json!({})), Reply::text("It came.")];
    let house = House::new(replies).await;
    let args = ["task", "submit", "wait for it", "--agent", "clerk", "--wait"];
    let waiting = command(&house.stage.world, &house.server.url, &house.token, &args);
    let waiting = { waiting }.spawn().unwrap();
    let asked = loop {
        if let Some(asked) = house.tools.seen().into_iter().find(|asked| asked.path == "/later") {
            break asked;
        }
        tokio::task::yield_now().await;
    };
    let envelope: Value = serde_json::from_str(&asked.body).unwrap();
    let url = asked.header("x-tool-callback-url").unwrap();
    let token = asked.header("x-tool-callback-token").unwrap();
    assert!(url.starts_with(&format!("{}/v1/tool-callbacks/", house.server.url)), "{url}");
    let answer = json!({
        "tool_contract_version": "v1", "request_id": envelope["request_id"], "status": "ok",
        "output": {"result": "the late pear"},
    });
    let post = |token: &str| {
        let address = house.server.url.trim_start_matches("http://");
        let path = url.trim_start_matches(&house.server.url);
        let body = answer.to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             x-tool-callback-token: {token}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(post("00ff"), 403);
    assert_eq!(post(token), 204);
    assert_eq!(post(token), 404, "it is taken once");
    let ran = ended(waiting).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "It came.\n"), "{ran:?}");
    assert!(house.stage.provider.bodies()[1].to_string().contains("the late pear"));
}

#[test]
fn what_is_declared_wrongly_is_refused_at_the_start() {
    let world = World::new();
    std::fs::write(
        world.path().join("bad.yaml"),
        "kind: Tool\nmetadata: {name: a}\nspec:\n  endpiont: x\n",
    )
    .unwrap();
    for args in [
        &["serve", "--listen", "127.0.0.1:0", "--manifests", "bad.yaml"][..],
        &["exec", "hi", "--manifests", "bad.yaml"],
        &["tool", "list", "--manifests", "bad.yaml"],
    ] {
        let ran = world.run(args);
        assert_eq!(ran.code, 2, "{args:?} {ran:?}");
        assert!(ran.err.contains("bad.yaml:4: spec.endpiont"), "{ran:?}");
    }
    let ran = world.run(&["serve", "--listen", "127.0.0.1:0", "--manifests", "nowhere"]);
    assert!(ran.code == 2 && ran.err.contains("nowhere"), "{ran:?}");
}

#[test]
fn tools_are_listed_described_called_and_tested_from_the_command_line() {
    let world = World::new();
    let tools = ToolServer::start(|_, stream| respond(stream, "200 OK", "text/plain", b"paid"));
    std::fs::write(world.path().join("house.yaml"), house(tools.address)).unwrap();
    let here = ["--manifests", "house.yaml", "--tool-network", "local"];
    let run = |args: &[&str]| world.run(&[&["tool"], args, &here].concat());

    let listed = run(&["list", "-o", "name"]);
    assert!(
        listed.out.contains("pay\nsearch\n") && listed.out.contains("calculator\n"),
        "{listed:?}"
    );
    let described = run(&["describe", "pay", "--agent", "clerk", "-o", "json"]);
    let described: Value = serde_json::from_str(&described.out).unwrap();
    assert_eq!(described["decision"], "approval_required");
    assert_eq!(described["effect"], "opaque");

    let plain = world.run(&["tool", "call", "calculator", r#"{"expression": "2 + 3"}"#]);
    assert_eq!((plain.code, plain.out.as_str()), (0, "5\n"), "{plain:?}");
    let denied = run(&["call", "pay", "{}", "--yes"]);
    assert_eq!(denied.code, 4, "{denied:?}");
    assert!(denied.err.contains("pay:invoke"), "{denied:?}");
    let unasked = run(&["call", "pay", "{}", "--agent", "clerk"]);
    assert!(unasked.code == 4 && unasked.err.contains("approval_denied"), "{unasked:?}");
    assert!(tools.seen().is_empty());
    let paid = run(&["call", "pay", "{}", "--agent", "clerk", "--yes"]);
    assert_eq!((paid.code, paid.out.as_str()), (0, "paid\n"), "{paid:?}");
    let roles = run(&["call", "pay", "{}", "--role", "payer", "--yes", "-o", "json"]);
    let envelope: Value = serde_json::from_str(&roles.out).unwrap();
    assert_eq!(
        (&envelope["status"], &envelope["output"]["result"]),
        (&json!("ok"), &json!("paid"))
    );

    let tested = run(&["test"]);
    assert_eq!(tested.code, 1, "the secret is missing: {tested:?}");
    assert!(tested.out.contains("search") && tested.out.contains("failed"), "{tested:?}");
    let closed = world.run(&["tool", "test", "pay", "--manifests", "house.yaml"]);
    assert_eq!(closed.code, 1, "this machine is not opened: {closed:?}");
    let fixtures = "- {tool: pay, expect: {contains: paid}}\n- {tool: calculator, args: {expression: 1 +}, expect: {code: execution_failed}}\n";
    std::fs::write(world.path().join("calls.yaml"), fixtures).unwrap();
    let played = run(&["test", "pay", "--agent", "clerk", "--fixtures", "calls.yaml"]);
    assert_eq!(played.code, 0, "{played:?}");
    assert_eq!(tools.seen().len(), 3);
}
