//! The OpenAPI 3.1 document, made of the table.

mod obvious;
mod schema_fixes;
mod validation;
mod validation_message;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use http::Method;
use provost_api::Problem;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use self::schema_fixes::{describe_variants, without_null};
pub(crate) use self::validation::BodySchema;
use crate::controllers;
use crate::operation::{Access, Operation, parameter_schema};
use crate::output::OutputDoc;

/// What the first words of paths are about.
const TAGS: [(&str, &str); 18] = [
    ("tasks", "Pieces of work: hand them in, look at them, end them"),
    ("runs", "What answers for a task: watch it, say something to it, fork it"),
    ("agents", "Who does the work"),
    ("approvals", "Questions to people"),
    ("grants", "Answers that reach further than one call"),
    ("sessions", "Conversations"),
    ("deliveries", "Answers on their way to where they belong"),
    ("stream", "Everything that happens in a namespace"),
    ("webhooks", "Addresses that are told what happens"),
    ("schedules", "Work that is asked for by the clock"),
    ("classes", "Runs that share a budget of concurrency"),
    ("budgets", "Money that may be spent"),
    ("tools", "Declared tools"),
    ("audit", "Who did what"),
    ("usage", "What was used"),
    ("explain", "Why something waits or failed"),
    ("tokens", "Who may call"),
    ("server", "How the server is"),
];

/// The document of what is served, made once.
pub(crate) fn served() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&controllers::table()));
    &DOCUMENT
}

/// The document of a table of operations.
pub(crate) fn document(table: &[Operation]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    schemas.subschema_for::<Problem>();
    let mut paths: Map<String, Value> = Map::new();
    for operation in table {
        let method = operation.method.as_str().to_lowercase();
        let described = describe(operation, &mut schemas);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[method] = described;
    }
    let mut components = Value::Object(schemas.take_definitions(true));
    describe_variants(&mut components);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Provost",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Durable runs of AI agents",
            "description": "Hand in work, watch it, steer it, answer its questions, and learn why it waits.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "security": [{"token": []}],
        "tags": tags(table),
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": refusals(),
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of this server: `prv_…`. Its scopes say what it may do, its namespaces where.",
            }},
        },
    })
}

/// The tags of the table in the order above; others come behind.
fn tags(table: &[Operation]) -> Vec<Value> {
    let used: BTreeSet<&str> = table.iter().map(Operation::tag).collect();
    let known = TAGS.into_iter().filter(|(name, _)| used.contains(name));
    let others = used.iter().filter(|name| !TAGS.iter().any(|(known, _)| known == *name));
    let known = known.map(|(name, about)| json!({"name": name, "description": about}));
    known.chain(others.map(|name| json!({"name": name}))).collect()
}

fn describe(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let (input, output) = ((operation.input)(schemas), (operation.output)(schemas));
    let mut parameters = path_parameters(operation, schemas);
    parameters.extend(query_parameters(input.query.as_ref()));
    parameters.extend(header_parameters(operation, &output));
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag()],
        "parameters": parameters,
    });
    let has_body = input.body.is_some();
    if let Some(body) = input.body {
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": body}}});
    }
    described["responses"] = Value::Object(responses(operation, has_body, output));
    match operation.access {
        Access::Open => described["security"] = json!([]),
        Access::Known => {}
        Access::Scope(scope) => described["x-provost-scope"] = json!(scope),
    }
    described
}

fn path_parameters(operation: &Operation, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let names = operation.parameters();
    names
        .map(|name| {
            let schema = parameter_schema(name, schemas);
            let about = match name {
                "namespace" => "Whose: names are apart from each other".to_owned(),
                "id" => "The id of a run, a task, an approval or a session".to_owned(),
                name => format!("Which {name}"),
            };
            json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
        })
        .collect()
}

/// The properties of the query's object, each as a parameter. What may be left out is never null.
fn query_parameters(query: Option<&Value>) -> Vec<Value> {
    let required: Vec<&str> = query
        .and_then(|query| query["required"].as_array())
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = query.and_then(|query| query["properties"].as_object());
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = without_null(schema);
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": required.contains(&name.as_str()),
            "description": about.unwrap_or_else(|| json!(name)),
            "schema": schema,
        })
    };
    properties.into_iter().flatten().map(parameter).collect()
}

fn header_parameters(operation: &Operation, output: &OutputDoc) -> Vec<Value> {
    let key = json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "description": "Makes a repeat harmless: the same key with the same request does it once",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
    });
    let guard = json!({
        "name": "If-Match",
        "in": "header",
        "required": false,
        "description": "The ETag of what is changed: if it is another one by now, nothing happens",
        "schema": {"type": "string", "pattern": "^\"[0-9]{1,19}\"$"},
    });
    let known = json!({
        "name": "If-None-Match",
        "in": "header",
        "required": false,
        "description": "The ETag of what the caller has: if it is still that, the answer is 304 and empty",
        "schema": {"type": "string"},
    });
    let seen = json!({
        "name": "Last-Event-ID",
        "in": "header",
        "required": false,
        "description": "The cursor of the last event that was seen: what comes behind it is sent. It goes before `after`",
        "schema": {"type": "string"},
    });
    let mut parameters = Vec::new();
    if output.is_tagged && operation.method == Method::GET {
        parameters.push(known);
    }
    if is_stream(output) {
        parameters.push(seen);
    }
    if operation.keyed {
        parameters.push(key);
    }
    if operation.guarded {
        parameters.push(guard);
    }
    parameters
}

/// True if the answer is a stream of events.
fn is_stream(output: &OutputDoc) -> bool {
    let mut kinds = output.answers.iter().filter_map(|(_, body)| Some(body.as_ref()?.0));
    kinds.any(|kind| kind == "text/event-stream")
}

fn responses(operation: &Operation, has_body: bool, output: OutputDoc) -> Map<String, Value> {
    let mut responses = Map::new();
    let mut headers = headers();
    if output.is_tagged {
        headers["ETag"] = header("The revision: for `If-Match` and `If-None-Match`", "string");
    }
    if output.is_tagged && operation.method == Method::GET {
        let unchanged = json!({"description": "It is what the caller has", "headers": headers});
        responses.insert("304".to_owned(), unchanged);
    }
    for (status, body) in output.answers {
        let mut response = json!({"description": success(status), "headers": headers});
        if let Some((kind, mut schema)) = body {
            // Some read the schema of a stream as that of the whole, some as that of each event: it is neither's type.
            if let Some(schema) = schema.as_object_mut().filter(|_| kind == "text/event-stream") {
                schema.remove("type");
            }
            response["content"] = json!({kind: {"schema": schema}});
        }
        responses.insert(status.to_string(), response);
    }
    for status in refused_with(operation, has_body) {
        let name = format!("#/components/responses/Problem{status}");
        responses.insert(status.to_string(), json!({"$ref": name}));
    }
    responses.insert("default".to_owned(), json!({"$ref": "#/components/responses/Problem"}));
    responses
}

fn success(status: u16) -> &'static str {
    match status {
        201 => "It was made",
        204 => "Done; there is nothing to say",
        _ => "Done",
    }
}

/// What every answer may carry.
fn headers() -> Value {
    json!({
        "X-Request-Id": header("The id of the request: the caller's, or a new one", "string"),
        "RateLimit-Limit": header("Requests that may come at once", "integer"),
        "RateLimit-Remaining": header("Requests that may still come now", "integer"),
        "RateLimit-Reset": header("Seconds until all of them may come again", "integer"),
    })
}

/// With which statuses an operation may refuse, as far as that is known before it is asked.
fn refused_with(operation: &Operation, has_body: bool) -> Vec<u16> {
    let mut statuses = vec![400];
    if operation.access != Access::Open {
        statuses.push(401);
    }
    if matches!(operation.access, Access::Scope(_)) {
        statuses.push(403);
    }
    if operation.path.contains('{') {
        statuses.push(404);
    }
    if operation.method != Method::GET {
        statuses.push(409);
    }
    if operation.guarded {
        statuses.push(412);
    }
    if has_body {
        statuses.extend([408, 413, 415, 422]);
    }
    statuses.extend([429, 503]);
    statuses.sort_unstable();
    statuses
}

fn problem_content() -> Value {
    json!({"schema": {"$ref": "#/components/schemas/Problem"}})
}

/// Each refusal once, with an example.
fn refusals() -> Map<String, Value> {
    let table: [(&str, &str, &str, &str); 13] = [
        ("400", "The request is wrong; `fields` says where", "invalid", "invalid"),
        ("401", "A valid token is needed", "unauthenticated", "unauthenticated"),
        ("403", "The token lacks the scope", "scope", "denied"),
        ("404", "There is no such thing, or not for this token", "not_found", "not_found"),
        ("408", "The body did not arrive in time", "body_timeout", "timeout"),
        ("409", "The state does not allow it", "conflict", "conflict"),
        ("412", "It has changed meanwhile", "precondition_failed", "conflict"),
        ("413", "The body is too large", "too_large", "invalid"),
        ("415", "The body is not JSON", "invalid", "invalid"),
        ("422", "A limit or a budget is used up", "budget", "exhausted"),
        ("429", "Too many requests", "rate_limited", "rate_limited"),
        ("503", "Not available now: try again after `Retry-After`", "unavailable", "unavailable"),
        ("", "Refused or failed: `code` says why", "bug", "bug"),
    ];
    let refusal = |(status, about, code, kind): (&str, &str, &str, &str)| {
        let number = status.parse().unwrap_or(500);
        let example = json!({
            "type": format!("urn:provost:problem:{code}"),
            "title": about,
            "status": number,
            "detail": about,
            "code": code,
            "kind": kind,
            "request_id": "req_0123456789abcdef",
        });
        let mut content = problem_content();
        content["example"] = example;
        let mut headers = headers();
        match number {
            401 => headers["WWW-Authenticate"] = header("How to show a token", "string"),
            429 | 503 => headers["Retry-After"] = header("Seconds to wait", "integer"),
            _ => {}
        }
        let response = json!({
            "description": about,
            "headers": headers,
            "content": {Problem::MEDIA_TYPE: content},
        });
        (format!("Problem{status}"), response)
    };
    table.into_iter().map(refusal).collect()
}

fn header(about: &str, kind: &str) -> Value {
    json!({"description": about, "schema": {"type": kind}})
}
