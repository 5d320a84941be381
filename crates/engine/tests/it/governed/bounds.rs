//! The models and the tokens that a policy gives a durable run.

use provost_core::Usage;
use provost_core::recovery::OutcomeCode;
use provost_model as scripted;
use serde_json::{Value, json};

use super::{Law, Policy, asks, governed};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_model_that_a_policy_does_not_allow_is_not_asked() {
    let policy = Policy { models: vec!["better".to_owned()], ..Policy::allowing() };
    let (cluster, law) = governed(policy).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.ended(asks(&cluster, None).await.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("policy_denied"))
    );
    let detail = run.detail.unwrap();
    assert!(detail.contains("policy `p` does not allow model `scripted-1`"), "{detail}");
    assert_eq!(cluster.rooms.model_calls(), 0);
    law.becomes(Policy { models: vec!["scripted-1".to_owned()], ..Policy::allowing() });
    let run = cluster.ended(asks(&cluster, None).await.run).await;
    assert_eq!((run.status.as_str(), cluster.rooms.model_calls()), ("ok", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_durable_run_ends_when_the_tokens_of_its_policy_are_used_up() {
    let policy = Policy { tokens: Some(250), ..Policy::allowing() };
    let law = Law(std::sync::Arc::new(std::sync::Mutex::new(policy)));
    let answer = |_: &_, _| scripted::call("opaque", json!({})).usage(Usage::new(90, 10));
    let cluster = Cluster::guarded(law.guard(), answer).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.ended(asks(&cluster, None).await.run).await;
    let result: Value = serde_json::from_str(run.result.as_deref().unwrap()).unwrap();
    let limit = json!({"limit": "total_tokens", "allowed": "250", "used": "300"});
    assert_eq!((&result["stop"], &result["limit"]), (&json!("limit"), &limit), "{result}");
    assert_eq!(cluster.rooms.model_calls(), 3);
    // What is folded again from the journal says the same.
    let report = cluster.engine.runs().replay(&cluster.namespace, run.id).await.unwrap();
    assert!(report.is_consistent(), "{report:?}");
}
