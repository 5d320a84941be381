//! Defaults and validation of declared tools.

use super::{
    ATTEMPTS_MAX, AuthProfile, IsolationMode, OperationClass, ResourceError, RiskLevel,
    RuntimeSpec, ToolAuth, ToolResource, ToolType, any_object,
};
use crate::recovery::EffectClass;

impl ToolResource {
    /// Creates a tool with default values.
    pub fn new(name: impl Into<String>, kind: ToolType, endpoint: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            endpoint: endpoint.into(),
            description: String::new(),
            input_schema: any_object(),
            capabilities: Vec::new(),
            operation_classes: Vec::new(),
            risk_level: RiskLevel::Low,
            effect: EffectClass::Opaque,
            runtime: RuntimeSpec::default(),
            auth: None,
            allow_private: false,
            http: None,
            grpc: None,
            mcp: None,
            a2a: None,
            cli: None,
            wasm: None,
        }
    }

    /// Returns the declared operation classes, or else those that follow from the risk level and the effect class.
    pub fn operations(&self) -> Vec<OperationClass> {
        if !self.operation_classes.is_empty() {
            return self.operation_classes.clone();
        }
        // A tool without declarations counts as a write, so that it is denied unless a rule allows it.
        match (self.risk_level, self.effect) {
            (RiskLevel::Low | RiskLevel::Medium, EffectClass::Pure) => vec![OperationClass::Read],
            _ => vec![OperationClass::Write],
        }
    }

    /// Returns the declared isolation mode, or else the mode that follows from the risk level.
    pub fn isolation(&self) -> IsolationMode {
        let by_risk = match (self.kind, self.risk_level) {
            // A module always runs in the WASM engine.
            (ToolType::Wasm, _) => IsolationMode::Wasm,
            // A program can do anything its author wrote, so its declared risk level does not matter.
            (ToolType::Cli, _) | (_, RiskLevel::High | RiskLevel::Critical) => {
                IsolationMode::Sandboxed
            }
            (_, RiskLevel::Low | RiskLevel::Medium) => IsolationMode::None,
        };
        self.runtime.isolation_mode.unwrap_or(by_risk)
    }

    /// Returns the normal form: trimmed, with distinct labels in lower case and all required fields.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = self.name.trim().to_owned();
        self.endpoint = self.endpoint.trim().to_owned();
        self.capabilities = crate::contract::labels(&self.capabilities);
        self.operation_classes.sort_unstable();
        self.operation_classes.dedup();
        if self.name.is_empty() {
            return invalid_field("name", "it is missing", "give the tool a name");
        }
        if !self.input_schema.is_object() {
            return invalid_field(
                "input_schema",
                "it is not a JSON object",
                "use a JSON Schema object",
            );
        }
        let needs_endpoint = matches!(
            self.kind,
            ToolType::Http
                | ToolType::External
                | ToolType::Grpc
                | ToolType::WebhookCallback
                | ToolType::A2a
        );
        if needs_endpoint && self.endpoint.is_empty() {
            return invalid_field("endpoint", "it is missing", "give the address of the tool");
        }
        if self.kind == ToolType::Mcp && self.mcp.is_none() {
            return invalid_field("mcp", "it is missing", "name the server and its tool");
        }
        if self.kind == ToolType::Cli && self.cli.as_ref().is_none_or(|cli| cli.command.is_empty())
        {
            return invalid_field("cli.command", "it is missing", "name the program");
        }
        if self.kind == ToolType::Wasm {
            self.check_wasm_module()?;
        }
        self.check_blocks()?;
        let retry = &self.runtime.retry;
        if retry.max_attempts == 0 || retry.max_attempts > ATTEMPTS_MAX {
            return invalid_field(
                "runtime.retry.max_attempts",
                "it is not between 1 and 20",
                "use 1 to 20",
            );
        }
        if self.runtime.timeout.0.is_zero() {
            return invalid_field("runtime.timeout", "it is zero", "use at least `1ms`");
        }
        self.auth = self.auth.take().map(ToolAuth::normalized).transpose()?;
        Ok(self)
    }

    /// Fails for a `wasm` tool without a module, or with an invalid hash.
    fn check_wasm_module(&self) -> Result<(), ResourceError> {
        let Some(wasm) = self.wasm.as_ref().filter(|wasm| !wasm.module.trim().is_empty()) else {
            return invalid_field(
                "wasm.module",
                "it is missing",
                "name a file, an address or a blob",
            );
        };
        let is_sha256 =
            |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if wasm.sha256.as_deref().is_some_and(|text| !is_sha256(text)) {
            return invalid_field(
                "wasm.sha256",
                "it is not a SHA-256 hash",
                "write 64 hexadecimal digits",
            );
        }
        Ok(())
    }

    /// Fails if the tool has a block of another tool type.
    fn check_blocks(&self) -> Result<(), ResourceError> {
        for (path, there, kind) in [
            ("http", self.http.is_some(), ToolType::Http),
            ("grpc", self.grpc.is_some(), ToolType::Grpc),
            ("mcp", self.mcp.is_some(), ToolType::Mcp),
            ("a2a", self.a2a.is_some(), ToolType::A2a),
            ("cli", self.cli.is_some(), ToolType::Cli),
            ("wasm", self.wasm.is_some(), ToolType::Wasm),
        ] {
            if there && self.kind != kind {
                let problem = format!(
                    "it is for tools of type `{kind}`, but this tool has type `{}`",
                    self.kind
                );
                return invalid_field(path, problem, "remove it or change `type`");
            }
        }
        Ok(())
    }
}

impl ToolAuth {
    /// Returns the trimmed form. Fails if a field that the profile requires is missing.
    pub(in crate::resource) fn normalized(mut self) -> Result<Self, ResourceError> {
        self.secret_ref = self.secret_ref.trim().to_owned();
        self.scopes = self
            .scopes
            .iter()
            .map(|scope| scope.trim().to_owned())
            .filter(|scope| !scope.is_empty())
            .collect();
        if self.secret_ref.is_empty() {
            return invalid_field("auth.secretRef", "it is missing", "name the secret to use");
        }
        match self.profile {
            AuthProfile::ApiKeyHeader if self.header_name.trim().is_empty() => invalid_field(
                "auth.headerName",
                "it is missing",
                "name the header that takes the key",
            ),
            AuthProfile::Oauth2ClientCredentials if self.token_url.trim().is_empty() => {
                invalid_field(
                    "auth.tokenURL",
                    "it is missing",
                    "give the address of the token endpoint",
                )
            }
            _ => Ok(self),
        }
    }
}

/// Returns an error with the problem and its fix.
fn invalid_field<T>(
    path: &str,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> Result<T, ResourceError> {
    Err(ResourceError { path: path.to_owned(), problem: problem.into(), fix: fix.into() })
}
