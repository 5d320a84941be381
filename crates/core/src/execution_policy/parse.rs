//! Parsing of execution policies from JSON, with the path and the fix in every error.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::execution_policy::{ExecutionPolicyPatch, PolicyError, SandboxResources};
use crate::scheduling::RetryPolicy;

const FIELDS: &str = "host, security, ask, runtime_type, workspace_access, network_enabled, \
                      interactive, resources, retry";

impl ExecutionPolicyPatch {
    /// Parses and checks the policy of a caller or an agent. Missing and null settings stay unset. Within `retry`,
    /// they get the defaults of a retry policy. Fails for unknown fields.
    pub fn parse(value: &Value) -> Result<Self, PolicyError> {
        let mut patch = Self::default();
        for (field, value) in object("policy", value)? {
            let path = format!("policy.{field}");
            match field.as_str() {
                _ if value.is_null() => {}
                "host" => patch.host = Some(parse_text(&path, value)?),
                "security" => patch.security = Some(parse_text(&path, value)?),
                "ask" => patch.ask = Some(parse_text(&path, value)?),
                "runtime_type" => patch.runtime_type = Some(parse_text(&path, value)?),
                "workspace_access" => patch.workspace_access = Some(parse_text(&path, value)?),
                "network_enabled" => patch.network_enabled = Some(boolean(&path, value)?),
                "interactive" => patch.interactive = Some(boolean(&path, value)?),
                "resources" => patch.resources = Some(resources(&path, value)?),
                "retry" => patch.retry = Some(retry(&path, value)?),
                _ => return Err(unknown_field(&path, FIELDS)),
            }
        }
        patch.validate()?;
        Ok(patch)
    }
}

impl TryFrom<Value> for ExecutionPolicyPatch {
    type Error = PolicyError;
    fn try_from(value: Value) -> Result<Self, PolicyError> {
        Self::parse(&value)
    }
}

/// Parses the sandbox resources. Missing and null values stay unset.
fn resources(path: &str, value: &Value) -> Result<SandboxResources, PolicyError> {
    let mut resources = SandboxResources::default();
    for (field, value) in object(path, value)? {
        let path = format!("{path}.{field}");
        match field.as_str() {
            _ if value.is_null() => {}
            "cpu" => resources.cpu = Some(number(&path, value)?),
            "memory" => resources.memory = Some(number(&path, value)?),
            "gpu" => resources.gpu = Some(number(&path, value)?),
            _ => return Err(unknown_field(&path, "cpu, memory, gpu")),
        }
    }
    Ok(resources)
}

/// Parses the retry policy. Missing and null values get their defaults.
fn retry(path: &str, value: &Value) -> Result<RetryPolicy, PolicyError> {
    let mut retry = RetryPolicy::default();
    for (field, value) in object(path, value)? {
        let path = format!("{path}.{field}");
        match field.as_str() {
            _ if value.is_null() => {}
            "max_attempts" => retry.max_attempts = number(&path, value)?,
            "delay_ms" => retry.delay = std::time::Duration::from_millis(number(&path, value)?),
            "factor" => retry.factor = number(&path, value)?,
            "cap_ms" => retry.cap = std::time::Duration::from_millis(number(&path, value)?),
            "jitter" => retry.jitter = parse_text(&path, value)?,
            "pause_at_end" => retry.pause_at_end = boolean(&path, value)?,
            "retry_on" => {
                let codes = value.as_array().ok_or_else(|| {
                    PolicyError::invalid(&path, "not a list", "give a list of outcome codes")
                })?;
                let codes: Result<_, _> =
                    codes.iter().map(|code| parse_text(&path, code)).collect();
                retry.retry_on = Some(codes?);
            }
            _ => {
                let known =
                    "max_attempts, delay_ms, factor, cap_ms, jitter, pause_at_end, retry_on";
                return Err(unknown_field(&path, known));
            }
        }
    }
    Ok(retry)
}

/// Returns the object. Fails for any other value.
fn object<'a>(path: &str, value: &'a Value) -> Result<&'a Map<String, Value>, PolicyError> {
    value.as_object().ok_or_else(|| {
        PolicyError::invalid(path, "not an object", "give an object, or leave it out")
    })
}

/// Parses a string with the `FromStr` of its type.
fn parse_text<T: FromStr<Err: Display>>(path: &str, value: &Value) -> Result<T, PolicyError> {
    let Some(text) = value.as_str() else {
        return Err(PolicyError::invalid(path, "not a string", "give one of its words in quotes"));
    };
    text.parse().map_err(|error: T::Err| {
        let text = error.to_string();
        // The error text of an enum has the form "problem: fix".
        let (problem, fix) = text.split_once(": ").unwrap_or((&text, "see the documentation"));
        PolicyError::invalid(path, problem, fix)
    })
}

/// Returns the boolean. Fails for any other value.
fn boolean(path: &str, value: &Value) -> Result<bool, PolicyError> {
    value.as_bool().ok_or_else(|| PolicyError::invalid(path, "not a boolean", "use true or false"))
}

/// Returns the number as the required type. Fails for a negative number, a fraction or an overflow.
fn number<T: TryFrom<u64>>(path: &str, value: &Value) -> Result<T, PolicyError> {
    value.as_u64().and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        PolicyError::invalid(path, "not a whole number that fits", "use a number from 0 upwards")
    })
}

/// Creates the error of an unknown field. `known` lists the permitted ones.
fn unknown_field(path: &str, known: &str) -> PolicyError {
    PolicyError::invalid(path, "there is no such field", format!("use {known}"))
}
