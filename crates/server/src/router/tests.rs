//! Tests of the complete route table.

use std::collections::HashSet;

use schemars::SchemaGenerator;

use super::{ApiRouter, api};
use crate::extract::Input;

#[test]
fn every_operation_has_a_name_of_its_own_and_says_what_it_does() {
    let (mut ids, mut routes) = (HashSet::new(), HashSet::new());
    for endpoint in api().endpoints() {
        assert!(ids.insert(endpoint.id), "{} is there twice", endpoint.id);
        let route = (endpoint.method.clone(), endpoint.path.clone());
        assert!(routes.insert(route), "{} {} is there twice", endpoint.method, endpoint.path);
        let is_alphanumeric = endpoint.id.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(
            is_alphanumeric && endpoint.id.starts_with(|c: char| c.is_ascii_lowercase()),
            "{}",
            endpoint.id
        );
        let summary = endpoint.summary;
        assert!(
            summary.starts_with(|c: char| c.is_uppercase()) && !summary.ends_with('.'),
            "{summary}"
        );
        assert!(endpoint.path.starts_with('/') && !endpoint.path.ends_with('/'));
    }
}

#[test]
fn every_body_and_every_answer_is_described() {
    let mut schemas = SchemaGenerator::default();
    for endpoint in api().endpoints() {
        let writes = ["POST", "PUT", "PATCH"].contains(&endpoint.method.as_str());
        assert!(writes || !matches!(endpoint.input, Input::Json(_)), "{} has a body", endpoint.id);
        if let Input::Json(schema) | Input::Query(schema) = endpoint.input {
            let schema = schema(&mut schemas);
            assert!(schema.is_object(), "{}: {schema}", endpoint.id);
        }
        assert!(!endpoint.responses.is_empty(), "{} has no response", endpoint.id);
        for response in &endpoint.responses {
            assert!((200..300).contains(&response.status), "{}", endpoint.id);
            assert_eq!(response.content.is_none(), response.status == 204, "{}", endpoint.id);
        }
    }
}

#[test]
fn every_name_in_a_path_is_read_and_every_tag_is_described() {
    let api: ApiRouter = api();
    for endpoint in api.endpoints() {
        let read: Vec<&str> = endpoint.path_parameters.iter().map(|known| known.name).collect();
        let names: Vec<&str> = endpoint.path_names().filter(|name| *name != "namespace").collect();
        assert_eq!(names, read, "{}", endpoint.id);
    }
    let used: HashSet<&str> = api.endpoints().iter().map(|endpoint| endpoint.tag()).collect();
    let described: HashSet<&str> = api.tags().iter().map(|tag| tag.name).collect();
    assert_eq!(used, described);
}
