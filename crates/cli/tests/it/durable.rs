//! Programs that die, are closed or are told to end in the middle of a turn, and those that take the turn up.

use provost_testkit::Reply;
use serde_json::json;

use crate::support::{Stage, ended, save_milk, slow};
use crate::terminal::Terminal;
use crate::{Ran, World, signal};

#[tokio::test(flavor = "multi_thread")]
async fn g18_a_run_that_is_killed_in_the_middle_of_an_answer_is_taken_up() {
    let stage = Stage::new([
        save_milk(),
        Reply::text("It is sa").hang_midway(),
        Reply::text("It is saved."),
    ])
    .await;
    let mut child = stage.start(&["exec", "--yes", "--session", "s", "save it"]);
    stage.provider.wait_for_requests(2).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let note = stage.world.path().join("notes/milk.txt");
    let written = std::fs::metadata(&note).unwrap().modified().unwrap();

    let ran = stage.run(&["exec", "--resume", "--yes", "--session", "s"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "It is saved.\n"), "{ran:?}");
    // What was committed was not asked again; the answer that was cut off was asked twice.
    let asked = stage.asked();
    assert_eq!(asked.len(), 3);
    assert!(!asked[0].to_string().contains("saved notes"), "{asked:?}");
    assert!(asked[1].to_string().contains("notes/milk.txt"), "{asked:?}");
    assert_eq!(asked[1], asked[2]);
    assert_eq!(std::fs::metadata(&note).unwrap().modified().unwrap(), written);

    // The answer stays, and nobody is asked for it again.
    let again = stage.run(&["exec", "--resume", "--session", "s"]).await;
    assert_eq!((again.code, again.out.as_str()), (0, "It is saved.\n"), "{again:?}");
    assert_eq!(stage.provider.request_count(), 3);
    let check = stage.world.run(&["db", "check"]);
    assert_eq!(check.code, 0, "{check:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g19_an_answer_that_was_committed_and_not_shown_is_shown_later() {
    let stage = Stage::new([Reply::text("Hello!")]).await;
    let args = stage.args(&["exec", "hi"]);
    let mut command = stage.world.command(&args);
    command.env("PROVOST_FAILPOINTS", "attempt.settled=kill");
    let killed = ended(command.spawn().unwrap()).await;
    assert_eq!(killed.code, -1, "{killed:?}");
    // Without a name it is the last run of all.
    let ran = stage.run(&["exec", "--resume", "--json"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let last = ran.out.lines().last().unwrap();
    assert!(last.contains("\"type\":\"finished\"") && last.contains("Hello!"), "{last}");
    assert_eq!(stage.provider.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_killed_in_the_middle_of_a_turn_shows_the_answer_when_it_is_opened_again() {
    let stage = Stage::new([
        Reply::call("c1", "calculator", &json!({ "expression": "6*7" })),
        Reply::text("cut-off").hang_midway(),
        Reply::text("It-is-42."),
    ])
    .await;
    let mut chat = stage.chat(&[]);
    chat.expect("default");
    chat.press("what-is-6*7?\r");
    chat.expect("cut-off");
    chat.kill();

    let mut chat = stage.chat(&[]);
    chat.expect("what-is-6*7?");
    chat.expect("calculator");
    chat.expect("It-is-42.");
    chat.press("\x04");
    assert!(chat.child.wait().unwrap().success());
    assert_eq!(stage.provider.request_count(), 3);
    let asked = stage.asked();
    assert_eq!(asked[1], asked[2]);

    // Once more from the database, and nobody is asked.
    let mut chat = stage.chat(&[]);
    chat.expect("what-is-6*7?");
    chat.expect("It-is-42.");
    assert_eq!(stage.provider.request_count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_on_when_its_terminal_is_closed_and_is_computed_once() {
    let stage = Stage::new([slow(40)]).await;
    let mut chat = stage.chat(&[]);
    chat.expect("default");
    chat.press("tell-me\r");
    chat.expect("piece3");
    chat.hang_up();
    assert_eq!(chat.child.wait().unwrap().code(), Some(130));

    let mut chat = stage.chat(&[]);
    chat.expect("tell-me");
    chat.expect("piece39");
    assert_eq!(stage.provider.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_opened_while_a_closed_one_still_works_shows_the_same_answer() {
    let stage = Stage::new([slow(60)]).await;
    let mut closed = stage.chat(&[]);
    closed.expect("default");
    closed.press("tell-me\r");
    closed.expect("piece3");
    closed.hang_up();
    let mut chat = stage.chat(&[]);
    chat.expect("tell-me");
    chat.expect("piece59");
    assert_eq!(stage.provider.request_count(), 1);
    assert_eq!(closed.child.wait().unwrap().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_when_its_terminal_is_closed_and_leaves_its_questions_open() {
    let stage = Stage::new([slow(30), save_milk(), Reply::text("All-done.")]).await;
    let args = stage.args(&["exec", "--session", "s", "tell-me"]);
    let mut run = Terminal::start(&stage.world, &args);
    run.expect("piece3");
    run.hang_up();
    assert_eq!(run.child.wait().unwrap().code(), Some(0));
    let ran = stage.run(&["exec", "--resume", "--session", "s"]).await;
    assert!(ran.out.contains("piece29"), "{ran:?}");
    assert_eq!(stage.provider.request_count(), 1);

    let args = stage.args(&["exec", "--session", "s", "save-it"]);
    let mut run = Terminal::start(&stage.world, &args);
    run.expect("[y/N]");
    run.hang_up();
    assert_eq!(run.child.wait().unwrap().code(), Some(130));
    // Nobody said no: it is asked again.
    let refused = stage.run(&["exec", "--session", "s", "what else?"]).await;
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.err.contains("help: open it with `provost chat"), "{refused:?}");
    let ran = stage.run(&["exec", "--resume", "--yes", "--session", "s"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "All-done.\n"), "{ran:?}");
    assert_eq!(stage.provider.request_count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_told_to_end_gives_its_work_back() {
    let stage = Stage::new([Reply::text("Hel").hang_midway(), Reply::text("Hello!")]).await;
    let child = stage.start(&["exec", "--session", "s", "hi"]);
    stage.provider.wait_for_requests(1).await;
    signal(&child, "-TERM");
    let ran = ended(child).await;
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.err.contains("`provost exec --resume --session s` continues"), "{ran:?}");

    // Whoever asks something else in the session gets that answer only; the other one is there, too.
    stage.provider.reply(Reply::text("Bye!"));
    let ran = stage.run(&["exec", "--session", "s", "bye"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Bye!\n"), "{ran:?}");
    let asked = stage.asked().pop().unwrap().to_string();
    assert!(asked.contains("Hello!"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g31_a_question_outlives_the_terminal_that_asked_it() {
    let stage = Stage::new([save_milk(), Reply::text("All-done.")]).await;
    let mut chat = stage.chat(&["--session", "notes"]);
    chat.expect("notes");
    chat.press("save-it\r");
    chat.expect("save_note?");
    chat.kill();

    let mut chat = stage.chat(&["--session", "notes"]);
    chat.expect("save-it");
    chat.expect("save_note?");
    chat.expect("always");
    chat.press("y");
    chat.expect("All-done.");
    let note = std::fs::read_to_string(stage.world.path().join("notes/milk.txt"));
    assert_eq!(note.unwrap(), "buy milk");
    assert_eq!(stage.provider.request_count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_stopped_stays_stopped() {
    let stage = Stage::new([Reply::text("Hel").hang_midway()]).await;
    let child = stage.start(&["exec", "hi"]);
    stage.provider.wait_for_requests(1).await;
    signal(&child, "-INT");
    assert_eq!(ended(child).await.code, 130);
    let ran = stage.run(&["exec", "--resume"]).await;
    assert_eq!(ran.code, 130, "{ran:?}");
    assert_eq!(stage.provider.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_needs_a_key_waits_for_one() {
    let stage = Stage::new([Reply::text("Hel").hang_midway(), Reply::text("Hello!")]).await;
    let with_key = |args: &[&str]| {
        let mut command = stage.world.command(args);
        command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", &stage.url);
        command.spawn().unwrap()
    };
    let mut child = with_key(&["exec", "--session", "s", "hi"]);
    stage.provider.wait_for_requests(1).await;
    child.kill().unwrap();
    child.wait().unwrap();
    for args in
        [&["exec", "--resume"][..], &["exec", "--session", "s", "x"], &["chat", "--session", "s"]]
    {
        let ran = stage.world.run(args);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.err.contains("export OPENAI_API_KEY"), "{ran:?}");
    }
    let ran = ended(with_key(&["exec", "--resume", "-m", "demo"])).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello!\n"), "{ran:?}");
}

#[test]
fn a_run_that_is_killed_at_any_place_is_taken_up_and_its_note_is_there_once() {
    let args = ["exec", "--yes", "save a note: buy milk"];
    let traced = World::new();
    let trace = traced.path().join("trace");
    let output = traced.command(&args).env("PROVOST_FAILPOINTS_TRACE", &trace).output();
    assert_eq!(Ran::of(&output.unwrap()).code, 0);
    let places = std::fs::read_to_string(trace).unwrap();
    assert!(places.lines().count() > 10, "{places}");
    for place in places.lines() {
        let world = World::new();
        let rule = format!("{place}=kill");
        let output = world.command(&args).env("PROVOST_FAILPOINTS", rule).output();
        let killed = Ran::of(&output.unwrap());
        // Some places are reached only if time allows.
        if killed.code == 0 {
            continue;
        }
        assert_eq!(killed.code, -1, "{place} {killed:?}");
        let ran = world.run(&["exec", "--yes", "--resume"]);
        let note = std::fs::read_to_string(world.path().join("notes/buy-milk.txt"));
        // Before it was accepted there is nothing to go on with, and nothing was done.
        if ran.code == 5 {
            assert!(killed.out.is_empty() && note.is_err(), "{place} {ran:?}");
        } else {
            assert_eq!(ran.code, 0, "{place} {ran:?}");
            assert!(ran.out.contains("The note was saved"), "{place} {ran:?}");
            assert_eq!(note.unwrap(), "buy milk", "{place}");
        }
        let check = world.run(&["db", "check"]);
        assert_eq!(check.code, 0, "{place} {check:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_the_files_of_its_workspace_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("milk.txt"), "two litres").unwrap();
    let replies = [
        Reply::call("c1", "read", &json!({ "path": "milk.txt" })),
        Reply::call("c2", "read", &json!({ "path": "../../etc/passwd" })),
        Reply::call("c3", "write", &json!({ "path": "milk.txt", "content": "none" })),
        Reply::text("Read."),
    ];
    let stage = Stage::new(replies).await;
    let ran = stage
        .run(&["exec", "read", "--yes", "--workspace", &dir.path().display().to_string()])
        .await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let said = stage.asked().last().unwrap().to_string();
    assert!(said.contains("two litres") && !said.contains("root:"), "{said}");
    // Without `--write` there is no such tool.
    let kept = std::fs::read_to_string(dir.path().join("milk.txt")).unwrap();
    assert_eq!(kept, "two litres");
    let missing = stage.run(&["exec", "hi", "--workspace", "/nowhere/at/all"]).await;
    assert!(missing.code != 0 && missing.err.contains("--workspace"), "{missing:?}");
}
