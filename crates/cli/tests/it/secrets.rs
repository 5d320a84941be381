//! `provost secret`: what it keeps, and what it never shows.

use serde_json::Value;

use crate::World;

const VALUE: &str = "swordfish-47110815";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn secrets_are_set_listed_rotated_and_removed_and_never_shown() {
    let world = World::new();
    let set = world.pipe(&["secret", "set", "mail", "password"], format!("{VALUE}\n"));
    assert_eq!(set.code, 0, "{set:?}");
    assert!(set.err.contains("master key"), "{set:?}");
    let again = world.pipe(&["secret", "set", "mail", "password"], VALUE);
    assert!(!again.err.contains("master key"), "{again:?}");
    let list = world.run(&["secret", "list", "-o", "json"]);
    let first = json(&list.out)["items"][0].clone();
    assert_eq!(
        (&first["name"], &first["key"], &first["revision"]),
        (&"mail".into(), &"password".into(), &2.into())
    );

    let rotated = world.run(&["secret", "rotate", "--discard-old-keys", "-o", "json"]);
    assert_eq!(json(&rotated.out)["resealed"], 1, "{rotated:?}");
    let table = world.run(&["secret", "list"]);
    assert!(
        table.out.contains("mail") && !table.out.contains(first["key_id"].as_str().unwrap()),
        "{table:?}"
    );
    let elsewhere = world.run(&["secret", "list", "--namespace", "other", "-o", "json"]);
    assert_eq!(json(&elsewhere.out)["items"].as_array().unwrap().len(), 0);

    let gone = world.run(&["secret", "delete", "mail"]);
    assert_eq!(gone.code, 0, "{gone:?}");
    assert_eq!(world.run(&["secret", "delete", "mail"]).code, 5);
    for said in [set, again, list, rotated, table, gone] {
        assert!(!said.out.contains(VALUE) && !said.err.contains(VALUE), "{said:?}");
    }
}

#[test]
fn what_cannot_be_a_secret_is_refused() {
    let world = World::new();
    for (name, value) in [("mail", ""), ("mail", "abc"), ("../mail", VALUE)] {
        let refused = world.pipe(&["secret", "set", name], value);
        assert_eq!(refused.code, 2, "{refused:?}");
    }
    // There is no place for a value on the command line.
    assert_eq!(world.run(&["secret", "set", "mail", "password", VALUE]).code, 2);
}
