use provost_core::{Image, ProviderData, Reasoning, Timestamp, ToolCall, ToolResult};
use serde_json::json;

use super::*;

fn of(part: ContentPart) -> u64 {
    let message = Message::new(Role::Assistant, vec![part], Timestamp::default());
    count_message(&Estimate, &message)
}

#[test]
fn s222_system_tokens_exceed_the_overhead_and_are_none_without_a_prompt() {
    assert_eq!(count_system(&Estimate, ""), 0);
    assert!(count_system(&Estimate, "Be brief.") > SYSTEM_TOKENS);
    let count = count_request(&Estimate, None, &[], &[]);
    assert_eq!((count, count.total()), (TokenCount::default(), 0));
}

#[test]
fn s222_each_kind_of_content_adds_tokens() {
    let empty = count_message(&Estimate, &Message::new(Role::User, vec![], Timestamp::default()));
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
    assert!(count_tools(&Estimate, &[Arc::clone(&tool)]) > TOOL_TOKENS);
    assert_eq!(
        count_tools(&Estimate, &[tool.clone(), tool.clone()]),
        2 * count_tools(&Estimate, &[tool])
    );
}

#[test]
fn s222_system_messages_do_not_count_and_the_total_is_the_sum() {
    let mut system = Message::user("You are a pirate.");
    system.role = Role::System;
    assert_eq!(count_message(&Estimate, &system), 0);
    let messages = [system, Message::user("hi"), Message::assistant("ahoy")].map(Arc::new);
    let count = count_request(&Estimate, Some("Be brief."), &messages, &[]);
    assert_eq!(
        count.messages,
        count_message(&Estimate, &messages[1]) + count_message(&Estimate, &messages[2])
    );
    assert_eq!(count.total(), count.system + count.messages + count.tools);
    assert_eq!(count, count_request(&Estimate, Some("Be brief."), &messages, &[]), "deterministic");
}

#[test]
fn estimates_are_near_what_vocabularies_give() {
    let english = "The committee will meet on Tuesday to discuss the proposal, and a decision is expected \
                   before the end of the month unless further questions are raised.";
    let per_token = english.len() as f64 / Estimate.count(english) as f64;
    assert!((3.3..=4.3).contains(&per_token), "{per_token}");
    let chinese = "委员会将于星期二开会讨论该提案";
    let count = Estimate.count(chinese);
    assert_eq!(count, chinese.chars().count() as u64);
    assert_eq!(Estimate.count(""), 0);
    assert!(Estimate.count(&" ".repeat(80)) <= 4, "indentation is cheap");
    assert!(Estimate.count("👋🏽") >= 3);
}

#[test]
fn calibration_follows_reports_smoothly_and_within_bounds() {
    let mut calibration = Calibration::default();
    assert_eq!(calibration.correct(1000), 1000);
    calibration.observe(10, 900);
    calibration.observe(1000, 0);
    assert_eq!(calibration, Calibration::default(), "noise teaches nothing");
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
    assert_eq!(Calibration::default().correct(0), 0);
    let json = serde_json::to_string(&calibration).unwrap();
    assert_eq!(serde_json::from_str::<Calibration>(&json).unwrap(), calibration);
}
