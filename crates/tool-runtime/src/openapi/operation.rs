//! One operation as one tool.

use provost_core::recovery::EffectClass;
use provost_core::resource::{
    HttpMethod, HttpSpec, OperationClass, RiskLevel, ToolResource, ToolType,
};
use provost_core::text::truncate_chars;
use provost_tool::ToolSpec;
use serde_json::{Map, Value, json};

use super::parameter::{self, In, Parameter};
use super::{Reading, legal, security};
use crate::limits::DESCRIPTION_CHARS_MAX;

/// The argument that is the body, where its members cannot be arguments of their own.
const BODY: &str = "body";

/// One operation of a document.
pub(crate) struct Operation<'a> {
    pub(crate) path: &'a str,
    pub(crate) word: &'a str,
    pub(crate) method: HttpMethod,
    pub(crate) item: &'a Value,
    pub(crate) described: &'a Value,
}

/// What is known of the arguments so far.
#[derive(Default)]
struct Input {
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// Arguments that are not part of the body.
    outside: Vec<String>,
    /// True if the body takes members that it does not name.
    open: bool,
}

impl Operation<'_> {
    /// The tool, or why there is none.
    pub(crate) fn tool(&self, reading: &Reading<'_>) -> Result<ToolResource, String> {
        let mut input = Input::default();
        let mut spec = HttpSpec { method: self.method, ..HttpSpec::default() };
        let parameters = parameter::all(reading, self)?;
        let path = self.address(&parameters, &mut input, &mut spec)?;
        self.body(reading, &mut input, &mut spec)?;
        let base = reading.base.as_str().trim_end_matches('/');
        let mut tool =
            ToolResource::new(self.name(reading), ToolType::Http, format!("{base}{path}"));
        tool.description = self.description();
        tool.input_schema = input.schema();
        tool.auth = security::of(reading, self.described)?;
        tool.allow_private = reading.options.allow_private;
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
        // A schema that no call could be checked against is found now and not by a model.
        ToolSpec::new(tool.name.as_str(), tool.description.as_str(), tool.input_schema.clone())
            .map_err(|error| crate::transport::fault::shown(&error.to_string()))?;
        tool.normalized().map_err(|error| error.to_string())
    }

    fn name(&self, reading: &Reading<'_>) -> String {
        let id = self.described.get("operationId").and_then(Value::as_str);
        let id = id.filter(|id| !id.trim().is_empty());
        let plain = id.map_or_else(|| format!("{}_{}", self.word, self.path), str::to_owned);
        legal(&format!("{}{plain}", reading.options.prefix))
    }

    fn description(&self) -> String {
        let text = |key: &str| self.described.get(key).and_then(Value::as_str).unwrap_or_default();
        let (summary, details) = (text("summary").trim(), text("description").trim());
        let mut description = match (summary, details) {
            ("", "") => format!("{} {}", self.word.to_uppercase(), self.path),
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

    /// The path and the query as a template; headers go into the spec.
    fn address(
        &self,
        parameters: &[Parameter],
        input: &mut Input,
        spec: &mut HttpSpec,
    ) -> Result<String, String> {
        if ["{{", "{%", "{#"].iter().any(|mark| self.path.contains(mark)) {
            return Err("its path holds what would be read as a template".to_owned());
        }
        let mut path = self.path.to_owned();
        let mut pairs = String::new();
        for parameter in parameters {
            let argument = input.parameter(parameter);
            let argument = format!("args[{}]", Value::String(argument));
            match parameter.place {
                In::Path => {
                    let hole = format!("{{{}}}", parameter.name);
                    if !path.contains(&hole) {
                        continue;
                    }
                    path = path.replace(&hole, &parameter.value(&argument));
                }
                In::Header => {
                    spec.headers.insert(parameter.name.clone(), parameter.value(&argument));
                }
                In::Query => match parameter.pairs(&argument) {
                    Some(several) => pairs.push_str(&several),
                    None => {
                        spec.query.insert(parameter.name.clone(), parameter.value(&argument));
                    }
                },
            }
        }
        let left: String =
            path.split("{{").map(|part| part.rsplit("}}").next().unwrap_or(part)).collect();
        if left.contains(['{', '}']) {
            return Err("its path has a place that no parameter fills".to_owned());
        }
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        Ok(if pairs.is_empty() { path } else { format!("{path}?{pairs}") })
    }

    fn body(
        &self,
        reading: &Reading<'_>,
        input: &mut Input,
        spec: &mut HttpSpec,
    ) -> Result<(), String> {
        let Some(body) = self.described.get("requestBody") else {
            if matches!(self.method, HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch) {
                spec.body = Some(String::new());
            }
            return Ok(());
        };
        if matches!(self.method, HttpMethod::Get | HttpMethod::Head) {
            return Err("it reads and wants a body".to_owned());
        }
        let body = reading.resolver.follow(body)?;
        let required = body.get("required").and_then(Value::as_bool).unwrap_or(false);
        let content = body.get("content").and_then(Value::as_object);
        let content = content.ok_or("its body has no content")?;
        let of_kind =
            |wanted: fn(&str) -> bool| content.iter().find(|(kind, _)| wanted(&bare(kind)));
        let json = |kind: &str| kind == "application/json" || kind.ends_with("+json");
        let (kind, media) = of_kind(|kind| kind == "application/json")
            .or_else(|| of_kind(|kind| kind.ends_with("+json")))
            .or_else(|| of_kind(|kind| kind == "application/x-www-form-urlencoded"))
            .or_else(|| of_kind(|kind| kind.starts_with("text/")))
            .or_else(|| content.get_key_value("*/*"))
            .ok_or_else(|| {
                let kinds: Vec<String> = content.keys().take(4).map(|kind| bare(kind)).collect();
                format!("its body is of a kind that is not supported: {}", kinds.join(", "))
            })?;
        let kind = bare(kind);
        let schema = match media.get("schema") {
            Some(schema) => reading.resolver.inline(schema)?,
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

/// A media type without its parameters.
fn bare(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl Input {
    /// Takes in a parameter and says under which name it is known.
    fn parameter(&mut self, parameter: &Parameter) -> String {
        let mut name = parameter.name.clone();
        if self.properties.contains_key(&name) {
            let place = match parameter.place {
                In::Path => "path",
                In::Query => "query",
                In::Header => "header",
            };
            name = format!("{place}_{name}");
        }
        self.properties.insert(name.clone(), parameter.schema.clone());
        self.outside.push(name.clone());
        if parameter.required {
            self.required.push(Value::String(name.clone()));
        }
        name
    }

    /// Takes in a body and gives its template. The members of an object become arguments of their own, unless a parameter has
    /// the name of one.
    fn body(&mut self, schema: Value, required: bool, is_form: bool) -> String {
        let Some(object) = members(&schema) else {
            return self.whole_body(schema, required);
        };
        if object.properties.keys().any(|name| self.properties.contains_key(name)) {
            return self.whole_body(schema, required);
        }
        self.open = !object.closed;
        self.properties.extend(object.properties);
        if required {
            self.required.extend(object.required);
        }
        let names: Vec<String> =
            self.outside.iter().map(|name| Value::String(name.clone()).to_string()).collect();
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

    fn whole_body(&mut self, schema: Value, required: bool) -> String {
        let mut name = BODY.to_owned();
        while self.properties.contains_key(&name) {
            name.insert_str(0, "request_");
        }
        self.properties.insert(name.clone(), schema);
        self.outside.push(name.clone());
        let argument = format!("args[{}]", Value::String(name.clone()));
        if required {
            self.required.push(Value::String(name));
            return format!("{{{{ {argument} }}}}");
        }
        format!("{{% if {argument} is defined %}}{{{{ {argument} }}}}{{% endif %}}")
    }

    fn schema(self) -> Value {
        let mut schema = json!({ "type": "object", "properties": self.properties });
        if let Value::Object(map) = &mut schema {
            if !self.required.is_empty() {
                map.insert("required".to_owned(), Value::Array(self.required));
            }
            if !self.open {
                map.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        schema
    }
}

/// The members of an object schema.
struct Members {
    properties: Map<String, Value>,
    required: Vec<Value>,
    closed: bool,
}

/// The members of a schema that is a plain object, or all of several such.
fn members(schema: &Value) -> Option<Members> {
    let map = schema.as_object()?;
    if ["oneOf", "anyOf", "not", "if", "patternProperties"]
        .iter()
        .any(|word| map.contains_key(*word))
    {
        return None;
    }
    let list = |key: &str| map.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut found = Members {
        properties: map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default(),
        required: list("required"),
        closed: map.get("additionalProperties") == Some(&Value::Bool(false)),
    };
    for part in list("allOf") {
        let part = members(&part)?;
        found.properties.extend(part.properties);
        found.required.extend(part.required);
    }
    let is_object = map.get("type").is_some_and(|kind| kind == "object");
    let open = matches!(map.get("additionalProperties"), Some(Value::Object(_)));
    // What the service itself writes is not asked for.
    found
        .required
        .retain(|name| name.as_str().is_some_and(|name| found.properties.contains_key(name)));
    (!open && (is_object || !found.properties.is_empty())).then_some(found)
}
