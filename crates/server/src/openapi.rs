//! The OpenAPI 3.1 document, made from the route table.

mod schema_fixes;
mod validation;
mod validation_message;

use std::sync::LazyLock;

use http::Method;
use provost_api::Problem;
use provost_core::usage::limits::NAMESPACE_CHARS_MAX;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use self::schema_fixes::{describe_variants, without_null};
pub(crate) use self::validation::BodySchema;
use crate::extract::Input;
use crate::router::{Access, ApiRouter, Endpoint, api};

/// The document of what is served, made once.
pub(crate) fn served() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&api()));
    &DOCUMENT
}

/// Makes the document of a route table.
fn document(api: &ApiRouter) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    schemas.subschema_for::<Problem>();
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in api.endpoints() {
        let method = endpoint.method.as_str().to_lowercase();
        let described = describe(endpoint, &mut schemas);
        let path = paths.entry(&*endpoint.path).or_insert_with(|| json!({}));
        path[method] = described;
    }
    let mut components = Value::Object(schemas.take_definitions(true));
    describe_variants(&mut components);
    let tags = api.tags().iter();
    let tags = tags.map(|tag| json!({"name": tag.name, "description": tag.description}));
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
        "tags": tags.collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": problem_responses(),
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of this server: `prv_…`. Its scopes say what it may do, its namespaces where.",
            }},
        },
    })
}

/// Describes one operation. Its schemas are added in this order: query or body, responses, path.
fn describe(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let (mut query, mut body) = (None, None);
    match endpoint.input {
        Input::Nothing => {}
        Input::Query(schema) => query = Some(schema(schemas)),
        Input::Json(schema) => body = Some(schema(schemas)),
    }
    let responses = responses(endpoint, schemas);
    let mut parameters = path_parameters(endpoint, schemas);
    parameters.extend(query_parameters(query.as_ref()));
    parameters.extend(header_parameters(endpoint));
    let mut described = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "tags": [endpoint.tag()],
        "parameters": parameters,
    });
    if let Some(body) = body {
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": body}}});
    }
    described["responses"] = Value::Object(responses);
    match endpoint.access {
        Access::Public => described["security"] = json!([]),
        Access::Authenticated => {}
        Access::Scope(scope) => described["x-provost-scope"] = json!(scope),
    }
    described
}

fn path_parameters(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let mut parameters = Vec::new();
    for name in endpoint.path_names() {
        let about = match name {
            "namespace" => "Whose: names are apart from each other".to_owned(),
            "id" => "The id of a run, a task, an approval or a session".to_owned(),
            name => format!("Which {name}"),
        };
        let known = endpoint.path_parameters.iter().find(|parameter| parameter.name == name);
        // The namespace is read by `Auth` in all operations.
        let schema = known.map_or_else(namespace_schema, |known| (known.schema)(schemas));
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "description": about, "schema": schema,
        }));
    }
    parameters
}

fn namespace_schema() -> Value {
    let pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
    json!({"type": "string", "pattern": pattern, "maxLength": NAMESPACE_CHARS_MAX})
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

fn header_parameters(endpoint: &Endpoint) -> Vec<Value> {
    let header = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema});
    let mut parameters = Vec::new();
    if endpoint.has_etag && endpoint.method == Method::GET {
        let about =
            "The ETag of what the caller has: if it is still that, the answer is 304 and empty";
        parameters.push(header("If-None-Match", about, json!({"type": "string"})));
    }
    if endpoint.reads_last_event_id {
        let about = "The cursor of the last event that was seen: what comes behind it is sent. It goes before `after`";
        parameters.push(header("Last-Event-ID", about, json!({"type": "string"})));
    }
    if endpoint.is_idempotent {
        let about = "Makes a repeat harmless: the same key with the same request does it once";
        let schema =
            json!({"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"});
        parameters.push(header("Idempotency-Key", about, schema));
    }
    if endpoint.reads_if_match {
        let about = "The ETag of what is changed: if it is another one by now, nothing happens";
        let schema = json!({"type": "string", "pattern": "^\"[0-9]{1,19}\"$"});
        parameters.push(header("If-Match", about, schema));
    }
    parameters
}

fn responses(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let mut responses = Map::new();
    let mut headers = headers();
    if endpoint.has_etag {
        headers["ETag"] = header("The revision: for `If-Match` and `If-None-Match`", "string");
    }
    if endpoint.has_etag && endpoint.method == Method::GET {
        let unchanged = json!({"description": "It is what the caller has", "headers": headers});
        responses.insert("304".to_owned(), unchanged);
    }
    for doc in &endpoint.responses {
        let mut response = json!({"description": success(doc.status), "headers": headers});
        if let Some(content) = doc.content {
            response["content"] =
                json!({content.media_type: {"schema": (content.schema)(schemas)}});
        }
        responses.insert(doc.status.to_string(), response);
    }
    for status in problem_statuses(endpoint) {
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

/// Headers that every response may carry.
fn headers() -> Value {
    json!({
        "X-Request-Id": header("The id of the request: the caller's, or a new one", "string"),
        "RateLimit-Limit": header("Requests that may come at once", "integer"),
        "RateLimit-Remaining": header("Requests that may still come now", "integer"),
        "RateLimit-Reset": header("Seconds until all of them may come again", "integer"),
    })
}

/// The statuses of problems that an operation may answer with, as far as that is known before it is called.
fn problem_statuses(endpoint: &Endpoint) -> Vec<u16> {
    let mut statuses = vec![400];
    if endpoint.access != Access::Public {
        statuses.push(401);
    }
    if matches!(endpoint.access, Access::Scope(_)) {
        statuses.push(403);
    }
    if endpoint.path.contains('{') {
        statuses.push(404);
    }
    if endpoint.method != Method::GET {
        statuses.push(409);
    }
    if endpoint.reads_if_match {
        statuses.push(412);
    }
    if matches!(endpoint.input, Input::Json(_)) {
        statuses.extend([408, 413, 415, 422]);
    }
    statuses.extend([429, 503]);
    statuses.sort_unstable();
    statuses
}

/// A problem of the document.
struct ProblemDoc {
    /// Empty for all others.
    status: &'static str,
    about: &'static str,
    code: &'static str,
    kind: &'static str,
}

#[rustfmt::skip]
const PROBLEMS: [ProblemDoc; 13] = [
    ProblemDoc { status: "400", about: "The request is wrong; `fields` says where", code: "invalid", kind: "invalid" },
    ProblemDoc { status: "401", about: "A valid token is needed", code: "unauthenticated", kind: "unauthenticated" },
    ProblemDoc { status: "403", about: "The token lacks the scope", code: "scope", kind: "denied" },
    ProblemDoc { status: "404", about: "There is no such thing, or not for this token", code: "not_found", kind: "not_found" },
    ProblemDoc { status: "408", about: "The body did not arrive in time", code: "body_timeout", kind: "timeout" },
    ProblemDoc { status: "409", about: "The state does not allow it", code: "conflict", kind: "conflict" },
    ProblemDoc { status: "412", about: "It has changed meanwhile", code: "precondition_failed", kind: "conflict" },
    ProblemDoc { status: "413", about: "The body is too large", code: "too_large", kind: "invalid" },
    ProblemDoc { status: "415", about: "The body is not JSON", code: "invalid", kind: "invalid" },
    ProblemDoc { status: "422", about: "A limit or a budget is used up", code: "budget", kind: "exhausted" },
    ProblemDoc { status: "429", about: "Too many requests", code: "rate_limited", kind: "rate_limited" },
    ProblemDoc { status: "503", about: "Not available now: try again after `Retry-After`", code: "unavailable", kind: "unavailable" },
    ProblemDoc { status: "", about: "Refused or failed: `code` says why", code: "bug", kind: "bug" },
];

/// Each problem once, with an example.
fn problem_responses() -> Map<String, Value> {
    PROBLEMS.iter().map(problem_response).collect()
}

fn problem_response(doc: &ProblemDoc) -> (String, Value) {
    let number = doc.status.parse().unwrap_or(500);
    let example = json!({
        "type": format!("urn:provost:problem:{}", doc.code),
        "title": doc.about,
        "status": number,
        "detail": doc.about,
        "code": doc.code,
        "kind": doc.kind,
        "request_id": "req_0123456789abcdef",
    });
    let mut headers = headers();
    match number {
        401 => headers["WWW-Authenticate"] = header("How to show a token", "string"),
        429 | 503 => headers["Retry-After"] = header("Seconds to wait", "integer"),
        _ => {}
    }
    let schema = json!({"$ref": "#/components/schemas/Problem"});
    let response = json!({
        "description": doc.about,
        "headers": headers,
        "content": {Problem::MEDIA_TYPE: {"schema": schema, "example": example}},
    });
    (format!("Problem{}", doc.status), response)
}

fn header(about: &str, kind: &str) -> Value {
    json!({"description": about, "schema": {"type": kind}})
}
