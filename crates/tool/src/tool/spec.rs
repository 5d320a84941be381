//! The specification of a tool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_core::ToolDefinition;
use provost_core::policy::ToolAttributes;
use provost_core::recovery::EffectClass;
use provost_core::resource::{OperationClass, RiskLevel, ToolType};
use provost_core::text::first_chars;
use provost_core::usage::limits::{ARGUMENT_RETRIES_DEFAULT, NAME_CHARS_MAX, TOOL_TIMEOUT_DEFAULT};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::DependencyType;
use crate::tool::schema::{CompiledSchema, SchemaError, schema_of};

/// Whether a call needs approval.
#[derive(Clone, Default)]
pub enum RequiresApproval {
    /// No call needs approval.
    #[default]
    Never,
    /// Every call needs approval.
    Always,
    /// Calls for whose arguments the function returns true need approval.
    When(Arc<dyn Fn(&Value) -> bool + Send + Sync>),
}

impl RequiresApproval {
    /// Requires approval if the function returns true for the arguments of the call.
    pub fn when(needs: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self::When(Arc::new(needs))
    }
}

impl fmt::Debug for RequiresApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Always => "Always",
            Self::When(_) => "When(..)",
        })
    }
}

/// Effect class by arguments.
#[derive(Clone)]
struct EffectFn(Arc<dyn Fn(&Value) -> EffectClass + Send + Sync>);

impl fmt::Debug for EffectFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EffectFn(..)")
    }
}

/// Error of an invalid name or schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolSpecError {
    /// Some model vendor would reject the name.
    #[error("`{name}` is not a valid tool name: use 1 to 64 letters, digits, `_` or `-`")]
    Name {
        /// The invalid name.
        name: String,
    },
    /// The schema cannot describe arguments.
    #[error("invalid schema of tool `{tool}`: {problem}")]
    Schema {
        /// Name of the tool.
        tool: String,
        /// Problem with the schema.
        problem: String,
    },
}

/// Attributes of a tool on which policies decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyAttributes {
    /// Type of a declared tool. `None` for a function of the program.
    pub kind: Option<ToolType>,
    /// Labels of the tool.
    pub capabilities: Vec<String>,
    /// Kinds of access. If empty, they follow from the effect class: a pure tool reads, any other tool writes.
    pub operations: Vec<OperationClass>,
    /// Risk level of the tool.
    pub risk: RiskLevel,
    /// True if the tool runs in a sandbox.
    pub is_isolated: bool,
}

/// Specification of a tool: how models see it, and how the guard calls it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    def: Arc<ToolDefinition>,
    check: Arc<CompiledSchema>,
    /// Condition under which a call needs approval.
    pub approval: RequiresApproval,
    /// Timeout of one call.
    pub timeout: Duration,
    /// Number of calls with invalid arguments that are accepted per run.
    pub retries: u32,
    /// True if no other call of the turn may run at the same time.
    pub exclusive: bool,
    /// Effect class. It determines how recovery treats a call that a crash interrupted.
    pub effect: EffectClass,
    /// Effect class by arguments. `None` if [`ToolSpec::effect`] applies to every call.
    effect_by_arguments: Option<EffectFn>,
    /// Dependencies that the tool needs. They are checked before a run starts.
    pub deps: Vec<DependencyType>,
    /// Attributes that policies read.
    pub policy_attributes: Arc<PolicyAttributes>,
    /// Name before the tool was renamed. Policies about this name still apply.
    original: Option<Arc<str>>,
}

impl ToolSpec {
    /// Creates a specification with a given schema. Returns an error if the name or the schema is invalid.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Result<Self, ToolSpecError> {
        let spec = Self::unchecked(name.into(), description.into(), input_schema)?;
        spec.check.compile().map_err(|error| ToolSpecError::Schema {
            tool: spec.def.name.clone(),
            problem: error.to_string(),
        })?;
        Ok(spec)
    }

    /// Creates a specification whose schema is derived from a Rust type. Returns an error if the name is invalid or the
    /// type is not an object.
    pub fn typed<A: JsonSchema>(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<Self, ToolSpecError> {
        let mut schema = schema_of::<A>();
        if let Some(root) = schema.as_object_mut() {
            // The title would repeat the name of the type.
            root.remove("title");
            if root.get("type") == Some(&json!("null")) {
                return Self::unchecked(name.into(), description.into(), empty_schema());
            }
        }
        Self::unchecked(name.into(), description.into(), schema)
    }

    /// Creates a specification without compiling the schema. Returns an error if the name is invalid or the schema is
    /// not an object.
    fn unchecked(
        name: String,
        description: String,
        mut schema: Value,
    ) -> Result<Self, ToolSpecError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(legal) {
            return Err(ToolSpecError::Name {
                name: first_chars(&name, 2 * NAME_CHARS_MAX).to_owned(),
            });
        }
        let Some(root) = schema.as_object_mut() else {
            let problem = "it must be a JSON object".to_owned();
            return Err(ToolSpecError::Schema { tool: name, problem });
        };
        match root.get("type") {
            None => {
                root.insert("type".into(), json!("object"));
            }
            Some(kind) if kind == "object" => {}
            Some(kind) => {
                let problem = format!("its root must have \"type\": \"object\", not {kind}");
                return Err(ToolSpecError::Schema { tool: name, problem });
            }
        }
        root.entry("properties").or_insert_with(|| json!({}));
        let check = Arc::new(CompiledSchema::new(schema.clone()));
        Ok(Self {
            def: Arc::new(ToolDefinition { name, description, input_schema: schema }),
            check,
            approval: RequiresApproval::Never,
            timeout: TOOL_TIMEOUT_DEFAULT,
            retries: ARGUMENT_RETRIES_DEFAULT,
            exclusive: false,
            effect: EffectClass::Opaque,
            effect_by_arguments: None,
            deps: Vec::new(),
            policy_attributes: Arc::new(PolicyAttributes::default()),
            original: None,
        })
    }

    /// Sets the attributes that policies read.
    #[must_use]
    pub fn policy_attributes(mut self, attributes: PolicyAttributes) -> Self {
        self.policy_attributes = Arc::new(attributes);
        self
    }

    /// Sets the effect class. The default is opaque: recovery never repeats a call that a crash interrupted.
    #[must_use]
    pub fn effect(mut self, effect: EffectClass) -> Self {
        (self.effect, self.effect_by_arguments) = (effect, None);
        self
    }

    /// Sets a function that returns the effect class for the arguments of a call. [`ToolSpec::effect`] remains the
    /// class on which policies decide.
    #[must_use]
    pub fn effect_by_arguments(
        mut self,
        of: impl Fn(&Value) -> EffectClass + Send + Sync + 'static,
    ) -> Self {
        self.effect_by_arguments = Some(EffectFn(Arc::new(of)));
        self
    }

    /// Returns the effect class of a call with these arguments.
    pub fn effect_for(&self, arguments: &Value) -> EffectClass {
        self.effect_by_arguments.as_ref().map_or(self.effect, |of| (of.0)(arguments))
    }

    /// Sets the condition under which a call needs approval.
    #[must_use]
    pub fn approval(mut self, approval: RequiresApproval) -> Self {
        self.approval = approval;
        self
    }

    /// Sets the timeout of one call.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of calls with invalid arguments that are accepted per run. After more, the run fails.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Makes every call of the tool run alone: other calls of the turn wait.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Adds a dependency that the tool needs.
    #[must_use]
    pub fn needs(mut self, dep: DependencyType) -> Self {
        self.deps.push(dep);
        self
    }

    /// Returns the specification of the same tool under another name. Returns an error if the name is invalid.
    pub fn renamed(&self, name: impl Into<String>) -> Result<Self, ToolSpecError> {
        let fresh = Self::unchecked(
            name.into(),
            self.def.description.clone(),
            self.def.input_schema.clone(),
        )?;
        let original = self.original.clone().unwrap_or_else(|| self.name().into());
        let original = (*original != *fresh.name()).then_some(original);
        Ok(Self { def: fresh.def, original, ..self.clone() })
    }

    /// Returns the attributes on which policies decide. Without declared operations, a pure tool reads and any other
    /// tool writes.
    pub fn tool_attributes(&self) -> ToolAttributes<'_> {
        let by_effect: &[OperationClass] = match self.effect {
            EffectClass::Pure => &[OperationClass::Read],
            _ => &[OperationClass::Write],
        };
        let declared = self.policy_attributes.operations.as_slice();
        ToolAttributes {
            name: self.name(),
            alias: self.original.as_deref(),
            kind: self.policy_attributes.kind,
            capabilities: &self.policy_attributes.capabilities,
            operations: if declared.is_empty() { by_effect } else { declared },
            risk: self.policy_attributes.risk,
            is_isolated: self.policy_attributes.is_isolated,
        }
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// Returns the definition that models receive.
    pub fn def(&self) -> &Arc<ToolDefinition> {
        &self.def
    }

    /// Validates arguments against the schema. The error message is for the model.
    pub fn check(&self, arguments: &Value) -> Result<(), SchemaError> {
        self.check.check(arguments)
    }
}

/// Returns the schema of an object without properties.
fn empty_schema() -> Value {
    json!({ "type": "object", "properties": {} })
}
