//! Which parts of the program may use the engine and the database.

use std::path::{Path, PathBuf};

/// The composition root, and what opens, checks and copies the database itself.
const ALLOWED: [&str; 4] =
    ["boot.rs", "command/local/db.rs", "command/local/secret.rs", "data.rs"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn only_the_composition_root_names_the_engine_and_the_store() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut using: Vec<String> = files
        .iter()
        .filter(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            text.contains("provost_engine") || text.contains("provost_store")
        })
        .map(|file| file.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/"))
        .collect();
    using.sort();
    assert_eq!(using, ALLOWED);
}
