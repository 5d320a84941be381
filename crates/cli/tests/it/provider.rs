//! The binary against a provider on a real socket.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use provost_testkit::{Failure, FakeProvider, Reply};
use serde_json::json;

use crate::{Ran, World};

async fn run(mut command: Command) -> Ran {
    let output = tokio::task::spawn_blocking(move || command.output());
    Ran::of(&output.await.unwrap().unwrap())
}

#[tokio::test]
async fn any_compatible_server_answers_through_base_url() {
    let provider = FakeProvider::start().await;
    let call = Reply::call("c1", "calculator", &json!({ "expression": "6*7" }));
    provider.replies([call, Reply::text("It is 42.")]);
    let world = World::new();
    let url = provider.base_url();
    let args = ["exec", "-m", "Qwen/tiny", "--base-url", &url, "what is 6*7?"];
    let mut command = world.command(&args);
    command.env("OPENAI_API_KEY", "sk-not-for-strangers");
    let ran = run(command).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, "It is 42.\n");
    assert!(ran.err.contains("→ calculator: 42"), "{ran:?}");
    let requests = provider.requests();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(requests[0].json()["model"], "Qwen/tiny");
    assert_eq!(requests[0].header("authorization"), None);
}

#[tokio::test]
async fn keys_and_addresses_of_the_vendors_come_from_the_environment() {
    let provider = FakeProvider::start().await;
    let world = World::new();
    for (prefix, path, url) in [
        ("OPENAI", "/v1/chat/completions", provider.base_url()),
        ("ANTHROPIC", "/v1/messages", format!("http://{}", provider.address())),
    ] {
        provider.reply(Reply::text("Hello!"));
        let mut command = world.command(&["exec", "hi"]);
        command.env(format!("{prefix}_API_KEY"), "sk-test").env(format!("{prefix}_BASE_URL"), url);
        let ran = run(command).await;
        assert_eq!((ran.code, ran.out.as_str()), (0, "Hello!\n"), "{ran:?}");
        assert!(ran.err.contains(&format!("{prefix}_API_KEY is set")));
        assert!(!ran.err.contains("sk-test"));
        assert_eq!(provider.requests().pop().unwrap().path, path);
    }
}

#[tokio::test]
async fn a_local_ollama_is_found_by_itself_and_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let tags = json!({ "models": [{ "name": "tiny:latest" }] }).to_string();
        let delta =
            json!({ "id": "1", "choices": [{ "index": 0, "delta": { "content": "Hi!" } }] });
        let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
        let stream = format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
        let answers = [("application/json", tags), ("text/event-stream", stream)];
        answers.map(|(kind, body)| {
            let (mut connection, _) = listener.accept().unwrap();
            let mut asked = [0; 16 * 1024];
            let length = connection.read(&mut asked).unwrap();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
            connection.write_all((head + &body).as_bytes()).unwrap();
            let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
            asked.split(" HTTP/").next().unwrap_or_default().to_owned()
        })
    });
    let world = World::new();
    let mut command = world.command(&["exec", "hello"]);
    command.env("OLLAMA_HOST", &host);
    let ran = run(command).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hi!\n"), "{ran:?}");
    let why = format!("ollama/tiny:latest: Ollama runs at {host}");
    assert!(ran.err.contains(&why), "{ran:?}");
    let asked = server.join().unwrap();
    assert_eq!(asked, ["GET /api/tags", "POST /v1/chat/completions"]);
}

#[tokio::test]
async fn failures_of_the_provider_have_their_own_exit_codes() {
    let provider = FakeProvider::start().await;
    let world = World::new();
    let url = provider.base_url();
    for (failure, code) in
        [(Failure::Auth, 3), (Failure::UnknownModel, 5), (Failure::ContextLength, 2)]
    {
        provider.reply(Reply::failure(failure));
        let args = ["exec", "-m", "m", "--base-url", &url, "hi"];
        let ran = run(world.command(&args)).await;
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("error: "), "{ran:?}");
        assert_eq!(ran.out, "");
    }
}

#[tokio::test]
async fn the_next_model_answers_where_the_first_has_no_key_that_counts() {
    let provider = FakeProvider::start().await;
    provider.replies([Reply::failure(Failure::Auth), Reply::text("Hello from the second!")]);
    let world = World::new();
    let mut command = world.command(&["exec", "-m", "openai/first,anthropic/second", "hi"]);
    command.env("OPENAI_API_KEY", "sk-old").env("OPENAI_BASE_URL", provider.base_url());
    let url = format!("http://{}", provider.address());
    command.env("ANTHROPIC_API_KEY", "sk-new").env("ANTHROPIC_BASE_URL", url);
    let ran = run(command).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello from the second!\n"), "{ran:?}");
    let asked: Vec<_> = provider.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(asked, ["/v1/chat/completions", "/v1/messages"]);
}

#[tokio::test]
async fn nobody_at_the_address_is_unavailable() {
    let world = World::new();
    let args = ["exec", "-m", "m", "--base-url", "http://127.0.0.1:1/v1", "--timeout", "20s", "hi"];
    let ran = run(world.command(&args)).await;
    assert_eq!(ran.code, 9, "{ran:?}");
    assert!(ran.err.contains("help: check the connection"), "{ran:?}");
}

#[tokio::test]
async fn a_timeout_ends_a_provider_that_says_nothing() {
    let provider = FakeProvider::start().await;
    provider.reply(Reply::never_respond());
    let world = World::new();
    let url = provider.base_url();
    let args = ["exec", "-m", "m", "--base-url", &url, "--timeout", "300ms", "hi"];
    let ran = run(world.command(&args)).await;
    assert_eq!(ran.code, 10, "{ran:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_stops_the_run_and_says_so_by_the_exit_code() {
    let provider = FakeProvider::start().await;
    provider.reply(Reply::text("Hel").hang_midway());
    let world = World::new();
    let url = provider.base_url();
    let args = ["exec", "--json", "-m", "m", "--base-url", &url, "hi"];
    let child = world.command(&args).spawn().unwrap();
    provider.wait_for_requests(1).await;
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(signal.unwrap().success());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output());
    let ran = Ran::of(&output.await.unwrap().unwrap());
    assert_eq!(ran.code, 130, "{ran:?}");
    let last = ran.out.lines().last().unwrap();
    assert!(last.contains("\"type\":\"cancelled\""), "{last}");
}
