//! WASM tools from the command line: made, built, tried, declared.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::World;

/// Where `scripts/setup wasm` has put compilers and modules.
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
        let made = world.run(&["tool", "new", &name, "--lang", lang]);
        assert_eq!(made.code, 0, "{made:?}");
        assert!(made.out.contains("sh build.sh"), "{made:?}");
        let again = world.run(&["tool", "new", &name]);
        assert!(again.code == 2 && again.err.contains("already exists"), "{again:?}");
        if !built(&world.path().join(&name), lang) {
            println!("{lang}: no compiler here, not built (scripts/setup wasm)");
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
            "--manifests",
            &manifest,
            "--yes",
        ]);
        assert_eq!((called.code, called.out.trim()), (0, "2"), "{called:?}");
    }
    let wrong = world.run(&["tool", "new", "../out"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[test]
fn a_module_that_wants_too_much_is_refused_by_the_command() {
    let world = World::new();
    let wants =
        wat::parse_str(r#"(module (import "env" "system" (func)) (func (export "run")))"#).unwrap();
    std::fs::write(world.path().join("wants.wasm"), wants).unwrap();
    let tried = world.run(&["tool", "test", "wants.wasm"]);
    assert!(
        tried.code != 0 && tried.err.contains("`env.system`, which is not granted"),
        "{tried:?}"
    );
    let missing = world.run(&["tool", "test", "missing.wasm"]);
    assert!(missing.code != 0 && missing.err.contains("missing.wasm"), "{missing:?}");
}

/// A module that answers `pears` to everything.
const ANSWERING: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 16) "{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"pears\"}")
    (func (export "run")
        (i32.store (i32.const 0) (i32.const 16))
        (i32.store (i32.const 4) (i32.const 56))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn a_module_that_is_kept_is_named_by_its_hash() {
    let world = World::new();
    let file = world.path().join("fruit.wasm");
    std::fs::write(&file, wat::parse_str(ANSWERING).unwrap()).unwrap();
    let kept = world.run(&["tool", "import", "fruit.wasm", "-o", "json"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    let kept: serde_json::Value = serde_json::from_str(&kept.out).unwrap();
    let module = kept["module"].as_str().unwrap();
    assert_eq!(module, format!("blob:{}", kept["sha256"].as_str().unwrap()));
    // Once more is no more, and the line for the manifest is the same.
    let again = world.run(&["tool", "import", "fruit.wasm"]);
    assert!(again.out.contains(&format!("\nmodule: {module}\n")), "{again:?}");
    // The file itself is not needed any more.
    std::fs::remove_file(&file).unwrap();
    let manifest = format!(
        "kind: Tool\nmetadata: {{name: fruit}}\nspec: {{type: wasm, effect: pure, wasm: {{module: '{module}'}}}}\n"
    );
    std::fs::write(world.path().join("tool.yaml"), manifest).unwrap();
    let called = world.run(&["tool", "call", "fruit", "{}", "--manifests", "tool.yaml", "--yes"]);
    assert_eq!((called.code, called.out.trim()), (0, "pears"), "{called:?}");
}

#[test]
fn what_no_tool_could_run_is_not_kept() {
    let world = World::new();
    let put = |name: &str, bytes: &[u8]| std::fs::write(world.path().join(name), bytes).unwrap();
    put("text.wasm", b"no module");
    put("cut.wasm", &wat::parse_str(ANSWERING).unwrap()[..60]);
    let wants = r#"(module (import "env" "system" (func)) (func (export "run")))"#;
    put("wants.wasm", &wat::parse_str(wants).unwrap());
    // It is as large as a file can be that takes no room.
    put("large.wasm", b"\0asm");
    let large = std::fs::OpenOptions::new().write(true).open(world.path().join("large.wasm"));
    large.unwrap().set_len((64 << 20) + 1).unwrap();
    let refused = [
        ("text.wasm", "is not a WASM module"),
        ("cut.wasm", "the module is malformed"),
        ("wants.wasm", "`env.system`, which is not granted"),
        ("large.wasm", "larger than"),
    ];
    for (name, why) in refused {
        let kept = world.run(&["tool", "import", name]);
        assert_eq!(kept.code, 2, "{name}: {kept:?}");
        assert!(kept.err.contains(why) && kept.err.contains(name), "{name}: {kept:?}");
    }
    let missing = world.run(&["tool", "import", "missing.wasm"]);
    assert!(missing.code != 0 && missing.err.contains("missing.wasm"), "{missing:?}");
}
