//! Agents over the API.

use provost_api::{AgentChange, NewAgent, PageQuery, Scope};
use provost_core::resource::AgentSpec;
use provost_server::Limits;
use serde_json::json;

use crate::tcp_server::TcpServer;
use crate::test_app::TestApp;

fn new(name: &str) -> NewAgent {
    let config = AgentSpec { model: Some("openai/x".to_owned()), ..AgentSpec::default() };
    NewAgent { name: name.to_owned(), title: Some("A lead".to_owned()), config }
}

#[tokio::test]
async fn an_agent_is_made_read_changed_and_removed() {
    let test_app = TestApp::idle(Vec::new()).await;
    let made = test_app.client.create_agent(&new("lead")).await.unwrap();
    assert_eq!((made.revision, made.title.as_deref()), (1, Some("A lead")));
    assert_eq!(made.config.model.as_deref(), Some("openai/x"));
    assert_eq!(made.config.workspace_dir.as_deref(), Some("agents/lead"), "the default");
    assert!(made.config.system_prompt.is_some());
    let twice = test_app.client.create_agent(&new("lead")).await.unwrap_err();
    assert_eq!(twice.code(), "exists");
    assert_eq!(test_app.client.agent("lead").await.unwrap(), made);
    let config = json!({"skills": {"a": 1}, "model": null}).as_object().unwrap().clone();
    let change = AgentChange { title: Some(String::new()), config };
    let changed = test_app.client.update_agent("lead", &change, None).await.unwrap();
    assert_eq!((changed.revision, &changed.title, &changed.config.model), (2, &None, &None));
    assert_eq!(changed.config.extensions["skills"], json!({"a": 1}));
    test_app.client.delete_agent("lead").await.unwrap();
    assert_eq!(test_app.client.agent("lead").await.unwrap_err().code(), "not_found");
    assert_eq!(test_app.client.delete_agent("lead").await.unwrap_err().code(), "not_found");
    assert_eq!(test_app.request("DELETE agents/default").await.status, 204);
}

#[tokio::test]
async fn a_change_to_what_nobody_has_seen_is_refused() {
    let test_app = TestApp::idle(Vec::new()).await;
    test_app.client.create_agent(&new("lead")).await.unwrap();
    let read = test_app.request("GET agents/lead").await;
    assert_eq!((read.status, read.header("etag")), (200, Some("\"1\"")));
    let change = json!({"config": {"model": "openai/y"}});
    let changed = test_app
        .send_json_with_headers("PATCH agents/lead", &change, &[("if-match", "\"1\"")])
        .await;
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")));
    // Whoever has it is told so, and gets it otherwise.
    for (known, status) in [
        ("\"2\"", 304),
        ("W/\"2\"", 304),
        ("\"7\", \"2\"", 304),
        ("*", 304),
        ("\"1\"", 200),
        ("2", 200),
        ("", 200),
    ] {
        let asked =
            test_app.request_with_headers("GET agents/lead", &[("if-none-match", known)]).await;
        assert_eq!((asked.status, asked.header("etag")), (status, Some("\"2\"")), "{known}");
        assert_eq!(asked.body.is_null(), status == 304, "{known}");
    }
    let missing =
        test_app.request_with_headers("GET agents/nobody", &[("if-none-match", "*")]).await;
    assert_eq!(missing.status, 404);
    let stale = test_app
        .send_json_with_headers("PATCH agents/lead", &change, &[("if-match", "\"1\"")])
        .await;
    assert_eq!(stale.problem(), (412, "stale"));
    let any =
        test_app.send_json_with_headers("PATCH agents/lead", &change, &[("if-match", "*")]).await;
    assert_eq!(any.status, 200);
    for wrong in ["1", "\"x\"", "W/\"2\"", "\"2\", \"3\"", "\""] {
        let wrong = test_app
            .send_json_with_headers("PATCH agents/lead", &change, &[("if-match", wrong)])
            .await;
        assert_eq!((wrong.problem(), wrong.field()), ((400, "invalid"), "if-match"));
    }
    assert_eq!(test_app.client.agent("lead").await.unwrap().revision, 2);
}

#[tokio::test]
async fn agents_are_listed_by_name() {
    let test_app = TestApp::idle(Vec::new()).await;
    for name in ["b", "a"] {
        test_app.client.create_agent(&new(name)).await.unwrap();
    }
    let page = PageQuery { limit: Some(2), cursor: None };
    let first = test_app.client.agents(&page).await.unwrap();
    let names: Vec<_> = first.items.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let second = test_app.client.agents(&PageQuery { cursor: first.next, ..page }).await.unwrap();
    assert_eq!((second.items[0].name.as_str(), second.next), ("default", None));
}

#[tokio::test]
async fn what_an_agent_cannot_be_is_refused_by_its_place() {
    let test_app = TestApp::idle(Vec::new()).await;
    for (body, field) in [
        (json!({"name": "a b"}), "name"),
        (json!({"name": "a", "config": {"runner": "claude_code"}}), "config.runner"),
        (json!({"name": "a", "config": {"workspace_dir": "../up"}}), "config.workspace_dir"),
        (json!({"name": "a", "config": {"max_turns": "many"}}), "config"),
        (json!({"name": "a", "config": {"files": "all"}}), "config"),
        (json!({"name": "a", "config": {"terminal": {}}}), "config.terminal"),
        (json!({"name": "a", "config": {"policy": {"nothing": 1}}}), "config"),
        (json!({"name": "a", "nothing": 1}), "nothing"),
        (json!({"config": {}}), "name"),
    ] {
        let refused = test_app.send_json("POST agents", &body).await;
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
        assert!(refused.field().starts_with(field), "{body}: {refused:?}");
    }
    let refused =
        test_app.send_json("PATCH agents/default", &json!({"config": {"model": 7}})).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let missing = test_app.send_json("PATCH agents/nobody", &json!({})).await;
    assert_eq!(missing.problem(), (404, "not_found"));
}

#[tokio::test]
async fn the_default_of_a_name_can_be_looked_at() {
    let test_app = TestApp::idle(Vec::new()).await;
    let config = test_app.client.agent_default_config("lead").await.unwrap();
    assert_eq!(config.workspace_dir.as_deref(), Some("agents/lead"));
    let refused = test_app.request("GET agents/a%20b/default-config").await;
    assert_eq!(refused.problem(), (400, "invalid"));
}

#[tokio::test]
async fn only_an_operator_grants_permissions_to_an_agent() {
    let tcp_server = TcpServer::on(TestApp::idle(Vec::new()).await, Limits::default()).await;
    let scopes = [Scope::Write, Scope::Read];
    let writer = tcp_server.token_named("ada", &scopes, &["default"]).await.secret;
    let admin = tcp_server.token_named("root", &[Scope::Admin], &["default"]).await.secret;
    let agents = "POST /v1/namespaces/default/agents";
    for field in ["roles", "allowed_tools", "mcp_servers"] {
        let body = json!({"name": field, "config": {field: ["pay"]}});
        let refused = tcp_server.call(agents, &writer, Some(&body)).await;
        assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("operator_only")));
        assert_eq!(tcp_server.call(agents, &admin, Some(&body)).await.status, 201);
        // A change could give the agent other tools or instructions for its permissions.
        let change = json!({"config": {"declared_tools": ["pay"]}});
        let agent = format!("PATCH /v1/namespaces/default/agents/{field}");
        assert_eq!(tcp_server.call(&agent, &writer, Some(&change)).await.status, 403);
        assert_eq!(tcp_server.call(&agent, &admin, Some(&change)).await.status, 200);
    }
    let grant = json!({"config": {"roles": ["payer"]}});
    let agent = "PATCH /v1/namespaces/default/agents/default";
    assert_eq!(tcp_server.call(agent, &writer, Some(&grant)).await.status, 403);
    let terminal = json!({"name": "terminal-1"});
    assert_eq!(tcp_server.call(agents, &writer, Some(&terminal)).await.status, 403);
}
