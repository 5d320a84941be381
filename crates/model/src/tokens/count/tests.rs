use provost_core::{Image, ProviderData, Reasoning, Timestamp, ToolCall, ToolResult};
use serde_json::json;

use super::*;

fn of(part: ContentPart) -> u64 {
    let message = Message::new(Role::Assistant, vec![part], Timestamp::default());
    count_message(&HeuristicCounter, &message)
}

#[test]
fn s222_system_tokens_exceed_the_overhead_and_are_none_without_a_prompt() {
    assert_eq!(count_system(&HeuristicCounter, ""), 0);
    assert!(count_system(&HeuristicCounter, "Be brief.") > SYSTEM_TOKENS);
    let count = count_request(&HeuristicCounter, None, &[], &[]);
    assert_eq!((count, count.total()), (TokenCount::default(), 0));
}

#[test]
fn s222_each_kind_of_content_adds_tokens() {
    let empty =
        count_message(&HeuristicCounter, &Message::new(Role::User, vec![], Timestamp::default()));
    assert_eq!(empty, MESSAGE_TOKENS);
    let call = ToolCall::new("c1", "get_weather", &json!({"city": "Paris"}));
    assert!(of(ContentPart::text("hello")) > empty);
    assert!(of(ContentPart::ToolCall(call.clone())) > empty + TOOL_CALL_TOKENS);
    assert!(
        of(ContentPart::ToolResult(ToolResult::text(&call, "sunny"))) > empty + TOOL_RESULT_TOKENS
    );
    assert_eq!(
        of(ContentPart::Image(Image::url("https://example.test/a.png"))),
        empty + IMAGE_TOKENS
    );
    let reasoning = |text: &str, data: &str| {
        ContentPart::Reasoning(Reasoning {
            text: text.into(),
            opaque: Some(ProviderData {
                provider: "p".into(),
                kind: "k".into(),
                data: data.into(),
            }),
        })
    };
    assert!(of(reasoning("hm, let me think", "")) > empty);
    assert!(of(reasoning("", &"d".repeat(400))) > empty);
    assert!(
        of(ContentPart::Document(Document::bytes("a", "text/plain", "x".repeat(400)))) > empty + 90
    );
    assert_eq!(of(ContentPart::Unknown(json!({"type": "x"}))), empty);
    let tool = Arc::new(ToolDefinition {
        name: "get_weather".into(),
        description: "The weather of a city.".into(),
        input_schema: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
    });
    assert!(count_tools(&HeuristicCounter, &[Arc::clone(&tool)]) > TOOL_TOKENS);
    assert_eq!(
        count_tools(&HeuristicCounter, &[tool.clone(), tool.clone()]),
        2 * count_tools(&HeuristicCounter, &[tool])
    );
}

#[test]
fn s222_system_messages_do_not_count_and_the_total_is_the_sum() {
    let mut system = Message::user("You are a pirate.");
    system.role = Role::System;
    assert_eq!(count_message(&HeuristicCounter, &system), 0);
    let messages = [system, Message::user("hi"), Message::assistant("ahoy")].map(Arc::new);
    let count = count_request(&HeuristicCounter, Some("Be brief."), &messages, &[]);
    assert_eq!(
        count.messages,
        count_message(&HeuristicCounter, &messages[1])
            + count_message(&HeuristicCounter, &messages[2])
    );
    assert_eq!(count.total(), count.system + count.messages + count.tools);
    assert_eq!(
        count,
        count_request(&HeuristicCounter, Some("Be brief."), &messages, &[]),
        "deterministic"
    );
}

#[test]
fn estimates_are_near_what_vocabularies_give() {
    let english = "The committee will meet on Tuesday to discuss the proposal, and a decision is expected \
                   before the end of the month unless further questions are raised.";
    let per_token = english.len() as f64 / HeuristicCounter.count(english) as f64;
    assert!((3.3..=4.3).contains(&per_token), "{per_token}");
    let chinese = "委员会将于星期二开会讨论该提案";
    let count = HeuristicCounter.count(chinese);
    assert_eq!(count, chinese.chars().count() as u64);
    assert_eq!(HeuristicCounter.count(""), 0);
    assert!(HeuristicCounter.count(&" ".repeat(80)) <= 4, "indentation is cheap");
    assert!(HeuristicCounter.count("👋🏽") >= 3);
}

#[test]
fn calibration_follows_reports_smoothly_and_within_bounds() {
    let mut calibration = TokenCalibration::default();
    assert_eq!(calibration.correct(1000), 1000);
    calibration.observe(10, 900);
    calibration.observe(1000, 0);
    assert_eq!(calibration, TokenCalibration::default(), "noise teaches nothing");
    calibration.observe(1000, 1200);
    assert_eq!(calibration.correct(1000), 1200, "the first report counts");
    calibration.observe(1000, 1400);
    assert_eq!(calibration.correct(1000), 1300, "later ones move it half the way");
    for _ in 0..20 {
        calibration.observe(1000, u64::MAX);
    }
    assert!(calibration.correct(1000) <= 3000);
    for _ in 0..20 {
        calibration.observe(1000, 1);
    }
    assert!(calibration.correct(1000) >= 500);
    assert_eq!(TokenCalibration::default().correct(0), 0);
    let json = serde_json::to_string(&calibration).unwrap();
    assert_eq!(serde_json::from_str::<TokenCalibration>(&json).unwrap(), calibration);
}
