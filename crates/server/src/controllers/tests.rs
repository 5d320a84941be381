//! The table as a whole.

use std::collections::HashSet;

use schemars::SchemaGenerator;

use super::table;

#[test]
fn every_operation_has_a_name_of_its_own_and_says_what_it_does() {
    let (mut ids, mut places) = (HashSet::new(), HashSet::new());
    for operation in table() {
        assert!(ids.insert(operation.id), "{} is there twice", operation.id);
        let place = (operation.method.clone(), operation.path);
        assert!(places.insert(place), "{} {} is there twice", operation.method, operation.path);
        let named = operation.id.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(
            named && operation.id.starts_with(|c: char| c.is_ascii_lowercase()),
            "{}",
            operation.id
        );
        let summary = operation.summary;
        assert!(
            summary.starts_with(|c: char| c.is_uppercase()) && !summary.ends_with('.'),
            "{summary}"
        );
        assert!(operation.path.starts_with('/') && !operation.path.ends_with('/'));
    }
}

#[test]
fn every_body_and_every_answer_is_described() {
    let mut schemas = SchemaGenerator::default();
    for operation in table() {
        let input = (operation.input)(&mut schemas);
        let writes = ["POST", "PUT", "PATCH"].contains(&operation.method.as_str());
        assert!(writes || input.body.is_none(), "{} has a body", operation.id);
        for schema in input.body.iter().chain(&input.query) {
            assert!(schema.is_object(), "{}: {schema}", operation.id);
        }
        let output = (operation.output)(&mut schemas);
        assert!(!output.answers.is_empty(), "{} answers nothing", operation.id);
        for (status, body) in output.answers {
            assert!((200..300).contains(&status), "{}: {status}", operation.id);
            assert_eq!(body.is_none(), status == 204, "{}: {status}", operation.id);
        }
    }
}
