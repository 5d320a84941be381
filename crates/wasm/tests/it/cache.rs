//! Compiled modules on disk: used when they were made here, thrown away when anything about them is wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use provost_wasm::{WasmError, WasmOptions, WasmRuntime};

use crate::stage::{Room, answering, nothing};

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir.join("cache/compiled")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The bytes of the one compiled module.
fn only(room: &Room) -> (PathBuf, Vec<u8>) {
    let files = files(room.dir.path());
    assert_eq!(files.len(), 1, "{files:?}");
    (files[0].clone(), fs::read(&files[0]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiled_module_is_used_again_and_a_damaged_or_foreign_one_never() {
    let room = Room::open();
    let text = answering("", "");
    let tool = room.wat(&text);
    room.call(&tool, nothing()).await.unwrap();
    let (path, sound) = only(&room);
    // A program that starts again finds it: the file is not written anew.
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let mut room = room.again();
    room.call(&tool, nothing()).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);

    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        bytes
    };
    let elsewhere = Room::open();
    elsewhere.call(&elsewhere.wat(&text), nothing()).await.unwrap();
    let (_, foreign) = only(&elsewhere);
    for (what, bytes) in [
        ("another tag", flipped(0)),
        ("other code", flipped(sound.len() / 2)),
        ("another end", flipped(sound.len() - 1)),
        ("half of it", sound[..sound.len() / 2].to_vec()),
        ("nothing", Vec::new()),
        ("a tag alone", sound[..32].to_vec()),
        ("one without a tag", sound[32..].to_vec()),
        ("one of another installation", foreign),
        ("something before it", [b"x".as_slice(), &sound].concat()),
    ] {
        fs::write(&path, &bytes).unwrap();
        room = room.again();
        assert_eq!(room.call(&tool, nothing()).await.unwrap().to_text(), "done", "{what}");
        // It was compiled anew and put in the place of what lay there.
        assert_ne!(fs::read(&path).unwrap(), bytes, "{what}");
    }
    // The code of another module under this one's name.
    let other = room.tool("other.wasm", &crate::stage::assembled(&answering("", "unreachable")));
    room.call(&other, nothing()).await.unwrap_err();
    let theirs = files(room.dir.path()).into_iter().find(|file| *file != path).unwrap();
    fs::copy(theirs, &path).unwrap();
    room = room.again();
    assert_eq!(room.call(&tool, nothing()).await.unwrap().to_text(), "done");
    // A file that others may write, and one that is a link.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    room = room.again();
    assert!(room.call(&tool, nothing()).await.is_ok());
    let aside = room.dir.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    room = room.again();
    assert!(room.call(&tool, nothing()).await.is_ok());
    assert!(!fs::symlink_metadata(&path).unwrap().is_symlink(), "the link was followed");
}

#[test]
fn a_directory_that_others_may_use_is_refused() {
    let open = |cache: PathBuf| {
        WasmRuntime::open(WasmOptions { cache: Some(cache), ..WasmOptions::default() })
    };
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(open(shared), Err(WasmError::Cache { .. })));
    let real = dir.path().join("real");
    assert!(open(real.clone()).is_ok());
    let mode = fs::metadata(&real).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(fs::metadata(real.join("key")).unwrap().permissions().mode() & 0o777, 0o600);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert!(matches!(open(link), Err(WasmError::Cache { .. })));
    // A key that was cut off is replaced, and one that others may read is not used.
    fs::write(real.join("key"), b"short").unwrap();
    assert!(open(real.clone()).is_ok());
    assert_eq!(fs::read(real.join("key")).unwrap().len(), 32);
    fs::set_permissions(real.join("key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(open(real), Err(WasmError::Cache { .. })));
}
