//! What a declared tool becomes.

use super::*;

fn read(text: Value) -> Result<ToolResource, String> {
    serde_json::from_value::<ToolResource>(text)
        .map_err(|error| error.to_string())
        .and_then(|tool| tool.normalized().map_err(|error| error.to_string()))
}

#[test]
fn what_is_not_said_gets_its_default() {
    let tool = read(json!({"name": "search", "endpoint": "https://x.test/q"})).unwrap();
    assert_eq!(tool.kind, ToolType::Http);
    assert_eq!(tool.runtime.timeout.0, Duration::from_secs(30));
    assert_eq!(tool.runtime.retry.max_attempts, 1);
    assert_eq!(tool.isolation(), IsolationMode::None);
    assert_eq!(tool.operations(), [OperationClass::Write]);
    assert_eq!(tool.effect, EffectClass::Opaque);
    let pure = read(json!({"name": "x", "endpoint": "e", "effect": "pure"})).unwrap();
    assert_eq!(pure.operations(), [OperationClass::Read]);
    let risky = read(json!({"name": "x", "endpoint": "e", "risk_level": "high"})).unwrap();
    assert_eq!(risky.isolation(), IsolationMode::Sandboxed);
    assert_eq!(risky.operations(), [OperationClass::Write]);
    let keyed = read(json!({"name": "x", "endpoint": "e", "auth": {"secretRef": "k"}})).unwrap();
    assert_eq!(keyed.auth.unwrap().profile, AuthProfile::Bearer);
}

#[test]
fn wrong_tools_are_refused_with_the_place() {
    for (given, place) in [
        (json!({"name": " ", "endpoint": "e"}), "name"),
        (json!({"name": "x"}), "endpoint"),
        (json!({"name": "x", "type": "mcp"}), "mcp"),
        (json!({"name": "x", "type": "queue", "endpoint": "e"}), "queue"),
        (json!({"name": "x", "endpoint": "e", "wat": 1}), "wat"),
        (json!({"name": "x", "endpoint": "e", "runtime": {"timeout": "soon"}}), "soon"),
        (json!({"name": "x", "endpoint": "e", "runtime": {"timeout": "0s"}}), "runtime.timeout"),
        (
            json!({"name": "x", "endpoint": "e", "runtime": {"retry": {"max_attempts": 0}}}),
            "max_attempts",
        ),
        (json!({"name": "x", "endpoint": "e", "auth": {"secretRef": ""}}), "auth.secretRef"),
        (
            json!({"name": "x", "endpoint": "e", "auth": {"profile": "api_key_header", "secretRef": "k"}}),
            "auth.headerName",
        ),
        (
            json!({"name": "x", "endpoint": "e", "auth": {"profile": "oauth2_client_credentials", "secretRef": "k"}}),
            "auth.tokenURL",
        ),
        (json!({"name": "x", "endpoint": "e", "type": "external", "http": {}}), "http"),
        (json!({"name": "x", "endpoint": "e", "input_schema": 3}), "input_schema"),
        (json!({"name": "x", "type": "wasm"}), "wasm.module"),
        (json!({"name": "x", "type": "wasm", "wasm": {"module": " "}}), "wasm.module"),
        (
            json!({"name": "x", "type": "wasm", "wasm": {"module": "m", "sha256": "ab"}}),
            "wasm.sha256",
        ),
        (json!({"name": "x", "endpoint": "e", "wasm": {"module": "m"}}), "wasm"),
    ] {
        let error = read(given.clone()).unwrap_err();
        assert!(error.contains(place), "{given}: {error}");
    }
}

#[test]
fn a_module_runs_in_its_machine_whatever_its_risk() {
    for risk in ["low", "critical"] {
        let module =
            json!({"name": "x", "type": "wasm", "risk_level": risk, "wasm": {"module": "m.wasm"}});
        let tool = read(module).unwrap();
        assert_eq!(tool.isolation(), IsolationMode::Wasm);
        let wasm = tool.wasm.unwrap();
        assert_eq!((wasm.max_memory_bytes, wasm.fuel), (64 << 20, 10_000_000_000));
        assert_eq!(wasm.fuel_limit(), Some(10_000_000_000));
        assert!(wasm.enable_wasi && !wasm.kv && !wasm.log && wasm.hosts.is_empty());
    }
    let off = json!({"name": "x", "type": "wasm", "wasm": {"module": "m.wasm", "fuel": 0}});
    assert_eq!(read(off).unwrap().wasm.unwrap().fuel_limit(), None);
}
