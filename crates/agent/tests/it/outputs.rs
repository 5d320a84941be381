//! Typed answers, what a run may cost, and what it must have before it starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use provost_agent::instructions::PromptError;
use provost_agent::{Agent, Error, OnLimit, RunOutcome};
use provost_core::{Currency, EventKind, LimitKind, Limits, Money, Pricing, StopReason, Usage};
use provost_model::{
    ScriptedModel, ScriptedTurn, StructuredOutputSupport, ToolChoice, call, calls, text,
};
use provost_tool::{DependencyType, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::support::{Say, assert_well_formed, echo, ended, events, names};

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
struct Weather {
    city: String,
    degrees: i32,
}

fn oslo() -> Weather {
    Weather { city: "Oslo".to_owned(), degrees: -3 }
}

/// The three ways to a typed answer, by what the model can do.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Native,
    OutputTool,
    Prompted,
}

impl Way {
    /// A model of this kind that plays these turns. A model without any tools is asked in words.
    fn model(self, turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
        let model = turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn);
        model.with_info(|info| match self {
            Self::Native => info.native_output = StructuredOutputSupport::WithTools,
            Self::OutputTool => info.native_output = StructuredOutputSupport::None,
            Self::Prompted => {
                info.native_output = StructuredOutputSupport::None;
                info.tools = false;
            }
        })
    }

    fn answer(self, value: &serde_json::Value) -> ScriptedTurn {
        match self {
            Self::OutputTool => call("final_answer", value.clone()),
            Self::Native | Self::Prompted => text(value.to_string()),
        }
    }
}

const WAYS: [Way; 3] = [Way::Native, Way::OutputTool, Way::Prompted];

fn right() -> serde_json::Value {
    json!({ "city": "Oslo", "degrees": -3 })
}

fn wrong() -> serde_json::Value {
    json!({ "city": "Oslo", "degrees": "cold" })
}

fn typed(model: &ScriptedModel) -> provost_agent::AgentBuilder<Weather> {
    Agent::builder("tester", model.clone()).instructions("Be exact.").output::<Weather>()
}

#[tokio::test]
async fn a_typed_answer_is_asked_for_in_the_best_way_the_model_has() {
    for way in WAYS {
        let model = way.model([way.answer(&right())]);
        let result = typed(&model).build().unwrap().run("hi").await.unwrap();
        assert_eq!((result.output, result.stop), (oslo(), StopReason::EndTurn), "{way:?}");
        let request = model.request(0);
        let system = request.system.as_deref().unwrap();
        assert_eq!(request.output.is_some(), way == Way::Native);
        assert_eq!(
            request.tools.iter().any(|tool| tool.name == "final_answer"),
            way == Way::OutputTool
        );
        assert_eq!(request.tool_choice == ToolChoice::Required, way == Way::OutputTool);
        assert_eq!(system.contains("degrees"), way == Way::Prompted, "the schema is in the words");
        assert!(system.starts_with("Be exact."));
    }
}

#[tokio::test]
async fn s236_a_wrong_answer_goes_back_until_it_is_right() {
    for way in WAYS {
        for streaming in [false, true] {
            let model = way.model([way.answer(&wrong()), way.answer(&right())]);
            let agent = typed(&model).build().unwrap();
            let summary = ended(agent.run("hi"), streaming).await.unwrap();
            assert_eq!((summary.text, summary.turns), (right().to_string(), 2), "{way:?}");
            let messages = model.request(1).messages;
            assert_well_formed(&messages);
            let last = messages.last().unwrap();
            let results = last.tool_results().map(|result| result.to_text());
            let said: String = results.chain([last.text()]).collect();
            assert!(said.contains("degrees"), "the model is told what is wrong: {said}");
        }
        // After N tries it is an error with the raw text.
        let model = way.model([way.answer(&wrong()), way.answer(&wrong()), way.answer(&json!({}))]);
        let agent = typed(&model).output_retries(2).build().unwrap();
        match agent.run("hi").await {
            Err(Error::Output { problem, raw }) => {
                assert!(problem.contains("city"), "{problem}");
                assert_eq!(raw, "{}", "{way:?}");
            }
            other => panic!("{other:?}"),
        }
        model.assert_exhausted();
    }
}

#[tokio::test]
async fn the_stream_tells_about_wrong_answers() {
    let model = Way::Native.model([text("no JSON at all"), text("still none")]);
    let agent = typed(&model).output_retries(1).build().unwrap();
    let events = events(agent.run("hi").stream()).await;
    let left: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::OutputRejected { retries_left, .. } => Some(*retries_left),
            _ => None,
        })
        .collect();
    assert_eq!(left, [0]);
    match &events.last().unwrap().kind {
        EventKind::Failed { error } => assert_eq!(error.code, "output"),
        other => panic!("the outcome and the last event must agree: {other:?}"),
    }
}

#[tokio::test]
async fn a_check_of_the_program_counts_like_the_type() {
    let model =
        Way::Native.model([text(right().to_string()), text(r#"{"city":"Rome","degrees":30}"#)]);
    let agent = Agent::builder("tester", model.clone()).instructions("Be exact.");
    let agent = agent.checked_output(|weather: &Weather| match weather.degrees {
        degrees if degrees < 0 => Err("it is never below zero".to_owned()),
        _ => Ok(()),
    });
    let result = agent.build().unwrap().run("hi").await.unwrap();
    assert_eq!(result.output.city, "Rome");
    let said = model.request(1).messages.last().unwrap().text();
    assert!(said.contains("never below zero"), "{said}");
}

#[tokio::test]
async fn s237_typed_output_works_together_with_tools() {
    for way in [Way::Native, Way::OutputTool] {
        for streaming in [false, true] {
            let count = Arc::new(AtomicUsize::new(0));
            let model = way.model([
                call("echo", json!({ "text": "a" })),
                way.answer(&wrong()),
                call("echo", json!({ "text": "b" })),
                way.answer(&right()),
            ]);
            let agent = typed(&model).tool(echo(&count)).build().unwrap();
            let summary = ended(agent.run("hi"), streaming).await.unwrap();
            assert_eq!(summary.text, right().to_string(), "{way:?}");
            assert_eq!((count.load(Ordering::SeqCst), summary.turns), (2, 4));
            for request in model.requests() {
                assert_well_formed(&request.messages);
                let offered = if way == Way::OutputTool { 2 } else { 1 };
                assert_eq!(request.tools.len(), offered);
            }
        }
    }
}

#[tokio::test]
async fn native_output_without_tools_falls_back_to_the_output_tool() {
    let model = Way::OutputTool.model([call("final_answer", right())]);
    let model = model.with_info(|info| info.native_output = StructuredOutputSupport::WithoutTools);
    let agent = typed(&model).tool(echo(&Arc::default())).build().unwrap();
    assert_eq!(agent.run("hi").await.unwrap().output, oslo());
    assert!(model.request(0).output.is_none());
    let model = model.turn(text(right().to_string()));
    let agent = typed(&model).build().unwrap();
    assert_eq!(agent.run("hi").await.unwrap().output, oslo());
    assert!(model.request(1).output.is_some(), "without tools the native way is used");
}

#[tokio::test]
async fn calls_beside_the_final_answer_do_not_run() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = Way::OutputTool.model([
        calls([("echo", json!({})), ("final_answer", wrong())]),
        calls([("final_answer", right()), ("echo", json!({}))]),
    ]);
    let agent = typed(&model).tool(echo(&count)).build().unwrap();
    let result = agent.run("hi").await.unwrap();
    assert_eq!((result.output.clone(), count.load(Ordering::SeqCst)), (oslo(), 0));
    assert_well_formed(&model.request(1).messages);
    assert_well_formed(&result.messages);
}

#[tokio::test]
async fn plain_text_where_the_output_tool_was_wanted_is_taken_or_sent_back() {
    let model = Way::OutputTool.model([text("It is cold."), text(right().to_string())]);
    let result = typed(&model).build().unwrap().run("hi").await.unwrap();
    assert_eq!(result.output, oslo(), "JSON in the text will do");
    let said = model.request(1).messages.last().unwrap().text();
    assert!(said.contains("final_answer"), "{said}");
}

#[tokio::test]
async fn a_typed_run_at_a_limit_says_which() {
    for way in [Way::Native, Way::OutputTool] {
        for on_limit in [OnLimit::Stop, OnLimit::FinalAnswer] {
            for streaming in [false, true] {
                let model =
                    way.model([call("echo", json!({})), call("echo", json!({})), text("Sorry.")]);
                let agent = typed(&model)
                    .tool(echo(&Arc::default()))
                    .limits(Limits::default().turns(1))
                    .on_limit(on_limit.clone())
                    .build()
                    .unwrap();
                let error = ended(agent.run("hi"), streaming).await.unwrap_err();
                assert_eq!(error.code, "output", "{way:?} {on_limit:?}");
                assert!(error.message.contains("limit of 1 turns"), "{error}");
            }
        }
        let model =
            way.model([call("echo", json!({})), call("echo", json!({})), way.answer(&right())]);
        let agent = typed(&model)
            .tool(echo(&Arc::default()))
            .limits(Limits::default().turns(1))
            .on_limit(OnLimit::FinalAnswer)
            .build()
            .unwrap();
        let result = agent.run("hi").await.unwrap();
        assert_eq!(result.output, oslo(), "a last word of the right type is an answer");
        assert_eq!(
            (result.stop, result.limit.as_ref().unwrap().limit),
            (StopReason::Limit, LimitKind::Turns)
        );
        let offered: Vec<_> = model.request(2).tools.iter().map(|tool| tool.name.clone()).collect();
        let answer_only: &[&str] = if way == Way::OutputTool { &["final_answer"] } else { &[] };
        assert_eq!(offered, answer_only, "nothing but the way to answer is left");
    }
}

/// A model at one dollar per thousand tokens.
fn priced(turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    let model = turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn);
    model.with_info(|info| {
        let price = "1000".parse().unwrap();
        info.pricing = Some(Pricing {
            input: price,
            output: price,
            cache_read: None,
            cache_write: None,
            reasoning: None,
            currency: Currency::USD,
        });
    })
}

fn dollars(amount: &str) -> Money {
    Money::usd(amount.parse().unwrap())
}

#[tokio::test]
async fn s235_a_run_stops_before_the_request_that_would_exceed_its_money() {
    for streaming in [false, true] {
        let turn = |name: &str| {
            text(format!("step {name}"))
                .call("echo", json!({ "text": name }))
                .usage(Usage::new(300, 100))
        };
        let model = priced([turn("a"), turn("b"), turn("c"), text("never")]);
        let count = Arc::new(AtomicUsize::new(0));
        let agent = Agent::builder("tester", model.clone())
            .tool(echo(&count))
            .limits(Limits::default().cost(dollars("1")))
            .build()
            .unwrap();
        let summary = ended(agent.run("hi"), streaming).await.unwrap();
        // 0.40, 0.80, 1.20: the third request started below the limit, a fourth would not.
        assert_eq!((model.call_count(), count.load(Ordering::SeqCst)), (3, 3));
        assert_eq!((summary.stop, summary.cost), (StopReason::Limit, Some(dollars("1.2"))));
        let limit = summary.limit.unwrap();
        assert_eq!(
            (limit.limit, limit.allowed.as_str(), limit.used.as_str()),
            (LimitKind::Cost, "$1", "$1.2")
        );
        assert_eq!((summary.text.as_str(), summary.tool_results.len()), ("step c", 3), "usable");
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_under_a_cost_limit() {
    for streaming in [false, true] {
        let model = ScriptedModel::new().turn(text("free?"));
        let agent =
            Agent::builder("tester", model.clone()).limits(Limits::default().cost(dollars("1")));
        let error = ended(agent.build().unwrap().run("hi"), streaming).await.unwrap_err();
        assert_eq!((error.code.as_str(), model.call_count()), ("start", 0));
        assert!(error.message.contains("scripted-1"), "{error}");
    }
}

#[tokio::test]
async fn instructions_come_from_a_template_or_a_function() {
    let model =
        ScriptedModel::from_fn(|request, _| text(request.system.as_deref().unwrap_or("none")));
    let builder = || Agent::builder("tester", model.clone()).state("tone", "kind");
    let agent = builder().instructions("Be {{ tone }} to {{ name }}.").build().unwrap();
    let run = agent.run("hi").state("name", "Ada");
    assert_eq!(run.await.unwrap().output, "Be kind to Ada.");
    let run = agent.run("hi").state("name", "Bob").state("tone", "curt");
    assert_eq!(run.await.unwrap().output, "Be curt to Bob.", "the run wins over the agent");
    let agent = builder().instructions_from(|cx| async move {
        let user = cx.deps.get::<u32>().ok_or("no user")?;
        Ok(format!(
            "{} {{{{ as is }}}} {} {}",
            cx.agent,
            *user,
            cx.state.get::<String>("tone").unwrap()
        ))
    });
    let agent = agent.build().unwrap();
    assert_eq!(agent.run("hi").dep(7u32).await.unwrap().output, "tester {{ as is }} 7 kind");
    let calls = model.call_count();
    let failed = agent.run("hi").await;
    assert!(
        matches!(&failed, Err(Error::Prompt(PromptError::Provider(why))) if why == "no user"),
        "{failed:?}"
    );
    assert_eq!(model.call_count(), calls);
}

#[tokio::test]
async fn a_missing_variable_is_named_before_any_model_call() {
    for streaming in [false, true] {
        let model = ScriptedModel::new().turn(text("hello"));
        let agent = Agent::builder("tester", model.clone()).instructions("Be kind to {{ name }}.");
        let error = ended(agent.build().unwrap().run("hi"), streaming).await.unwrap_err();
        assert_eq!((error.code.as_str(), model.call_count()), ("prompt", 0));
        assert!(error.message.contains("`name`"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_dependency_is_named_before_any_model_call() {
    struct Database;
    let query = tool_fn("query", "Asks the database", |cx, _args: Say| async move {
        cx.dep::<Database>()?;
        Ok::<_, ToolError>("42")
    });
    let query = query.unwrap().with_spec(|spec| spec.needs(DependencyType::of::<Database>()));
    let model = ScriptedModel::new().turn(call("query", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).tool(query).build().unwrap();
    for streaming in [false, true] {
        let error = ended(agent.run("hi"), streaming).await.unwrap_err();
        assert_eq!((error.code.as_str(), model.call_count()), ("start", 0));
        assert!(error.message.contains("query") && error.message.contains("Database"), "{error}");
    }
    let result = agent.run("hi").dep(Database).await.unwrap();
    assert_eq!((result.output.as_str(), result.tool_results[0].to_text().as_str()), ("done", "42"));
}

#[tokio::test]
async fn an_answer_of_a_hook_must_have_the_type_too() {
    struct Shortcut;
    #[async_trait::async_trait]
    impl provost_agent::hook::Hook for Shortcut {
        async fn before_agent(
            &self,
            _cx: &provost_tool::RunContext,
            input: &str,
        ) -> Result<provost_agent::hook::StartDecision, provost_agent::hook::HookError> {
            Ok(provost_agent::hook::StartDecision::Respond(input.to_owned()))
        }
    }
    let agent = typed(&ScriptedModel::new()).hook(Shortcut).build().unwrap();
    let outcome = agent.run(right().to_string()).outcome().await.unwrap();
    assert!(matches!(outcome, RunOutcome::Completed(result) if result.output == oslo()));
    let events = events(agent.run("cold").stream()).await;
    assert_eq!(names(&events).last().unwrap(), "failed", "{events:?}");
}
