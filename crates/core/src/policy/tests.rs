//! Decisions one by one; `table.rs` has all of them.

use std::time::{Duration, Instant};

use super::*;
use crate::execution_policy::{CommandApproval, CommandPolicy};
use crate::resource::{ApplyMode, MatchMode, OperationRule, OperationVerdict};

mod oracle;
mod table;

const INVOKE: &str = "invoke";
const READ: &[OperationClass] = &[OperationClass::Read];
const WRITE: &[OperationClass] = &[OperationClass::Write];

fn clerk() -> PolicySources {
    PolicySources::new("r1", PolicySubject::new("default", "clerk"))
}

fn with_roles(names: &[&str]) -> PolicySources {
    let mut parts = clerk();
    parts.subject.roles = names.iter().map(|name| (*name).to_owned()).collect();
    parts
}

fn rule(name: &str, tool: &str, lines: &[(&str, OperationVerdict)]) -> ToolPermission {
    let line = |(class, verdict): &(&str, OperationVerdict)| OperationRule {
        operation_class: class.parse().unwrap(),
        verdict: *verdict,
    };
    ToolPermission {
        operation_rules: lines.iter().map(line).collect(),
        ..ToolPermission::new("default", name, tool)
    }
}

fn decide(parts: PolicySources, tool: &ToolAttributes<'_>) -> String {
    let decision = CompiledPolicy::compile(parts).unwrap().decide(tool, INVOKE);
    format!("{}: {}", decision.as_str(), decision.reason())
}

fn check(parts: PolicySources, tool: &ToolAttributes<'_>, expected: &str) {
    assert_eq!(decide(parts, tool), expected);
}

#[test]
fn nobody_speaks_so_reading_is_allowed_and_writing_is_not() {
    check(clerk(), &ToolAttributes::new("t", READ), "allow: it only reads");
    let no = "deny: no rule lets agent `clerk` use tool `t` for `write`";
    check(clerk(), &ToolAttributes::new("t", WRITE), no);
    check(clerk(), &ToolAttributes::new("t", &[]), no);
    check(clerk(), &ToolAttributes::new("t", &[OperationClass::Read, OperationClass::Write]), no);
}

#[test]
fn a_role_that_does_not_exist_denies_and_is_named() {
    let mut parts = with_roles(&["ops", "gone", "other/x"]);
    parts.roles.push(AgentRole::new("default", "ops", ["tool:t:invoke"]));
    parts.roles.push(AgentRole::new("other", "x", ["tool:t:invoke"]));
    parts.roles.push(AgentRole::new("other", "gone", ["tool:t:invoke"]));
    let no = "deny: agent `clerk` has roles that do not exist: `gone`, `other/x`";
    check(parts, &ToolAttributes::new("t", READ), no);
}

#[test]
fn roles_permit_by_the_name_of_the_tool_and_its_capabilities() {
    let mut parts = with_roles(&["default/Ops"]);
    parts.roles.push(AgentRole::new("default", "ops", ["TOOL:T-1:invoke", "capability: Net"]));
    let net = ["net".to_owned()];
    let tool = ToolAttributes { capabilities: &net, ..ToolAttributes::new("t/1", WRITE) };
    check(parts.clone(), &tool, "allow: agent `clerk` has the permission");
    let more = ["net".to_owned(), "disk".to_owned()];
    let tool = ToolAttributes { capabilities: &more, ..tool };
    let no =
        "deny: no rule covers `write` with tool `t/1`, and agent `clerk` lacks `capability:disk`";
    check(parts.clone(), &tool, no);
    let star = ToolAttributes::new("*", READ);
    assert!(decide(parts, &star).starts_with("deny"), "there are no wildcards");
}

#[test]
fn a_list_of_the_agent_opens_no_door_that_a_rule_closes() {
    use OperationVerdict::{ApprovalRequired, Deny};
    let tool = ToolAttributes::new("t", WRITE);
    let mut parts = clerk();
    parts.subject.allowed_tools.push(" T ".to_owned());
    check(parts.clone(), &tool, "allow: agent `clerk` has the permission");
    let mut blocked = parts.clone();
    let policy = AgentPolicy::global("default", "lock");
    blocked.policies.push(AgentPolicy { blocked_tools: vec!["T".to_owned()], ..policy });
    check(blocked.clone(), &tool, "deny: policy `lock` blocks tool `t`");
    let other = ToolAttributes::new("other", READ);
    check(blocked, &other, "allow: it only reads");
    let mut isolating = parts.clone();
    for (name, risk) in [("late", RiskLevel::Critical), ("early", RiskLevel::High)] {
        let policy = AgentPolicy::global("default", name);
        isolating.policies.push(AgentPolicy { isolate_from: Some(risk), ..policy });
    }
    let said = "deny: policy `early` requires a sandbox for tools of risk `high` and above, but tool `t` of risk `high` runs without one";
    let risky = ToolAttributes { risk: RiskLevel::High, ..ToolAttributes::new("t", WRITE) };
    check(isolating.clone(), &risky, said);
    let (isolated, little) = (true, RiskLevel::Medium);
    let allowed = "allow: agent `clerk` has the permission";
    check(isolating.clone(), &ToolAttributes { is_isolated: isolated, ..risky }, allowed);
    check(isolating, &ToolAttributes { risk: little, ..ToolAttributes::new("t", WRITE) }, allowed);
    for (verdict, said) in [
        (Deny, "deny: rule `r` denies `write`"),
        (ApprovalRequired, "approval_required: rule `r` asks for approval of `write`"),
    ] {
        let mut ruled = parts.clone();
        ruled.permissions.push(rule("r", "t", &[("write", verdict)]));
        check(ruled, &tool, said);
    }
    let mut unmet = parts;
    unmet.permissions.push(ToolPermission {
        required_permissions: vec!["deploy".to_owned()],
        ..ToolPermission::new("default", "r", "t")
    });
    check(unmet, &tool, "deny: rule `r` requires `deploy`");
}

#[test]
fn of_several_rules_the_strictest_counts_and_the_first_name_is_told() {
    use OperationVerdict::{Allow, ApprovalRequired, Deny};
    let tool = ToolAttributes::new("t", WRITE);
    let mut parts = clerk();
    parts.permissions.push(rule("c", "t", &[("*", Allow)]));
    check(parts.clone(), &tool, "allow: rule `c` allows it");
    parts.permissions.push(rule("z", "t", &[("*", ApprovalRequired)]));
    parts.permissions.push(rule("b", "t", &[("write", ApprovalRequired), ("*", Deny)]));
    check(parts.clone(), &tool, "approval_required: rule `b` asks for approval of `write`");
    parts.permissions.push(rule("y", "t", &[("write", Deny)]));
    parts.permissions.push(rule("x", "t", &[("write", Allow), ("write", Deny)]));
    check(parts, &tool, "deny: rule `x` denies `write`");
}

#[test]
fn rules_of_another_action_agent_or_namespace_say_nothing() {
    let tool = ToolAttributes::new("t", WRITE);
    let allow = rule("r", "t", &[("*", OperationVerdict::Allow)]);
    let action = ToolPermission { action: "Preview".to_owned(), ..allow.clone() };
    let agent = ToolPermission {
        apply_mode: ApplyMode::Scoped,
        target_agents: vec!["boss".to_owned()],
        ..allow.clone()
    };
    let place = ToolPermission { namespace: "other".to_owned(), ..allow.clone() };
    let other = ToolPermission { tool_ref: "other/t".to_owned(), ..allow };
    for one in [action.clone(), agent.clone(), place, other] {
        let mut parts = clerk();
        parts.permissions.push(one);
        assert!(decide(parts, &tool).starts_with("deny: no rule"));
    }
    let mut parts = clerk();
    parts.permissions.push(action);
    let governance = CompiledPolicy::compile(parts).unwrap();
    assert!(matches!(governance.decide(&tool, "preview"), PolicyDecision::Allow { .. }));
    let mut parts = clerk();
    parts.subject.agent = "BOSS".to_owned();
    parts.permissions.push(agent);
    check(parts, &tool, "allow: rule `r` allows it");
}

#[test]
fn one_of_the_required_permissions_is_enough_where_the_rule_says_so() {
    let tool = ToolAttributes::new("t", WRITE);
    let mut parts = with_roles(&["ops"]);
    parts.roles.push(AgentRole::new("default", "ops", ["b"]));
    let required = vec!["a".to_owned(), "B".to_owned()];
    let rule = ToolPermission {
        required_permissions: required,
        ..ToolPermission::new("default", "r", "t")
    };
    parts.permissions.push(ToolPermission { match_mode: MatchMode::Any, ..rule.clone() });
    check(parts.clone(), &tool, "allow: rule `r` allows it");
    parts.permissions[0] = rule;
    check(parts, &tool, "deny: rule `r` requires `a`");
}

#[test]
fn critical_risk_needs_a_person_or_a_rule_that_allows_it() {
    let critical = ToolAttributes { risk: RiskLevel::Critical, ..ToolAttributes::new("t", READ) };
    let asks = "approval_required: tool `t` is of critical risk and no rule allows it";
    check(clerk(), &critical, asks);
    let mut listed = clerk();
    listed.subject.allowed_tools.push("t".to_owned());
    check(listed, &critical, asks);
    let mut ruled = clerk();
    ruled.permissions.push(rule("r", "t", &[("read", OperationVerdict::Allow)]));
    check(ruled, &critical, "allow: rule `r` allows it");
}

#[test]
fn the_exec_policy_counts_for_commands_and_ask_always_for_every_change() {
    let shell = ["Shell".to_owned()];
    let tool = ToolAttributes { capabilities: &shell, ..ToolAttributes::new("sh", WRITE) };
    let mut parts = clerk();
    parts.permissions.push(rule("r", "sh", &[("*", OperationVerdict::Allow)]));
    check(parts.clone(), &tool, "allow: rule `r` allows it");
    parts.exec.security = CommandPolicy::Deny;
    let no = "deny: the execution policy does not let tool `sh` run commands (`security: deny`)";
    check(parts.clone(), &tool, no);
    let plain = ToolAttributes::new("sh", WRITE);
    check(parts.clone(), &plain, "allow: rule `r` allows it");
    parts.exec.ask = CommandApproval::Always;
    check(
        parts.clone(),
        &plain,
        "approval_required: the execution policy requires approval (`ask: always`)",
    );
    let cli = ToolAttributes { kind: Some(ToolType::Cli), ..ToolAttributes::new("ls", READ) };
    assert!(decide(clerk(), &cli).starts_with("deny: the execution policy"), "nothing permits it");
}

#[test]
fn approvals_of_several_rules_are_all_needed() {
    let approvers = |required, of: &[&str], not_requester| Approvers {
        required,
        of: of.iter().map(|one| (*one).to_owned()).collect(),
        exclude_requester: not_requester,
    };
    let asks = |name: &str, approvers| ToolPermission {
        approvers: Some(approvers),
        ..rule(name, "t", &[("*", OperationVerdict::ApprovalRequired)])
    };
    let tool = ToolAttributes::new("t", WRITE);
    let mut parts = clerk();
    parts.permissions.push(asks("a", approvers(1, &["ann", "bob", "eve"], false)));
    parts.permissions.push(asks("b", approvers(2, &["Bob", "Eve", "joe"], true)));
    parts.permissions.push(asks("c", approvers(1, &[], false)));
    let PolicyDecision::Approval { reason: why, approvers: needed } =
        CompiledPolicy::compile(parts.clone()).unwrap().decide(&tool, INVOKE)
    else {
        panic!("it asks");
    };
    assert!(why.contains("`a`"), "{why}");
    assert_eq!(needed, approvers(2, &["bob", "eve"], true));
    parts.permissions.push(asks("d", approvers(1, &["bob"], false)));
    assert!(decide(parts.clone(), &tool).starts_with("deny: too few people"));
    parts.permissions.push(asks("e", approvers(1, &["zoe"], false)));
    parts.permissions.remove(3);
    assert!(decide(parts, &tool).starts_with("deny: no person may give"));
}

#[test]
fn a_new_name_is_no_way_around_a_rule() {
    let mut parts = clerk();
    parts.permissions.push(rule("r", "nice", &[("*", OperationVerdict::Allow)]));
    parts.permissions.push(rule("s", "evil", &[("write", OperationVerdict::Deny)]));
    let tool = ToolAttributes { alias: Some("evil"), ..ToolAttributes::new("nice", WRITE) };
    check(parts.clone(), &tool, "deny: rule `s` denies `write`");
    parts.permissions[1].operation_rules[0].verdict = OperationVerdict::Allow;
    check(parts.clone(), &tool, "allow: rule `r` allows it");
    parts.permissions.remove(0);
    assert!(decide(parts.clone(), &tool).starts_with("deny: no rule"), "it permits nothing");
    let policy = AgentPolicy::global("default", "lock");
    parts.policies.push(AgentPolicy { blocked_tools: vec!["evil".to_owned()], ..policy });
    check(parts, &tool, "deny: policy `lock` blocks tool `nice`");
}

#[test]
fn policies_bound_models_and_tokens_in_their_namespace() {
    let policy = |namespace: &str, tokens, models: &[&str]| AgentPolicy {
        max_tokens_per_run: Some(tokens),
        allowed_models: models.iter().map(|model| (*model).to_owned()).collect(),
        ..AgentPolicy::global(namespace, "p")
    };
    let mut parts = clerk();
    parts.policies.push(policy("default", 500, &["a", "b"]));
    parts.policies.push(policy("default", 300, &["B", "c"]));
    parts.policies.push(policy("other", 1, &["z"]));
    let governance = CompiledPolicy::compile(parts).unwrap();
    assert_eq!(governance.tokens_max(), Some(300));
    assert!(governance.check_model("acme", " b ").is_ok());
    let no = governance.check_model("acme", "a").unwrap_err();
    assert_eq!(no.to_string(), "policy `p` does not allow model `a`");
    let mut parts = clerk();
    parts.policies.push(policy("default", 1, &["Acme/a"]));
    let governance = CompiledPolicy::compile(parts).unwrap();
    assert!(governance.check_model("acme", "A").is_ok(), "with its provider");
    assert!(governance.check_model("other", "a").is_err());
}

#[test]
fn what_is_not_sound_is_an_error_and_never_left_out() {
    let mut parts = clerk();
    let mut broken = rule("r", "t", &[]);
    broken.apply_mode = ApplyMode::Scoped;
    parts.permissions.push(broken);
    assert_eq!(CompiledPolicy::compile(parts.clone()).unwrap_err().path, "target_agents");
    parts.permissions[0].namespace = "other".to_owned();
    assert!(CompiledPolicy::compile(parts.clone()).is_ok(), "what is not ours does not matter");
    parts.permissions = vec![rule("r", "t", &[]); 100_001];
    assert_eq!(CompiledPolicy::compile(parts).unwrap_err().path, "permissions");
}

/// The last of many rules counts like the first, and a decision among them is quick.
#[test]
fn a_thousand_rules_and_a_hundred_roles() {
    let mut parts = with_roles(&[]);
    for index in 0..100 {
        parts.subject.roles.push(format!("role-{index}"));
        let name = format!("role-{index}");
        parts.roles.push(AgentRole::new("default", name, [format!("p{index}")]));
    }
    for index in 0..5000 {
        let mut one = rule(&format!("r{index:04}"), "t", &[("*", OperationVerdict::Allow)]);
        one.required_permissions = vec![format!("p{}", index % 100)];
        parts.permissions.push(one);
    }
    check(parts.clone(), &ToolAttributes::new("t", WRITE), "allow: rule `r0000` allows it");
    parts.permissions[4999].operation_rules[0].verdict = OperationVerdict::Deny;
    check(parts.clone(), &ToolAttributes::new("t", WRITE), "deny: rule `r4999` denies `write`");
    parts.permissions.truncate(1000);
    let governance = CompiledPolicy::compile(parts).unwrap();
    let (tool, rounds) = (ToolAttributes::new("t", WRITE), 200);
    let started = Instant::now();
    for _ in 0..rounds {
        assert!(matches!(governance.decide(&tool, INVOKE), PolicyDecision::Allow { .. }));
    }
    let each = started.elapsed() / rounds;
    println!("one decision among 1000 rules about one tool: {each:?}");
    // A build for tests is many times slower than one for use; this only catches a search that grew.
    assert!(each < Duration::from_millis(2), "{each:?}");
}
