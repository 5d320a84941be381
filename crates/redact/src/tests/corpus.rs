//! Ordinary prose, code, ids, hashes and images, which stay unchanged.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provost_core::Env;
use sha2::{Digest, Sha256};

use super::redactor_with;
use crate::Redactor;

/// Returns a redactor with a thousand secrets.
fn redactor_with_many_secrets() -> Redactor {
    let values: Vec<String> = (0..1000u32).map(|n| hash(n)[..24].to_owned()).collect();
    redactor_with(&values.iter().map(String::as_str).collect::<Vec<_>>())
}

fn hash(n: u32) -> String {
    Sha256::digest(n.to_be_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(redactor: &Redactor, name: &str, text: &str) {
    if let Cow::Owned(clean) = redactor.redact(text) {
        let differs = text.lines().zip(clean.lines()).find(|(before, after)| before != after);
        panic!("{name}: {differs:?}");
    }
}

#[test]
fn ids_hashes_and_pictures_stay() {
    let redactor = redactor_with_many_secrets();
    let mut ids = String::new();
    for n in 10_000..12_000 {
        ids.push_str(&format!(
            "id: {}, hash: {}, etag=\"{}\"\n",
            Env::system().id::<provost_core::RunId>(),
            hash(n),
            &hash(n)[..32]
        ));
        ids.push_str(&format!(
            "{}-{}-4{}-a{}-{}\n",
            &hash(n)[..8],
            &hash(n)[8..12],
            &hash(n)[13..16],
            &hash(n)[17..20],
            &hash(n)[20..32]
        ));
    }
    check(&redactor, "ids", &ids);
    let bytes: Vec<u8> =
        (20_000..30_000).flat_map(|n: u32| Sha256::digest(n.to_be_bytes())).collect();
    let picture = BASE64_STANDARD.encode(&bytes);
    check(&redactor, "picture", &format!("![x](data:image/png;base64,{picture})"));
    let lines: Vec<&str> =
        picture.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    check(&redactor, "lines", &lines.join("\n"));
}

#[test]
fn the_code_and_the_manuals_of_this_project_stay() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let redactor = redactor_with_many_secrets();
    let mut count = 0;
    for dir in [
        "crates/agent/src",
        "crates/engine/src",
        "crates/api/src",
        "crates/memory/src",
        "crates/macros/src",
        "docs",
    ] {
        walk(&root.join(dir), &mut |path, text| {
            count += 1;
            check(&redactor, &path.display().to_string(), text);
        });
    }
    assert!(count > 100, "{count} files");
}

fn walk(dir: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, each);
        } else if path.extension().is_some_and(|end| end == "rs" || end == "md")
            && let Ok(text) = fs::read_to_string(&path)
        {
            each(&path, &text);
        }
    }
}
