//! What a tool is and how it may be called.

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

use crate::DepType;
use crate::tool::schema::{SchemaCheck, SchemaError, schema_of};

/// When a person must be asked before the tool runs.
#[derive(Clone, Default)]
pub enum Approval {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// When these arguments say so.
    When(Arc<dyn Fn(&Value) -> bool + Send + Sync>),
}

impl Approval {
    /// Asks when the function says so for the call's arguments.
    pub fn when(needs: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self::When(Arc::new(needs))
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Always => "Always",
            Self::When(_) => "When(..)",
        })
    }
}

/// What repeating a call with these arguments would do.
#[derive(Clone)]
struct EffectOf(Arc<dyn Fn(&Value) -> EffectClass + Send + Sync>);

impl fmt::Debug for EffectOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EffectOf(..)")
    }
}

/// Why a tool cannot be defined like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A name that some vendor would refuse.
    #[error("`{name}` is not a tool name: use 1 to 64 letters, digits, `_` or `-`")]
    Name {
        /// The name as given.
        name: String,
    },
    /// A schema that cannot describe arguments.
    #[error("the schema of tool `{tool}` is not usable: {problem}")]
    Schema {
        /// Whose schema.
        tool: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// What policies are told about a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Where it lives; nothing for a function of the program.
    pub kind: Option<ToolType>,
    /// Labels.
    pub capabilities: Vec<String>,
    /// What it does to the world; nothing said means by its effect class: a pure tool reads, any other writes.
    pub operations: Vec<OperationClass>,
    /// How much harm it can do.
    pub risk: RiskLevel,
    /// True if it runs in a sandbox.
    pub is_isolated: bool,
}

/// What a tool is and how it may be called. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    def: Arc<ToolDefinition>,
    check: Arc<SchemaCheck>,
    /// When a person must be asked.
    pub approval: Approval,
    /// How long one call may take.
    pub timeout: Duration,
    /// How often in one run the model may send arguments the tool refuses.
    pub retries: u32,
    /// True if no other call of the turn may run at the same time.
    pub exclusive: bool,
    /// What repeating a call would do; decides what happens to a call that a crash cut off.
    pub effect: EffectClass,
    /// The same for single calls, where it depends on their arguments.
    effect_of: Option<EffectOf>,
    /// What the tool needs from the program; checked before a run starts.
    pub deps: Vec<DepType>,
    /// What policies are told about it.
    pub facts: Arc<Facts>,
    /// The name that it had before it was renamed; policies about that one still restrict it.
    original: Option<Arc<str>>,
}

impl ToolSpec {
    /// A tool whose schema comes from outside; it is checked here.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Result<Self, SpecError> {
        let spec = Self::unchecked(name.into(), description.into(), input_schema)?;
        spec.check.compile().map_err(|error| SpecError::Schema {
            tool: spec.def.name.clone(),
            problem: error.to_string(),
        })?;
        Ok(spec)
    }

    /// A tool whose schema comes from a Rust type.
    pub fn typed<A: JsonSchema>(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<Self, SpecError> {
        let mut schema = schema_of::<A>();
        if let Some(root) = schema.as_object_mut() {
            // The tool has a name already.
            root.remove("title");
            if root.get("type") == Some(&json!("null")) {
                return Self::unchecked(name.into(), description.into(), empty_schema());
            }
        }
        Self::unchecked(name.into(), description.into(), schema)
    }

    fn unchecked(name: String, description: String, mut schema: Value) -> Result<Self, SpecError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(legal) {
            return Err(SpecError::Name {
                name: first_chars(&name, 2 * NAME_CHARS_MAX).to_owned(),
            });
        }
        let Some(root) = schema.as_object_mut() else {
            let problem = "it must be a JSON object".to_owned();
            return Err(SpecError::Schema { tool: name, problem });
        };
        match root.get("type") {
            None => {
                root.insert("type".into(), json!("object"));
            }
            Some(kind) if kind == "object" => {}
            Some(kind) => {
                let problem = format!("its root must have \"type\": \"object\", not {kind}");
                return Err(SpecError::Schema { tool: name, problem });
            }
        }
        root.entry("properties").or_insert_with(|| json!({}));
        let check = Arc::new(SchemaCheck::new(schema.clone()));
        Ok(Self {
            def: Arc::new(ToolDefinition { name, description, input_schema: schema }),
            check,
            approval: Approval::Never,
            timeout: TOOL_TIMEOUT_DEFAULT,
            retries: ARGUMENT_RETRIES_DEFAULT,
            exclusive: false,
            effect: EffectClass::Opaque,
            effect_of: None,
            deps: Vec::new(),
            facts: Arc::new(Facts::default()),
            original: None,
        })
    }

    /// Sets what policies are told about it.
    #[must_use]
    pub fn facts(mut self, facts: Facts) -> Self {
        self.facts = Arc::new(facts);
        self
    }

    /// Sets what repeating a call would do. Without a word nothing is known of it, and a call that a crash cut off is never
    /// repeated by itself.
    #[must_use]
    pub fn effect(mut self, effect: EffectClass) -> Self {
        (self.effect, self.effect_of) = (effect, None);
        self
    }

    /// Sets what repeating a call would do where that depends on its arguments. [`ToolSpec::effect`] is what holds for every
    /// call, and what policies go by.
    #[must_use]
    pub fn effect_of(mut self, of: impl Fn(&Value) -> EffectClass + Send + Sync + 'static) -> Self {
        self.effect_of = Some(EffectOf(Arc::new(of)));
        self
    }

    /// What repeating a call with these arguments would do.
    pub fn effect_for(&self, arguments: &Value) -> EffectClass {
        self.effect_of.as_ref().map_or(self.effect, |of| (of.0)(arguments))
    }

    /// Sets when a person must be asked.
    #[must_use]
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// Sets how long one call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often the model may send arguments the tool refuses.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Makes the tool run alone.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Adds something the tool needs from the program.
    #[must_use]
    pub fn needs(mut self, dep: DepType) -> Self {
        self.deps.push(dep);
        self
    }

    /// The same tool under another name.
    pub fn renamed(&self, name: impl Into<String>) -> Result<Self, SpecError> {
        let fresh = Self::unchecked(
            name.into(),
            self.def.description.clone(),
            self.def.input_schema.clone(),
        )?;
        let original = self.original.clone().unwrap_or_else(|| self.name().into());
        let original = (*original != *fresh.name()).then_some(original);
        Ok(Self { def: fresh.def, original, ..self.clone() })
    }

    /// What a policy looks at.
    pub fn tool_facts(&self) -> ToolAttributes<'_> {
        let by_effect: &[OperationClass] = match self.effect {
            EffectClass::Pure => &[OperationClass::Read],
            _ => &[OperationClass::Write],
        };
        let declared = self.facts.operations.as_slice();
        ToolAttributes {
            name: self.name(),
            alias: self.original.as_deref(),
            kind: self.facts.kind,
            capabilities: &self.facts.capabilities,
            operations: if declared.is_empty() { by_effect } else { declared },
            risk: self.facts.risk,
            is_isolated: self.facts.is_isolated,
        }
    }

    /// The name the model calls it by.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// What the model is told.
    pub fn def(&self) -> &Arc<ToolDefinition> {
        &self.def
    }

    /// Checks arguments against the schema; the error is a sentence for the model.
    pub fn check(&self, arguments: &Value) -> Result<(), SchemaError> {
        self.check.check(arguments)
    }
}

fn empty_schema() -> Value {
    json!({ "type": "object", "properties": {} })
}
