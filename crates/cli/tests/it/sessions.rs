//! Conversations that are kept: by name, in several terminals, with what is said in the middle of a turn.

use provost_testkit::{FakeProvider, Reply};

use crate::World;
use crate::support::{Stage, ended, save_milk, slow};

#[tokio::test(flavor = "multi_thread")]
async fn two_terminals_share_a_database_and_a_session() {
    let provider = FakeProvider::answering(|request| {
        let said =
            request.json()["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        Reply::text(format!("echo-{}", said.as_str().unwrap()))
    })
    .await;
    let url = provider.base_url();
    let stage = Stage { world: World::new(), provider, url };
    let mut other = stage.chat(&["--session", "other"]);
    let (mut one, mut two) = (stage.chat(&[]), stage.chat(&[]));
    for terminal in [&mut one, &mut two, &mut other] {
        terminal.expect("/help");
    }
    one.press("alpha\r");
    other.press("omega\r");
    one.expect("echo-alpha");
    other.expect("echo-omega");
    // The second terminal of the session sees what was said in the first one.
    two.expect("echo-alpha");
    two.press("beta\r");
    two.expect("echo-beta");
    one.expect("echo-beta");
    one.press("/save one.md\r");
    one.expect("one.md");
    let saved = std::fs::read_to_string(stage.world.path().join("one.md")).unwrap();
    assert!(saved.contains("beta") && !saved.contains("omega"), "{saved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_turn_did_not_read_is_in_the_box_and_is_not_answered() {
    let stage = Stage::new([Reply::text("first").hang_midway()]).await;
    let mut chat = stage.chat(&[]);
    chat.expect("/help");
    chat.press("one\r");
    chat.expect("first");
    chat.press("two\r");
    chat.expect("two");
    chat.press("\x03");
    chat.expect("cancelled");
    chat.expect("two");
    // Empties the box, then leaves.
    chat.press("\x03\x04");
    assert!(chat.child.wait().unwrap().success());
    let ran = stage.run(&["exec", "--resume", "--session", "default"]).await;
    assert_eq!(ran.code, 130, "{ran:?}");
    assert_eq!(stage.provider.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g28_what_is_said_during_a_turn_is_answered_in_it_or_after_it() {
    let stage = Stage::new([slow(20), Reply::text("second-answer")]).await;
    let mut chat = stage.chat(&[]);
    chat.expect("/help");
    chat.press("one\r");
    chat.expect("piece3");
    chat.press("and-this\r");
    chat.expect("second-answer");
    let asked = stage.asked();
    assert_eq!(asked.len(), 2);
    assert!(!asked[0].to_string().contains("and-this"), "{asked:?}");
    assert!(asked[1].to_string().contains("piece19"), "{asked:?}");
    let last = asked[1].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("and-this"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_at_a_question_is_not_lost() {
    let stage = Stage::new([save_milk(), Reply::text("answer-1"), Reply::text("answer-2")]).await;
    let mut chat = stage.chat(&[]);
    chat.expect("/help");
    chat.press("save-it\r");
    chat.expect("save_note?");
    chat.press("and-this\r");
    chat.expect("and-this");
    chat.expect("always");
    chat.press("y");
    chat.expect("answer-1");
    chat.press("\x04");
    chat.child.wait().unwrap();
    // It was heard, or it waits and is answered as soon as the session is opened.
    if !stage.asked()[1].to_string().contains("and-this") {
        stage.chat(&[]).expect("answer-2");
        assert!(stage.asked()[2].to_string().contains("and-this"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleared_session_begins_anew_and_stays_so() {
    let stage = Stage::new([Reply::text("first-answer"), Reply::text("second-answer")]).await;
    let mut chat = stage.chat(&[]);
    chat.expect("/help");
    chat.press("first-question\r");
    chat.expect("first-answer");
    chat.expect("/help");
    chat.press("/clear\r");
    chat.expect("conversation");
    chat.press("second-question\r");
    chat.expect("second-answer");
    chat.press("\x04");
    assert!(chat.child.wait().unwrap().success());
    let asked = stage.asked().pop().unwrap().to_string();
    assert!(!asked.contains("first"), "{asked}");
    let mut chat = stage.chat(&[]);
    chat.expect("second-answer");
    chat.press("/save all.md\r");
    chat.expect("all.md");
    let saved = std::fs::read_to_string(stage.world.path().join("all.md")).unwrap();
    assert!(!saved.contains("first"), "{saved}");
}

#[test]
fn there_is_nothing_to_resume_before_anything_was_said() {
    let world = World::new();
    let cases: [(&[&str], i32, &str); 3] = [
        (&["exec", "--resume"], 5, "there is no run yet"),
        (&["exec", "--resume", "--session", "x"], 5, "session `x` has no runs"),
        (&["exec", "--resume", "hi"], 2, "--resume takes no prompt"),
    ];
    for (args, code, error) in cases {
        let ran = world.run(args);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains(error), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_never_stored() {
    let stage = Stage::new([Reply::text("Hello!")]).await;
    let mut command = stage.world.command(&["exec", "hi"]);
    command.env("OPENAI_API_KEY", "sk-very-secret").env("OPENAI_BASE_URL", &stage.url);
    assert_eq!(ended(command.spawn().unwrap()).await.code, 0);
    let dir = stage.world.path().join(".local/share/provost");
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let secret = b"sk-very-secret";
            assert!(!bytes.windows(secret.len()).any(|piece| piece == secret), "{path:?}");
        }
    }
}
