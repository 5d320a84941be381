//! The truth table: policy × role × permission × operation × risk × ask, each row compared with the oracle.

use std::collections::BTreeMap;

use super::oracle::{Say, say};
use super::*;
use crate::resource::ApplyMode;

const TOOL: &str = "pay";

fn policies() -> Vec<Vec<AgentPolicy>> {
    let blocks = |tool: &str, policy: AgentPolicy| AgentPolicy {
        blocked_tools: vec![tool.to_owned()],
        ..policy
    };
    let global = AgentPolicy::global("default", "p");
    let scoped = |task: &str, system: &str| AgentPolicy {
        apply_mode: ApplyMode::Scoped,
        target_tasks: vec![task.to_owned()],
        target_systems: vec![system.to_owned()],
        ..AgentPolicy::global("default", "p")
    };
    vec![
        vec![],
        vec![blocks("PAY", global.clone())],
        vec![blocks("other", global)],
        vec![blocks(TOOL, AgentPolicy::global("elsewhere", "p"))],
        vec![blocks(TOOL, scoped("nightly", "x"))],
        vec![blocks(TOOL, scoped("x", "y"))],
    ]
}

/// The names that the agent has, and what exists.
fn roles() -> Vec<(Vec<&'static str>, Vec<AgentRole>)> {
    let role = |namespace: &str, permissions: &[&str]| {
        vec![AgentRole::new(namespace, "cashier", permissions.iter().copied())]
    };
    let full = ["tool:pay:invoke", "capability:exec", "money"];
    vec![
        (vec![], vec![]),
        (vec!["cashier"], role("default", &[])),
        (vec!["cashier"], role("default", &["tool:pay:invoke"])),
        (vec!["Cashier"], role("default", &full)),
        (vec!["cashier"], vec![]),
        (vec!["cashier"], role("elsewhere", &full)),
        (vec!["cashier", "ghost"], role("default", &full)),
    ]
}

fn permissions() -> Vec<Vec<ToolPermission>> {
    use OperationVerdict::{Allow, ApprovalRequired, Deny};
    let requires = |words: &[&str], base: ToolPermission| ToolPermission {
        required_permissions: words.iter().map(|word| (*word).to_owned()).collect(),
        ..base
    };
    let plain = || rule("r", "Pay", &[]);
    let allow = || rule("r", TOOL, &[("*", Allow)]);
    let scoped = |agent: &str| ToolPermission {
        apply_mode: ApplyMode::Scoped,
        target_agents: vec![agent.to_owned()],
        ..allow()
    };
    let any = ToolPermission { match_mode: MatchMode::Any, ..plain() };
    let mut all = vec![
        vec![],
        vec![plain()],
        vec![requires(&["money"], plain())],
        vec![requires(&["money", "gold"], plain())],
        vec![requires(&["money", "gold"], any)],
        vec![requires(&["money"], rule("r", TOOL, &[("write", ApprovalRequired)]))],
        vec![allow()],
        vec![rule("r", TOOL, &[("read", Allow)])],
        vec![rule("r", TOOL, &[("write", Allow)])],
        vec![rule("r", TOOL, &[("write", Allow), ("*", ApprovalRequired)])],
        vec![rule("r", TOOL, &[("delete", Deny), ("*", Allow)])],
        vec![rule("r", TOOL, &[("*", ApprovalRequired)])],
        vec![rule("r", TOOL, &[("*", Deny)])],
        vec![scoped("CLERK")],
        vec![scoped("boss")],
        vec![ToolPermission { namespace: "elsewhere".to_owned(), ..allow() }],
        vec![ToolPermission { action: "preview".to_owned(), ..allow() }],
    ];
    for verdict in [Allow, ApprovalRequired, Deny] {
        all.push(vec![allow(), rule("s", TOOL, &[("write", verdict)])]);
        all.push(vec![requires(&["money"], plain()), rule("s", TOOL, &[("read", verdict)])]);
    }
    all
}

struct Shape {
    operations: Vec<OperationClass>,
    risk: RiskLevel,
    commands: bool,
}

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    let both = vec![OperationClass::Read, OperationClass::Write];
    let single = OperationClass::ALL.iter().map(|class| vec![*class]);
    for operations in single.chain([both]) {
        for risk in RiskLevel::ALL {
            for commands in [false, true] {
                shapes.push(Shape { operations: operations.clone(), risk: *risk, commands });
            }
        }
    }
    shapes
}

fn word(decision: &PolicyDecision) -> Say {
    match decision {
        PolicyDecision::Allow { .. } => Say::Yes,
        PolicyDecision::Approval { .. } => Say::Ask,
        PolicyDecision::Deny { .. } => Say::No,
    }
}

/// Every snapshot of the table.
fn snapshots() -> Vec<PolicySources> {
    let mut all = Vec::new();
    for policies in policies() {
        for (names, roles) in roles() {
            for permissions in permissions() {
                for listed in [false, true] {
                    for (security, ask) in pairs() {
                        let mut parts = with_roles(&names);
                        parts.subject.task = "nightly".to_owned();
                        parts.subject.system = "shop".to_owned();
                        parts.subject.allowed_tools =
                            listed.then(|| TOOL.to_owned()).into_iter().collect();
                        parts.roles.clone_from(&roles);
                        parts.permissions.clone_from(&permissions);
                        parts.policies.clone_from(&policies);
                        (parts.exec.security, parts.exec.ask) = (security, ask);
                        all.push(parts);
                    }
                }
            }
        }
    }
    all
}

fn pairs() -> Vec<(CommandPolicy, CommandApproval)> {
    let mut pairs: Vec<_> =
        CommandApproval::ALL.iter().map(|ask| (CommandPolicy::Allowlist, *ask)).collect();
    pairs.extend([
        (CommandPolicy::Deny, CommandApproval::Off),
        (CommandPolicy::Full, CommandApproval::Off),
    ]);
    pairs.push((CommandPolicy::Full, CommandApproval::Always));
    pairs
}

#[test]
fn every_row_of_the_truth_table_is_as_the_oracle_says() {
    let (shapes, exec) = (shapes(), ["exec".to_owned()]);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for parts in snapshots() {
        let governance = CompiledPolicy::compile(parts.clone()).unwrap();
        for shape in &shapes {
            let tool = ToolAttributes {
                capabilities: if shape.commands { &exec } else { &[] },
                risk: shape.risk,
                ..ToolAttributes::new(TOOL, &shape.operations)
            };
            let decision = governance.decide(&tool, INVOKE);
            let expected = say(&parts, &tool, INVOKE);
            assert_eq!(word(&decision), expected, "{decision:?}\n{tool:?}\n{parts:#?}");
            assert!(!decision.reason().is_empty());
            *counts.entry(decision.as_str()).or_default() += 1;
        }
    }
    let rows: usize = counts.values().sum();
    println!("truth table: {rows} rows, {counts:?}");
    assert!(rows > 400_000 && counts.len() == 3, "{counts:?}");
}
