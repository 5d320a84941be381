//! Definitions: which are refused, which are equal, and what is printed of them.

use super::*;

#[track_caller]
fn refused(server: McpServer, word: &str) {
    let error = server.check().unwrap_err().to_string();
    assert!(error.contains(word), "{error}");
}

#[test]
fn a_definition_that_cannot_work_is_refused_with_the_reason() {
    refused(McpServer::stdio("", "x"), "name");
    refused(McpServer::stdio("a b", "x"), "name");
    refused(McpServer::stdio("a".repeat(33), "x"), "name");
    refused(McpServer::stdio("a", ""), "command");
    refused(McpServer::stdio("a", "x").arg("\0"), "zero byte");
    refused(McpServer::stdio("a", "x").env("A=B", "c"), "variable");
    refused(McpServer::stdio("a", "x").call_timeout(Duration::ZERO), "call timeout");
    refused(McpServer::http("a", "ftp://x"), "http://");
    refused(McpServer::http("a", "nonsense"), "URL");
    refused(McpServer::http("a", "http://me:pass@x/"), "password");
    refused(McpServer::http("a", "http://x/").header("Mcp-Session-Id", "1"), "protocol");
    refused(McpServer::http("a", "http://x/").header("a b", "1"), "header");
}

#[test]
fn a_definition_is_equal_only_if_all_of_it_is() {
    let one = McpServer::stdio("a", "x").arg("1").env("K", "v");
    assert!(one == one.clone());
    assert!(one != one.clone().arg("2"));
    assert!(one != one.clone().env("K", "w"));
    assert!(one != one.clone().trust_annotations());
    assert!(one != one.clone().call_timeout(Duration::from_secs(1)));
}

#[test]
fn secrets_are_not_printed() {
    let server = McpServer::http("a", "http://x/").header("authorization", "s3cret");
    let program = McpServer::stdio("a", "x").env("TOKEN", "s3cret");
    assert!(!format!("{server:?}{program:?}").contains("s3cret"));
}
