//! Documents as tools.

use provost_core::recovery::EffectClass;
use provost_core::resource::{AuthProfile, OperationClass};
use serde_json::json;

use super::*;

fn document(paths: Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "t", "version": "1" },
        "servers": [{ "url": "https://{region}.example.com/v1/", "variables": { "region": { "default": "eu" } } }],
        "paths": paths,
        "components": {
            "schemas": {
                "Pear": {
                    "type": "object",
                    "required": ["id", "name"],
                    "properties": {
                        "id": { "type": "integer", "readOnly": true },
                        "name": { "type": "string", "nullable": true, "example": "x" },
                        "weight": { "type": "number", "minimum": 0, "exclusiveMinimum": true },
                        "next": { "$ref": "#/components/schemas/Pear" },
                    },
                },
            },
            "parameters": { "Limit": { "name": "limit", "in": "query", "schema": { "type": "integer" } } },
        },
    })
}

fn imported(document: &Value) -> ImportResult {
    import_openapi(document, &OpenApiOptions::default()).unwrap()
}

fn only(paths: Value) -> ToolResource {
    let mut imported = imported(&document(paths));
    assert_eq!(imported.skipped, []);
    imported.tools.remove(0)
}

fn why(paths: Value) -> String {
    let imported = imported(&document(paths));
    assert_eq!(imported.tools, []);
    imported.skipped[0].reason.clone()
}

#[test]
fn parameters_and_body_become_one_schema() {
    let tool = only(json!({ "/pears/{id}": {
        "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
        "put": {
            "operationId": "update pear!",
            "summary": "Updates a pear.",
            "parameters": [
                { "$ref": "#/components/parameters/Limit" },
                { "name": "X-Mode", "in": "header", "description": "how", "schema": { "type": "string" } },
                { "name": "Authorization", "in": "header", "schema": { "type": "string" } },
                { "name": "session", "in": "cookie", "schema": { "type": "string" } },
            ],
            "requestBody": { "required": true, "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/Pear" } },
            } },
        },
    } }));
    assert_eq!(tool.name, "update_pear");
    assert_eq!(tool.endpoint, "https://eu.example.com/v1/pears/{{ args[\"id\"] }}");
    assert_eq!(tool.description, "Updates a pear.");
    assert_eq!(tool.operation_classes, [OperationClass::Write]);
    assert_eq!(tool.effect, EffectClass::Idempotent);
    let spec = tool.http.unwrap();
    assert_eq!(spec.query["limit"], "{{ args[\"limit\"]|default(\"\") }}");
    assert_eq!(spec.headers["X-Mode"], "{{ args[\"X-Mode\"]|default(\"\") }}");
    assert_eq!(spec.body.unwrap(), "{{ args|without(\"id\", \"limit\", \"X-Mode\") }}");
    assert_eq!(
        tool.input_schema,
        json!({
            "type": "object",
            "properties": {
                "id": { "type": "string" },
                "limit": { "type": "integer" },
                "X-Mode": { "type": "string", "description": "how" },
                "name": { "type": ["string", "null"] },
                "weight": { "type": "number", "exclusiveMinimum": 0 },
                "next": {},
            },
            "required": ["id", "name"],
        })
    );
}

#[test]
fn methods_say_what_they_do() {
    let methods = ["get", "head", "post", "put", "patch", "delete", "options", "trace"];
    let item: serde_json::Map<String, Value> =
        methods.iter().map(|method| ((*method).to_owned(), json!({}))).collect();
    let imported = imported(&document(json!({ "/x": item })));
    let found: Vec<_> = imported
        .tools
        .iter()
        .map(|tool| (tool.name.as_str(), tool.operation_classes[0], tool.effect))
        .collect();
    assert_eq!(
        found,
        [
            ("get_x", OperationClass::Read, EffectClass::Pure),
            ("head_x", OperationClass::Read, EffectClass::Pure),
            ("post_x", OperationClass::Write, EffectClass::Opaque),
            ("put_x", OperationClass::Write, EffectClass::Idempotent),
            ("patch_x", OperationClass::Write, EffectClass::Opaque),
            ("delete_x", OperationClass::Delete, EffectClass::Idempotent),
        ]
    );
}

#[test]
fn names_are_legal_and_unique() {
    let long = "x".repeat(100);
    let operation = |id: &str| json!({ "get": { "operationId": id } });
    let imported = imported(&document(json!({
        "/a": operation("do.it"), "/b": operation("do it"), "/c": operation(&long),
        "/d": operation(&long), "/e": operation("größe"), "/f": operation("!!!"),
    })));
    let names: Vec<&str> = imported.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names[..2], ["do_it", "do_it_2"]);
    assert_eq!((names[2].len(), names[3].len()), (64, 64));
    assert!(names[3].ends_with("_2"));
    assert_eq!(names[4..], ["gr_e", "operation"]);
}

#[test]
fn lists_and_objects_in_the_query_become_pairs() {
    let tool = only(json!({ "/x": { "get": { "parameters": [
        { "name": "tag", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } },
        { "name": "ids", "in": "query", "explode": false, "schema": { "type": "array" } },
        { "name": "filter", "in": "query", "style": "deepObject", "schema": { "type": "object" } },
    ] } } }));
    assert_eq!(
        tool.endpoint,
        "https://eu.example.com/v1/x?{% for value in args[\"tag\"]|default([]) %}tag={{ value }}&{% endfor %}\
         {% for key in args[\"filter\"]|default({}) %}filter%5B{{ key }}%5D={{ args[\"filter\"][key] }}&{% endfor %}"
    );
    assert_eq!(tool.http.unwrap().query["ids"], "{{ args[\"ids\"]|default([])|join(\",\") }}");
    assert_eq!(tool.input_schema["additionalProperties"], false);
}

#[test]
fn a_body_that_cannot_be_merged_is_an_argument_of_its_own() {
    let body = |schema: Value, required: bool| {
        let content = json!({ "application/json": { "schema": schema } });
        only(json!({ "/x/{name}": { "post": {
            "parameters": [{ "name": "name", "in": "path", "required": true, "schema": {} }],
            "requestBody": { "required": required, "content": content },
        } } }))
    };
    let clash = body(json!({ "$ref": "#/components/schemas/Pear" }), true);
    assert_eq!(clash.http.unwrap().body.unwrap(), "{{ args[\"body\"] }}");
    assert_eq!(clash.input_schema["required"], json!(["name", "body"]));
    let list = body(json!({ "type": "array" }), false);
    assert_eq!(
        list.http.unwrap().body.unwrap(),
        "{% if args[\"body\"] is defined %}{{ args[\"body\"] }}{% endif %}"
    );
    let either = body(json!({ "oneOf": [{ "type": "object" }, { "type": "string" }] }), true);
    assert!(either.input_schema["properties"].get("body").is_some());
    let both = body(
        json!({ "allOf": [
            { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
            { "type": "object", "properties": { "b": { "type": "string" } } },
        ] }),
        true,
    );
    assert_eq!(both.input_schema["required"], json!(["name", "a"]));
    assert!(both.input_schema["properties"].get("b").is_some());
}

#[test]
fn forms_and_text_are_bodies_too() {
    let of = |kind: &str, schema: Value| {
        only(
            json!({ "/x": { "post": { "requestBody": { "required": true, "content": { kind: { "schema": schema } } } } } }),
        )
    };
    let form = of(
        "application/x-www-form-urlencoded",
        json!({ "type": "object", "properties": { "a": {} } }),
    );
    let spec = form.http.unwrap();
    assert_eq!(spec.headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(spec.body.unwrap(), "{% for key in args %}{{ key }}={{ args[key] }}&{% endfor %}");
    let text = of("text/markdown", json!({ "type": "string" })).http.unwrap();
    assert_eq!(
        (text.headers["content-type"].as_str(), text.body.unwrap().as_str()),
        ("text/markdown", "{{ args[\"body\"] }}")
    );
    assert!(why(json!({ "/x": { "post": { "requestBody": { "content": { "multipart/form-data": {} } } } } })).contains("multipart"));
}

#[test]
fn security_schemes_become_auth() {
    let with = |scheme: Value, security: Value| {
        let mut document = document(json!({ "/x": { "get": { "security": security } } }));
        document["components"]["securitySchemes"] = json!({ "s": scheme });
        imported(&document)
    };
    let auth =
        |scheme: Value| with(scheme, json!([{ "s": ["read"] }])).tools.remove(0).auth.unwrap();
    let bearer = auth(json!({ "type": "http", "scheme": "Bearer" }));
    assert_eq!((bearer.profile, bearer.secret_ref.as_str()), (AuthProfile::Bearer, "s"));
    assert_eq!(auth(json!({ "type": "http", "scheme": "basic" })).profile, AuthProfile::Basic);
    let key = auth(json!({ "type": "apiKey", "in": "header", "name": "X-Key" }));
    assert_eq!((key.profile, key.header_name.as_str()), (AuthProfile::ApiKeyHeader, "X-Key"));
    let oauth = auth(
        json!({ "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "/token" } } }),
    );
    assert_eq!(oauth.profile, AuthProfile::Oauth2ClientCredentials);
    assert_eq!(
        (oauth.token_url.as_str(), &oauth.scopes[..]),
        ("https://eu.example.com/token", &["read".to_owned()][..])
    );
    let in_query = || json!({ "type": "apiKey", "in": "query", "name": "key" });
    assert!(with(in_query(), json!([{ "s": [] }])).skipped[0].reason.contains("apiKey"));
    assert_eq!(with(in_query(), json!([{ "s": [] }, {}])).tools[0].auth, None);
    assert!(with(in_query(), json!([{ "nope": [] }])).skipped[0].reason.contains("nope"));
}

#[test]
fn what_cannot_be_called_rightly_is_left_out() {
    let cookie = json!({ "name": "s", "in": "cookie", "required": true, "schema": {} });
    assert!(why(json!({ "/x": { "get": { "parameters": [cookie] } } })).contains("cookie"));
    assert!(why(json!({ "/x/{id}": { "get": {} } })).contains("no parameter fills"));
    assert!(why(json!({ "/x/{{id}}": { "get": {} } })).contains("template"));
    let elsewhere = json!({ "name": "a", "in": "query", "schema": { "$ref": "other.json#/A" } });
    assert!(why(json!({ "/x": { "get": { "parameters": [elsewhere] } } })).contains("not fetched"));
    let nowhere = json!({ "$ref": "#/components/parameters/None" });
    assert!(
        why(json!({ "/x": { "get": { "parameters": [nowhere] } } })).contains("does not exist")
    );
    assert!(why(json!({ "/x": { "get": { "requestBody": { "content": {} } } } })).contains("body"));
    let wrong = json!({ "name": "a", "in": "query", "schema": { "type": "nonsense" } });
    assert!(!why(json!({ "/x": { "get": { "parameters": [wrong] } } })).is_empty());
}

#[test]
fn knotted_documents_cost_little() {
    // Each schema refers twice to the next: 2^30 of them if nobody counted.
    let mut document =
        document(json!({ "/x": { "post": { "requestBody": { "required": true, "content": {
        "application/json": { "schema": { "$ref": "#/components/schemas/S0" } } } } } } }));
    for at in 0..30 {
        let next = json!({ "$ref": format!("#/components/schemas/S{}", at + 1) });
        document["components"]["schemas"][format!("S{at}")] =
            json!({ "type": "object", "properties": { "a": next, "b": next } });
    }
    document["components"]["schemas"]["S30"] = json!({});
    assert!(imported(&document).skipped[0].reason.contains("values"));
    document["components"]["schemas"]["S0"] = json!({ "$ref": "#/components/schemas/S0" });
    let imported = imported(&document);
    assert_eq!(imported.tools.len(), 1, "a circle means anything");
    document["paths"] = json!({ "/x": { "$ref": "#/paths/~1x" } });
    assert_eq!(super::import_openapi(&document, &OpenApiOptions::default()).unwrap().tools, []);
}

#[test]
fn other_documents_are_refused() {
    let refused = |text: &[u8]| read_openapi(text, &OpenApiOptions::default()).unwrap_err();
    assert!(matches!(refused(b"{"), OpenApiError::Syntax(_)));
    assert!(refused(br#"{"swagger": "2.0"}"#).to_string().contains("Swagger 2.0"));
    assert!(matches!(refused(b"{}"), OpenApiError::Version(_)));
    assert!(matches!(refused(br#"{"openapi": "3.1.0"}"#), OpenApiError::Server(_)));
    let relative = br#"{"openapi": "3.1.0", "servers": [{"url": "/api"}]}"#;
    assert!(matches!(refused(relative), OpenApiError::Server(_)));
    let base_url = Some(Url::parse("https://example.com/api").unwrap());
    let options = OpenApiOptions { base_url, ..OpenApiOptions::default() };
    assert!(read_openapi(relative, &options).is_ok());
    let large = vec![b' '; DOCUMENT_BYTES_MAX + 1];
    assert!(matches!(refused(&large), OpenApiError::TooLarge { .. }));
}
