//! `chat` and `run` with an agent of a server: the same as with one in this process.

use provost_testkit::Reply;
use serde_json::{Value, json};

use crate::remote::{Server, command, provider_env};
use crate::support::{Stage, ended, save_milk, slow};
use crate::terminal::Terminal;
use crate::{Ran, World, signal};

/// A server over the provider of a stage, and its token.
fn serve(stage: &Stage) -> (Server, String) {
    let server = Server::start(&stage.world, &["--listen", "127.0.0.1:0"], &provider_env(stage));
    let token = server.token.clone().unwrap();
    (server, token)
}

async fn on_server(stage: &Stage, server: &Server, token: &str, args: &[&str]) -> Ran {
    ended(command(&stage.world, &server.url, token, args).spawn().unwrap()).await
}

fn sums() -> [Reply; 2] {
    [
        Reply::call("c1", "calculator", &json!({ "expression": "6*7" })),
        Reply::text("It is 42, of course."),
    ]
}

/// The lines behind the first, which says who answers, without times.
fn told(ran: &Ran) -> Vec<String> {
    let lines = ran.err.lines().skip(1);
    lines.map(|line| line.split(" (").next().unwrap_or_default().to_owned()).collect()
}

/// The kinds of printed events, without those that only a reader gets who is there in time.
fn kinds(ran: &Ran) -> Vec<String> {
    let kinds = ran.out.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["type"].as_str().unwrap().to_owned()
    });
    let is_passing = |kind: &String| {
        kind.ends_with("_delta") || ["tool_started", "tool_call_started"].contains(&kind.as_str())
    };
    kinds.filter(|kind| !is_passing(kind)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_prints_what_a_run_in_this_process_prints() {
    let stage = Stage::new([sums(), sums(), sums(), sums()].into_iter().flatten()).await;
    let here = stage.run(&["exec", "what is 6*7?"]).await;
    let here_json = stage.run(&["exec", "--json", "what is 6*7?"]).await;
    let (server, token) = serve(&stage);
    let there = on_server(&stage, &server, &token, &["exec", "what is 6*7?"]).await;
    let there_json = on_server(&stage, &server, &token, &["exec", "--json", "what is 6*7?"]).await;
    assert_eq!((here.code, here.out.as_str()), (0, "It is 42, of course.\n"), "{here:?}");
    assert_eq!((there.code, &there.out, told(&there)), (0, &here.out, told(&here)), "{there:?}");
    assert!(told(&here).contains(&"  → calculator: 42".to_owned()), "{here:?}");
    let expected = [
        "run_started",
        "user_message",
        "turn_started",
        "tool_call_ready",
        "turn_finished",
        "tool_finished",
        "turn_started",
        "turn_finished",
        "finished",
    ];
    assert_eq!(kinds(&here_json), expected, "{here_json:?}");
    assert_eq!(kinds(&there_json), expected, "{there_json:?}");
    // Once more, from the log.
    let again = on_server(&stage, &server, &token, &["exec", "--resume"]).await;
    assert_eq!((again.code, &again.out), (0, &here.out), "{again:?}");
    assert_eq!(stage.provider.request_count(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_asks_at_the_terminal() {
    let stage = Stage::new([save_milk(), Reply::text("All-done.")]).await;
    let (server, token) = serve(&stage);
    let args = ["exec", "save it", "--server", &server.url, "--token", &token];
    let mut run = Terminal::start(&stage.world, &args);
    run.expect("allow save_note");
    run.expect("[y/N]");
    run.press("y\n");
    run.expect("All-done.");
    assert!(run.child.wait().unwrap().success());
    let note = stage.world.path().join(".local/share/provost/notes/milk.txt");
    assert_eq!(std::fs::read_to_string(note).unwrap(), "buy milk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_without_a_terminal_allows_nothing_unless_told_to() {
    let replies = || [save_milk(), Reply::text("All-done.")];
    let stage = Stage::new(replies().into_iter().chain(replies())).await;
    let (server, token) = serve(&stage);
    let note = stage.world.path().join(".local/share/provost/notes/milk.txt");
    let refused = on_server(&stage, &server, &token, &["exec", "save it"]).await;
    assert_eq!((refused.code, note.exists()), (0, false), "{refused:?}");
    assert!(refused.err.contains("save_note was denied"), "{refused:?}");
    let allowed = on_server(&stage, &server, &token, &["exec", "--yes", "save it"]).await;
    assert_eq!((allowed.code, note.exists()), (0, true), "{allowed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_on_a_server_asks_is_answered_and_is_found_again() {
    let question = json!({ "questions": [{ "question": "Which milk?" }] });
    let stage = Stage::new([
        save_milk(),
        Reply::text("first-answer"),
        Reply::call("c2", "ask_user", &question),
        Reply::text("second-answer"),
    ])
    .await;
    let (server, token) = serve(&stage);
    let args = ["chat", "--server", &server.url, "--token", &token];
    let mut chat = Terminal::start(&stage.world, &args);
    chat.expect("server");
    chat.press("save-it\r");
    chat.expect("save_note?");
    chat.expect("always");
    chat.press("y");
    chat.expect("first-answer");
    chat.press("buy-some\r");
    chat.expect("answer,");
    chat.press("the-white-one\r");
    chat.expect("second-answer");
    assert!(stage.asked()[3].to_string().contains("the-white-one"));
    chat.press("/model demo\r");
    chat.expect("update`");
    chat.press("\x04");
    assert!(chat.child.wait().unwrap().success());

    let mut chat = Terminal::start(&stage.world, &args);
    chat.expect("save-it");
    chat.expect("second-answer");
    chat.press("/clear\r");
    chat.expect("conversation");
    chat.press("\x04");
    chat.child.wait().unwrap();
    let list = on_server(&stage, &server, &token, &["session", "list", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&list.out).unwrap();
    let keys: Vec<_> = list["items"].as_array().unwrap().iter().map(|row| &row["key"]).collect();
    assert_eq!(keys, [&json!("default"), &Value::Null], "{list}");
    assert_eq!(stage.provider.request_count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_through_a_pipe_answers_each_line_on_a_server() {
    let stage = Stage::new([Reply::text("one"), Reply::text("two")]).await;
    let (server, token) = serve(&stage);
    let args = ["chat", "--server", &server.url, "--token", &token];
    let ran = tokio::task::block_in_place(|| stage.world.pipe(&args, "first\nsecond\n"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "one\ntwo\n"), "{ran:?}");
    assert!(stage.asked()[1].to_string().contains("first"), "one session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_continues_there_when_its_terminal_is_closed() {
    let stage = Stage::new([slow(50)]).await;
    let (server, token) = serve(&stage);
    let run = command(&stage.world, &server.url, &token, &["exec", "--session", "s", "tell me"]);
    let run = { run }.spawn().unwrap();
    stage.provider.wait_for_requests(1).await;
    signal(&run, "-HUP");
    let left = ended(run).await;
    assert_eq!(left.code, 130, "{left:?}");
    assert!(left.err.contains("continues on the server"), "{left:?}");
    let args = ["exec", "--resume", "--session", "s"];
    let whole = on_server(&stage, &server, &token, &args).await;
    assert!(whole.code == 0 && whole.out.contains("piece49"), "{whole:?}");
    assert_eq!(stage.provider.request_count(), 1);
}

#[test]
fn an_agent_of_a_server_is_not_described_here() {
    let world = World::new();
    let server = ["--server", "http://127.0.0.1:1"];
    for args in [&["exec", "-m", "demo", "hi"][..], &["chat", "--workspace", "."]] {
        let ran = world.run(&[args, &server].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("--agent"), "{ran:?}");
    }
    let ran = world.run(&["exec", "--agent", "helper", "hi"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--server"), "{ran:?}");
    let away = world.run(&[&["exec", "hi"][..], &server].concat());
    assert_eq!(away.code, 9, "{away:?}");
    assert_eq!(std::fs::read_dir(world.path()).unwrap().count(), 0);
}
