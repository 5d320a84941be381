//! What a run carries for its tools: values of the program, and its own notes.

use std::sync::Arc;

use provost_tool::{DependencyType, Deps, State};
use serde_json::{Map, json};

#[derive(Debug, PartialEq)]
struct Database(&'static str);

#[test]
fn deps_are_found_by_their_type() {
    let deps = Deps::default().with(Database("one")).with(7u8);
    assert_eq!(*deps.get::<Database>().unwrap(), Database("one"));
    assert_eq!(*deps.get::<u8>().unwrap(), 7);
    assert!(deps.get::<u16>().is_none());
    assert!(deps.has(&DependencyType::of::<u8>()) && !deps.has(&DependencyType::of::<u16>()));
    assert!(DependencyType::of::<Database>().name().ends_with("Database"));
}

#[test]
fn a_clone_of_deps_does_not_see_what_is_added_later() {
    let before = Deps::default().with(Database("one"));
    let after = before.clone().with(Database("two")).with(1u8);
    assert_eq!(before.get::<Database>().unwrap().0, "one");
    assert_eq!(after.get::<Database>().unwrap().0, "two");
    assert!(before.get::<u8>().is_none());
}

#[test]
fn a_shared_dep_stays_the_same_value() {
    let database = Arc::new(Database("one"));
    let deps = Deps::default().with_shared(Arc::clone(&database));
    let dep = deps.get::<Database>().unwrap();
    let again = dep.clone();
    assert!(std::ptr::eq(&*dep, &*database) && std::ptr::eq(&*again, &*database));
}

#[test]
fn deps_do_not_show_their_values() {
    assert_eq!(format!("{:?}", Deps::default().with("secret")), "Deps(1)");
}

#[test]
fn state_is_shared_by_clones_and_copied_by_snapshots() {
    let state = State::default();
    assert!(state.is_empty());
    let other = state.clone();
    other.set("count", 2).unwrap();
    assert_eq!(state.get("count"), Some(2));
    let snapshot = state.snapshot();
    assert_eq!(state.remove("count"), Some(json!(2)));
    assert_eq!(state.remove("count"), None);
    assert!(state.is_empty());
    assert_eq!(State::new(snapshot).get("count"), Some(2));
}

#[test]
fn state_of_another_type_is_not_there() {
    let state = State::new(Map::from_iter([("count".to_owned(), json!("two"))]));
    assert_eq!(state.get::<u32>("count"), None);
    assert_eq!(state.get::<String>("count"), Some("two".to_owned()));
    assert_eq!(state.get::<String>("absent"), None);
}

#[test]
fn a_value_without_a_json_form_leaves_the_state_as_it_was() {
    let state = State::default();
    state.set("pairs", 1).unwrap();
    let pairs = std::collections::HashMap::from([((1, 2), 3)]);
    assert!(state.set("pairs", pairs).is_err());
    assert_eq!(state.get("pairs"), Some(1));
}

#[test]
fn state_survives_a_panic_in_another_thread() {
    let state = State::default();
    let shared = state.clone();
    let panicked = std::thread::spawn(move || {
        shared.set("seen", true).unwrap();
        panic!("after the write");
    });
    assert!(panicked.join().is_err());
    assert_eq!(state.get("seen"), Some(true));
}
