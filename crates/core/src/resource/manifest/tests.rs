use serde_json::json;

use super::*;
use crate::resource::{ApplyMode, ToolType};

fn error_of(manifest: Value) -> String {
    Resource::from_manifest(manifest).unwrap_err().to_string()
}

#[test]
fn every_kind_is_read_in_its_namespace() {
    for (kind, spec) in [
        ("Agent", json!({"tools": ["*"], "roles": ["reader"]})),
        ("AgentPolicy", json!({"applyMode": "global", "maxTokensPerRun": 1000})),
        ("AgentRole", json!({"permissions": ["tool:search:invoke"]})),
        ("McpServer", json!({"transport": "stdio", "command": "mcp-server-time"})),
        ("Tool", json!({"endpoint": "https://example.com"})),
        ("ToolPermission", json!({"requiredPermissions": ["tool:search:invoke"]})),
    ] {
        let manifest = json!({
            "apiVersion": "provost.dev/v1", "kind": kind.to_lowercase(),
            "metadata": {"name": " one ", "namespace": "team", "labels": {"a": "b"}},
            "spec": spec, "status": {"phase": "Ready"},
        });
        let read = Resource::from_manifest(manifest).unwrap();
        assert_eq!((read.kind(), read.namespace(), read.name()), (kind, "team", "one"));
    }
    let plain = json!({"kind": "AgentRole", "metadata": {"name": "r"}});
    assert_eq!(Resource::from_manifest(plain).unwrap().namespace(), "default");
}

#[test]
fn names_in_camel_case_mean_the_same_and_what_belongs_to_others_stays() {
    let manifest = |spec: Value| json!({"kind": "Tool", "metadata": {"name": "t"}, "spec": spec});
    let camel = json!({
        "type": "http", "endpoint": "https://example.com", "riskLevel": "medium",
        "operationClasses": ["write"], "allowPrivate": true,
        "inputSchema": {"type": "object", "properties": {"userId": {"type": "string", "maxLength": 3}}},
        "runtime": {"isolationMode": "none", "retry": {"maxAttempts": 3, "maxBackoff": "2s"}},
        "auth": {"profile": "api_key_header", "secretRef": "k", "headerName": "X-Key"},
        "http": {"headers": {"X-UserId": "{{ userId }}"}, "idempotencyHeader": "Idempotency-Key"},
    });
    let snake_case_keys = json!({
        "type": "http", "endpoint": "https://example.com", "risk_level": "medium",
        "operation_classes": ["write"], "allow_private": true,
        "input_schema": {"type": "object", "properties": {"userId": {"type": "string", "maxLength": 3}}},
        "runtime": {"isolation_mode": "none", "retry": {"max_attempts": 3, "max_backoff": "2s"}},
        "auth": {"profile": "api_key_header", "secret_ref": "k", "header_name": "X-Key"},
        "http": {"headers": {"X-UserId": "{{ userId }}"}, "idempotency_header": "Idempotency-Key"},
    });
    let one = Resource::from_manifest(manifest(camel)).unwrap();
    assert_eq!(one, Resource::from_manifest(manifest(snake_case_keys)).unwrap());
    let Resource::Tool(declared) = one else { unreachable!() };
    assert_eq!(declared.tool.input_schema["properties"]["userId"]["maxLength"], 3);
    assert!(declared.tool.http.unwrap().headers.contains_key("X-UserId"));
}

#[test]
fn references_to_mcp_tools_have_two_spellings() {
    let spec = json!({"type": "mcp", "mcp_server_ref": "time", "mcp_tool_name": "now"});
    let manifest = json!({"kind": "Tool", "metadata": {"name": "t"}, "spec": spec});
    let Resource::Tool(declared) = Resource::from_manifest(manifest).unwrap() else {
        unreachable!()
    };
    assert_eq!(declared.tool.kind, ToolType::Mcp);
    let reference = declared.tool.mcp.unwrap();
    assert_eq!((reference.server.as_str(), reference.tool.as_str()), ("time", "now"));
}

#[test]
fn what_is_not_known_is_refused_with_its_place() {
    let of = |kind: &str, spec: Value| {
        error_of(json!({"kind": kind, "metadata": {"name": "x"}, "spec": spec}))
    };
    let cases = [
        (error_of(json!(3)), "it is not a mapping"),
        (error_of(json!({"metadata": {"name": "x"}})), "kind: it is missing"),
        (error_of(json!({"kind": "Pod", "metadata": {"name": "x"}})), "there is no kind `Pod`"),
        (error_of(json!({"kind": "Tool"})), "metadata: it is missing"),
        (error_of(json!({"kind": "Tool", "metadata": {}})), "metadata.name: it is missing"),
        (
            error_of(json!({"apiVersion": "v9", "kind": "Tool", "metadata": {"name": "x"}})),
            "apiVersion: \"v9\" is not supported",
        ),
        (
            error_of(json!({"kind": "Tool", "metadata": {"name": "x"}, "sepc": {}})),
            "sepc: unknown field",
        ),
        (
            error_of(json!({"kind": "Tool", "metadata": {"name": "x", "nmespace": "y"}})),
            "metadata.nmespace: unknown field",
        ),
        (of("Tool", json!({"endpiont": "https://x"})), "spec.endpiont: unknown field"),
        (of("Tool", json!({})), "spec.endpoint: it is missing"),
        (
            of("Tool", json!({"endpoint": "https://x", "runtime": {"timeout": "never"}})),
            "spec.runtime.timeout: ",
        ),
        (of("ToolPermission", json!({"apply_mode": "scoped"})), "spec.target_agents: "),
        (of("AgentRole", json!({"name": "y"})), "spec.name: it belongs in the metadata"),
        (of("McpServer", json!({"transport": "stdio"})), "spec.command: it is missing"),
        (
            of("McpServer", json!({"transport": "http", "endpoint": "https://x", "command": "y"})),
            "an HTTP server has no command",
        ),
        (
            of("McpServer", json!({"transport": "stdio", "command": "c", "env": [{"name": "A"}]})),
            "spec.env[0]: it needs exactly one of",
        ),
        (of("Agent", json!({"max_turns": 0})), "spec.max_turns: it is zero"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "`{said}` does not say `{expected}`");
    }
}

#[test]
fn a_policy_without_a_mode_is_for_those_it_names() {
    let manifest =
        json!({"kind": "AgentPolicy", "metadata": {"name": "p"}, "spec": {"targetTasks": ["t"]}});
    let Resource::AgentPolicy(policy) = Resource::from_manifest(manifest).unwrap() else {
        unreachable!()
    };
    assert_eq!(policy.apply_mode, ApplyMode::Scoped);
}
