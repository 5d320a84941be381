//! Tests of the metrics.

use std::time::Duration;

use provost_core::{Currency, Pricing, Usage};
use provost_model::{
    EmbeddingInputType, HashEmbedder, ModelErrorClass, call, embed_traced as traced, fail, text,
};
use serde_json::json;

use crate::receiver::Series;
use crate::support::{TelemetryFixture, agent, script};

const TOKENS: &str = "gen_ai.client.token.usage";
const DURATION: &str = "gen_ai.client.operation.duration";

fn labelled<'a>(series: &'a [Series], name: &str, value: &str) -> Option<&'a Series> {
    series.iter().find(|one| one.attributes.get(name) == Some(&json!(value)))
}

#[tokio::test]
async fn s224_tokens_and_durations_are_measured() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let turns = [
        call("echo", json!({})).usage(Usage::new(100, 10)),
        text("done").usage(Usage::new(200, 20)),
    ];
    agent("tester", &script(turns)).build().unwrap().run("go").await.unwrap();
    let received = watch.end().await;

    let tokens = received.series(TOKENS);
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    for (kind, sum) in [("input", 300.0), ("output", 30.0)] {
        let series = labelled(&tokens, "gen_ai.token.type", kind).unwrap();
        assert_eq!((series.count, series.sum, series.unit.as_str()), (2, sum, "{token}"));
        assert_eq!(series.attributes["gen_ai.operation.name"], "chat");
        assert_eq!(series.attributes["gen_ai.provider.name"], "scripted");
        assert_eq!(series.attributes["gen_ai.request.model"], "scripted-1");
        assert_eq!((series.bounds.len(), series.bounds[1]), (14, 4.0));
    }
    let [calls] = &received.series(DURATION)[..] else { panic!("{:?}", received.series(DURATION)) };
    assert_eq!((calls.count, calls.unit.as_str()), (2, "s"));
    assert_eq!(calls.attributes["gen_ai.operation.name"], "chat");
    assert!(!calls.attributes.contains_key("error.type"));
    assert!(calls.sum > 0.0 && (calls.bounds[0] - 0.01).abs() < f64::EPSILON);
    let [runs] = &received.series("gen_ai.invoke_agent.duration")[..] else { panic!("one run") };
    assert_eq!((runs.count, &runs.attributes["gen_ai.agent.name"]), (1, &json!("tester")));
    let [tools] = &received.series("gen_ai.execute_tool.duration")[..] else { panic!("one tool") };
    assert_eq!((tools.count, &tools.attributes["gen_ai.tool.name"]), (1, &json!("echo")));
}

#[tokio::test]
async fn the_first_piece_and_the_cost_of_a_call_are_measured() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let slow = text("done").usage(Usage::new(1_000, 100)).delay(Duration::from_millis(20));
    let model = script([slow]).with_info(|info| {
        info.pricing = Some(Pricing {
            input: 2.into(),
            output: 10.into(),
            cache_read: None,
            cache_write: None,
            reasoning: None,
            currency: Currency::USD,
        });
    });
    agent("tester", &model).build().unwrap().run("go").await.unwrap();
    let received = watch.end().await;
    let [first] = &received.series("gen_ai.client.operation.time_to_first_chunk")[..] else {
        panic!("one call")
    };
    assert_eq!((first.count, first.unit.as_str()), (1, "s"));
    assert!(first.sum >= 0.02, "{}", first.sum);
    assert_eq!(first.attributes["gen_ai.request.model"], "scripted-1");
    let [cost] = &received.series("gen_ai.client.operation.cost")[..] else { panic!("one call") };
    assert_eq!(cost.count, 1);
    assert!((cost.sum - 0.003).abs() < 1e-9, "{}", cost.sum);
    assert_eq!(cost.attributes["gen_ai.usage.cost.currency"], "USD");
    let chat = received.spans().into_iter().find(|span| span.name == "chat scripted-1").unwrap();
    assert_eq!(chat.attributes["gen_ai.usage.cost"], json!(0.003));
    assert!(chat.attributes["gen_ai.response.time_to_first_chunk"].as_f64().unwrap() >= 0.02);
}

#[tokio::test]
async fn vectors_are_a_call_like_any_other() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let texts = ["green tea".to_owned(), "black tea".to_owned()];
    traced(&HashEmbedder::new(8), &texts, EmbeddingInputType::Document).await.unwrap();
    let received = watch.end().await;
    let [calls] = &received.series(DURATION)[..] else { panic!("one call") };
    assert_eq!(calls.attributes["gen_ai.operation.name"], "embeddings");
    let [tokens] = &received.series(TOKENS)[..] else { panic!("input only") };
    assert_eq!((tokens.sum, &tokens.attributes["gen_ai.token.type"]), (4.0, &json!("input")));
    let spans = received.spans();
    assert_eq!(spans[0].name, "embeddings words");
    assert_eq!(spans[0].attributes["gen_ai.embeddings.dimension.count"], json!(8));
}

#[tokio::test]
async fn s224_no_tokens_are_no_measurement() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let turns = [call("echo", json!({})).usage(Usage::new(0, 7)), text("done").without_usage()];
    agent("tester", &script(turns)).build().unwrap().run("go").await.unwrap();
    let received = watch.end().await;
    let tokens = received.series(TOKENS);
    assert!(labelled(&tokens, "gen_ai.token.type", "input").is_none(), "{tokens:?}");
    assert_eq!(labelled(&tokens, "gen_ai.token.type", "output").unwrap().count, 1);
    assert_eq!(received.series(DURATION)[0].count, 2);
}

#[tokio::test]
async fn s224_a_failed_call_is_measured_with_its_class() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let model = script([fail(ModelErrorClass::RateLimited, "slow down")]);
    agent("tester", &model).build().unwrap().run("go").await.unwrap_err();
    let received = watch.end().await;
    assert!(received.series(TOKENS).is_empty());
    for name in [DURATION, "gen_ai.invoke_agent.duration"] {
        let series = received.series(name);
        assert_eq!(labelled(&series, "error.type", "rate_limited").unwrap().count, 1, "{name}");
    }
}

#[tokio::test]
async fn metrics_can_be_left_out() {
    let watch = TelemetryFixture::start(|builder| builder.metrics(false)).await;
    agent("tester", &script([text("done")])).build().unwrap().run("go").await.unwrap();
    let received = watch.end().await;
    assert!(received.series(DURATION).is_empty());
    assert_eq!(received.spans().len(), 2);
}
