//! `provost db`: what it finds, what it copies, what it refuses.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::World;
#[cfg(unix)]
use crate::terminal::Terminal;

fn database(world: &World) -> PathBuf {
    world.path().join(".local/share/provost/provost.db")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Changes bytes in the middle of a file.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    for page in bytes.chunks_mut(4096).skip(1) {
        page[..64].fill(0xff);
    }
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_backup_brings_back_what_was_said() {
    let world = World::new();
    world.run(&["exec", "--session", "s", "hello"]);
    let stats = world.run(&["db", "stats", "--json"]);
    let stats = json(&stats.out);
    assert_eq!(stats["path"], database(&world).to_str().unwrap());
    assert_eq!(stats["rows"]["run"], 1);

    let made = world.run(&["db", "backup", "b.db", "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    let bytes = std::fs::metadata(world.path().join("b.db")).unwrap().len();
    assert_eq!(json(&made.out)["bytes"], bytes);
    let again = world.run(&["db", "backup", "b.db"]);
    assert_eq!(again.code, 6, "{again:?}");
    assert!(again.err.contains("exists already"), "{again:?}");

    world.run(&["exec", "--session", "s", "nice weather"]);
    let refused = world.run(&["db", "restore", "b.db"]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.err.contains("use --replace"), "{refused:?}");
    let restored = world.run(&["db", "restore", "b.db", "--replace"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let stats = json(&world.run(&["db", "stats", "--json"]).out);
    assert_eq!((&stats["rows"]["run"], &stats["generation"]), (&1.into(), &1.into()));

    // The conversation goes on where the backup was made, here and elsewhere.
    let next = world.run(&["exec", "--session", "s", "nice weather"]);
    assert!(next.out.contains("You said “nice weather”"), "{next:?}");
    let elsewhere = world.run(&["db", "restore", "b.db", "--data-dir", "elsewhere"]);
    assert_eq!(elsewhere.code, 0, "{elsewhere:?}");
    let next = world.run(&["exec", "--data-dir", "elsewhere", "--session", "s", "nice weather"]);
    assert!(next.out.contains("You said “nice weather”"), "{next:?}");
    let check = world.run(&["db", "check", "--json"]);
    assert_eq!((check.code, &json(&check.out)["ok"]), (0, &true.into()), "{check:?}");
}

#[test]
fn damage_is_found_and_named() {
    let world = World::new();
    world.run(&["exec", "hello"]);
    damage(&database(&world));
    let check = world.run(&["db", "check", "--json"]);
    assert_eq!(check.code, 11, "{check:?}");
    let report = json(&check.out);
    assert_eq!(report["ok"], false);
    assert_eq!(report["problems"][0]["code"], "damaged", "{report}");
    let check = world.run(&["db", "check"]);
    assert!(check.out.contains("✗ damaged") && check.out.contains("restore"), "{check:?}");
    let run = world.run(&["exec", "hello"]);
    assert_eq!(run.code, 11, "{run:?}");
    assert!(run.err.contains("the database is damaged"), "{run:?}");
    let restore =
        world.run(&["db", "restore", database(&world).to_str().unwrap(), "--data-dir", "d"]);
    assert_eq!(restore.code, 11, "{restore:?}");
}

#[test]
fn what_is_not_a_database_of_this_program_is_refused_and_left_as_it_is() {
    let world = World::new();
    for action in [&["db", "check"][..], &["db", "stats"], &["db", "backup", "b.db"]] {
        let ran = world.run(action);
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.err.contains("there is no database at"), "{ran:?}");
        assert!(!database(&world).exists());
    }
    let missing = world.run(&["db", "restore", "nowhere.db"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("there is no such file"), "{missing:?}");

    let foreign = world.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("provost.db"), "a letter to grandmother, long enough").unwrap();
    for args in [&["db", "check"][..], &["db", "stats"], &["exec", "hello"], &["db", "backup", "b"]]
    {
        let ran = world.run(&[args, &["--data-dir", "foreign"]].concat());
        assert_eq!(ran.code, 2, "{args:?} {ran:?}");
        assert!(ran.err.contains("is not a database of Provost"), "{ran:?}");
    }
    let kept = std::fs::read_to_string(foreign.join("provost.db")).unwrap();
    assert!(kept.starts_with("a letter"), "{kept}");
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let world = World::new();
    world.run(&["exec", "hello"]);
    // The version of the schema is at byte 60 of a SQLite file.
    let mut bytes = std::fs::read(database(&world)).unwrap();
    bytes[60..64].copy_from_slice(&9999_u32.to_be_bytes());
    std::fs::write(database(&world), &bytes).unwrap();
    for args in [&["db", "check"][..], &["db", "stats"], &["exec", "hello"]] {
        let ran = world.run(args);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("schema version 9999"), "{ran:?}");
        assert!(ran.err.contains("use a newer program"), "{ran:?}");
    }
    assert_eq!(std::fs::read(database(&world)).unwrap(), bytes);
}

#[cfg(unix)]
#[test]
fn a_database_in_use_can_be_copied_and_not_replaced() {
    let world = World::new();
    let mut chat = Terminal::start(&world, &["chat"]);
    chat.expect("/help");
    let made = world.run(&["db", "backup", "b.db"]);
    assert_eq!(made.code, 0, "{made:?}");
    let refused = world.run(&["db", "restore", "b.db", "--replace"]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.err.contains("held by a running process"), "{refused:?}");
    chat.press("\x04");
    assert!(chat.child.wait().unwrap().success());
    let restored = world.run(&["db", "restore", "b.db", "--replace"]);
    assert_eq!(restored.code, 0, "{restored:?}");
}
