//! Files that changed behind the program's back, and what a power loss can leave of a commit.

use super::*;

/// Two commits, and the bytes of the file after each.
async fn two_commits(store: &FileSessions, file: &Path) -> (Vec<u8>, Vec<u8>) {
    store.commit(ID, change(0, 0, &["one"])).await.unwrap();
    let first = fs::read(file).unwrap();
    store.commit(ID, change(1, 0, &["two"])).await.unwrap();
    (first, fs::read(file).unwrap())
}

/// Nothing can be read from the file or written to it, and no byte of it changes.
async fn assert_refused(store: &FileSessions, file: &Path, case: &str) {
    let bytes = fs::read(file).unwrap();
    let loaded = store.load(ID).await;
    assert!(matches!(loaded, Err(SessionError::Corrupt { .. })), "{case}: {loaded:?}");
    for base in 0..3 {
        let committed = store.commit(ID, change(base, 0, &["lost"])).await;
        assert!(matches!(committed, Err(SessionError::Corrupt { .. })), "{case}: {committed:?}");
    }
    assert_eq!(store.list().await.unwrap(), [], "{case}");
    assert_eq!(fs::read(file).unwrap(), bytes, "{case}");
}

#[tokio::test]
async fn a_changed_byte_of_the_last_line_is_damage_and_the_file_stays() {
    let (_dir, store, file) = opened();
    let (first, both) = two_commits(&store, &file).await;
    for place in first.len()..both.len() {
        let mut bytes = both.clone();
        bytes[place] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_refused(&store, &file, &format!("byte {place} of two commits")).await;
    }
    for place in 0..first.len() {
        let mut bytes = first.clone();
        bytes[place] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_refused(&store, &file, &format!("byte {place} of the only commit")).await;
    }
}

#[tokio::test]
async fn what_was_never_a_session_is_not_replaced() {
    let (_dir, store, file) = opened();
    for text in ["garbage\n", "\n", "{}\n", "garbage\nmore"] {
        fs::write(&file, text).unwrap();
        assert_refused(&store, &file, text).await;
    }
}

#[tokio::test]
async fn a_bad_last_line_is_named_with_its_file_and_what_to_do() {
    let (_dir, store, file) = opened();
    let (first, both) = two_commits(&store, &file).await;
    let text = String::from_utf8(both).unwrap();
    fs::write(&file, text.replace("two", "tWo")).unwrap();
    let error = store.load(ID).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "session `chat` cannot be read: line 2 of `{}`: the checksum does not match; restore the file from a copy, or \
             remove line 2 and all after it to go on without them",
            file.display()
        )
    );
    // Both ways out work.
    fs::write(&file, &first).unwrap();
    assert_eq!(texts(&store).await, ["one"]);
    fs::write(&file, &text).unwrap();
    assert_eq!(texts(&store).await, ["one", "two"]);
    // A line of a later program is no reason to remove it.
    let damage = Damage { line: 2, problem: Problem::Version(9) };
    let error = corrupt(ID, &file, &damage).to_string();
    assert!(
        error.ends_with("format version 9 is not known, only 1; use a newer program"),
        "{error}"
    );
}

#[tokio::test]
async fn a_bad_line_in_the_middle_is_damage_with_its_number() {
    let (_dir, store, file) = opened();
    for base in 0..3 {
        store.commit(ID, change(base, 0, &["m"])).await.unwrap();
    }
    let mut bytes = fs::read(&file).unwrap();
    let second_line = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    bytes[second_line + 30] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let error = store.load(ID).await.unwrap_err().to_string();
    assert!(error.starts_with("session `chat` cannot be read: line 2 of `"), "{error}");
    // Half a line after a bad one does not make the bad one the last.
    bytes.truncate(bytes.len() - 2);
    fs::write(&file, &bytes).unwrap();
    assert_refused(&store, &file, "half a line after it").await;
    // Lost blocks are a crash at the end only.
    bytes[second_line + 30] = 0;
    fs::write(&file, &bytes).unwrap();
    assert_refused(&store, &file, "a lost block in the middle").await;
    assert!(store.delete(ID).await.unwrap(), "a damaged session can be removed");
    assert_eq!(store.load(ID).await.unwrap(), None);
}

#[tokio::test]
async fn a_last_line_with_lost_blocks_is_skipped_and_kept_aside() {
    let (_dir, store, file) = opened();
    let (first, both) = two_commits(&store, &file).await;
    let (start, end) = (first.len(), both.len());
    // The blocks of a write can reach the disk in any order; those that did not are zeros.
    let holes = [start..end - 5, start + 20..end - 5, start + 20..end, end - 1..end, start..end];
    for (hole, number) in holes.into_iter().zip(1..) {
        let mut bytes = both.clone();
        bytes[hole.clone()].fill(0);
        fs::write(&file, &bytes).unwrap();
        assert_eq!(texts(&store).await, ["one"], "{hole:?}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "reading changes nothing");
        assert_eq!(store.list().await.unwrap()[0].messages, 1, "{hole:?}");
        // A writer that has not seen the state is refused before anything is cut.
        assert!(store.commit(ID, change(2, 0, &["stale"])).await.is_err());
        assert_eq!(fs::read(&file).unwrap(), bytes, "{hole:?}");
        assert_eq!(store.commit(ID, change(1, 0, &["three"])).await.unwrap(), 2);
        assert_eq!(texts(&store).await, ["one", "three"]);
        assert_eq!(fs::read(torn_file(&file, number)).unwrap(), bytes[start..], "{hole:?}");
    }
    assert_eq!(store.list().await.unwrap().len(), 1, "what is kept is no session");
    assert!(store.delete(ID).await.unwrap());
    assert!(!torn_file(&file, 1).exists(), "deleting leaves nothing to read");
}

#[tokio::test]
async fn a_rewrite_keeps_a_torn_line_aside_too() {
    let (_dir, store, file) = opened();
    store.commit(ID, change(0, 0, &["m"; DEAD_MESSAGES_MIN])).await.unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend(b"{\"crc\":\0\0\0}\n");
    fs::write(&file, &bytes).unwrap();
    store.commit(ID, change(1, DEAD_MESSAGES_MIN, &["end"])).await.unwrap();
    assert_eq!(texts(&store).await, ["end"]);
    assert_eq!(fs::read(torn_file(&file, 1)).unwrap(), b"{\"crc\":\0\0\0}\n");
}

#[tokio::test]
async fn torn_files_are_bounded_and_never_overwritten() {
    let (_dir, store, file) = opened();
    for number in 1..=TORN_FILES_MAX {
        fs::write(torn_file(&file, number), "kept").unwrap();
    }
    fs::write(&file, "\0\n").unwrap();
    let error = store.commit(ID, change(0, 0, &["one"])).await.unwrap_err().to_string();
    assert!(error.contains("move them away"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"\0\n");
    fs::remove_file(torn_file(&file, 3)).unwrap();
    assert_eq!(store.commit(ID, change(0, 0, &["one"])).await.unwrap(), 1);
    assert_eq!(fs::read(torn_file(&file, 3)).unwrap(), b"\0\n");
    assert_eq!(fs::read(torn_file(&file, 1)).unwrap(), b"kept");
}
