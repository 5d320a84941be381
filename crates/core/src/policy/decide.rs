//! Evaluation of one call against a compiled policy.

use super::compile::{CompiledRule, Requirement};
use super::name::in_namespace;
use super::{CompiledPolicy, PolicyDecision, ToolAttributes, normalize_name};
use crate::execution_policy::{self, CommandApproval};
use crate::resource::{Approvers, OperationClass, OperationVerdict, RiskLevel};

/// Operations of a tool that declares none.
const DEFAULT_OPERATIONS: &[OperationClass] = &[OperationClass::Write];

/// State of one decision.
struct Evaluation<'a> {
    tool: &'a ToolAttributes<'a>,
    operations: &'a [OperationClass],
    /// Normalized name of the tool.
    key: String,
    action: String,
    /// Classes that a rule or a default permits.
    granted: OperationSet,
    /// Classes that a rule explicitly allows.
    allowed: OperationSet,
    /// Name of the first rule that permits a class.
    granted_by: Option<&'a str>,
    approval: Option<(String, Approvers)>,
}

/// Set of operation classes, as a bit mask.
#[derive(Clone, Copy, Default)]
struct OperationSet(u8);

impl OperationSet {
    /// Adds a class.
    fn add(&mut self, class: OperationClass) {
        self.0 |= 1 << class as u8;
    }

    /// Returns true if the set contains the class.
    fn contains(self, class: OperationClass) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    /// Returns true if the set contains all classes.
    fn contains_all(self, classes: &[OperationClass]) -> bool {
        classes.iter().all(|class| self.contains(*class))
    }
}

impl CompiledPolicy {
    /// Decides about an action of the subject with a tool. The most restrictive verdict wins.
    pub fn decide(&self, tool: &ToolAttributes<'_>, action: &str) -> PolicyDecision {
        let operations =
            if tool.operations.is_empty() { DEFAULT_OPERATIONS } else { tool.operations };
        let mut eval = Evaluation {
            tool,
            operations,
            key: self.key(tool.name),
            action: normalize_name(action),
            granted: OperationSet::default(),
            allowed: OperationSet::default(),
            granted_by: None,
            approval: None,
        };
        let result = self
            .check_denials(&eval)
            .and_then(|()| self.apply_rules(&mut eval))
            .and_then(|()| self.apply_defaults(&mut eval))
            .and_then(|()| self.apply_approval_triggers(&mut eval));
        if let Err(reason) = result {
            return PolicyDecision::deny(reason);
        }
        match (eval.approval, eval.granted_by) {
            (Some((reason, needed)), _) => PolicyDecision::Approval { reason, approvers: needed },
            (None, Some(rule)) => {
                PolicyDecision::Allow { reason: format!("rule `{rule}` allows it") }
            }
            (None, None) if eval.granted.contains_all(operations) => PolicyDecision::Allow {
                reason: format!("agent `{}` has the permission", self.agent()),
            },
            (None, None) => PolicyDecision::Allow { reason: "it only reads".to_owned() },
        }
    }

    /// Returns the name of the subject, trimmed.
    fn agent(&self) -> &str {
        self.subject().agent.trim()
    }

    /// Returns the normal form of a tool name, without the subject's namespace.
    fn key(&self, name: &str) -> String {
        normalize_name(in_namespace(name, self.subject().namespace.trim()))
    }

    /// Fails with the reason for blocked tools, tools that lack a required sandbox, and agents with unknown roles.
    fn check_denials(&self, eval: &Evaluation<'_>) -> Result<(), String> {
        let also = eval.tool.alias.map(|name| self.key(name));
        for key in std::iter::once(&eval.key).chain(&also) {
            if let Some(policy) = self.blocked.get(key) {
                return Err(format!("policy `{policy}` blocks tool `{}`", eval.tool.name));
            }
        }
        if let Some((risk, policy)) = &self.isolate_from
            && eval.tool.risk >= *risk
            && !eval.tool.is_isolated
        {
            let (name, own) = (eval.tool.name, eval.tool.risk);
            return Err(format!(
                "policy `{policy}` requires a sandbox for tools of risk `{risk}` and above, but tool `{name}` of risk `{own}` runs without one"
            ));
        }
        if self.missing_roles.is_empty() {
            return Ok(());
        }
        let names = self.missing_roles.join("`, `");
        Err(format!("agent `{}` has roles that do not exist: `{names}`", self.agent()))
    }

    /// Applies the rules about the tool: records decided classes and required approvals. Rules about its alias never
    /// allow. Fails with the reason of a denial.
    fn apply_rules<'a>(&'a self, eval: &mut Evaluation<'a>) -> Result<(), String> {
        let rules = self.rules_of(&eval.key, &eval.action);
        let missing =
            if rules.is_empty() { Vec::new() } else { self.missing_permissions(eval, &eval.key) };
        for rule in rules {
            check_requirement(rule, &missing)?;
            let grants_unlisted =
                matches!(rule.requirement, Requirement::Satisfied | Requirement::Defaults);
            for class in eval.operations {
                match rule.verdict(*class) {
                    None if !grants_unlisted => continue,
                    None => {}
                    Some(OperationVerdict::Allow) => eval.allowed.add(*class),
                    Some(OperationVerdict::ApprovalRequired) => {
                        require_rule_approval(eval, rule, *class)?
                    }
                    Some(OperationVerdict::Deny) => return Err(denial_reason(rule, *class)),
                }
                eval.granted.add(*class);
                eval.granted_by.get_or_insert(&rule.name);
            }
        }
        let Some(also) = eval.tool.alias.map(|name| self.key(name)) else { return Ok(()) };
        let missing = self.missing_permissions(eval, &also);
        for rule in self.rules_of(&also, &eval.action) {
            check_requirement(rule, &missing)?;
            for class in eval.operations {
                match rule.verdict(*class) {
                    None | Some(OperationVerdict::Allow) => {}
                    Some(OperationVerdict::ApprovalRequired) => {
                        require_rule_approval(eval, rule, *class)?
                    }
                    Some(OperationVerdict::Deny) => return Err(denial_reason(rule, *class)),
                }
            }
        }
        Ok(())
    }

    /// Decides classes that no rule covers, by the agent's list of tools and the permissions of its roles. Fails with
    /// the reason of a denial.
    fn apply_defaults(&self, eval: &mut Evaluation<'_>) -> Result<(), String> {
        let is_undecided = |class: &&OperationClass| !eval.granted.contains(**class);
        let Some(first) = eval.operations.iter().find(is_undecided) else { return Ok(()) };
        let listed = self.allowed_tools.contains(&eval.key);
        if !listed && self.has_roles {
            let missing = self.missing_permissions(eval, &eval.key);
            if !missing.is_empty() {
                let (tool, agent) = (eval.tool.name, self.agent());
                let missing = missing.join("`, `");
                return Err(format!(
                    "no rule covers `{first}` with tool `{tool}`, and agent `{agent}` lacks `{missing}`"
                ));
            }
        }
        for class in eval.operations {
            if listed || self.has_roles {
                eval.granted.add(*class);
            } else if !eval.granted.contains(*class) && *class != OperationClass::Read {
                let (tool, agent) = (eval.tool.name, self.agent());
                return Err(format!(
                    "no rule lets agent `{agent}` use tool `{tool}` for `{class}`"
                ));
            }
        }
        Ok(())
    }

    /// Requires approval for critical risk and by the execution policy. Fails with the reason if the execution policy
    /// denies the call.
    fn apply_approval_triggers(&self, eval: &mut Evaluation<'_>) -> Result<(), String> {
        let tool = eval.tool.name;
        if eval.tool.risk == RiskLevel::Critical && !eval.allowed.contains_all(eval.operations) {
            let reason = format!("tool `{tool}` is of critical risk and no rule allows it");
            merge_approval(eval, reason, &Approvers::default())?;
        }
        if eval.tool.runs_commands() {
            return match self.exec.decide(eval.granted.contains_all(eval.operations)) {
                execution_policy::CommandDecision::Run => Ok(()),
                execution_policy::CommandDecision::Ask => {
                    let reason = format!(
                        "the execution policy requires approval (`ask: {}`)",
                        self.exec.ask
                    );
                    merge_approval(eval, reason, &Approvers::default())
                }
                execution_policy::CommandDecision::Deny => Err(format!(
                    "the execution policy does not let tool `{tool}` run commands (`security: {}`)",
                    self.exec.security
                )),
            };
        }
        let changes = eval.operations.iter().any(|class| *class != OperationClass::Read);
        if changes && self.exec.ask == CommandApproval::Always {
            let reason =
                format!("the execution policy requires approval (`ask: {}`)", self.exec.ask);
            merge_approval(eval, reason, &Approvers::default())?;
        }
        Ok(())
    }

    /// Returns the default permissions of the tool that the subject lacks.
    fn missing_permissions(&self, eval: &Evaluation<'_>, key: &str) -> Vec<String> {
        let needed = std::iter::once(format!("tool:{key}:{}", eval.action)).chain(
            eval.tool
                .capabilities
                .iter()
                .map(|label| normalize_name(&format!("capability:{label}"))),
        );
        needed.filter(|permission| !self.permissions.contains(permission)).collect()
    }
}

/// Fails with the reason if the subject lacks a permission that the rule requires.
fn check_requirement(rule: &CompiledRule, defaults_missing: &[String]) -> Result<(), String> {
    let missing = match &rule.requirement {
        Requirement::Nothing | Requirement::Satisfied => return Ok(()),
        Requirement::Missing(missing) => missing,
        Requirement::Defaults if defaults_missing.is_empty() => return Ok(()),
        Requirement::Defaults => defaults_missing,
    };
    Err(format!("rule `{}` requires `{}`", rule.name, missing.join("`, `")))
}

/// Returns the reason of a rule that denies a class.
fn denial_reason(rule: &CompiledRule, class: OperationClass) -> String {
    format!("rule `{}` denies `{class}`", rule.name)
}

/// Adds the approval that a rule requires for a class.
fn require_rule_approval(
    eval: &mut Evaluation<'_>,
    rule: &CompiledRule,
    class: OperationClass,
) -> Result<(), String> {
    let reason = format!("rule `{}` asks for approval of `{class}`", rule.name);
    merge_approval(eval, reason, &rule.approvers)
}

/// Adds a required approval. The approvers of all requirements are intersected, and the first reason is kept. Fails if
/// too few approvers are left.
fn merge_approval(
    eval: &mut Evaluation<'_>,
    reason: String,
    more: &Approvers,
) -> Result<(), String> {
    let Some((_, needed)) = &mut eval.approval else {
        eval.approval = Some((reason, more.clone()));
        return Ok(());
    };
    needed.required = needed.required.max(more.required);
    needed.exclude_requester |= more.exclude_requester;
    if needed.of.is_empty() {
        needed.of.clone_from(&more.of);
    } else if !more.of.is_empty() {
        needed.of.retain(|one| more.of.iter().any(|two| two.to_lowercase() == one.to_lowercase()));
        if needed.of.is_empty() {
            return Err(format!("no person may give all required approvals: {reason}"));
        }
    }
    if !needed.of.is_empty() && needed.of.len() < needed.required as usize {
        return Err(format!("too few people may give all required approvals: {reason}"));
    }
    Ok(())
}
