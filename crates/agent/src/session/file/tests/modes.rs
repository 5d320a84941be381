//! Who can read the files.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Every file below a directory has mode 0600.
fn assert_files_are_private(dir: &Path) {
    let mut seen = 0;
    for path in [dir.to_owned(), dir.join(LOCKS_DIR)] {
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 2, "a session and a lock");
}

#[tokio::test]
async fn new_directories_and_files_are_for_their_owner_only() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("data/sessions");
    let store = FileSessions::open(&dir).unwrap();
    store.commit(ID, change(0, 0, &["one"])).await.unwrap();
    for path in [&parent.path().join("data"), &dir, &dir.join(LOCKS_DIR)] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    assert_files_are_private(&dir);
}

#[tokio::test]
async fn a_directory_that_exists_keeps_its_mode_and_its_files_are_private() {
    let (dir, store, file) = opened();
    set_mode(dir.path(), 0o755);
    store.commit(ID, change(0, 0, &["m"; DEAD_MESSAGES_MIN])).await.unwrap();
    // The file of an older program, and half of a commit that must be kept aside.
    set_mode(&file, 0o644);
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend(b"\0\n");
    fs::write(&file, bytes).unwrap();
    store.commit(ID, change(1, 0, &["next"])).await.unwrap();
    assert_files_are_private(dir.path());
    assert!(torn_file(&file, 1).exists());
    // What a crash left of a rewrite lends its mode to nobody.
    fs::write(file.with_extension("tmp"), "half").unwrap();
    set_mode(&file.with_extension("tmp"), 0o644);
    store.commit(ID, change(2, usize::MAX, &["end"])).await.unwrap();
    assert!(!file.with_extension("tmp").exists(), "the file was rewritten");
    assert_files_are_private(dir.path());
    assert_eq!(mode(dir.path()), 0o755);
    FileSessions::open(dir.path()).unwrap();
    assert_eq!(mode(dir.path()), 0o755, "opening again leaves it alone too");
}
