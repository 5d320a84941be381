//! A document becomes tools, and the tools make the right requests.

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use provost_tool_runtime::{HttpRuntime, OpenApiOptions, import_openapi};
use serde_json::{Value, json};

use crate::support::{call, http_client};

/// Says back what came.
async fn mirror(request: Request) -> String {
    let (head, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    json!({
        "method": head.method.as_str(),
        "uri": head.uri.to_string(),
        "mode": head.headers.get("x-mode").map(|value| value.to_str().unwrap()),
        "kind": head.headers.get("content-type").map(|value| value.to_str().unwrap()),
        "body": String::from_utf8(body.to_vec()).unwrap(),
    })
    .to_string()
}

#[tokio::test]
async fn operations_are_called_as_the_document_says() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = Router::new().fallback(mirror);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let text = json!({ "type": "string" });
    let id = json!({ "name": "id", "in": "path", "required": true, "schema": text });
    let document = json!({ "openapi": "3.1.0", "servers": [{ "url": base }], "paths": {
        "/pears/{id}": {
            "get": { "operationId": "get", "parameters": [
                id,
                { "name": "tag", "in": "query", "schema": { "type": "array", "items": text } },
                { "name": "filter", "in": "query", "style": "deepObject", "schema": { "type": "object" } },
                { "name": "limit", "in": "query", "schema": { "type": "integer" } },
                { "name": "X-Mode", "in": "header", "schema": text },
            ] },
            "put": { "operationId": "put", "parameters": [id], "requestBody": {
                "required": true,
                "content": { "application/json": { "schema": { "type": "object", "properties": { "name": text } } } },
            } },
            "post": { "operationId": "form", "parameters": [id], "requestBody": {
                "required": true,
                "content": { "application/x-www-form-urlencoded": { "schema": { "type": "object", "properties": { "name": text } } } },
            } },
        },
    } });
    let tools = import_openapi(&document, &OpenApiOptions::default()).unwrap().tools;
    let runtime = HttpRuntime::new(http_client());
    let said = async |name: &str, arguments: Value| -> Value {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        let output = call(&runtime, tool, arguments).await.unwrap();
        serde_json::from_str(&output.to_text()).unwrap()
    };
    let arguments = json!({
        "id": "a/b", "tag": ["x y", "&"], "filter": { "k": "v" }, "limit": 3, "X-Mode": "m",
    });
    let got = said("get", arguments).await;
    assert_eq!(got["uri"], "/v1/pears/a%2Fb?tag=x%20y&tag=%26&filter%5Bk%5D=v&limit=3");
    assert_eq!((&got["method"], &got["mode"]), (&json!("GET"), &json!("m")));
    assert_eq!(said("get", json!({ "id": "1" })).await["uri"], "/v1/pears/1");
    let put = said("put", json!({ "id": "1", "name": "Conference \"pear\"" })).await;
    assert_eq!(put["body"], r#"{"name":"Conference \"pear\""}"#);
    let form = said("form", json!({ "id": "1", "name": "a&b" })).await;
    assert_eq!(
        (&form["body"], &form["kind"]),
        (&json!("name=a%26b&"), &json!("application/x-www-form-urlencoded"))
    );
}
