use std::fs;
use std::sync::Arc;

use provost_core::ToolCall;
use provost_core::policy::{PolicyDecision, PolicySubject, ToolAttributes};
use provost_core::resource::OperationClass;
use provost_tool::{
    CallOrigin, FnTool, Guard, GuardDecision, GuardServices, PolicyProvider as _, Tool, ToolOutput,
    ToolSpec,
};
use serde_json::json;

use super::*;

const MANIFESTS: &str = "\
kind: Tool
metadata: {name: search}
spec: {endpoint: 'https://example.com/search', effect: pure}
---
kind: Tool
metadata: {name: pay}
spec: {endpoint: 'https://example.com/pay'}
---
kind: AgentRole
metadata: {name: payer}
spec: {permissions: ['pay:invoke']}
---
kind: ToolPermission
metadata: {name: pay}
spec:
  required_permissions: ['pay:invoke']
  operation_rules:
  - {operation_class: write, verdict: approval_required}
---
kind: Agent
metadata: {name: clerk}
spec: {tools: ['*'], roles: [payer]}
---
kind: Agent
metadata: {name: guest}
spec: {tools: [search]}
";

fn refused(text: &str) -> String {
    ResourceSet::parse(text).unwrap_err().to_string()
}

#[test]
fn errors_name_the_line_of_the_mistake() {
    let tool = "kind: Tool\nmetadata: {name: a}\nspec: {endpoint: 'https://x.example'}\n";
    let cases = [
        (refused("kind: Tool\n  bad: [\n"), "line "),
        (refused("kind: Tool\nkind: Tool\n"), "duplicate"),
        (
            refused(&format!("{tool}---\n{}", tool.replace(" a}", " A}"))),
            "line 5: Tool `default/A` is already declared at line 1",
        ),
        (
            refused("kind: Agent\nmetadata: {name: a}\nspec: {tools: [serach]}\n"),
            "line 1: agent `a` refers to tool `serach`, which is not declared in namespace `default`",
        ),
        (
            refused("kind: Agent\nmetadata: {name: a}\nspec: {roles: [boss]}\n"),
            "refers to role `boss`",
        ),
        (
            refused(
                "kind: Tool\nmetadata: {name: t}\nspec: {type: mcp, mcp: {server: s, tool: t}}\n",
            ),
            "tool `t` refers to MCP server `s`",
        ),
        (
            refused(&format!(
                "{tool}---\nkind: Tool\nmetadata: {{name: b}}\nspec:\n  endpoint: https://y.example\n  runtime:\n    timeout: soon\n"
            )),
            "line 10: spec.runtime.timeout: ",
        ),
        (refused("[]\n---\n- 3\n"), "it is not a mapping"),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "`{message}` does not contain `{expected}`");
    }
    // References do not cross namespaces.
    let apart = "kind: Agent\nmetadata: {name: a, namespace: other}\nspec: {tools: [a]}\n";
    assert!(refused(&format!("{tool}---\n{apart}")).contains("in namespace `other`"));
}

#[test]
fn files_are_read_in_order_and_hidden_files_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let role = |name: &str| format!("kind: AgentRole\nmetadata: {{name: {name}}}\n");
    write("b/roles.yml", &role("two"));
    write("a.yaml", &role("one"));
    write("c.json", r#"[{"kind": "AgentRole", "metadata": {"name": "three"}}]"#);
    write(".git/x.yaml", "kind: nonsense");
    write("notes.txt", "kind: nonsense");
    ResourceSet::read(dir.path()).unwrap();
    write("z.yaml", &role("ONE"));
    let message = ResourceSet::read(dir.path()).unwrap_err().to_string();
    assert!(message.contains("z.yaml:1") && message.contains("a.yaml:1"), "{message}");
    let message = ResourceSet::read(&dir.path().join("nowhere")).unwrap_err().to_string();
    assert!(message.contains("nowhere"), "{message}");
    let file = fs::File::create(dir.path().join("big.yaml")).unwrap();
    file.set_len(FILE_BYTES_MAX + 1).unwrap();
    let message = ResourceSet::read(&dir.path().join("big.yaml")).unwrap_err().to_string();
    assert!(message.contains("split it"), "{message}");
}

#[test]
fn a_flood_of_aliases_is_refused() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (now, before) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        let many = vec![format!("*{before}"); 10].join(", ");
        text.push_str(&format!("{now}: &{now} [{many}]\n"));
    }
    assert!(ResourceSet::parse(&text).is_err());
}

#[tokio::test]
async fn roles_come_only_from_the_declaration() {
    let provider = ManifestPolicy::new(Arc::new(ResourceSet::parse(MANIFESTS).unwrap()));
    let decide = async |agent: &str| {
        let origin = CallOrigin { agent: agent.to_owned(), ..CallOrigin::default() };
        let governance = provider.policy(&origin).await.unwrap();
        governance.decide(&ToolAttributes::new("pay", &[OperationClass::Write]), "invoke")
    };
    assert!(matches!(decide("clerk").await, PolicyDecision::Approval { .. }));
    assert!(matches!(decide("guest").await, PolicyDecision::Deny { .. }));
    assert!(matches!(decide("stranger").await, PolicyDecision::Deny { .. }));
    let declared = ResourceSet::parse(MANIFESTS).unwrap();
    let revision = |text: &str, roles: &[&str]| {
        let mut subject = PolicySubject::new("default", "clerk");
        subject.roles = roles.iter().map(ToString::to_string).collect();
        ResourceSet::parse(text).unwrap().compile_policy(subject).unwrap().revision().to_owned()
    };
    assert_eq!(declared.unmatched_permissions(), Vec::<String>::new());
    assert_eq!(revision(MANIFESTS, &["payer"]), revision(MANIFESTS, &["payer"]));
    assert_ne!(revision(MANIFESTS, &["payer"]), revision(MANIFESTS, &[]));
    let changed = MANIFESTS.replace("approval_required", "allow");
    assert_ne!(revision(MANIFESTS, &["payer"]), revision(&changed, &["payer"]));
    let renamed =
        MANIFESTS.replace("metadata: {name: pay}\nspec:\n", "metadata: {name: pya}\nspec:\n");
    assert_eq!(ResourceSet::parse(&renamed).unwrap().unmatched_permissions().len(), 1);
}

/// Returns a call of the clerk under a guard.
fn pay(guard: &Guard) -> GuardDecision {
    let spec = ToolSpec::new("pay", "Pays", json!({"type": "object"})).unwrap();
    let tool: Arc<dyn Tool> = Arc::new(FnTool::new(spec, |_permit, _cx| {
        Box::pin(std::future::ready(Ok(ToolOutput::text("paid"))))
    }));
    guard.check(&tool, &ToolCall::new("c1", "pay", &json!({})), false)
}

#[tokio::test]
async fn replaced_rules_apply_to_the_next_call() {
    let parse = |text: &str| Arc::new(ResourceSet::parse(text).unwrap());
    let allowing = parse(&MANIFESTS.replace("approval_required", "allow"));
    let provider = Arc::new(ManifestPolicy::new(Arc::clone(&allowing)));
    let services =
        GuardServices { policies: Some(Arc::clone(&provider) as _), ..GuardServices::default() };
    let origin = CallOrigin { agent: "clerk".to_owned(), ..CallOrigin::default() };
    let guard = Guard::default().with_services(services).for_run(origin).await;
    assert!(matches!(pay(guard.refresh().await.as_ref()), GuardDecision::Allow(_)));
    provider.replace(parse(MANIFESTS));
    assert!(matches!(pay(&guard), GuardDecision::Allow(_)), "a compiled policy does not change");
    assert!(matches!(pay(guard.refresh().await.as_ref()), GuardDecision::Ask(_)));
    provider.replace(parse(&MANIFESTS.replace("approval_required", "deny")));
    assert!(matches!(pay(guard.refresh().await.as_ref()), GuardDecision::Deny(_)));
    provider.replace(allowing);
    assert!(matches!(pay(guard.refresh().await.as_ref()), GuardDecision::Allow(_)));
}

#[test]
fn diff_lists_each_changed_resource() {
    let before = ResourceSet::parse(MANIFESTS).unwrap();
    let moved = format!("\n\n{MANIFESTS}");
    assert_eq!(before.diff(&ResourceSet::parse(&moved).unwrap()), Vec::new());
    let after = MANIFESTS
        .replace("metadata: {name: guest}", "metadata: {name: Visitor}")
        .replace("verdict: approval_required", "verdict: allow");
    let changes = before.diff(&ResourceSet::parse(&after).unwrap());
    let lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "added Agent default/visitor",
            "removed Agent default/guest",
            "changed ToolPermission default/pay"
        ]
    );
}

#[test]
fn a_stored_set_is_the_set_of_its_manifests() {
    let set = ResourceSet::parse(MANIFESTS).unwrap();
    let document = set.to_document();
    let read = ResourceSet::from_document(&document).unwrap();
    assert_eq!(set.diff(&read), Vec::new());
    assert_eq!(read.to_document(), document);
    let moved = ResourceSet::parse(&format!("\n\n{MANIFESTS}")).unwrap();
    assert_eq!(moved.to_document(), document, "the place of a manifest does not matter");
    let changed = ResourceSet::parse(&MANIFESTS.replace("approval_required", "allow")).unwrap();
    assert_ne!(ResourceSet::hash_of(&changed.to_document()), ResourceSet::hash_of(&document));
    assert!(ResourceSet::from_document(r#"{"rules": []}"#).is_err());
}
