//! Where a conversation cannot be made smaller: what is an estimate is not a reason to fail.

use std::sync::Arc;

use provost_agent::context::{ContextConfig, Summarize, Truncate};
use provost_agent::{Agent, Error};
use provost_core::EventKind;
use provost_model::{ModelErrorClass, ScriptedModel, ScriptedTurn, fail, text};

use super::{long_history, warnings};
use crate::support::{events, final_text};

#[tokio::test]
async fn a_summary_that_fails_is_a_warning_and_everything_is_sent() {
    let failures: [fn() -> ScriptedTurn; 3] = [
        || fail(ModelErrorClass::Overloaded, "busy"),
        || text("   "),
        || text("partly").truncate(),
    ];
    for failure in failures {
        let writer = ScriptedModel::new().turn(failure());
        let model = ScriptedModel::new().turn(text("done"));
        let agent = Agent::builder("tester", model.clone())
            .context(ContextConfig::new(Summarize::new(Arc::new(writer.clone()))).max_tokens(2_000))
            .build()
            .unwrap();
        let history = long_history();
        let events = events(agent.run("hi").history(history.clone()).stream()).await;
        assert_eq!(final_text(&events), "done");
        let warnings = warnings(&events);
        assert_eq!((warnings.len(), writer.call_count()), (1, 1), "{warnings:?}");
        assert!(warnings[0].contains("could not be shortened"), "{warnings:?}");
        assert_eq!(model.request(0).messages[..history.len()], history);
        assert_eq!(model.request(0).messages.len(), history.len() + 1);
    }
}

/// A message of about eight thousand characters, and a model whose window it may or may not fit.
fn cramped() -> (String, ScriptedModel) {
    let model =
        ScriptedModel::new().with_info(|info| info.context_window = Some(5_000)).turn(text("done"));
    ("{}();[]".repeat(1_100), model)
}

#[tokio::test]
async fn what_may_not_fit_the_window_is_sent_with_a_warning() {
    let (message, model) = cramped();
    let agent = Agent::builder("tester", model.clone()).context(Truncate::new()).build().unwrap();
    let events = events(agent.run(message.as_str()).stream()).await;
    assert_eq!(final_text(&events), "done");
    let warnings = warnings(&events);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("does not fit"), "{warnings:?}");
    assert_eq!(model.request(0).messages[0].text(), message);
}

#[tokio::test]
async fn what_does_not_fit_a_bound_of_the_program_is_not_sent() {
    let (message, model) = cramped();
    let agent = Agent::builder("tester", model.clone())
        .context(ContextConfig::new(Truncate::new()).max_tokens(904));
    let agent = agent.build().unwrap();
    let error = agent.run(message.as_str()).await.unwrap_err();
    assert!(matches!(error, Error::Context(_)), "{error}");
    let events = events(agent.run(message).stream()).await;
    assert!(matches!(events.last().unwrap().kind, EventKind::Failed { .. }));
    assert_eq!(model.call_count(), 0);
}
