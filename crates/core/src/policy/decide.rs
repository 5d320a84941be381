//! The decision itself.

use super::compile::{Needs, Rule};
use super::word::in_namespace;
use super::{Decision, Governance, ToolFacts, canonical};
use crate::execution_policy::{self, Ask};
use crate::resource::{Approvers, OperationClass, OperationVerdict, RiskLevel};

/// What counts for a tool that does not say what it does.
const OPERATIONS_UNSAID: &[OperationClass] = &[OperationClass::Write];

/// One call while it is decided.
struct Case<'a> {
    tool: &'a ToolFacts<'a>,
    operations: &'a [OperationClass],
    /// The tool's name as rules know it.
    key: String,
    action: String,
    /// Classes that something permits.
    granted: Classes,
    /// Classes that a rule permits in so many words.
    allowed: Classes,
    /// The first rule that permits something.
    by: Option<&'a str>,
    asked: Option<(String, Approvers)>,
}

/// A set of operation classes.
#[derive(Clone, Copy, Default)]
struct Classes(u8);

impl Classes {
    fn add(&mut self, class: OperationClass) {
        self.0 |= 1 << class as u8;
    }

    fn has(self, class: OperationClass) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    fn has_all(self, classes: &[OperationClass]) -> bool {
        classes.iter().all(|class| self.has(*class))
    }
}

impl Governance {
    /// May the subject do this with this tool? Of all answers the strictest.
    pub fn decide(&self, tool: &ToolFacts<'_>, action: &str) -> Decision {
        let operations =
            if tool.operations.is_empty() { OPERATIONS_UNSAID } else { tool.operations };
        let mut case = Case {
            tool,
            operations,
            key: self.key(tool.name),
            action: canonical(action),
            granted: Classes::default(),
            allowed: Classes::default(),
            by: None,
            asked: None,
        };
        let objection = self
            .refuse(&case)
            .and_then(|()| self.apply_rules(&mut case))
            .and_then(|()| self.apply_defaults(&mut case))
            .and_then(|()| self.ask_people(&mut case));
        if let Err(why) = objection {
            return Decision::deny(why);
        }
        match (case.asked, case.by) {
            (Some((why, needed)), _) => Decision::Approval { why, needed },
            (None, Some(rule)) => Decision::Allow { why: format!("rule `{rule}` allows it") },
            (None, None) if case.granted.has_all(operations) => {
                Decision::Allow { why: format!("agent `{}` is permitted to", self.agent()) }
            }
            (None, None) => Decision::Allow { why: "it only reads".to_owned() },
        }
    }

    fn agent(&self) -> &str {
        self.subject().agent.trim()
    }

    fn key(&self, name: &str) -> String {
        canonical(in_namespace(name, self.subject().namespace.trim()))
    }

    /// What is said against the tool or the agent as such.
    fn refuse(&self, case: &Case<'_>) -> Result<(), String> {
        let also = case.tool.also.map(|name| self.key(name));
        for key in std::iter::once(&case.key).chain(&also) {
            if let Some(policy) = self.blocked.get(key) {
                return Err(format!("policy `{policy}` blocks tool `{}`", case.tool.name));
            }
        }
        if let Some((risk, policy)) = &self.isolate_from
            && case.tool.risk >= *risk
            && !case.tool.is_isolated
        {
            let (name, own) = (case.tool.name, case.tool.risk);
            return Err(format!(
                "policy `{policy}` wants tools of risk `{risk}` and above in a sandbox, and tool `{name}` of risk `{own}` runs in none"
            ));
        }
        if self.missing_roles.is_empty() {
            return Ok(());
        }
        let names = self.missing_roles.join("`, `");
        Err(format!("agent `{}` has roles that do not exist: `{names}`", self.agent()))
    }

    /// What rules about the tool say. Those about another name of it permit nothing.
    fn apply_rules<'a>(&'a self, case: &mut Case<'a>) -> Result<(), String> {
        let rules = self.rules_of(&case.key, &case.action);
        let missing = if rules.is_empty() { Vec::new() } else { self.lacking(case, &case.key) };
        for rule in rules {
            check_needs(rule, &missing)?;
            let grants_rest = matches!(rule.needs, Needs::Met | Needs::Defaults);
            for class in case.operations {
                match rule.verdict(*class) {
                    None if !grants_rest => continue,
                    None => {}
                    Some(OperationVerdict::Allow) => case.allowed.add(*class),
                    Some(OperationVerdict::ApprovalRequired) => ask_for(case, rule, *class)?,
                    Some(OperationVerdict::Deny) => return Err(denial(rule, *class)),
                }
                case.granted.add(*class);
                case.by.get_or_insert(&rule.name);
            }
        }
        let Some(also) = case.tool.also.map(|name| self.key(name)) else { return Ok(()) };
        let missing = self.lacking(case, &also);
        for rule in self.rules_of(&also, &case.action) {
            check_needs(rule, &missing)?;
            for class in case.operations {
                match rule.verdict(*class) {
                    None | Some(OperationVerdict::Allow) => {}
                    Some(OperationVerdict::ApprovalRequired) => ask_for(case, rule, *class)?,
                    Some(OperationVerdict::Deny) => return Err(denial(rule, *class)),
                }
            }
        }
        Ok(())
    }

    /// What counts for classes that no rule speaks of.
    fn apply_defaults(&self, case: &mut Case<'_>) -> Result<(), String> {
        let unspoken = |class: &&OperationClass| !case.granted.has(**class);
        let Some(first) = case.operations.iter().find(unspoken) else { return Ok(()) };
        let listed = self.allowed_tools.contains(&case.key);
        if !listed && self.has_roles {
            let missing = self.lacking(case, &case.key);
            if !missing.is_empty() {
                let (tool, agent) = (case.tool.name, self.agent());
                let missing = missing.join("`, `");
                return Err(format!(
                    "no rule is about `{first}` with tool `{tool}`, and agent `{agent}` lacks `{missing}`"
                ));
            }
        }
        for class in case.operations {
            if listed || self.has_roles {
                case.granted.add(*class);
            } else if !case.granted.has(*class) && *class != OperationClass::Read {
                let (tool, agent) = (case.tool.name, self.agent());
                return Err(format!(
                    "no rule lets agent `{agent}` use tool `{tool}` for `{class}`"
                ));
            }
        }
        Ok(())
    }

    /// When people decide though a rule did not ask for it, and what the exec policy forbids.
    fn ask_people(&self, case: &mut Case<'_>) -> Result<(), String> {
        let tool = case.tool.name;
        if case.tool.risk == RiskLevel::Critical && !case.allowed.has_all(case.operations) {
            let why = format!("tool `{tool}` is of critical risk and no rule allows that");
            merge(case, why, &Approvers::default())?;
        }
        if case.tool.runs_commands() {
            return match self.exec.decide(case.granted.has_all(case.operations)) {
                execution_policy::Decision::Run => Ok(()),
                execution_policy::Decision::Ask => {
                    let why = format!("the exec policy asks (`ask: {}`)", self.exec.ask);
                    merge(case, why, &Approvers::default())
                }
                execution_policy::Decision::Deny => Err(format!(
                    "the exec policy does not let tool `{tool}` run commands (`security: {}`)",
                    self.exec.security
                )),
            };
        }
        let changes = case.operations.iter().any(|class| *class != OperationClass::Read);
        if changes && self.exec.ask == Ask::Always {
            let why = format!("the exec policy asks (`ask: {}`)", self.exec.ask);
            merge(case, why, &Approvers::default())?;
        }
        Ok(())
    }

    /// The permissions that a tool needs by itself and the agent lacks.
    fn lacking(&self, case: &Case<'_>, key: &str) -> Vec<String> {
        let needed = std::iter::once(format!("tool:{key}:{}", case.action)).chain(
            case.tool.capabilities.iter().map(|label| canonical(&format!("capability:{label}"))),
        );
        needed.filter(|permission| !self.permissions.contains(permission)).collect()
    }
}

/// Refuses a subject that lacks what a rule requires.
fn check_needs(rule: &Rule, defaults_missing: &[String]) -> Result<(), String> {
    let missing = match &rule.needs {
        Needs::Nothing | Needs::Met => return Ok(()),
        Needs::Unmet(missing) => missing,
        Needs::Defaults if defaults_missing.is_empty() => return Ok(()),
        Needs::Defaults => defaults_missing,
    };
    Err(format!("rule `{}` requires `{}`", rule.name, missing.join("`, `")))
}

fn denial(rule: &Rule, class: OperationClass) -> String {
    format!("rule `{}` denies `{class}`", rule.name)
}

fn ask_for(case: &mut Case<'_>, rule: &Rule, class: OperationClass) -> Result<(), String> {
    let why = format!("rule `{}` asks for approval of `{class}`", rule.name);
    merge(case, why, &rule.approvers)
}

/// Adds a demand for approval: who counts must count for every demand. The first reason is kept.
fn merge(case: &mut Case<'_>, why: String, more: &Approvers) -> Result<(), String> {
    let Some((_, needed)) = &mut case.asked else {
        case.asked = Some((why, more.clone()));
        return Ok(());
    };
    needed.required = needed.required.max(more.required);
    needed.not_requester |= more.not_requester;
    if needed.of.is_empty() {
        needed.of.clone_from(&more.of);
    } else if !more.of.is_empty() {
        needed.of.retain(|one| more.of.iter().any(|two| two.to_lowercase() == one.to_lowercase()));
        if needed.of.is_empty() {
            return Err(format!("nobody may give every approval that is needed: {why}"));
        }
    }
    if !needed.of.is_empty() && needed.of.len() < needed.required as usize {
        return Err(format!("too few people may give every approval that is needed: {why}"));
    }
    Ok(())
}
