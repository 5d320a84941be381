//! `#[tool]` on functions.

use std::sync::Arc;
use std::time::Duration;

use provost_core::usage::limits::{ARGUMENT_RETRIES_DEFAULT, TOOL_TIMEOUT_DEFAULT};
use provost_macros::tool;
use provost_tool::{
    Dep, DependencyType, Deps, Guard, GuardDecision, RequiresApproval, Tool, ToolContext,
    ToolError, ToolOutput,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support;

struct Stations {
    name: String,
}

struct Clock(u32);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

#[derive(Serialize)]
struct Weather {
    city: String,
    days: u8,
    unit: Option<Unit>,
    source: String,
}

/// Current weather for a city.
///
/// Asks the stations.
#[tool(
    crate = "crate::facade",
    timeout = "20s",
    retries = 2,
    approval = "always",
    exclusive,
    name = "weather"
)]
async fn get_weather(
    cx: &ToolContext,
    stations: Dep<Stations>,
    /// City name
    city: String,
    /// Days ahead
    #[tool(default = 1)]
    days: u8,
    clock: Dep<Clock>,
    /// Unit, celsius by default
    #[tool(default)]
    unit: Option<Unit>,
) -> Result<Weather, ToolError> {
    cx.progress(format!("asking at {}", clock.0));
    if city.is_empty() {
        return Err(ToolError::retry("name a city"));
    }
    Ok(Weather { city, days, unit, source: stations.name.clone() })
}

fn deps() -> Deps {
    let stations = Stations { name: "north".to_owned() };
    Deps::default().with(stations).with(Clock(7))
}

#[test]
fn the_schema_has_the_arguments_in_order_and_nothing_else() {
    let def = get_weather.spec().def();
    assert_eq!(def.name, "weather");
    assert_eq!(def.description, "Current weather for a city.\n\nAsks the stations.");
    let schema = serde_json::to_string_pretty(&def.input_schema).unwrap();
    assert_eq!(schema, include_str!("macro_function/weather.json").trim());
}

#[test]
fn options_reach_the_spec() {
    let spec = get_weather.spec();
    assert_eq!(spec.timeout, Duration::from_secs(20));
    assert_eq!(spec.retries, 2);
    assert!(spec.exclusive);
    assert!(matches!(spec.approval, RequiresApproval::Always));
    assert_eq!(spec.deps, [DependencyType::of::<Stations>(), DependencyType::of::<Clock>()]);
}

#[tokio::test]
async fn a_call_gets_its_arguments_context_and_deps() {
    let tool = get_weather.tool();
    let call = support::call(&tool, &json!({"city": "Oslo", "unit": "celsius"}));
    let approver = support::FakeApprover::approving();
    let cx = support::cx_with(Arc::clone(&approver), deps());
    assert!(matches!(Guard::default().check(&tool, &call, false), GuardDecision::Ask(_)));
    let GuardDecision::Allow(permit) = Guard::default().check(&tool, &call, true) else {
        panic!("approved but not allowed");
    };
    let output = Guard::default().run(permit, cx).await.unwrap();
    assert_eq!(output.to_text(), r#"{"city":"Oslo","days":1,"unit":"celsius","source":"north"}"#);
    assert_eq!(*approver.progress.lock().unwrap(), ["asking at 7"]);
}

#[tokio::test]
async fn the_function_itself_can_be_called() {
    let deps = deps();
    let (stations, clock) = (deps.get().unwrap(), deps.get().unwrap());
    let weather = get_weather::call(&support::cx(), stations, "Rome".into(), 3, clock, None).await;
    assert_eq!(weather.unwrap().days, 3);
}

/// Names a city.
#[tool(crate = "crate::facade")]
fn plain(#[tool(default = "Oslo")] mut city: String) -> String {
    city.push('!');
    city
}

#[tokio::test]
async fn defaults_without_options_and_a_sync_function() {
    let spec = plain.spec();
    assert_eq!(spec.name(), "plain");
    assert_eq!(spec.timeout, TOOL_TIMEOUT_DEFAULT);
    assert_eq!(spec.retries, ARGUMENT_RETRIES_DEFAULT);
    assert!(!spec.exclusive && spec.deps.is_empty());
    assert!(matches!(spec.approval, RequiresApproval::Never));
    let output = support::run(&plain.tool(), support::cx(), json!({})).await;
    assert_eq!(output.unwrap().to_text(), "Oslo!");
}

#[test]
fn unknown_missing_and_wrong_arguments_are_refused_with_their_place() {
    let tool = get_weather.tool();
    let check = |arguments: Value| {
        let call = support::call(&tool, &arguments);
        support::verdict(Guard::default().check(&tool, &call, true))
    };
    let unknown = check(json!({"city": "Oslo", "town": 1}));
    assert!(unknown.contains("Additional properties") && unknown.contains("town"), "{unknown}");
    let missing = check(json!({}));
    assert!(missing.contains("\"city\" is a required"), "{missing}");
    let wrong = check(json!({"city": "Oslo", "days": "two"}));
    assert!(wrong.starts_with("invalid") && wrong.contains("days:"), "{wrong}");
}

/// Waits for an order number that the schema cannot check.
#[tool(crate = "crate::facade")]
async fn order(#[schemars(with = "String")] number: u32) -> u32 {
    number
}

#[tokio::test]
async fn what_only_the_type_refuses_goes_back_to_the_model_with_its_place() {
    let error = support::run(&order.tool(), support::cx(), json!({"number": "x"})).await;
    match error.unwrap_err() {
        ToolError::Retry(text) => assert!(text.starts_with("argument `number`: "), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_dep_is_named() {
    let tool = get_weather.tool();
    let call = support::call(&tool, &json!({"city": "Oslo"}));
    let GuardDecision::Allow(permit) = Guard::default().check(&tool, &call, true) else {
        panic!("approved but not allowed");
    };
    let error = Guard::default().run(permit, support::cx()).await.unwrap_err();
    assert!(error.to_string().contains("Stations"), "{error}");
}

fn large(arguments: &Value) -> bool {
    arguments["amount"].as_u64() > Some(100)
}

/// Pays.
#[tool(crate = "crate::facade", approval = large)]
async fn pay(amount: u64) -> u64 {
    amount
}

#[tool(
    crate = "crate::facade",
    description = concat!("Pays", " back."),
    approval = |arguments| arguments["amount"].is_null(),
    timeout = "500ms"
)]
async fn refund(amount: Option<u64>) -> Option<u64> {
    amount
}

#[test]
fn approval_by_a_function_or_a_closure() {
    let check = |tool: Arc<dyn Tool>, arguments: Value| {
        let call = support::call(&tool, &arguments);
        support::verdict(Guard::default().check(&tool, &call, false))
    };
    assert_eq!(check(pay.tool(), json!({"amount": 101})), "ask");
    assert_eq!(check(pay.tool(), json!({"amount": 100})), r#"allow {"amount":100}"#);
    assert_eq!(check(refund.tool(), json!({})), "ask");
    assert_eq!(refund.spec().def().description, "Pays back.");
    assert_eq!(refund.spec().timeout, Duration::from_millis(500));
}

/// Tells the context, taken by value, and needs no arguments.
#[tool(crate = "crate::facade", approval = "never", timeout = "2m")]
async fn whoami(cx: ToolContext) -> ToolOutput {
    ToolOutput::text(cx.agent()).with_metadata(cx.call_id())
}

#[tokio::test]
async fn no_arguments_at_all() {
    assert_eq!(
        whoami.spec().def().input_schema.to_string(),
        r#"{"type":"object","additionalProperties":false,"properties":{}}"#
    );
    let output = support::run(&whoami.tool(), support::cx(), json!({})).await;
    let output = output.unwrap();
    assert_eq!(output.to_text(), "lead/clerk");
    assert_eq!(output.metadata, Some(json!("call_1")));
}

type Parsed = Result<u32, std::num::ParseIntError>;

/// Parses, and returns an alias of a result with an error of its own.
#[tool(crate = "crate::facade")]
fn parse(text: String) -> Parsed {
    text.parse()
}

#[tokio::test]
async fn a_result_under_any_name_keeps_its_error() {
    let good = support::run(&parse.tool(), support::cx(), json!({"text": "4"})).await;
    assert_eq!(good.unwrap().to_text(), "4");
    let bad = support::run(&parse.tool(), support::cx(), json!({"text": "x"})).await;
    assert_eq!(bad.unwrap_err(), ToolError::failed("invalid digit found in string"));
}

/// Does nothing that could be told.
#[tool(crate = "crate::facade")]
async fn silent(r#type: String) {
    drop(r#type);
}

#[tokio::test]
async fn no_result_and_a_keyword_as_a_name() {
    let output = support::run(&silent.tool(), support::cx(), json!({"type": "x"})).await;
    assert_eq!(output.unwrap().to_text(), "done");
}

#[tokio::test]
async fn a_tool_inside_a_function_sees_what_is_around_it() {
    #[derive(Deserialize, JsonSchema)]
    struct Local {
        text: String,
    }

    /// Echoes.
    #[tool(crate = "crate::facade")]
    async fn echo(local: Local) -> String {
        local.text
    }

    let output = support::run(&echo.tool(), support::cx(), json!({"local": {"text": "a"}})).await;
    assert_eq!(output.unwrap().to_text(), "a");
}
