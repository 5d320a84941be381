//! OpenAPI documents as manifests.

use crate::World;

const DOCUMENT: &str = r"
openapi: 3.1.0
info: {title: Shop, version: '1'}
servers: [{url: 'https://shop.example.com/v1'}]
security: [{api_key: []}]
paths:
  /orders/{id}:
    get:
      operationId: get_order
      summary: Returns an order.
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    post:
      operationId: change_order
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      requestBody: {required: true, content: {multipart/form-data: {schema: {type: object}}}}
components:
  securitySchemes: {api_key: {type: apiKey, in: header, name: X-Key}}
";

#[test]
fn imported_operations_are_valid_manifests() {
    let world = World::new();
    std::fs::write(world.path().join("shop.yaml"), DOCUMENT).unwrap();
    let args = ["tool", "import-openapi", "shop.yaml", "--prefix", "shop_", "--secret"];
    let imported = world.run(&[&args[..], &["api_key=shop-key"]].concat());
    assert_eq!(imported.code, 0, "{imported:?}");
    assert!(imported.err.contains("skipped POST /orders/{id}: "), "{imported:?}");

    let manifests = world.path().join("tools.yaml");
    std::fs::write(&manifests, &imported.out).unwrap();
    let checked = world.run(&["tool", "test", "--offline", "--manifests", "tools.yaml"]);
    assert!(checked.code == 1 && checked.out.contains("shop-key"), "{checked:?}");
    let shown =
        world.run(&["tool", "get", "shop_get_order", "-o", "json", "--manifests", "tools.yaml"]);
    let tool: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(tool["endpoint"], "https://shop.example.com/v1/orders/{{ args[\"id\"] }}");
    assert_eq!(tool["auth"]["headerName"], "X-Key");
    assert_eq!(tool["effect"], "pure");
}

#[test]
fn a_document_of_another_format_is_refused() {
    let world = World::new();
    std::fs::write(world.path().join("old.json"), r#"{"swagger": "2.0"}"#).unwrap();
    let refused = world.run(&["tool", "import-openapi", "old.json"]);
    assert!(refused.code == 2 && refused.err.contains("Swagger 2.0"), "{refused:?}");
    let wrong = world.run(&["tool", "import-openapi", "old.json", "--secret", "key"]);
    assert!(wrong.code == 2 && wrong.err.contains("SCHEME=SECRET"), "{wrong:?}");
}
