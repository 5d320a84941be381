use std::sync::Arc;

use provost_core::{Message, ToolDefinition, Usage};
use serde_json::json;

use super::*;
use crate::{ChatModel, ModelInfo, ScriptedModel, ScriptedTurn, call, complete, fail, text};

fn request(words: &str) -> ChatRequest {
    let mut request = ChatRequest::new([Message::user(words)]);
    request.system = Some("Be brief.".into());
    request
}

fn recorder() -> RecordingModel<ScriptedModel> {
    let model = ScriptedModel::new()
        .turn(text("hello sk-abcdefghijklmnop1234").usage(Usage::new(3, 4)))
        .turn(call("look", json!({ "key": "swordfish" })))
        .turn(fail(ModelErrorClass::RateLimited, "slow down"));
    RecordingModel::new(model, CassetteRedaction::default().secret("swordfish".to_owned()))
}

async fn recorded() -> Cassette {
    let recorder = recorder();
    complete(&recorder, request("one")).await.unwrap();
    complete(&recorder, request("the word is swordfish")).await.unwrap();
    complete(&recorder, request("three")).await.unwrap_err();
    recorder.cassette()
}

fn player(cassette: Cassette) -> ReplayModel {
    let redaction = CassetteRedaction::default().secret("swordfish".to_owned());
    ReplayModel::new(cassette, ModelInfo::unknown("p", "m"), redaction)
}

#[tokio::test]
async fn what_was_recorded_is_played_back_without_secrets() {
    let cassette = recorded().await;
    let text = cassette.to_json().unwrap();
    assert!(!text.contains("swordfish") && !text.contains("abcdefghijklmnop"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.json");
    cassette.write(&file).unwrap();
    assert_eq!(Cassette::read(&file).unwrap(), cassette);
    let player = player(cassette);
    let first = complete(&player, request("one")).await.unwrap();
    assert_eq!(first.message.text(), "hello [redacted]");
    assert_eq!((first.usage, first.usage_known), (Usage::new(3, 4), true));
    let second = complete(&player, request("the word is swordfish")).await.unwrap();
    let calls: Vec<_> = second.message.tool_calls().collect();
    assert_eq!(
        (calls[0].name.as_str(), calls[0].arguments.as_str()),
        ("look", r#"{"key":"[redacted]"}"#)
    );
    let third = complete(&player, request("three")).await.unwrap_err();
    assert_eq!((third.class, third.message.as_str()), (ModelErrorClass::RateLimited, "slow down"));
    assert_eq!(player.remaining(), 0);
}

#[tokio::test]
async fn the_answer_is_the_same_as_the_first_time() {
    let model = || {
        ScriptedModel::new().turn(
            ScriptedTurn::default()
                .reasoning("hm")
                .text("let me see")
                .call("look", json!({ "at": 1 }))
                .call("look", json!({ "at": 2 })),
        )
    };
    let recorder = RecordingModel::new(model(), CassetteRedaction::default());
    let first = complete(&recorder, request("go")).await.unwrap();
    let player = player(recorder.cassette());
    assert_eq!(complete(&player, request("go")).await.unwrap(), first);
    assert_eq!(recorder.info(), model().info());
}

#[tokio::test]
async fn a_miss_fails_loudly_with_the_difference() {
    let player = player(recorded().await);
    let error = complete(&player, request("won")).await.unwrap_err();
    assert_eq!(error.class, ModelErrorClass::InvalidRequest);
    for part in
        ["call 1 of 3", "messages/0/parts/0", r#"recorded "one", requested "won""#, RECORD_HINT]
    {
        assert!(error.message.contains(part), "{part} in {error}");
    }
    let mut other = request("one");
    other.system = Some("Be long.".into());
    let error = complete(&player, other).await.unwrap_err();
    assert!(
        error.message.contains(r#"system: recorded "Be brief.", requested "Be long.""#),
        "{error}"
    );
    assert_eq!(player.remaining(), 3, "a miss uses nothing up");
    complete(&player, request("one")).await.unwrap();
    let error = complete(&player, request("one")).await.unwrap_err();
    assert!(error.message.contains("call 2 of 3"), "each is played once: {error}");
}

#[tokio::test]
async fn what_is_not_recorded_of_a_request_does_not_matter() {
    let mut cassette = Cassette::default();
    let messages = [Arc::new(Message::user("hi"))];
    cassette.push_answer(&messages, ModelResponse::text("hello"));
    let player = player(cassette);
    let mut asked = request("hi");
    let (name, description) = ("look".to_owned(), "Looks".to_owned());
    let input_schema = json!({ "type": "object" });
    asked.tools.push(Arc::new(ToolDefinition { name, description, input_schema }));
    assert_eq!(complete(&player, asked).await.unwrap().message.text(), "hello");
}

#[test]
fn files_that_are_no_cassette_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.json");
    let missing = Cassette::read(&file).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.to_string().contains(RECORD_HINT), "{missing}");
    for text in ["", "{}", r#"{"version":9,"calls":[]}"#] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(Cassette::read(&file).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
    }
    assert_eq!(CassetteMode::from_vars(|_| None), CassetteMode::Replay);
    assert_eq!(CassetteMode::from_vars(|_| Some("record".to_owned())), CassetteMode::Record);
}

#[test]
fn keys_are_told_by_their_form() {
    let redaction = CassetteRedaction::default().rule(|text| text.replace("Anna", "***"));
    for (text, without) in [
        ("key=sk-proj-abcdefgh12345678.", "key=[redacted]."),
        ("ghp_0123456789abcdef and AKIAIOSFODNN7EXAMPLE", "[redacted] and [redacted]"),
        (
            "sk-short, a sketch, risk-abcdefghijklmnopqrst",
            "sk-short, a sketch, risk-abcdefghijklmnopqrst",
        ),
        ("Anna says ö", "*** says ö"),
    ] {
        assert_eq!(redaction.redact_text(text), without);
    }
}
