use serde_json::json;

use super::*;

fn spec(fields: Value) -> AgentSpec {
    serde_json::from_value(fields).unwrap()
}

fn change(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_change_is_merged_into_the_definition() {
    let base = AgentSpec::default_for("lead")
        .merged(&change(json!({"skills": {"a": 1, "b": {"c": 2}}, "model": "openai/x"})))
        .unwrap();
    let changed =
        base.merged(&change(json!({"skills": {"b": {"d": 3}, "a": null}, "model": null}))).unwrap();
    assert_eq!(changed.extensions["skills"], json!({"b": {"c": 2, "d": 3}}));
    assert_eq!(changed.model, None);
    assert_eq!(changed.system_prompt, base.system_prompt);
    assert_eq!(changed.workspace_dir.as_deref(), Some("agents/lead"));
    let error = base.merged(&change(json!({"max_turns": "many"}))).unwrap_err();
    assert!(error.problem.contains("many"), "{error}");
}

#[test]
fn an_unusable_field_is_rejected_by_its_path() {
    for (fields, path) in [
        (json!({"runner": "claude_code"}), "runner"),
        (json!({"provider": "nobody"}), "provider"),
        (json!({"provider": "openai", "model": "anthropic/x"}), "provider"),
        (json!({"workspace_dir": "../up"}), "workspace_dir"),
        (json!({"workspace": "/etc"}), "workspace"),
        (json!({"terminal": {"resources": "/home"}}), "terminal"),
    ] {
        assert_eq!(spec(fields).validate().unwrap_err().path, path);
    }
    AgentSpec::default_for("lead").validate().unwrap();
    AgentSpec::default().validate().unwrap();
}

#[test]
fn defaults_are_not_stored_and_unknown_fields_are_kept() {
    assert_eq!(json!(AgentSpec::default()), json!({}));
    assert_eq!(spec(json!({"policy": null, "queue": null})), AgentSpec::default());
    let fields = json!({
        "tools": false, "declared_tools": ["pay"], "files": "rw", "shell": true, "ask_user": false,
        "children": true, "clocks": {"queue_ms": 5}, "approve_start": true, "my_key": {"a": 1},
    });
    assert_eq!(json!(spec(fields.clone())), fields);
    for wrong in [json!({"clocks": {"queue": 5}}), json!({"files": "all"}), json!({"tools": 7})] {
        serde_json::from_value::<AgentSpec>(wrong).unwrap_err();
    }
}

#[test]
fn an_agent_name_is_a_short_word() {
    check_agent_name("lead-2.x").unwrap();
    for bad in ["", "a b", "a/b", &"x".repeat(65)] {
        assert_eq!(check_agent_name(bad).unwrap_err().path, "name", "{bad}");
    }
}

#[test]
fn a_timeout_of_zero_is_no_limit() {
    let nine = Some(std::time::Duration::from_secs(9));
    let timeouts = spec(json!({"clocks": {"queue_ms": 5}})).timeouts;
    assert_eq!(timeouts.queue(), Some(std::time::Duration::from_millis(5)));
    assert_eq!(timeouts.attempt(nine), nine);
    assert_eq!(spec(json!({"clocks": {"attempt_ms": 0}})).timeouts.attempt(nine), None);
}

#[test]
fn definitions_of_earlier_versions_are_read() {
    let old = json!({
        "model": "openai/x", "policy": {"interactive": true},
        "terminal": {
            "base_url": "http://localhost:1", "tools": true, "notes_dir": "/home/ada/notes",
            "files": {"dir": "/home/ada/pears", "write": true}, "resources": "/home/ada/house",
            "shell": {"which": "allowlist", "ask": "on-miss", "allow": ["git status"], "files": "conversation"},
            "max_turns": 3, "timeout_ms": 500,
        },
    });
    let read = AgentSpec::from_stored(&old.to_string()).unwrap();
    assert_eq!(read.endpoint.as_ref().unwrap().base_url.as_deref(), Some("http://localhost:1"));
    assert_eq!(
        (read.files, read.max_turns, read.timeout_ms),
        (FileAccess::ReadWrite, Some(3), Some(500))
    );
    assert!(read.workspace.as_ref().unwrap().starts_with("pears-"));
    assert_eq!(
        (read.declared_tools.as_slice(), read.mcp_servers.as_slice()),
        (&["*".to_owned()][..], &["*".to_owned()][..])
    );
    let AgentShell::Own(shell) = &read.shell else { panic!("{:?}", read.shell) };
    assert_eq!(shell.workspace, ShellWorkspace::Session);
    assert!(read.extensions.is_empty(), "{:?}", read.extensions);
    assert_eq!(AgentSpec::from_stored(&json!(read).to_string()).unwrap(), read);
    let declared = AgentSpec::from_stored(r#"{"declared": true, "max_turns": 2}"#).unwrap();
    assert_eq!(declared, AgentSpec { max_turns: Some(2), ..AgentSpec::default() });
}
