//! Every operation of the document with missing objects and with a foreign namespace.

use std::collections::HashMap;

use provost_api::NewAgent;
use provost_core::{ApprovalId, DeliveryId, Env, InputId, RunId, TaskId, TokenId};
use serde_json::{Value, json};

use crate::local_request::TestResponse;
use crate::test_app::TestApp;

/// Operations that succeed for any name, because they create the object or describe it.
const SUCCEEDS_FOR_ANY_NAME: [&str; 2] = ["putSchedule", "getAgentDefaultConfig"];

/// An operation of the document.
struct Op {
    id: String,
    method: String,
    path: String,
    names: Vec<String>,
    takes_body: bool,
}

fn operations() -> Vec<Op> {
    let document = provost_server::openapi();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().unwrap();
            let names = parameters.iter().filter(|parameter| parameter["in"] == "path");
            found.push(Op {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                names: names.map(|name| name["name"].as_str().unwrap().to_owned()).collect(),
                takes_body: operation.get("requestBody").is_some(),
            });
        }
    }
    assert!(found.len() > 50, "{}", found.len());
    found
}

/// Returns a valid body, so that only the name is invalid.
fn body(id: &str) -> Value {
    match id {
        "submitTask" | "sendTaskInput" | "sendRunInput" => json!({"message": "hi"}),
        "decideApproval" => json!({"decision": "deny"}),
        "setConcurrencyLimit" => json!({"desired": 1}),
        "putSchedule" => json!({"timing": {"every_ms": 60_000}, "task": {"message": "hi"}}),
        "pauseSchedule" => json!({"paused": true}),
        "completeToolCall" => json!({"request_id": "eff_1", "status": "ok"}),
        _ => json!({}),
    }
}

async fn call(test_app: &TestApp, op: &Op, names: &HashMap<&str, String>) -> TestResponse {
    let mut path = op.path.clone();
    for name in &op.names {
        let value = names.get(name.as_str());
        let value = value.unwrap_or_else(|| panic!("{}: what could `{name}` be?", op.id));
        path = path.replace(&format!("{{{name}}}"), value);
    }
    let query = match op.id.as_str() {
        "waitForRun" | "waitForTask" => "?timeout_ms=1",
        _ => "",
    };
    let line = format!("{} {path}{query}", op.method);
    if op.takes_body {
        test_app.send_json(&line, &body(&op.id)).await
    } else {
        test_app.request(&line).await
    }
}

/// Creates objects and returns their names.
async fn real(test_app: &TestApp) -> HashMap<&'static str, String> {
    let accepted = test_app.submit_text("chat", "hi").await;
    let agent = NewAgent { name: "lead".to_owned(), title: None, config: Default::default() };
    test_app.client.create_agent(&agent).await.unwrap();
    test_app.send_json("PUT schedules/daily", &body("putSchedule")).await.success();
    let class =
        test_app.client.execution_classes(&Default::default()).await.unwrap().items.remove(0).key;
    HashMap::from([
        ("namespace", "default".to_owned()),
        ("task", accepted.task.to_string()),
        ("run", accepted.run.to_string()),
        ("input", accepted.input.to_string()),
        ("agent", "lead".to_owned()),
        ("session", "chat".to_owned()),
        ("schedule", "daily".to_owned()),
        ("class", class),
        ("id", accepted.run.to_string()),
    ])
}

/// Returns well-formed names of objects that do not exist.
fn nowhere() -> HashMap<&'static str, String> {
    let env = Env::system();
    HashMap::from([
        ("task", env.id::<TaskId>().to_string()),
        ("run", env.id::<RunId>().to_string()),
        ("input", env.id::<InputId>().to_string()),
        ("approval", env.id::<ApprovalId>().to_string()),
        ("delivery", env.id::<DeliveryId>().to_string()),
        ("token", env.id::<TokenId>().to_string()),
        ("webhook", env.id::<provost_core::WebhookId>().to_string()),
        ("post", env.id::<provost_core::WebhookDeliveryId>().to_string()),
        ("agent", "nobody".to_owned()),
        ("session", "nobody".to_owned()),
        ("schedule", "never".to_owned()),
        ("request", "eff_1".to_owned()),
        ("class", format!("execclass_{}", "0".repeat(32))),
        ("id", env.id::<RunId>().to_string()),
    ])
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_not_found_in_every_operation() {
    let test_app = TestApp::idle(Vec::new()).await;
    let (real, nowhere) = (real(&test_app).await, nowhere());
    for op in operations().iter().filter(|op| !SUCCEEDS_FOR_ANY_NAME.contains(&op.id.as_str())) {
        for name in op.names.iter().filter(|name| *name != "namespace") {
            let mut names = nowhere.clone();
            names.extend(real.clone());
            for wrong in [nowhere[name.as_str()].as_str(), "%2e%2e", "x%2Fy", "%00", "%ff"] {
                names.insert(nowhere.get_key_value(name.as_str()).unwrap().0, wrong.to_owned());
                let told = call(&test_app, op, &names).await;
                assert_eq!(
                    told.problem(),
                    (404, "not_found"),
                    "{} {name} {wrong}: {told:?}",
                    op.id
                );
            }
        }
    }
}

#[tokio::test]
async fn what_is_in_another_namespace_is_not_there() {
    let test_app = TestApp::idle(Vec::new()).await;
    let mut names = nowhere();
    names.extend(real(&test_app).await);
    names.insert("namespace", "elsewhere".to_owned());
    for op in operations().iter().filter(|op| !SUCCEEDS_FOR_ANY_NAME.contains(&op.id.as_str())) {
        let inside = op.names.len() > 1 && op.names.contains(&"namespace".to_owned());
        if inside {
            let told = call(&test_app, op, &names).await;
            assert_eq!(told.problem(), (404, "not_found"), "{}: {told:?}", op.id);
        }
    }
    for line in ["GET /v1/namespaces/elsewhere/tasks", "GET /v1/namespaces/elsewhere/runs"] {
        assert_eq!(test_app.request(line).await.success()["items"], json!([]));
    }
    let run = names["run"].parse().unwrap();
    assert!(test_app.client.run(run).await.unwrap().ended.is_none(), "nothing was done to it");
}

#[tokio::test]
async fn every_list_has_a_limit_and_a_cursor() {
    let document = provost_server::openapi();
    let mut lists = 0;
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
            if !schema["$ref"].as_str().is_some_and(|name| name.ends_with("Page")) {
                continue;
            }
            lists += 1;
            let named = |name: &str| {
                let parameters = operation["parameters"].as_array().unwrap().iter();
                parameters
                    .filter(|parameter| parameter["in"] == "query")
                    .any(|it| it["name"] == name)
            };
            let cursor = named("cursor") || named("after");
            assert!(named("limit") && cursor, "{}", operation["operationId"]);
        }
    }
    assert!(lists > 15, "{lists}");
}
