//! Compilation of declared resources into lookup tables.
//!
//! The subject is fixed, so its permissions are matched against each rule here, once, instead of at every call.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::name::in_namespace;
use super::{ModelDenied, PolicySources, PolicySubject, normalize_name};
use crate::execution_policy::ExecutionPolicy;
use crate::resource::{
    AgentPolicy, AgentRole, ApplyMode, Approvers, MatchMode, OperationClass, OperationMatch,
    OperationVerdict, ResourceError, RiskLevel, ToolPermission,
};

/// Maximum number of rules, of roles and of policies in one snapshot. A larger snapshot is an error: truncating it
/// could drop a rule that denies.
const RESOURCES_MAX: usize = 100_000;

/// All rules that apply to the calls of one run.
#[derive(Clone)]
pub struct CompiledPolicy {
    revision: String,
    subject: PolicySubject,
    pub(super) exec: ExecutionPolicy,
    pub(super) missing_roles: Vec<String>,
    pub(super) has_roles: bool,
    pub(super) permissions: HashSet<String>,
    pub(super) allowed_tools: HashSet<String>,
    /// Rules by tool and action. They are sorted by name so that the same rule is reported every time.
    rules: HashMap<String, HashMap<String, Vec<CompiledRule>>>,
    /// Blocked tools, each with the name of the policy that blocks it.
    pub(super) blocked: HashMap<String, String>,
    /// Lowest risk level that requires a sandbox, and the policy that demands it.
    pub(super) isolate_from: Option<(RiskLevel, String)>,
    models: Vec<ModelAllowlist>,
    tokens_max: Option<u64>,
}

/// A rule about one tool, evaluated for the subject.
#[derive(Debug, Clone)]
pub(super) struct CompiledRule {
    pub(super) name: String,
    pub(super) requirement: Requirement,
    /// Verdict per operation class. `None` where the rule does not cover the class.
    verdicts: [Option<OperationVerdict>; 4],
    pub(super) approvers: Approvers,
}

/// Permissions that a rule requires of the subject.
#[derive(Debug, Clone)]
pub(super) enum Requirement {
    /// None: the rule only has verdicts per operation class.
    Nothing,
    /// The subject has the required permissions.
    Satisfied,
    /// The subject lacks these permissions.
    Missing(Vec<String>),
    /// The rule lists none, so the default permissions of the tool are required.
    Defaults,
}

/// Models that one policy allows.
#[derive(Debug, Clone)]
struct ModelAllowlist {
    policy: String,
    allowed: HashSet<String>,
}

impl CompiledPolicy {
    /// Compiles the sources. Fails if a resource of the subject's namespace is invalid or if there are too many.
    pub fn compile(parts: PolicySources) -> Result<Self, ResourceError> {
        let PolicySources { revision, subject, roles, permissions, policies, exec } = parts;
        check_count("roles", roles.len())?;
        check_count("permissions", permissions.len())?;
        check_count("policies", policies.len())?;
        let namespace = subject.namespace.trim().to_owned();
        let is_own_namespace = |given: &str| given.trim() == namespace;
        let (granted, missing_roles) = resolve_roles(
            &subject,
            roles.into_iter().filter(|role| is_own_namespace(&role.namespace)),
        )?;
        let tool = |name: &String| normalize_name(in_namespace(name, &namespace));
        let mut compiled = Self {
            revision,
            has_roles: subject.roles.iter().any(|role| !role.trim().is_empty()),
            allowed_tools: subject.allowed_tools.iter().map(tool).collect(),
            subject,
            exec,
            missing_roles,
            permissions: granted,
            rules: HashMap::new(),
            blocked: HashMap::new(),
            isolate_from: None,
            models: Vec::new(),
            tokens_max: None,
        };
        for permission in permissions {
            // A resource without a namespace belongs to the default namespace; normalization sets it.
            if permission.namespace.trim().is_empty() || is_own_namespace(&permission.namespace) {
                let permission = permission.normalized()?;
                if is_own_namespace(&permission.namespace) {
                    compiled.add_rule(permission);
                }
            }
        }
        for rules in compiled.rules.values_mut().flat_map(HashMap::values_mut) {
            rules.sort_by(|one, two| one.name.cmp(&two.name));
        }
        for policy in policies {
            if policy.namespace.trim().is_empty() || is_own_namespace(&policy.namespace) {
                let policy = policy.normalized()?;
                if is_own_namespace(&policy.namespace) {
                    compiled.add_policy(policy);
                }
            }
        }
        Ok(compiled)
    }

    /// Adds a rule if it applies to the subject.
    fn add_rule(&mut self, permission: ToolPermission) {
        use OperationClass::{Admin, Delete, Read, Write};
        let agent = self.subject.agent.trim().to_lowercase();
        let targets = &permission.target_agents;
        let applies = permission.apply_mode == ApplyMode::Global
            || targets.iter().any(|target| target.to_lowercase() == agent);
        if !applies {
            return;
        }
        let tool =
            normalize_name(in_namespace(&permission.tool_ref, self.subject.namespace.trim()));
        let action = normalize_name(&permission.action);
        let rule = CompiledRule {
            requirement: self.requirement(&permission),
            verdicts: [Read, Write, Delete, Admin].map(|class| verdict(&permission, class)),
            approvers: permission.approvers.unwrap_or_default(),
            name: permission.name,
        };
        self.rules.entry(tool).or_default().entry(action).or_default().push(rule);
    }

    /// Evaluates the permissions that a rule requires of the subject.
    fn requirement(&self, permission: &ToolPermission) -> Requirement {
        let required = &permission.required_permissions;
        if required.is_empty() {
            let has_operation_rules = !permission.operation_rules.is_empty();
            return if has_operation_rules { Requirement::Nothing } else { Requirement::Defaults };
        }
        let lacks = |name: &&String| !self.permissions.contains(&normalize_name(name));
        let missing: Vec<String> = required.iter().filter(lacks).cloned().collect();
        let met = match permission.match_mode {
            MatchMode::All => missing.is_empty(),
            MatchMode::Any => missing.len() < required.len(),
        };
        if met { Requirement::Satisfied } else { Requirement::Missing(missing) }
    }

    /// Merges a policy if it applies to the subject. The strictest value of all policies wins.
    fn add_policy(&mut self, policy: AgentPolicy) {
        let PolicySubject { namespace, task, system, .. } = &self.subject;
        if !policy.applies_to(namespace, task, system) {
            return;
        }
        for tool in &policy.blocked_tools {
            let tool = normalize_name(in_namespace(tool, namespace.trim()));
            let first = self.blocked.entry(tool).or_insert_with(|| policy.name.clone());
            // The first name in alphabetical order is reported, so that the order of the policies does not matter.
            if policy.name < *first {
                first.clone_from(&policy.name);
            }
        }
        if let Some(risk) = policy.isolate_from {
            // The lowest risk level is the strictest. Of equal levels, the first name is reported.
            let limit = (risk, policy.name.clone());
            self.isolate_from = Some(match self.isolate_from.take() {
                Some(other) => other.min(limit),
                None => limit,
            });
        }
        if let Some(tokens) = policy.max_tokens_per_run {
            self.tokens_max = Some(self.tokens_max.map_or(tokens, |least| least.min(tokens)));
        }
        if !policy.allowed_models.is_empty() {
            let allowed = policy.allowed_models.iter().map(|model| model.to_lowercase()).collect();
            self.models.push(ModelAllowlist { policy: policy.name, allowed });
        }
    }

    /// Returns the revision of the sources. It changes whenever any of them changes.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Returns the agent that the policy applies to.
    pub fn subject(&self) -> &PolicySubject {
        &self.subject
    }

    /// Returns the smallest token limit per run of all policies that apply. `None` if no policy sets one.
    pub fn tokens_max(&self) -> Option<u64> {
        self.tokens_max
    }

    /// Fails with the name of the policy if any policy does not allow the model of the provider. A policy lists a
    /// model by its name or as `provider/model`.
    pub fn check_model(&self, provider: &str, model: &str) -> Result<(), ModelDenied> {
        if self.models.is_empty() {
            return Ok(());
        }
        let name = model.trim().to_lowercase();
        let full = format!("{}/{name}", provider.trim().to_lowercase());
        let denies = |models: &&ModelAllowlist| {
            !models.allowed.contains(&name) && !models.allowed.contains(&full)
        };
        match self.models.iter().filter(denies).map(|models| &models.policy).min() {
            None => Ok(()),
            Some(policy) => {
                Err(ModelDenied { policy: Some(policy.clone()), model: model.trim().to_owned() })
            }
        }
    }

    /// Returns the rules about an action of a tool, sorted by name. Empty if there is none.
    pub(super) fn rules_of(&self, tool: &str, action: &str) -> &[CompiledRule] {
        self.rules.get(tool).and_then(|actions| actions.get(action)).map_or(&[], Vec::as_slice)
    }
}

impl CompiledRule {
    /// Returns the verdict about a class. `None` if the rule does not cover it.
    pub(super) fn verdict(&self, class: OperationClass) -> Option<OperationVerdict> {
        self.verdicts[class as usize]
    }
}

/// Returns the strictest entry for the class, else the strictest `*` entry. `None` if the rule has neither.
fn verdict(permission: &ToolPermission, class: OperationClass) -> Option<OperationVerdict> {
    let strictest = |wanted: OperationMatch| {
        let lines = permission.operation_rules.iter();
        lines.filter(|line| line.operation_class == wanted).map(|line| line.verdict).max()
    };
    strictest(class.into()).or_else(|| strictest(OperationMatch::Any))
}

/// Returns the permissions of the subject's roles, and the names of its roles that do not exist.
fn resolve_roles(
    subject: &PolicySubject,
    roles: impl Iterator<Item = AgentRole>,
) -> Result<(HashSet<String>, Vec<String>), ResourceError> {
    let mut known: BTreeMap<String, AgentRole> = BTreeMap::new();
    for role in roles {
        let role = role.normalized()?;
        known.insert(role.name.to_lowercase(), role);
    }
    let (mut permissions, mut missing) = (HashSet::new(), Vec::new());
    let requested = subject.roles.iter().map(|role| role.trim()).filter(|role| !role.is_empty());
    for name in requested {
        match known.get(&in_namespace(name, subject.namespace.trim()).to_lowercase()) {
            Some(role) => {
                permissions.extend(role.permissions.iter().map(|word| normalize_name(word)))
            }
            None => missing.push(name.to_owned()),
        }
    }
    Ok((permissions, missing))
}

/// Fails if there are more than [`RESOURCES_MAX`] resources.
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

impl fmt::Debug for CompiledPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledPolicy")
            .field("revision", &self.revision)
            .field("subject", &self.subject)
            .field(
                "rules",
                &self.rules.values().flat_map(HashMap::values).map(Vec::len).sum::<usize>(),
            )
            .finish_non_exhaustive()
    }
}
