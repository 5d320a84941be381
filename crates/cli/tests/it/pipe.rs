//! The binary in a pipeline: what is piped in, and readers that go away.

use std::fs::File;
use std::process::Stdio;

use provost_core::StopReason;
use provost_testkit::{FakeProvider, Reply};

use crate::{Ran, World};

/// The question as the model gets it.
async fn asked(world: &World, args: &[&str], stdin: Stdio) -> String {
    let provider = FakeProvider::start().await;
    provider.reply(Reply::text("ok"));
    let url = provider.base_url();
    let mut command = world.command(&["exec", "-m", "m", "--base-url", &url]);
    command.args(args).stdin(stdin);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let ran = Ran::of(&output.unwrap().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let request = provider.requests().pop().unwrap().json();
    let messages = request["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_file_at_standard_input_follows_the_question() {
    let world = World::new();
    let notes = world.path().join("notes.txt");
    std::fs::write(&notes, "buy milk\n").unwrap();
    let file = Stdio::from(File::open(&notes).unwrap());
    let text = asked(&world, &["Summarise this"], file).await;
    assert_eq!(text, "Summarise this\n\nbuy milk\n");

    std::fs::write(&notes, "\n").unwrap();
    let file = Stdio::from(File::open(&notes).unwrap());
    assert_eq!(asked(&world, &["Summarise this"], file).await, "Summarise this");
    assert_eq!(asked(&world, &["Summarise this"], Stdio::null()).await, "Summarise this");
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_at_standard_input_follows_the_question_and_a_socket_does_not() {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    let world = World::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"a diff").unwrap();
    drop(writer);
    let text = asked(&world, &["Review"], Stdio::from(reader)).await;
    assert_eq!(text, "Review\n\na diff");

    // It stays open, as that of a service may: reading it would never end.
    let (socket, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
    other.write_all(b"never read").unwrap();
    let stdin = Stdio::from(OwnedFd::from(socket));
    assert_eq!(asked(&world, &["Review"], stdin).await, "Review");
    drop(other);
}

#[test]
fn what_is_piped_in_must_be_bounded_text() {
    let world = World::new();
    let large = vec![b'a'; 10 * 1024 * 1024 + 1];
    for args in [&["exec", "x"][..], &["exec"], &["chat"]] {
        for (stdin, what) in [(&b"caf\xe9\n"[..], "is not text"), (&large, "more than 10485760")] {
            let ran = world.pipe(args, stdin);
            assert_eq!(ran.code, 2, "{args:?} {}", ran.err);
            assert!(ran.err.contains(what), "{args:?} {}", ran.err);
            assert!(ran.err.contains("help: "), "{args:?} {}", ran.err);
            assert_eq!(ran.out, "");
        }
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_error_and_loses_no_turn() {
    let provider = FakeProvider::start().await;
    provider.replies([Reply::text("Hello!"), Reply::text("Again!")]);
    let world = World::new();
    let url = provider.base_url();
    let args = ["exec", "-m", "m", "--base-url", &url, "--session", "e"];
    let mut child = world.command(&args).arg("hello").spawn().unwrap();
    drop(child.stdout.take());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output());
    let ran = Ran::of(&output.await.unwrap().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.err.contains("error"), "{ran:?}");
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    let mut command = world.command(&args);
    command.arg("still there?");
    let output = tokio::task::spawn_blocking(move || command.output());
    let ran = Ran::of(&output.await.unwrap().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "Again!\n"), "{ran:?}");
    let request = provider.requests().pop().unwrap().json();
    assert!(request["messages"].to_string().contains("hello"), "{request}");
}

#[tokio::test]
async fn an_answer_that_is_refused_or_lacks_something_is_not_silent() {
    let provider = FakeProvider::start().await;
    let world = World::new();
    let url = provider.base_url();
    for (reply, code, said) in [
        (Reply::text("Hel").stop(StopReason::MaxTokens), 0, "warning: the answer is cut off"),
        (Reply::new(), 0, "warning: the model returned an empty answer"),
        (Reply::text("H").stop(StopReason::ContentFilter), 4, "error: the provider's content"),
        (Reply::text("No.").stop(StopReason::Refusal), 4, "error: the model declined to answer"),
    ] {
        for json in [&[][..], &["--json"]] {
            provider.reply(reply.clone());
            let mut command = world.command(&["exec", "-m", "m", "--base-url", &url, "hi"]);
            command.args(json);
            let output = tokio::task::spawn_blocking(move || command.output()).await;
            let ran = Ran::of(&output.unwrap().unwrap());
            assert_eq!(ran.code, code, "{ran:?}");
            assert!(ran.err.contains(said), "{ran:?}");
        }
    }
}
