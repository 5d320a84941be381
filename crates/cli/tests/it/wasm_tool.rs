//! WASM tools from the command line: made, built, tried, declared.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::World;

/// Where `scripts/wasm-modules` has put compilers and modules.
fn modules() -> Option<PathBuf> {
    std::env::var_os("PROVOST_WASM_MODULES").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Builds what was made; false if the compiler is not here.
fn built(dir: &Path, lang: &str) -> bool {
    let Some(modules) = modules() else { return false };
    let asc = modules.join("node_modules/.bin/asc");
    let is_there = match lang {
        "rust" => modules.join("rust-wasm32-wasip1.wasm").exists(),
        "c" => modules.join("c.wasm").exists(),
        _ => asc.exists(),
    };
    if !is_there {
        return false;
    }
    let mut command = Command::new("sh");
    command.arg("build.sh").current_dir(dir).env("ASC", asc).env("CARGO_NET_OFFLINE", "true");
    let made = command.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS").output().unwrap();
    assert!(made.status.success(), "{lang}: {}", String::from_utf8_lossy(&made.stderr));
    true
}

#[test]
fn a_scaffold_builds_and_passes_its_fixtures() {
    let world = World::new();
    for lang in ["rust", "c", "assemblyscript"] {
        let name = format!("count_{lang}");
        let made = world.run(&["tool", "scaffold", &name, "--lang", lang]);
        assert_eq!(made.code, 0, "{made:?}");
        assert!(made.out.contains("sh build.sh"), "{made:?}");
        let again = world.run(&["tool", "scaffold", &name]);
        assert!(again.code == 2 && again.err.contains("is there already"), "{again:?}");
        if !built(&world.path().join(&name), lang) {
            println!("{lang}: no compiler here, not built (scripts/wasm-modules)");
            continue;
        }
        let module = format!("{name}/{name}.wasm");
        let tried =
            world.run(&["tool", "test", &module, "--fixtures", &format!("{name}/fixtures")]);
        assert_eq!(tried.code, 0, "{tried:?}");
        assert_eq!(tried.out.matches("calls ").count(), 4, "{tried:?}");
        // What it wants comes true, or the command says so.
        let wrong = world.path().join("wrong.yaml");
        std::fs::write(&wrong, "- {args: {text: one}, expect: {contains: '7'}}").unwrap();
        let tried = world.run(&["tool", "test", &module, "--fixtures", "wrong.yaml"]);
        assert!(tried.code == 1 && tried.out.contains("failed"), "{tried:?}");
        let manifest = format!("{name}/tool.yaml");
        let called = world.run(&[
            "tool",
            "call",
            &name,
            r#"{"text":"a b"}"#,
            "--resources",
            &manifest,
            "--yes",
        ]);
        assert_eq!((called.code, called.out.trim()), (0, "2"), "{called:?}");
    }
    let wrong = world.run(&["tool", "scaffold", "../out"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[test]
fn a_module_that_wants_too_much_is_refused_by_the_command() {
    let world = World::new();
    let wants =
        wat::parse_str(r#"(module (import "env" "system" (func)) (func (export "run")))"#).unwrap();
    std::fs::write(world.path().join("wants.wasm"), wants).unwrap();
    let tried = world.run(&["tool", "test", "wants.wasm"]);
    assert!(tried.code != 0 && tried.err.contains("`env.system`, which it may not"), "{tried:?}");
    let missing = world.run(&["tool", "test", "missing.wasm"]);
    assert!(missing.code != 0 && missing.err.contains("missing.wasm"), "{missing:?}");
}
