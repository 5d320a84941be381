//! From what is declared to tables that a decision looks into.
//!
//! The subject is fixed, so whether it has what a rule requires is found out here once and not with every call.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::word::in_namespace;
use super::{GovernanceParts, ModelDenied, Subject, canonical};
use crate::execution_policy::ExecPolicy;
use crate::resource::{
    AgentPolicy, AgentRole, ApplyMode, Approvers, MatchMode, OperationClass, OperationMatch,
    OperationVerdict, ResourceError, RiskLevel, ToolPermission,
};

/// Rules, roles and policies that one snapshot may hold each. More is refused: a cut would open doors.
const RESOURCES_MAX: usize = 100_000;

/// Everything that counts for the calls of one run.
#[derive(Clone)]
pub struct Governance {
    revision: String,
    subject: Subject,
    pub(super) exec: ExecPolicy,
    pub(super) missing_roles: Vec<String>,
    pub(super) has_roles: bool,
    pub(super) permissions: HashSet<String>,
    pub(super) allowed_tools: HashSet<String>,
    /// By tool and action, sorted by the rule's name, so that the same rule is named every time.
    rules: HashMap<String, HashMap<String, Vec<Rule>>>,
    /// The policy that blocks a tool.
    pub(super) blocked: HashMap<String, String>,
    /// From which risk on a tool runs only in a sandbox, and the policy that says so.
    pub(super) isolate_from: Option<(RiskLevel, String)>,
    models: Vec<Models>,
    tokens_max: Option<u64>,
}

/// A rule about one tool, as it is for the subject.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) needs: Needs,
    /// Its verdict per class; nothing where it does not speak.
    verdicts: [Option<OperationVerdict>; 4],
    pub(super) approvers: Approvers,
}

/// What a rule requires of the subject.
#[derive(Debug, Clone)]
pub(super) enum Needs {
    /// Nothing: it only speaks of classes.
    Nothing,
    /// Permissions that the subject has.
    Met,
    /// Permissions that the subject does not have.
    Unmet(Vec<String>),
    /// The permissions that a tool needs by itself.
    Defaults,
}

/// The models that one policy lets through.
#[derive(Debug, Clone)]
struct Models {
    policy: String,
    allowed: HashSet<String>,
}

impl Governance {
    /// Compiles what was read. Anything of the subject's namespace that is not sound is an error, and so is too much.
    pub fn compile(parts: GovernanceParts) -> Result<Self, ResourceError> {
        let GovernanceParts { revision, subject, roles, permissions, policies, exec } = parts;
        check_count("roles", roles.len())?;
        check_count("permissions", permissions.len())?;
        check_count("policies", policies.len())?;
        let namespace = subject.namespace.trim().to_owned();
        let ours = |given: &str| given.trim() == namespace;
        let (held, missing_roles) =
            held(&subject, roles.into_iter().filter(|role| ours(&role.namespace)))?;
        let tool = |name: &String| canonical(in_namespace(name, &namespace));
        let mut governance = Self {
            revision,
            has_roles: subject.roles.iter().any(|role| !role.trim().is_empty()),
            allowed_tools: subject.allowed_tools.iter().map(tool).collect(),
            subject,
            exec,
            missing_roles,
            permissions: held,
            rules: HashMap::new(),
            blocked: HashMap::new(),
            isolate_from: None,
            models: Vec::new(),
            tokens_max: None,
        };
        for permission in permissions {
            // Without a namespace it belongs to the usual one, and must not vanish.
            if permission.namespace.trim().is_empty() || ours(&permission.namespace) {
                let permission = permission.normalised()?;
                if ours(&permission.namespace) {
                    governance.add_rule(permission);
                }
            }
        }
        for rules in governance.rules.values_mut().flat_map(HashMap::values_mut) {
            rules.sort_by(|one, two| one.name.cmp(&two.name));
        }
        for policy in policies {
            if policy.namespace.trim().is_empty() || ours(&policy.namespace) {
                let policy = policy.normalised()?;
                if ours(&policy.namespace) {
                    governance.add_policy(policy);
                }
            }
        }
        Ok(governance)
    }

    fn add_rule(&mut self, permission: ToolPermission) {
        use OperationClass::{Admin, Delete, Read, Write};
        let agent = self.subject.agent.trim().to_lowercase();
        let targets = &permission.target_agents;
        let applies = permission.apply_mode == ApplyMode::Global
            || targets.iter().any(|target| target.to_lowercase() == agent);
        if !applies {
            return;
        }
        let tool = canonical(in_namespace(&permission.tool_ref, self.subject.namespace.trim()));
        let action = canonical(&permission.action);
        let rule = Rule {
            needs: self.needs(&permission),
            verdicts: [Read, Write, Delete, Admin].map(|class| verdict(&permission, class)),
            approvers: permission.approvers.unwrap_or_default(),
            name: permission.name,
        };
        self.rules.entry(tool).or_default().entry(action).or_default().push(rule);
    }

    fn needs(&self, permission: &ToolPermission) -> Needs {
        let required = &permission.required_permissions;
        if required.is_empty() {
            let speaks = !permission.operation_rules.is_empty();
            return if speaks { Needs::Nothing } else { Needs::Defaults };
        }
        let lacks = |name: &&String| !self.permissions.contains(&canonical(name));
        let missing: Vec<String> = required.iter().filter(lacks).cloned().collect();
        let met = match permission.match_mode {
            MatchMode::All => missing.is_empty(),
            MatchMode::Any => missing.len() < required.len(),
        };
        if met { Needs::Met } else { Needs::Unmet(missing) }
    }

    fn add_policy(&mut self, policy: AgentPolicy) {
        let Subject { namespace, task, system, .. } = &self.subject;
        if !policy.applies(namespace, task, system) {
            return;
        }
        for tool in &policy.blocked_tools {
            let tool = canonical(in_namespace(tool, namespace.trim()));
            let first = self.blocked.entry(tool).or_insert_with(|| policy.name.clone());
            // The same policy is named every time, in whatever order they were read.
            if policy.name < *first {
                first.clone_from(&policy.name);
            }
        }
        if let Some(risk) = policy.isolate_from {
            // The strictest counts, and of several the same is named every time.
            let said = (risk, policy.name.clone());
            self.isolate_from = Some(match self.isolate_from.take() {
                Some(other) => other.min(said),
                None => said,
            });
        }
        if let Some(tokens) = policy.max_tokens_per_run {
            self.tokens_max = Some(self.tokens_max.map_or(tokens, |least| least.min(tokens)));
        }
        if !policy.allowed_models.is_empty() {
            let allowed = policy.allowed_models.iter().map(|model| model.to_lowercase()).collect();
            self.models.push(Models { policy: policy.name, allowed });
        }
    }

    /// What changes whenever any part of it changes.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Who asks.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The fewest tokens that any policy gives a run.
    pub fn tokens_max(&self) -> Option<u64> {
        self.tokens_max
    }

    /// May this model of this provider be used? A policy names it alone or as `provider/model`. The error names the policy
    /// that says no.
    pub fn check_model(&self, provider: &str, model: &str) -> Result<(), ModelDenied> {
        if self.models.is_empty() {
            return Ok(());
        }
        let name = model.trim().to_lowercase();
        let full = format!("{}/{name}", provider.trim().to_lowercase());
        let denies =
            |models: &&Models| !models.allowed.contains(&name) && !models.allowed.contains(&full);
        match self.models.iter().filter(denies).map(|models| &models.policy).min() {
            None => Ok(()),
            Some(policy) => {
                Err(ModelDenied { policy: Some(policy.clone()), model: model.trim().to_owned() })
            }
        }
    }

    /// The rules about an action with a tool, in the order of their names.
    pub(super) fn rules_of(&self, tool: &str, action: &str) -> &[Rule] {
        self.rules.get(tool).and_then(|actions| actions.get(action)).map_or(&[], Vec::as_slice)
    }
}

impl Rule {
    /// What it says about a class, if it speaks of it.
    pub(super) fn verdict(&self, class: OperationClass) -> Option<OperationVerdict> {
        self.verdicts[class as usize]
    }
}

/// The strictest line about a class; else the strictest one about all others.
fn verdict(permission: &ToolPermission, class: OperationClass) -> Option<OperationVerdict> {
    let strictest = |wanted: OperationMatch| {
        let lines = permission.operation_rules.iter();
        lines.filter(|line| line.operation_class == wanted).map(|line| line.verdict).max()
    };
    strictest(class.into()).or_else(|| strictest(OperationMatch::Any))
}

/// What the subject's roles permit, and the roles that do not exist.
fn held(
    subject: &Subject,
    roles: impl Iterator<Item = AgentRole>,
) -> Result<(HashSet<String>, Vec<String>), ResourceError> {
    let mut known: BTreeMap<String, AgentRole> = BTreeMap::new();
    for role in roles {
        let role = role.normalised()?;
        known.insert(role.name.to_lowercase(), role);
    }
    let (mut permissions, mut missing) = (HashSet::new(), Vec::new());
    let asked = subject.roles.iter().map(|role| role.trim()).filter(|role| !role.is_empty());
    for name in asked {
        match known.get(&in_namespace(name, subject.namespace.trim()).to_lowercase()) {
            Some(role) => permissions.extend(role.permissions.iter().map(|word| canonical(word))),
            None => missing.push(name.to_owned()),
        }
    }
    Ok((permissions, missing))
}

fn check_count(path: &str, count: usize) -> Result<(), ResourceError> {
    if count <= RESOURCES_MAX {
        return Ok(());
    }
    Err(ResourceError {
        path: path.to_owned(),
        problem: format!("there are {count}, at most {RESOURCES_MAX} can be used"),
        fix: "remove what no agent uses".to_owned(),
    })
}

impl fmt::Debug for Governance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governance")
            .field("revision", &self.revision)
            .field("subject", &self.subject)
            .field(
                "rules",
                &self.rules.values().flat_map(HashMap::values).map(Vec::len).sum::<usize>(),
            )
            .finish_non_exhaustive()
    }
}
