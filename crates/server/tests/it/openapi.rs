//! The OpenAPI document.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use crate::tcp_server::TcpServer;

#[tokio::test]
async fn the_document_that_is_served_is_the_one_that_is_kept() {
    let tcp_server = TcpServer::start().await;
    let document = provost_server::openapi();
    let reply = tcp_server.call_without_token("GET /openapi.json", "").await;
    assert_eq!(reply.json(), document);
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "docs/reference/openapi.json is stale: run this test with UPDATE=1");
}

#[test]
fn every_reference_leads_somewhere_and_every_name_is_legal() {
    let document = provost_server::openapi();
    let mut references = HashSet::new();
    collect(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer =
            reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads outside"));
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        assert!(legal, "{name}");
    }
    assert!(!document.to_string().contains("$defs"));
}

#[test]
fn every_operation_says_what_it_takes_and_how_it_refuses() {
    let document = provost_server::openapi();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = format!("{method} {path}");
            for parameter in operation["parameters"].as_array().unwrap() {
                let about = parameter["description"].as_str().unwrap();
                assert!(about.len() > 3, "{name}: {parameter}");
                let null = parameter["schema"].to_string().contains("null");
                assert!(!null, "{name}: what is not there is left out: {parameter}");
            }
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("default"), "{name}");
            let open = operation["security"] == serde_json::json!([]);
            assert_eq!(responses.contains_key("401"), !open, "{name}");
            let stream = path.ends_with("/stream");
            let sent: Vec<&str> = operation["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|parameter| parameter["in"] == "header")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            assert_eq!(sent.contains(&"Last-Event-ID"), stream, "{name}");
            assert_eq!(sent.contains(&"If-None-Match"), responses.contains_key("304"), "{name}");
            for (status, response) in responses.iter().filter(|(status, _)| status.starts_with('2'))
            {
                let headers = response["headers"].as_object().unwrap();
                assert!(headers.contains_key("RateLimit-Remaining"), "{name} {status}");
            }
            let content = &operation["responses"]["200"]["content"];
            assert_eq!(content.get("text/event-stream").is_some(), stream, "{name}");
        }
    }
}

fn collect<'a>(value: &'a Value, references: &mut HashSet<&'a str>) {
    match value {
        Value::Object(object) => {
            references.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}
