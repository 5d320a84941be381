//! Import of one operation as one tool.

use provost_core::recovery::EffectClass;
use provost_core::resource::{
    HttpMethod, HttpSpec, OperationClass, RiskLevel, ToolResource, ToolType,
};
use provost_core::text::truncate_chars;
use provost_tool::ToolSpec;
use serde_json::{Map, Value, json};

use super::parameter::{self, Parameter, ParameterLocation};
use super::{ImportContext, sanitize_name, security};
use crate::limits::DESCRIPTION_CHARS_MAX;

/// Argument for the body, if its properties cannot become arguments.
const BODY: &str = "body";

/// One operation of a document, with its path.
pub(crate) struct Operation<'a> {
    pub(crate) path: &'a str,
    pub(crate) method_name: &'a str,
    pub(crate) method: HttpMethod,
    pub(crate) item: &'a Value,
    pub(crate) described: &'a Value,
}

/// Input schema of the tool, built from parameters and body.
#[derive(Default)]
struct ArgumentSchema {
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// Arguments that are not part of the body.
    other_arguments: Vec<String>,
    /// True if the body allows additional properties.
    allows_additional: bool,
}

impl Operation<'_> {
    /// Converts the operation to a tool. Returns the reason if the operation is not supported.
    pub(crate) fn to_tool(&self, context: &ImportContext<'_>) -> Result<ToolResource, String> {
        let mut input = ArgumentSchema::default();
        let mut spec = HttpSpec { method: self.method, ..HttpSpec::default() };
        let parameters = parameter::parameters_of(context, self)?;
        let path = self.endpoint_template(&parameters, &mut input, &mut spec)?;
        self.body(context, &mut input, &mut spec)?;
        let base = context.base.as_str().trim_end_matches('/');
        let mut tool =
            ToolResource::new(self.name(context), ToolType::Http, format!("{base}{path}"));
        tool.description = self.description();
        tool.input_schema = input.schema();
        tool.auth = security::operation_auth(context, self.described)?;
        tool.allow_private = context.options.allow_private;
        (tool.operation_classes, tool.risk_level, tool.effect) = match self.method {
            HttpMethod::Get | HttpMethod::Head => {
                (vec![OperationClass::Read], RiskLevel::Low, EffectClass::Pure)
            }
            HttpMethod::Delete => {
                (vec![OperationClass::Delete], RiskLevel::Medium, EffectClass::Idempotent)
            }
            HttpMethod::Put => {
                (vec![OperationClass::Write], RiskLevel::Medium, EffectClass::Idempotent)
            }
            HttpMethod::Post | HttpMethod::Patch => {
                (vec![OperationClass::Write], RiskLevel::Medium, EffectClass::Opaque)
            }
        };
        tool.http = Some(spec);
        // Validates the schema during the import instead of during the first call.
        ToolSpec::new(tool.name.as_str(), tool.description.as_str(), tool.input_schema.clone())
            .map_err(|error| crate::transport::error::truncate_for_error(&error.to_string()))?;
        tool.normalized().map_err(|error| error.to_string())
    }

    /// Returns the name of the tool: the operation id, or method and path.
    fn name(&self, context: &ImportContext<'_>) -> String {
        let id = self.described.get("operationId").and_then(Value::as_str);
        let id = id.filter(|id| !id.trim().is_empty());
        let name = id.map_or_else(|| format!("{}_{}", self.method_name, self.path), str::to_owned);
        sanitize_name(&format!("{}{name}", context.options.prefix))
    }

    /// Returns the summary and the description, cut to the maximum length.
    fn description(&self) -> String {
        let text = |key: &str| self.described.get(key).and_then(Value::as_str).unwrap_or_default();
        let (summary, details) = (text("summary").trim(), text("description").trim());
        let mut description = match (summary, details) {
            ("", "") => format!("{} {}", self.method_name.to_uppercase(), self.path),
            (summary, "") => summary.to_owned(),
            ("", details) => details.to_owned(),
            (summary, details) if details.starts_with(summary) => details.to_owned(),
            (summary, details) => format!("{summary}\n{details}"),
        };
        if self.described.get("deprecated").and_then(Value::as_bool) == Some(true) {
            description.insert_str(0, "(deprecated) ");
        }
        truncate_chars(&description, DESCRIPTION_CHARS_MAX)
    }

    /// Returns the endpoint template with path and query. Adds header templates to `spec`, and the arguments to
    /// `input`. Returns a reason if a parameter is not supported.
    fn endpoint_template(
        &self,
        parameters: &[Parameter],
        input: &mut ArgumentSchema,
        spec: &mut HttpSpec,
    ) -> Result<String, String> {
        if ["{{", "{%", "{#"].iter().any(|mark| self.path.contains(mark)) {
            return Err("its path contains template syntax".to_owned());
        }
        let mut path = self.path.to_owned();
        let mut pairs = String::new();
        for parameter in parameters {
            let argument = input.parameter(parameter);
            let argument = format!("args[{}]", Value::String(argument));
            match parameter.location {
                ParameterLocation::Path => {
                    let hole = format!("{{{}}}", parameter.name);
                    if !path.contains(&hole) {
                        continue;
                    }
                    path = path.replace(&hole, &parameter.value_template(&argument));
                }
                ParameterLocation::Header => {
                    spec.headers
                        .insert(parameter.name.clone(), parameter.value_template(&argument));
                }
                ParameterLocation::Query => match parameter.query_template(&argument) {
                    Some(several) => pairs.push_str(&several),
                    None => {
                        spec.query
                            .insert(parameter.name.clone(), parameter.value_template(&argument));
                    }
                },
            }
        }
        let left: String =
            path.split("{{").map(|part| part.rsplit("}}").next().unwrap_or(part)).collect();
        if left.contains(['{', '}']) {
            return Err("its path has a placeholder that no parameter fills".to_owned());
        }
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        Ok(if pairs.is_empty() { path } else { format!("{path}?{pairs}") })
    }

    fn body(
        &self,
        context: &ImportContext<'_>,
        input: &mut ArgumentSchema,
        spec: &mut HttpSpec,
    ) -> Result<(), String> {
        let Some(body) = self.described.get("requestBody") else {
            if matches!(self.method, HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch) {
                spec.body = Some(String::new());
            }
            return Ok(());
        };
        if matches!(self.method, HttpMethod::Get | HttpMethod::Head) {
            return Err("its method does not support a body".to_owned());
        }
        let body = context.resolver.follow(body)?;
        let required = body.get("required").and_then(Value::as_bool).unwrap_or(false);
        let content = body.get("content").and_then(Value::as_object);
        let content = content.ok_or("its body has no content")?;
        let of_kind = |is_match: fn(&str) -> bool| {
            content.iter().find(|(kind, _)| is_match(&media_type_essence(kind)))
        };
        let json = |kind: &str| kind == "application/json" || kind.ends_with("+json");
        let (kind, media) = of_kind(|kind| kind == "application/json")
            .or_else(|| of_kind(|kind| kind.ends_with("+json")))
            .or_else(|| of_kind(|kind| kind == "application/x-www-form-urlencoded"))
            .or_else(|| of_kind(|kind| kind.starts_with("text/")))
            .or_else(|| content.get_key_value("*/*"))
            .ok_or_else(|| {
                let kinds: Vec<String> =
                    content.keys().take(4).map(|kind| media_type_essence(kind)).collect();
                format!("its body has unsupported content types: {}", kinds.join(", "))
            })?;
        let kind = media_type_essence(kind);
        let schema = match media.get("schema") {
            Some(schema) => context.resolver.inline(schema)?,
            None => json!({}),
        };
        let any = kind == "*/*";
        if kind != "application/json" && !any {
            spec.headers.insert("content-type".to_owned(), kind.clone());
        }
        let is_form = kind == "application/x-www-form-urlencoded";
        spec.body = Some(if json(&kind) || any || is_form {
            input.body(schema, required, is_form)
        } else {
            input.whole_body(json!({ "type": "string" }), required)
        });
        Ok(())
    }
}

/// Returns a media type without its parameters.
fn media_type_essence(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl ArgumentSchema {
    /// Adds a parameter, and returns the name of its argument. A name that is already in use gets a prefix.
    fn parameter(&mut self, parameter: &Parameter) -> String {
        let mut name = parameter.name.clone();
        if self.properties.contains_key(&name) {
            let location = match parameter.location {
                ParameterLocation::Path => "path",
                ParameterLocation::Query => "query",
                ParameterLocation::Header => "header",
            };
            name = format!("{location}_{name}");
        }
        self.properties.insert(name.clone(), parameter.schema.clone());
        self.other_arguments.push(name.clone());
        if parameter.required {
            self.required.push(Value::String(name.clone()));
        }
        name
    }

    /// Adds a body and returns its template. The properties of an object become arguments, unless a parameter has the
    /// same name.
    fn body(&mut self, schema: Value, required: bool, is_form: bool) -> String {
        let Some(object) = object_properties(&schema) else {
            return self.whole_body(schema, required);
        };
        if object.properties.keys().any(|name| self.properties.contains_key(name)) {
            return self.whole_body(schema, required);
        }
        self.allows_additional = !object.closed;
        self.properties.extend(object.properties);
        if required {
            self.required.extend(object.required);
        }
        let names: Vec<String> = self
            .other_arguments
            .iter()
            .map(|name| Value::String(name.clone()).to_string())
            .collect();
        let rest = match names.is_empty() {
            true => "args".to_owned(),
            false => format!("args|without({})", names.join(", ")),
        };
        match (is_form, required) {
            (true, _) => {
                format!("{{% for key in {rest} %}}{{{{ key }}}}={{{{ args[key] }}}}&{{% endfor %}}")
            }
            (false, true) => format!("{{{{ {rest} }}}}"),
            (false, false) => format!("{{% if {rest} %}}{{{{ {rest} }}}}{{% endif %}}"),
        }
    }

    /// Adds the body as one argument, and returns its template.
    fn whole_body(&mut self, schema: Value, required: bool) -> String {
        let mut name = BODY.to_owned();
        while self.properties.contains_key(&name) {
            name.insert_str(0, "request_");
        }
        self.properties.insert(name.clone(), schema);
        self.other_arguments.push(name.clone());
        let argument = format!("args[{}]", Value::String(name.clone()));
        if required {
            self.required.push(Value::String(name));
            return format!("{{{{ {argument} }}}}");
        }
        format!("{{% if {argument} is defined %}}{{{{ {argument} }}}}{{% endif %}}")
    }

    /// Returns the JSON Schema of the arguments.
    fn schema(self) -> Value {
        let mut schema = json!({ "type": "object", "properties": self.properties });
        if let Value::Object(map) = &mut schema {
            if !self.required.is_empty() {
                map.insert("required".to_owned(), Value::Array(self.required));
            }
            if !self.allows_additional {
                map.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        schema
    }
}

/// Properties of an object schema.
struct ObjectProperties {
    properties: Map<String, Value>,
    required: Vec<Value>,
    closed: bool,
}

/// Returns the properties of an object schema, or of an `allOf` of object schemas. `None` for other schemas.
fn object_properties(schema: &Value) -> Option<ObjectProperties> {
    let map = schema.as_object()?;
    if ["oneOf", "anyOf", "not", "if", "patternProperties"]
        .iter()
        .any(|method_name| map.contains_key(*method_name))
    {
        return None;
    }
    let list = |key: &str| map.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut found = ObjectProperties {
        properties: map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default(),
        required: list("required"),
        closed: map.get("additionalProperties") == Some(&Value::Bool(false)),
    };
    for part in list("allOf") {
        let part = object_properties(&part)?;
        found.properties.extend(part.properties);
        found.required.extend(part.required);
    }
    let is_object = map.get("type").is_some_and(|kind| kind == "object");
    let allows_additional = matches!(map.get("additionalProperties"), Some(Value::Object(_)));
    // Read-only properties are not arguments.
    found
        .required
        .retain(|name| name.as_str().is_some_and(|name| found.properties.contains_key(name)));
    (!allows_additional && (is_object || !found.properties.is_empty())).then_some(found)
}
