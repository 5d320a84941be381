//! ConversationWorkspaces of conversations: what stays, what comes back, and what is said to be lost.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provost_core::Env;
use provost_workspace::conversation::{
    ConversationWorkspaces, RestoreStatus, SnapshotLabel, WorkspaceError, WorkspaceHandle,
    WorkspaceKey, WorkspaceOptions,
};
use provost_workspace::limits::WORKSPACE_SNAPSHOTS_MAX;

fn tenant(conversation: &str, principal: &str) -> WorkspaceKey {
    WorkspaceKey {
        namespace: "default".to_owned(),
        conversation: conversation.to_owned(),
        principal: principal.to_owned(),
    }
}

fn anna() -> WorkspaceKey {
    tenant("chat", "anna")
}

/// After how long a workspace is idle, on a clock that stands still: nothing is taken away unless a test says so.
const IDLE: Duration = Duration::from_secs(3_600);

async fn open(dir: &Path) -> ConversationWorkspaces {
    open_with(dir, &Env::simulated(1)).await
}

async fn open_with(dir: &Path, env: &Env) -> ConversationWorkspaces {
    let in_dir = WorkspaceOptions::in_dir(dir);
    let options = WorkspaceOptions { idle: IDLE, env: env.clone(), ..in_dir };
    ConversationWorkspaces::open(options).await.unwrap()
}

/// Lets time go by and takes away what is idle; gives how many.
async fn remove_idle(workspaces: &ConversationWorkspaces, env: &Env) -> usize {
    env.advance(IDLE);
    workspaces.remove_idle().await
}

async fn acquire(workspaces: &ConversationWorkspaces) -> WorkspaceHandle {
    workspaces.acquire(&anna()).await.unwrap()
}

/// Writes a file, and leaves under the name of it.
async fn write(workspaces: &ConversationWorkspaces, name: &str, text: &str) {
    let guard = acquire(workspaces).await;
    fs::write(guard.dir().join(name), text).unwrap();
    guard.release(name).await.unwrap();
}

/// Everything that is kept, to look for what must not be in it.
fn stored_bytes(dir: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.join("kept")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => dirs.push(entry.path()),
                false => found.push(fs::read(entry.path()).unwrap()),
            }
        }
    }
    found
}

#[tokio::test]
async fn files_stay_for_a_conversation_and_for_no_other() {
    let home = tempfile::tempdir().unwrap();
    let workspaces = open(home.path()).await;
    let guard = acquire(&workspaces).await;
    assert_eq!(*guard.restore_status(), RestoreStatus::New);
    fs::write(guard.dir().join("a"), "one").unwrap();
    guard.release("1").await.unwrap();
    let (first, second) = (acquire(&workspaces).await, acquire(&workspaces).await);
    assert_eq!((first.restore_status(), second.dir()), (&RestoreStatus::Unchanged, first.dir()));
    assert_eq!(fs::read_to_string(first.dir().join("a")).unwrap(), "one");
    let other = workspaces.acquire(&tenant("other", "anna")).await.unwrap();
    assert!(!other.dir().join("a").exists());
    let elsewhere = WorkspaceKey { namespace: "team".to_owned(), ..anna() };
    assert_ne!(workspaces.acquire(&elsewhere).await.unwrap().dir(), first.dir());
}

#[tokio::test]
async fn a_workspace_belongs_to_whoever_first_worked_there() {
    let home = tempfile::tempdir().unwrap();
    let workspaces = open(home.path()).await;
    write(&workspaces, "a", "one").await;
    let eve = tenant("chat", "eve");
    let refused = [
        workspaces.acquire(&eve).await.map(drop),
        workspaces.snapshots(&eve).await.map(drop),
        workspaces.rewind(&eve, "a").await,
        workspaces.delete(&eve).await,
    ];
    assert!(
        refused.iter().all(|it| matches!(it, Err(WorkspaceError::WrongPrincipal))),
        "{refused:?}"
    );
    assert_eq!(*acquire(&workspaces).await.restore_status(), RestoreStatus::Unchanged);
}

#[tokio::test]
async fn what_is_idle_is_taken_away_and_comes_back_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let workspaces = open_with(home.path(), &env).await;
    let odd = OsStr::from_bytes(b"odd % \xff\n");
    let guard = acquire(&workspaces).await;
    let dir = guard.dir().to_owned();
    fs::create_dir_all(dir.join("deep/er")).unwrap();
    fs::create_dir(dir.join("closed")).unwrap();
    fs::write(dir.join("closed/in"), "in").unwrap();
    fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::write(dir.join("deep.txt"), "beside").unwrap();
    fs::write(dir.join(odd), [0, 159, 146, 150]).unwrap();
    fs::write(dir.join("run.sh"), "true").unwrap();
    fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o4755)).unwrap();
    symlink("../nowhere", dir.join("link")).unwrap();
    assert_eq!(remove_idle(&workspaces, &env).await, 0, "somebody is there");
    guard.release("1").await.unwrap();
    assert_eq!(remove_idle(&workspaces, &env).await, 1);
    assert!(!dir.exists());

    let guard = acquire(&workspaces).await;
    assert_eq!(*guard.restore_status(), RestoreStatus::Restored);
    assert!(dir.join("deep/er").is_dir());
    assert_eq!(fs::read_to_string(dir.join("closed/in")).unwrap(), "in");
    assert_eq!(fs::metadata(dir.join("closed")).unwrap().permissions().mode() & 0o7777, 0o500);
    assert_eq!(fs::read(dir.join(odd)).unwrap(), [0, 159, 146, 150]);
    let mode = fs::metadata(dir.join("run.sh")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755, "nothing runs as somebody else");
    assert_eq!(fs::read_link(dir.join("link")).unwrap(), Path::new("../nowhere"));
    // Whoever goes without a word is kept when the workspace becomes idle.
    fs::write(dir.join("late"), "late").unwrap();
    drop(guard);
    assert_eq!(remove_idle(&workspaces, &env).await, 1);
    assert_eq!(*acquire(&workspaces).await.restore_status(), RestoreStatus::Restored);
    assert!(dir.join("late").exists());
}

#[tokio::test]
async fn g22_what_is_lost_is_said_to_be_lost() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let workspaces = open_with(home.path(), &env).await;
    let survived = async || workspaces.is_intact("default", "chat").await;
    assert!(survived().await, "what never was is not lost");
    write(&workspaces, "a", "one").await;
    assert!(survived().await);
    let guard = acquire(&workspaces).await;
    let dir = guard.dir().to_owned();
    fs::write(dir.join("b"), "two").unwrap();
    drop(guard);
    assert!(survived().await, "it is still there");
    fs::remove_dir_all(&dir).unwrap();
    assert!(!survived().await);
    let guard = acquire(&workspaces).await;
    assert!(
        guard.data_loss().is_some_and(|why| why.contains("since the last")),
        "{:?}",
        guard.restore_status()
    );
    assert!(dir.join("a").exists() && !dir.join("b").exists());
    // Whoever was told does not come to its end: the next one is told again.
    drop(guard);
    assert!(!survived().await);
    remove_idle(&workspaces, &env).await;
    let guard = acquire(&workspaces).await;
    assert!(
        guard.data_loss().is_some_and(|why| why.contains("since the last")),
        "{:?}",
        guard.restore_status()
    );
    assert!(survived().await, "it knows");
    guard.release("2").await.unwrap();
    assert_eq!(
        *acquire(&workspaces).await.restore_status(),
        RestoreStatus::Unchanged,
        "it is said once"
    );

    // A snapshot that holds something else is no snapshot.
    fs::remove_dir_all(&dir).unwrap();
    let contents = fs::read_dir(home.path().join("kept")).unwrap().next().unwrap().unwrap().path();
    for content in fs::read_dir(contents.join("contents")).unwrap() {
        let path = content.unwrap().path();
        if fs::read(&path).unwrap() == b"one" {
            fs::write(path, "two").unwrap();
        }
    }
    let guard = acquire(&workspaces).await;
    assert!(
        guard.data_loss().is_some_and(|why| why.contains("all files")),
        "{:?}",
        guard.restore_status()
    );
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[tokio::test]
async fn another_process_finds_what_was_kept_and_knows_what_was_not() {
    let home = tempfile::tempdir().unwrap();
    let first = open(home.path()).await;
    write(&first, "a", "one").await;
    // While the first lives its directories are its own.
    let second = open(home.path()).await;
    let guard = acquire(&second).await;
    assert_eq!(*guard.restore_status(), RestoreStatus::Restored);
    fs::write(guard.dir().join("b"), "two").unwrap();
    guard.release("b").await.unwrap();
    let guard = acquire(&first).await;
    assert_eq!(
        *guard.restore_status(),
        RestoreStatus::Restored,
        "the other one was here meanwhile"
    );
    assert!(guard.dir().join("b").exists());
    fs::write(guard.dir().join("c"), "three").unwrap();
    // The first process is stopped in the middle of a call; another one takes over what it has left.
    drop(guard);
    drop(first);
    let third = open(home.path()).await;
    assert!(third.is_intact("default", "chat").await);
    let guard = acquire(&third).await;
    assert_eq!(*guard.restore_status(), RestoreStatus::Unchanged);
    assert!(guard.dir().join("c").exists());
    assert!(!second.is_intact("default", "chat").await, "it is elsewhere, and open");
}

#[tokio::test]
async fn a_workspace_goes_back_to_a_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let workspaces = open(home.path()).await;
    let rounds = WORKSPACE_SNAPSHOTS_MAX + 4;
    for round in 0..rounds {
        write(&workspaces, &format!("f{round}"), &format!("text {round}")).await;
    }
    acquire(&workspaces).await.release("nothing").await.unwrap();
    let kept = workspaces.snapshots(&anna()).await.unwrap();
    let labels: Vec<_> = kept.iter().map(|kept| kept.label.as_str()).collect();
    assert_eq!(kept.len(), WORKSPACE_SNAPSHOTS_MAX, "{labels:?}");
    assert_eq!(labels.last(), Some(&format!("f{}", rounds - 1).as_str()), "only changes are kept");
    let label = format!("f{}", rounds - 3);
    let guard = acquire(&workspaces).await;
    let busy = workspaces.rewind(&anna(), &label).await;
    assert!(matches!(busy, Err(WorkspaceError::InUse)), "{busy:?}");
    drop(guard);
    workspaces.rewind(&anna(), &label).await.unwrap();
    let guard = acquire(&workspaces).await;
    assert_eq!(*guard.restore_status(), RestoreStatus::Unchanged);
    assert!(guard.dir().join(&label).exists());
    assert!(!guard.dir().join(format!("f{}", rounds - 2)).exists());
    drop(guard);
    let unknown = workspaces.rewind(&anna(), "f0").await;
    assert!(matches!(unknown, Err(WorkspaceError::NoSnapshot(_))), "{unknown:?}");

    // What no snapshot has is not stored.
    for round in 0..WORKSPACE_SNAPSHOTS_MAX + 1 {
        write(&workspaces, "same", &format!("version {round}")).await;
        write(&workspaces, &format!("n{round}"), "").await;
    }
    let all = stored_bytes(home.path());
    assert!(!all.iter().any(|bytes| bytes == b"version 0"));
    workspaces.delete(&anna()).await.unwrap();
    assert!(stored_bytes(home.path()).is_empty());
    assert_eq!(*acquire(&workspaces).await.restore_status(), RestoreStatus::New);
}

/// However many calls a turn has, the turns before it can be gone back to.
#[tokio::test]
async fn each_turn_has_its_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let workspaces = open(home.path()).await;
    let calls = WORKSPACE_SNAPSHOTS_MAX + 4;
    for (turn, call) in (0..3).flat_map(|turn| (0..calls).map(move |call| (turn, call))) {
        let guard = acquire(&workspaces).await;
        std::fs::write(guard.dir().join("f"), format!("{turn} {call}")).unwrap();
        let mark = SnapshotLabel { label: format!("c{turn}-{call}"), turn: format!("run/{turn}") };
        guard.release(mark).await.unwrap();
    }
    let kept = workspaces.snapshots(&anna()).await.unwrap();
    let of = |turn: &str| kept.iter().filter(|kept| kept.turn == turn).count();
    assert_eq!([of("run/0"), of("run/1"), of("run/2")], [1, 1, WORKSPACE_SNAPSHOTS_MAX]);
    let text =
        async || std::fs::read_to_string(acquire(&workspaces).await.dir().join("f")).unwrap();
    // A call of the last turn, and whole turns before it.
    workspaces.rewind(&anna(), &format!("c2-{}", calls - 2)).await.unwrap();
    assert_eq!(text().await, format!("2 {}", calls - 2));
    for turn in [1, 0] {
        workspaces.rewind(&anna(), &format!("run/{turn}")).await.unwrap();
        assert_eq!(text().await, format!("{turn} {}", calls - 1));
    }
    // Of many turns the last ones stay.
    for turn in 0..2 * WORKSPACE_SNAPSHOTS_MAX {
        let guard = acquire(&workspaces).await;
        std::fs::write(guard.dir().join("f"), format!("late {turn}")).unwrap();
        let mark = SnapshotLabel { label: format!("late-{turn}"), turn: format!("late/{turn}") };
        guard.release(mark).await.unwrap();
    }
    assert_eq!(workspaces.snapshots(&anna()).await.unwrap().len(), WORKSPACE_SNAPSHOTS_MAX);
}

#[tokio::test]
async fn what_is_too_large_is_not_kept_and_later_lost() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let options = WorkspaceOptions {
        idle: IDLE,
        env: env.clone(),
        bytes_max: 1_000,
        files_max: 10,
        ..WorkspaceOptions::in_dir(home.path())
    };
    let workspaces = ConversationWorkspaces::open(options).await.unwrap();
    write(&workspaces, "small", "x").await;
    let guard = acquire(&workspaces).await;
    fs::write(guard.dir().join("big"), vec![0; 1_001]).unwrap();
    let refused = guard.release("1").await;
    assert!(matches!(&refused, Err(WorkspaceError::TooLarge(why)) if why.contains("1000 bytes")));
    let guard = acquire(&workspaces).await;
    fs::remove_file(guard.dir().join("big")).unwrap();
    for number in 0..10 {
        fs::write(guard.dir().join(number.to_string()), "").unwrap();
    }
    let refused = guard.release("2").await;
    assert!(matches!(&refused, Err(WorkspaceError::TooLarge(why)) if why.contains("10 files")));
    assert_eq!(remove_idle(&workspaces, &env).await, 1);
    let guard = acquire(&workspaces).await;
    assert!(guard.data_loss().is_some(), "{:?}", guard.restore_status());
    assert!(guard.dir().join("small").exists() && !guard.dir().join("5").exists());
}

/// Whoever works in a workspace must not get anything of ours into it by way of the snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_holds_nothing_from_outside() {
    const CANARY: &str = "the canary of the snapshots";
    let home = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), CANARY).unwrap();
    let env = Env::simulated(1);
    let workspaces = open_with(home.path(), &env).await;
    let guard = acquire(&workspaces).await;
    let dir = guard.dir().to_owned();
    symlink(outside.path(), dir.join("to-dir")).unwrap();
    symlink(outside.path().join("secret"), dir.join("to-file")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    // Directories that become links, and files that become links, while they are read.
    let is_over = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (is_over, dir, outside) =
            (Arc::clone(&is_over), dir.clone(), outside.path().to_owned());
        std::thread::spawn(move || {
            let mut turns = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                fs::create_dir(dir.join("swap")).unwrap();
                fs::write(dir.join("swap/secret"), "mine").unwrap();
                fs::rename(dir.join("swap"), dir.join("away")).unwrap();
                symlink(&outside, dir.join("swap")).unwrap();
                fs::remove_file(dir.join("swap")).unwrap();
                fs::remove_dir_all(dir.join("away")).unwrap();
                symlink(outside.join("secret"), dir.join("file")).unwrap();
                fs::remove_file(dir.join("file")).unwrap();
                fs::write(dir.join("file"), turns.to_string()).unwrap();
                fs::remove_file(dir.join("file")).unwrap();
                turns += 1;
            }
        })
    };
    for turn in 0..100 {
        acquire(&workspaces).await.release(turn.to_string()).await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    // Not before: a directory in which nobody has a guard may be taken away at any moment.
    drop(guard);
    let all = stored_bytes(home.path());
    assert!(!all.is_empty());
    let holds = |bytes: &Vec<u8>| bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes());
    assert!(!all.iter().any(holds));
    assert_eq!(remove_idle(&workspaces, &env).await, 1);
    let guard = acquire(&workspaces).await;
    let names: BTreeSet<_> =
        fs::read_dir(guard.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.contains(OsStr::new("to-file")) && !names.contains(OsStr::new("pipe")));
}
