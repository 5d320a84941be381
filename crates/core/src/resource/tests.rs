//! What declared roles, rules and policies become.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn read<T: DeserializeOwned>(
    given: Value,
    normalized: impl Fn(T) -> Result<T, ResourceError>,
) -> Result<T, String> {
    serde_json::from_value::<T>(given)
        .map_err(|error| error.to_string())
        .and_then(|resource| normalized(resource).map_err(|error| error.to_string()))
}

#[test]
fn a_role_holds_each_permission_once() {
    let given =
        json!({"name": " ops ", "permissions": [" Tool:x:invoke", "tool:X:invoke", "", "b"]});
    let role = read(given, AgentRole::normalized).unwrap();
    assert_eq!((role.name.as_str(), role.namespace.as_str()), ("ops", "default"));
    assert_eq!(role.permissions, ["Tool:x:invoke", "b"]);
}

#[test]
fn a_rule_gets_its_defaults() {
    let rule = read(json!({"name": "search"}), ToolPermission::normalized).unwrap();
    assert_eq!((rule.tool_ref.as_str(), rule.action.as_str()), ("search", "invoke"));
    assert_eq!((rule.match_mode, rule.apply_mode), (MatchMode::All, ApplyMode::Global));
    let line: OperationRule = serde_json::from_value(json!({})).unwrap();
    assert_eq!((line.operation_class, line.verdict), Default::default());
    let empty: OperationRule = serde_json::from_value(json!({"operation_class": ""})).unwrap();
    assert_eq!(empty.operation_class, OperationMatch::Any);
    let given = json!({"name": "r", "approvers": {"required": 2, "of": ["a", "b", "A"]}});
    let approvers = read(given, ToolPermission::normalized).unwrap().approvers.unwrap();
    assert_eq!(
        (approvers.required, approvers.of.len(), approvers.exclude_requester),
        (2, 2, false)
    );
}

#[test]
fn a_policy_gets_its_defaults() {
    let given = json!({"name": "p", "target_tasks": ["t", "T "], "max_tokens_per_run": 0});
    let policy = read(given, AgentPolicy::normalized).unwrap();
    assert_eq!(policy.apply_mode, ApplyMode::Scoped);
    assert_eq!((policy.target_tasks.len(), policy.max_tokens_per_run), (1, None));
    assert!(policy.applies_to("default", "T", "") && policy.applies_to("default", " t ", "s"));
    assert!(!policy.applies_to("other", "t", "") && !policy.applies_to("default", "", ""));
    let global = AgentPolicy::global("a", "p");
    assert!(global.applies_to("a", "", "") && !global.applies_to("b", "", ""));
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let rule = |given: Value| read(given, ToolPermission::normalized).unwrap_err();
    for (given, place) in [
        (json!({"name": " "}), "name"),
        (json!({"name": "r", "apply_mode": "scoped"}), "target_agents"),
        (json!({"name": "r", "apply_mode": "scoped", "target_agents": [" "]}), "target_agents"),
        (json!({"name": "r", "match_mode": "some"}), "match mode"),
        (json!({"name": "r", "operation_rules": [{"operation_class": "exec"}]}), "exec"),
        (json!({"name": "r", "operation_rules": [{"verdict": "maybe"}]}), "maybe"),
        (json!({"name": "r", "approvers": {"required": 0}}), "approvers.required"),
        (json!({"name": "r", "approvers": {"required": 33}}), "approvers.required"),
        (json!({"name": "r", "approvers": {"required": 2, "of": ["a", "A"]}}), "approvers.of"),
        (json!({"name": "r", "wat": 1}), "wat"),
    ] {
        let error = rule(given.clone());
        assert!(error.contains(place), "{given}: {error}");
    }
    let policy = |given: Value| read(given, AgentPolicy::normalized).unwrap_err();
    assert!(policy(json!({"name": "p"})).contains("target_systems"));
    assert!(policy(json!({"name": "p", "apply_mode": "all"})).contains("apply mode"));
    assert!(policy(json!({"name": "p", "max_tokens_per_run": -1})).contains("-1"));
    assert!(read(json!({"name": ""}), AgentRole::normalized).unwrap_err().contains("name"));
}
