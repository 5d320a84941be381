//! The ledger, in this process and in one of its own.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use provost_testkit::{
    EffectKind, EffectServer, Process, RemoteEffectServer, serve_until_stdin_closes,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LONG: Duration = Duration::from_secs(30);

/// One request with an optional idempotency key: status and JSON.
async fn ask(to: SocketAddr, request: &str, header: &str, body: Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let header = match header {
        "" => String::new(),
        key => format!("idempotency-key: {key}\r\n"),
    };
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: x\r\n{header}connection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

async fn call(ledger: &EffectServer, path: &str, header: &str, n: u32) -> (u16, Value) {
    let body = json!({ "key": "k", "tool": "pay", "arguments": { "n": n } });
    ask(ledger.address(), &format!("POST {path}"), header, body).await
}

#[tokio::test]
async fn opaque_calls_all_count() {
    let ledger = EffectServer::start().await;
    let first = call(&ledger, "/opaque", "h", 1).await;
    let second = call(&ledger, "/opaque", "h", 1).await;
    assert_eq!(first, (200, json!({ "key": "k", "receipt": 1 })));
    assert_eq!(second, (200, json!({ "key": "k", "receipt": 2 })));
    call(&ledger, "/effect", "", 1).await;
    assert_eq!((ledger.effects("k"), ledger.calls("k"), ledger.call_count()), (3, 3, 3));
    assert_eq!((ledger.effects("other"), ledger.calls("other")), (0, 0));
}

#[tokio::test]
async fn a_keyed_call_counts_once() {
    let ledger = EffectServer::start().await;
    let first = call(&ledger, "/keyed", "h", 1).await;
    assert_eq!(call(&ledger, "/keyed", "h", 1).await, first);
    assert_eq!((ledger.effects("k"), ledger.calls("k")), (1, 2));
    let (status, answer) = call(&ledger, "/keyed", "h", 2).await;
    assert_eq!(
        (status, &answer["error"]),
        (409, &json!("this idempotency key had other arguments"))
    );
    assert_eq!((ledger.effects("k"), ledger.calls("k"), ledger.call_count()), (1, 3, 3));
    call(&ledger, "/keyed", "changed", 1).await;
    assert_eq!(ledger.effects("k"), 2, "a caller that changes its key is found out");
    assert_eq!(call(&ledger, "/keyed", "", 1).await.0, 400);
}

#[tokio::test]
async fn an_idempotent_call_counts_changes() {
    let ledger = EffectServer::start().await;
    let first = call(&ledger, "/idempotent", "a", 1).await;
    assert_eq!(call(&ledger, "/idempotent", "b", 1).await, first);
    assert_eq!((ledger.effects("k"), ledger.calls("k")), (1, 2));
    call(&ledger, "/idempotent", "a", 2).await;
    assert_eq!((ledger.effects("k"), ledger.calls("k")), (2, 3));
}

#[tokio::test]
async fn a_pure_call_never_counts() {
    let ledger = EffectServer::start().await;
    let answer = call(&ledger, "/pure", "h", 1).await;
    assert_eq!(answer, (200, json!({ "key": "k", "arguments": { "n": 1 } })));
    assert_eq!((ledger.effects("k"), ledger.calls("k")), (0, 1));
    assert_eq!(ledger.keys(), ["k"]);
}

#[tokio::test]
async fn a_provable_call_can_be_asked_for() {
    let ledger = EffectServer::start().await;
    let probe = || ask(ledger.address(), "GET /probe/h", "", Value::Null);
    assert_eq!(probe().await.1, json!({ "state": "not_done" }));
    let (_, answer) = call(&ledger, "/provable", "h", 1).await;
    assert_eq!(probe().await.1, json!({ "state": "done", "result": answer }));
    call(&ledger, "/provable", "h", 1).await;
    assert_eq!(ledger.effects("k"), 2, "a repeat without a probe is a second effect");
    ledger.set_uncertain("h");
    assert_eq!(probe().await.1, json!({ "state": "unsure" }));
    assert_eq!((ledger.probes("h"), ledger.calls("k"), ledger.call_count()), (3, 2, 2));
}

#[tokio::test]
async fn the_log_keeps_the_order() {
    let ledger = EffectServer::start().await;
    call(&ledger, "/keyed", "h", 1).await;
    call(&ledger, "/keyed", "h", 1).await;
    ask(ledger.address(), "GET /probe/h", "", Value::Null).await;
    let log = ledger.log();
    let short: Vec<_> =
        log.iter().map(|call| (call.path, call.key.as_str(), call.effect)).collect();
    let keyed = EffectKind::Keyed;
    assert_eq!(short, [(keyed, "k", true), (keyed, "k", false), (EffectKind::Probe, "h", false)]);
    assert_eq!(log[0].idempotency_key.as_deref(), Some("h"));
    assert_eq!((log[0].tool.as_str(), &log[0].arguments), ("pay", &json!({ "n": 1 })));
    assert_eq!(log[0].answer, log[1].answer);
}

#[tokio::test]
async fn an_answer_is_held_after_its_effect() {
    let ledger = EffectServer::start().await;
    ledger.pause_responses(EffectKind::Opaque);
    let (paused_count, watched) = tokio::join!(call(&ledger, "/opaque", "h", 1), async {
        ledger.wait_for_calls(1).await;
        let watched = (ledger.effects("k"), ledger.paused_count());
        assert_eq!(call(&ledger, "/pure", "h", 1).await.0, 200, "other paths are not held");
        ledger.resume_responses();
        watched
    });
    assert_eq!((paused_count.0, watched), (200, (1, 1)));
    assert_eq!(call(&ledger, "/opaque", "h", 1).await.0, 200, "held no more");
}

#[tokio::test]
async fn a_caller_that_goes_away_has_done_its_effect() {
    let ledger = EffectServer::start().await;
    ledger.pause_responses(EffectKind::Keyed);
    tokio::select! {
        _ = call(&ledger, "/keyed", "h", 1) => panic!("the answer was not held"),
        () = ledger.wait_for_calls(1) => {}
    }
    ledger.resume_responses();
    assert_eq!(call(&ledger, "/keyed", "h", 1).await, (200, json!({ "key": "k", "receipt": 1 })));
    assert_eq!((ledger.effects("k"), ledger.calls("k")), (1, 2));
}

#[tokio::test]
async fn a_release_lets_go_even_if_a_hold_follows_at_once() {
    let ledger = EffectServer::start().await;
    ledger.pause_responses(EffectKind::Effect);
    let (answer, ()) = tokio::join!(call(&ledger, "/effect", "", 1), async {
        ledger.wait_for_calls(1).await;
        ledger.resume_responses();
        ledger.pause_responses(EffectKind::Effect);
    });
    assert_eq!(answer.0, 200);
}

#[tokio::test]
async fn what_the_ledger_does_not_know_is_refused() {
    let ledger = EffectServer::start().await;
    assert_eq!(call(&ledger, "/other", "h", 1).await.0, 404);
    assert_eq!(call(&ledger, "/probe", "h", 1).await.0, 405);
    assert_eq!(ask(ledger.address(), "GET /opaque", "", Value::Null).await.0, 404);
    assert_eq!(ask(ledger.address(), "POST /opaque", "", json!({})).await.0, 400, "no key at all");
    assert_eq!(
        ask(ledger.address(), "POST /ledger/hold", "", json!({ "path": "/x" })).await.0,
        404
    );
    assert_eq!((ledger.call_count(), ledger.log().len()), (0, 0));
    let alone = ask(ledger.address(), "POST /opaque", "only", json!({})).await;
    assert_eq!((alone.0, ledger.effects("only")), (200, 1), "the header stands in for the key");
}

/// What the child process of the next test does.
#[test]
fn child() {
    if std::env::var_os("LEDGER_TEST_CHILD").is_some() {
        serve_until_stdin_closes().unwrap();
    }
}

#[tokio::test]
async fn a_ledger_can_have_its_own_process() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "ledger::child", "--nocapture"]).env("LEDGER_TEST_CHILD", "1");
    let mut process = Process::start_with_input(command).unwrap();
    let line = process.wait_for_line("ledger http://", LONG).await.unwrap();
    let ledger = RemoteEffectServer::at(&line).unwrap();
    let address = ledger.url().strip_prefix("http://").unwrap().parse().unwrap();
    let body = || json!({ "key": "k", "tool": "pay", "arguments": 1 });
    ledger.pause_responses(EffectKind::Keyed).await.unwrap();
    let (paused_count, ()) = tokio::join!(ask(address, "POST /keyed", "h", body()), async {
        ledger.wait_for_calls(1).await.unwrap();
        assert_eq!(ledger.effects("k").await.unwrap(), 1);
        ledger.resume_responses().await.unwrap();
    });
    assert_eq!(paused_count, ask(address, "POST /keyed", "h", body()).await);
    assert_eq!(ledger.effects("k").await.unwrap(), 1);
    assert_eq!(ledger.calls("k").await.unwrap(), 2);
    assert_eq!(ledger.keys().await.unwrap(), ["k"]);
    assert_eq!(ledger.log().await.unwrap()[1].answer, paused_count.1);
    ledger.set_uncertain("h").await.unwrap();
    let probe = ask(address, "GET /probe/h", "", Value::Null).await;
    assert_eq!(probe.1, json!({ "state": "unsure" }));
    process.close_input();
    assert!(process.wait(LONG).await.unwrap().success());
    assert!(ledger.keys().await.is_err(), "it ended with its input");
    assert!(RemoteEffectServer::at("nothing").is_err());
}
