//! Generates the OpenAPI 3.1 document from the route table.

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

use self::schema_fixes::{flatten_string_enums, strip_null};
pub(crate) use self::validation::BodySchema;
use crate::extract::Input;
use crate::router::{Access, ApiRouter, Endpoint, api};

/// Returns the document of the API. It is generated once.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| generate(&api()));
    &DOCUMENT
}

/// Generates the document of a route table.
fn generate(api: &ApiRouter) -> Value {
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
    flatten_string_enums(&mut components);
    let tags = api.tags().iter();
    let tags = tags.map(|tag| json!({"name": tag.name, "description": tag.description}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Provost",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Durable execution of AI agents",
            "description": "Submit tasks to agents, stream their events, steer them, decide about approvals, and explain why a run waits.",
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
                "description": "An API token: `prv_…`. Its scopes define the permitted operations, its namespaces where they apply.",
            }},
        },
    })
}

/// Generates the description of an operation. The order of the schemas is: query or body, responses, path.
fn describe(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let (mut query, mut body) = (None, None);
    match endpoint.input {
        Input::None => {}
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
            "namespace" => "Name of the namespace".to_owned(),
            "id" => "Id of a run, task, approval, session or delivery".to_owned(),
            "agent" | "session" => format!("Name of the {name}"),
            "class" => "Key of the execution class".to_owned(),
            "post" => "Id of the webhook delivery".to_owned(),
            "request" => "Id of the tool request".to_owned(),
            name => format!("Id of the {name}"),
        };
        let parameter = endpoint.path_parameters.iter().find(|parameter| parameter.name == name);
        // `Auth` reads the namespace in all operations.
        let schema =
            parameter.map_or_else(namespace_schema, |parameter| (parameter.schema)(schemas));
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

/// Converts the properties of the query schema to parameters. Optional parameters are omitted, never null.
fn query_parameters(query: Option<&Value>) -> Vec<Value> {
    let required: Vec<&str> = query
        .and_then(|query| query["required"].as_array())
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = query.and_then(|query| query["properties"].as_object());
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = strip_null(schema);
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
            "ETag that the client has. If it is still current, the response is 304 without a body";
        parameters.push(header("If-None-Match", about, json!({"type": "string"})));
    }
    if endpoint.reads_last_event_id {
        let about = "Cursor of the last received event. The stream continues after it. It takes precedence over `after`";
        parameters.push(header("Last-Event-ID", about, json!({"type": "string"})));
    }
    if endpoint.is_idempotent {
        let about =
            "Idempotency key. A repeated request with the same key returns the first result";
        let schema =
            json!({"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"});
        parameters.push(header("Idempotency-Key", about, schema));
    }
    if endpoint.reads_if_match {
        let about = "ETag of the version to change. If it is not current, the response is 412 and nothing changes";
        let schema = json!({"type": "string", "pattern": "^\"[0-9]{1,19}\"$"});
        parameters.push(header("If-Match", about, schema));
    }
    parameters
}

fn responses(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let mut responses = Map::new();
    let mut headers = headers();
    if endpoint.has_etag {
        headers["ETag"] =
            header("Revision of the object, for `If-Match` and `If-None-Match`", "string");
    }
    if endpoint.has_etag && endpoint.method == Method::GET {
        let unchanged =
            json!({"description": "The client has the current version", "headers": headers});
        responses.insert("304".to_owned(), unchanged);
    }
    for doc in &endpoint.responses {
        let mut response =
            json!({"description": success_description(doc.status), "headers": headers});
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

fn success_description(status: u16) -> &'static str {
    match status {
        201 => "Created",
        204 => "Success without content",
        _ => "Success",
    }
}

/// Returns the headers that every response can have.
fn headers() -> Value {
    json!({
        "X-Request-Id": header("Id of the request: the one that the client sent, or a new one", "string"),
        "RateLimit-Limit": header("Maximum number of requests in a burst", "integer"),
        "RateLimit-Remaining": header("Number of requests that are available now", "integer"),
        "RateLimit-Reset": header("Seconds until the full burst is available", "integer"),
    })
}

/// Returns the error statuses that follow from the description of an operation.
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

/// An error response in the document.
struct ProblemDoc {
    /// HTTP status. Empty for all other statuses.
    status: &'static str,
    about: &'static str,
    code: &'static str,
    kind: &'static str,
}

#[rustfmt::skip]
const PROBLEMS: [ProblemDoc; 13] = [
    ProblemDoc { status: "400", about: "The request is invalid. `fields` lists the invalid parts", code: "invalid", kind: "invalid" },
    ProblemDoc { status: "401", about: "A valid token is required", code: "unauthenticated", kind: "unauthenticated" },
    ProblemDoc { status: "403", about: "The token lacks the required scope", code: "scope", kind: "denied" },
    ProblemDoc { status: "404", about: "The object does not exist, or the token cannot access it", code: "not_found", kind: "not_found" },
    ProblemDoc { status: "408", about: "The request body did not arrive in time", code: "body_timeout", kind: "timeout" },
    ProblemDoc { status: "409", about: "The request conflicts with the current state", code: "conflict", kind: "conflict" },
    ProblemDoc { status: "412", about: "The object has another revision", code: "precondition_failed", kind: "conflict" },
    ProblemDoc { status: "413", about: "The request body is too large", code: "too_large", kind: "invalid" },
    ProblemDoc { status: "415", about: "The request body is not JSON", code: "invalid", kind: "invalid" },
    ProblemDoc { status: "422", about: "A limit or a budget is exhausted", code: "budget", kind: "exhausted" },
    ProblemDoc { status: "429", about: "Too many requests", code: "rate_limited", kind: "rate_limited" },
    ProblemDoc { status: "503", about: "The service is unavailable. Try again after `Retry-After`", code: "unavailable", kind: "unavailable" },
    ProblemDoc { status: "", about: "Another error. `code` identifies it", code: "bug", kind: "bug" },
];

/// Returns all error responses with examples.
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
        401 => headers["WWW-Authenticate"] = header("Authentication scheme", "string"),
        429 | 503 => {
            headers["Retry-After"] = header("Seconds until a retry can succeed", "integer")
        }
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
