//! What a manifest can give: hosts, values, a way to say something. What it does not give is covered in `import`.

use std::sync::{Arc, Mutex};

use provost_core::Secret;
use provost_core::contract::ToolErrorCode;
use provost_core::resource::{ToolAuth, ToolResource};
use provost_net::NetPolicy;
use provost_sandbox::{EgressDecision, EgressEvent};
use provost_tool::{Credentials, ToolRuntime as _};
use provost_wasm::{
    FileKeyValueStore, InMemoryKeyValueStore, KeyValueError, KeyValueScope, KeyValueStore,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::stage::{Room, answering, declared, nothing};

#[tokio::test(flavor = "multi_thread")]
async fn a_module_says_how_far_it_is_and_not_without_end() {
    let room = Room::open();
    let text = answering(
        r#"(import "provost" "log" (func $log (param i32 i32)))"#,
        r#"(local $n i32) (loop $l (call $log (i32.const 1024) (i32.const 5)) (local.set $n (i32.add (local.get $n) (i32.const 1)))
           (br_if $l (i32.lt_u (local.get $n) (i32.const 1000))))"#,
    );
    let tool = declared(room.wat(&text), |spec| spec.log = true);
    room.call(&tool, nothing()).await.unwrap();
    let said = room.said.lock().unwrap();
    assert_eq!(said.len(), 256);
    assert_eq!(said[0], r#"{"con"#);
}

/// A module that adds one to a counter that it keeps, and traps at the second time.
fn counting() -> String {
    answering(
        r#"(import "provost" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
           (import "provost" "kv_set" (func $set (param i32 i32 i32 i32) (result i32)))
           (import "provost" "kv_delete" (func $delete (param i32 i32) (result i32)))"#,
        r#"(if (i32.eq (call $get (i32.const 1024) (i32.const 4) (i32.const 2048) (i32.const 16)) (i32.const -1))
             (then (drop (call $set (i32.const 1024) (i32.const 4) (i32.const 1024) (i32.const 8))))
             (else (drop (call $delete (i32.const 1024) (i32.const 4))) unreachable))"#,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn values_stay_from_call_to_call_and_belong_to_one_tool() {
    let dir = tempfile::tempdir().unwrap();
    let files = FileKeyValueStore::open(&dir.path().join("kv")).unwrap();
    let stores: [Arc<dyn KeyValueStore>; 2] =
        [Arc::new(InMemoryKeyValueStore::default()), Arc::new(files)];
    for kv in stores {
        let given = Arc::clone(&kv);
        let room = Room::with(|options| options.kv = given);
        let tool = declared(room.wat(&counting()), |spec| spec.kv = true);
        assert!(room.call(&tool, nothing()).await.is_ok(), "nothing is kept yet");
        let other = ToolResource { name: "another".to_owned(), ..tool.clone() };
        assert!(room.call(&other, nothing()).await.is_ok(), "another tool has its own values");
        let fault = room.call(&tool, nothing()).await.unwrap_err();
        assert_eq!(
            fault.details["outcome"], "unknown",
            "it had changed something before it failed"
        );
        assert!(room.call(&tool, nothing()).await.is_ok(), "it was deleted");
        let scope = KeyValueScope { namespace: "default".to_owned(), tool: "acting".to_owned() };
        assert_eq!(kv.get(&scope, "{\"co").await.unwrap().unwrap(), b"{\"contra");
        for number in 0..1_000 {
            let kept = kv.set(&scope, &number.to_string(), Vec::new()).await;
            assert_eq!(kept.is_ok(), number < 999, "{number}");
        }
        assert_eq!(kv.set(&scope, "one more", Vec::new()).await, Err(KeyValueError::Full));
    }
}

/// A server that says back what it was asked.
async fn mirror() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let size = stream.read(&mut head).await.unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..size]).into_owned();
            let quiet = head.starts_with("GET /quiet");
            let body = match head.contains("x-key: swordfish") {
                true if quiet => "the key came".to_owned(),
                _ => head,
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap_or_default();
        }
    });
    port
}

/// A module that makes one request and logs the answer.
fn asking(request: &serde_json::Value) -> String {
    let request = request.to_string();
    let text = request.replace('\\', "\\\\").replace('"', "\\\"");
    answering(
        &format!(
            r#"(import "provost" "http_send" (func $send (param i32 i32) (result i32)))
               (import "provost" "http_read" (func $read (param i32 i32) (result i32)))
               (import "provost" "log" (func $log (param i32 i32)))
               (data (i32.const 2048) "{text}")"#
        ),
        &format!(
            r"(drop (call $send (i32.const 2048) (i32.const {})))
              (call $log (i32.const 8192) (call $read (i32.const 8192) (i32.const 16384)))",
            request.len()
        ),
    )
}

struct HostStage {
    room: Room,
    told: Arc<Mutex<Vec<EgressEvent>>>,
    port: u16,
}

impl HostStage {
    async fn open() -> Self {
        let told: Arc<Mutex<Vec<EgressEvent>>> = Arc::default();
        let keep = Arc::clone(&told);
        let room = Room::with(|options| {
            options.network = NetPolicy::open();
            options.log = Arc::new(move |event| keep.lock().unwrap().push(event));
        });
        Self { room, told, port: mirror().await }
    }

    fn tool(&self, name: &str, request: &serde_json::Value) -> ToolResource {
        let tool = self.room.tool(name, &crate::stage::assembled(&asking(request)));
        let hosts = vec![format!("127.0.0.1:{}", self.port)];
        declared(tool, |spec| (spec.log, spec.hosts) = (true, hosts))
    }

    fn last_log_message(&self) -> serde_json::Value {
        serde_json::from_str(&self.room.said.lock().unwrap().pop().unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_asks_the_hosts_of_its_list_and_nobody_else() {
    let stage = HostStage::open().await;
    let port = stage.port;
    let tool = stage.tool("a.wasm", &json!({"method": "post", "url": format!("http://127.0.0.1:{port}/x"), "headers": {"x-own": "1"}, "body": "pears"}));
    stage.room.call(&tool, nothing()).await.unwrap();
    let answer = stage.last_log_message();
    assert_eq!(answer["status"], 200);
    let body = answer["body"].as_str().unwrap();
    assert!(
        body.starts_with("POST /x") && body.contains("x-own: 1") && body.ends_with("pears"),
        "{body}"
    );
    let other = if port == 1025 { 1026 } else { port - 1 };
    for (at, url) in [
        format!("http://127.0.0.1:{other}/"),
        format!("http://localhost:{port}/"),
        format!("http://127.0.0.1.nip.io:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("https://127.0.0.1:{other}/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let tool = stage.tool(&format!("r{at}.wasm"), &json!({ "url": url }));
        stage.room.call(&tool, nothing()).await.unwrap();
        assert_eq!(stage.last_log_message()["error"]["code"], "permission_denied", "{url}");
    }
    for (at, request) in [
        json!({"url": "no address"}),
        json!({"url": format!("http://127.0.0.1:{port}/"), "headers": {"a b": "c"}}),
    ]
    .iter()
    .enumerate()
    {
        stage.room.call(&stage.tool(&format!("i{at}.wasm"), request), nothing()).await.unwrap();
        assert_eq!(stage.last_log_message()["error"]["code"], "invalid_input");
    }
    let told = stage.told.lock().unwrap();
    assert_eq!(told.iter().filter(|event| event.decision == EgressDecision::Allowed).count(), 1);
    assert_eq!(
        told.iter().filter(|event| event.decision == EgressDecision::Refused).count(),
        6,
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_to_its_host_and_never_into_the_module() {
    let stage = HostStage::open().await;
    let auth = Some(ToolAuth { secret_ref: "s".to_owned(), ..ToolAuth::default() });
    let secret = || Credentials { headers: vec![("x-key".to_owned(), Secret::from("swordfish"))] };
    let call = async |path: &str, name: &str| {
        let url = format!("http://127.0.0.1:{}{path}", stage.port);
        let tool = stage.tool(name, &json!({ "url": url, "headers": { "x-key": "of my own" } }));
        let tool = ToolResource { auth: auth.clone(), ..tool };
        stage.room.runtime.check(&tool).unwrap();
        let mut attempt = stage.room.attempt(&tool, nothing());
        attempt.credentials = secret();
        stage.room.runtime.invoke(attempt).await.unwrap();
        stage.last_log_message()
    };
    assert_eq!(call("/quiet", "q.wasm").await["body"], "the key came");
    // A server that says it back is not passed on.
    let said = call("/loud", "l.wasm").await;
    assert_eq!(said["error"]["code"], "permission_denied");
    assert!(!said.to_string().contains("swordfish"));
    // With a list of several, nobody could say where it would go.
    let tool = declared(stage.tool("m.wasm", &json!({ "url": "http://a/" })), |spec| {
        spec.hosts.push("*.example.com".to_owned())
    });
    let tool = ToolResource { auth: auth.clone(), ..tool };
    let fault = stage.room.runtime.check(&tool).unwrap_err();
    assert_eq!(
        (fault.code, fault.details["field"].as_str()),
        (ToolErrorCode::RuntimePolicyInvalid, "auth")
    );
}
