//! The same decision, written a second time: no tables, no early answers, every opinion collected and then the
//! strictest taken.

use super::super::{PolicySources, ToolAttributes};
use crate::execution_policy::{CommandApproval, CommandPolicy};
use crate::resource::{
    AgentPolicy, ApplyMode, MatchMode, OperationClass, OperationVerdict, RiskLevel, ToolPermission,
    ToolType,
};

/// What may be said, from the widest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Say {
    Yes,
    Ask,
    No,
}

fn same(one: &str, two: &str) -> bool {
    let form = |text: &str| -> String {
        let text = text.to_lowercase().replace(['/', '\\', '-'], "_");
        text.split_whitespace().collect()
    };
    form(one) == form(two)
}

fn list_has(list: &[String], word: &str) -> bool {
    list.iter().any(|one| same(one, word))
}

/// Every permission of every role that the subject has in its own namespace.
fn permitted(parts: &PolicySources) -> Vec<String> {
    let mut all = Vec::new();
    for role in &parts.roles {
        let given = parts.subject.roles.iter().any(|name| name.eq_ignore_ascii_case(&role.name));
        if role.namespace == parts.subject.namespace && given {
            all.extend(role.permissions.clone());
        }
    }
    all
}

fn missing_role(parts: &PolicySources) -> bool {
    let exists = |name: &String| {
        let there = |role: &&crate::resource::AgentRole| role.name.eq_ignore_ascii_case(name);
        parts
            .roles
            .iter()
            .filter(|role| role.namespace == parts.subject.namespace)
            .any(|r| there(&r))
    };
    parts.subject.roles.iter().any(|name| !exists(name))
}

fn policy_blocks(parts: &PolicySources, policy: &AgentPolicy, tool: &str) -> bool {
    let subject = &parts.subject;
    let mine = policy.namespace == subject.namespace;
    let matches = policy.apply_mode == ApplyMode::Global
        || policy.target_tasks.contains(&subject.task)
        || policy.target_systems.contains(&subject.system);
    mine && matches && list_has(&policy.blocked_tools, tool)
}

fn concerns(parts: &PolicySources, rule: &ToolPermission, tool: &str, action: &str) -> bool {
    rule.namespace == parts.subject.namespace
        && same(&rule.tool_ref, tool)
        && same(&rule.action, action)
        && (rule.apply_mode == ApplyMode::Global
            || list_has(&rule.target_agents, &parts.subject.agent))
}

fn by_itself(tool: &ToolAttributes<'_>, action: &str) -> Vec<String> {
    let mut needs = vec![format!("tool:{}:{action}", tool.name)];
    needs.extend(tool.capabilities.iter().map(|label| format!("capability:{label}")));
    needs
}

fn line(rule: &ToolPermission, class: OperationClass) -> Option<OperationVerdict> {
    let of = |word: &str| {
        let lines = rule.operation_rules.iter();
        lines.filter(|line| line.operation_class.as_str() == word).map(|line| line.verdict).max()
    };
    of(class.as_str()).or(of("*"))
}

/// The strictest of everything that anything says.
pub(super) fn say(parts: &PolicySources, tool: &ToolAttributes<'_>, action: &str) -> Say {
    let has = permitted(parts);
    let has_all = |needs: &[String]| needs.iter().all(|need| list_has(&has, need));
    let mut said = vec![Say::Yes];
    if parts.policies.iter().any(|policy| policy_blocks(parts, policy, tool.name)) {
        said.push(Say::No);
    }
    if missing_role(parts) {
        said.push(Say::No);
    }
    let rules: Vec<&ToolPermission> =
        parts.permissions.iter().filter(|rule| concerns(parts, rule, tool.name, action)).collect();
    let mut every_class_is_granted = true;
    let mut every_class_is_allowed_in_words = true;
    for class in tool.operations {
        let (mut granted, mut in_words) = (false, false);
        for rule in &rules {
            let required = &rule.required_permissions;
            let fine = match (required.is_empty(), rule.match_mode) {
                (true, _) if rule.operation_rules.is_empty() => has_all(&by_itself(tool, action)),
                (true, _) => true,
                (false, MatchMode::All) => has_all(required),
                (false, MatchMode::Any) => required.iter().any(|need| list_has(&has, need)),
            };
            if !fine {
                said.push(Say::No);
            }
            match line(rule, *class) {
                Some(OperationVerdict::Deny) => said.push(Say::No),
                Some(OperationVerdict::ApprovalRequired) => {
                    said.push(Say::Ask);
                    granted = true;
                }
                Some(OperationVerdict::Allow) => (granted, in_words) = (true, true),
                // A rule that required something and got it speaks for the rest of the tool as well.
                None => granted |= !required.is_empty() || rule.operation_rules.is_empty(),
            }
        }
        if !granted {
            let listed = list_has(&parts.subject.allowed_tools, tool.name);
            let roles = !parts.subject.roles.is_empty();
            granted = listed || (roles && has_all(&by_itself(tool, action)));
            if !granted && (roles || *class != OperationClass::Read) {
                said.push(Say::No);
            }
        }
        every_class_is_granted &= granted;
        every_class_is_allowed_in_words &= in_words;
    }
    if tool.risk == RiskLevel::Critical && !every_class_is_allowed_in_words {
        said.push(Say::Ask);
    }
    let commands = tool.kind == Some(ToolType::Cli) || list_has(tool.capabilities, "exec");
    let changes = tool.operations.iter().any(|class| *class != OperationClass::Read);
    match (commands, parts.exec.security, parts.exec.ask) {
        (true, CommandPolicy::Deny, _) => said.push(Say::No),
        (true, CommandPolicy::Allowlist, CommandApproval::Off) if !every_class_is_granted => {
            said.push(Say::No)
        }
        (true, CommandPolicy::Allowlist, CommandApproval::OnMiss) if !every_class_is_granted => {
            said.push(Say::Ask)
        }
        (true, _, CommandApproval::Always) => said.push(Say::Ask),
        (false, _, CommandApproval::Always) if changes => said.push(Say::Ask),
        _ => {}
    }
    said.into_iter().max().unwrap()
}
