//! Temporary measurement.
#![allow(unsafe_code, reason = "temporary")]
use futures::StreamExt;
use provost_core::{Message, ToolCall, ToolDef, ToolResult};
use provost_model::*;
use provost_testkit::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;
struct Count;
thread_local!(static N: Cell<u64> = const { Cell::new(0) });
unsafe impl GlobalAlloc for Count {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        let _ = N.try_with(|n| n.set(n.get() + 1));
        unsafe { System.alloc(l) }
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        unsafe { System.dealloc(p, l) }
    }
    unsafe fn realloc(&self, p: *mut u8, l: Layout, s: usize) -> *mut u8 {
        let _ = N.try_with(|n| n.set(n.get() + 1));
        unsafe { System.realloc(p, l, s) }
    }
}
#[global_allocator]
static A: Count = Count;
fn cpu() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}
#[derive(serde::Deserialize)]
struct C {
    choices: Vec<Ch>,
}
#[derive(serde::Deserialize)]
struct Ch {
    delta: D,
}
#[derive(serde::Deserialize)]
struct D {
    content: Option<String>,
}
async fn floor(client: &reqwest::Client, url: &str, body: &serde_json::Value) -> String {
    let r = client
        .post(url)
        .header("content-type", "application/json")
        .header("authorization", "Bearer k")
        .body(serde_json::to_vec(body).unwrap())
        .send()
        .await
        .unwrap();
    let mut s = r.bytes_stream();
    let mut buf: Vec<u8> = Vec::new();
    let mut text = String::new();
    while let Some(c) = s.next().await {
        buf.extend_from_slice(&c.unwrap());
        let mut start = 0;
        while let Some(p) = buf[start..].windows(2).position(|w| w == b"\n\n") {
            let line = &buf[start..start + p];
            start += p + 2;
            if let Some(d) = line.strip_prefix(b"data: ") {
                if d == b"[DONE]" {
                    continue;
                }
                let c: C = serde_json::from_slice(d).unwrap();
                for ch in c.choices {
                    if let Some(t) = ch.delta.content {
                        text.push_str(&t);
                    }
                }
            }
        }
        buf.drain(..start);
    }
    text
}
fn main() {
    let t = Instant::now();
    let _i = Catalog::builtin().info("openai", "gpt-5.1");
    println!("catalog: {:?}", t.elapsed());
    let t = Instant::now();
    let m = OpenAi::builder("gpt-5.1").api_key("k").build().unwrap();
    println!("first model build (catalog+client): {:?}", t.elapsed());
    let t = Instant::now();
    let _m2 = OpenAi::builder("gpt-5.1").api_key("k").build().unwrap();
    println!("second model build: {:?}", t.elapsed());
    drop(m);
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async move {
                let mk = |w| {
                    Reply::new()
                        .deltas((0..2000).map(|n| format!("tok{n} ")))
                        .usage(provost_core::Usage::new(1, 2000))
                        .prepare(w)
                };
                let (o, a) = (mk(WireKind::OpenAiChat), mk(WireKind::Anthropic));
                let (so, sa) = (
                    Reply::call("c1", "f", &serde_json::json!({"a":1}))
                        .prepare(WireKind::OpenAiChat),
                    Reply::call("c1", "f", &serde_json::json!({"a":1}))
                        .prepare(WireKind::Anthropic),
                );
                let p = FakeProvider::answering(move |r| {
                    let big = r.body.len() < 1200;
                    match (r.path.contains("chat"), big) {
                        (true, true) => o.clone(),
                        (false, true) => a.clone(),
                        (true, false) => so.clone(),
                        (false, false) => sa.clone(),
                    }
                })
                .await;
                p.forget_requests();
                tx.send(p.base_url()).unwrap();
                std::future::pending::<()>().await;
            })
    });
    let url = rx.recv().unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let o = OpenAi::builder("gpt-5.1").api_key("k").base_url(&url).build().unwrap();
        let a = Anthropic::builder("claude-haiku-4-5").api_key("k").base_url(&url).build().unwrap();
        let tls = rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider())).with_safe_default_protocol_versions().unwrap().with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        let client = reqwest::Client::builder().tls_backend_preconfigured(tls).build().unwrap();
        let small = ChatRequest::new([Message::user("hi")]);
        let mut big = small.clone(); big.tools = vec![std::sync::Arc::new(ToolDef{name:"f".into(),description:"x".repeat(200),input_schema:serde_json::json!({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})})];
        for i in 0..10 { let c = ToolCall::new(format!("c{i}"),"f",&serde_json::json!({"a":i,"b":"some text here"})); big.messages.push(std::sync::Arc::new(Message::calls([c.clone()]))); big.messages.push(std::sync::Arc::new(Message::results([ToolResult::text(&c,"result ".repeat(20))]))); }
        let url_o = format!("{url}/chat/completions");
        for (name, which, req) in [("stream2000 openai",0,&small),("stream2000 anthropic",1,&small),("floor 2000",2,&small),("small openai",0,&big),("small anthropic",1,&big),("floor small",2,&big)] {
            let body = serde_json::json!({"model":"x","stream":true,"messages":[{"role":"user","content": if std::ptr::eq(req,&big) {"y".repeat(4000)} else {"hi".into()}}]});
            let rounds = if std::ptr::eq(req,&big) { 300 } else { 30 };
            let mut best = (u64::MAX, u64::MAX, u128::MAX);
            for _ in 0..3 {
            let (n0, c0, t0) = (N.with(Cell::get), cpu(), Instant::now());
            for _ in 0..rounds { match which { 0 => { complete(&o, req.clone()).await.unwrap(); } 1 => { complete(&a, req.clone()).await.unwrap(); } _ => { floor(&client, &url_o, &body).await; } } }
            let r = (N.with(Cell::get)-n0, cpu()-c0, t0.elapsed().as_nanos());
            best = (best.0.min(r.0), best.1.min(r.1), best.2.min(r.2)); }
            println!("{name}: allocs/call {} cpu/call {} us wall/call {} us", best.0/rounds, best.1/rounds/1000, best.2/rounds as u128/1000);
        }
    });
}
