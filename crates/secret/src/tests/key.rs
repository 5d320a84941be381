//! Keys, seals and rotation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use provost_core::{ErrorKind, Secret};
use provost_store::{Store, StoreOptions};

use super::{named, require_value};
use crate::{
    InMemorySecretStore, KEY_FILE_VARIABLE, KEY_VARIABLE, KeySource, Keyring, SealedSecret,
    SecretError, SecretLocation, SecretResolver, SecretStore, StoreResolver, Vault,
};

async fn row(store: &InMemorySecretStore, name: &str) -> SealedSecret {
    store.get("a", name, "value").await.unwrap().unwrap()
}

#[tokio::test]
async fn a_row_opens_only_unchanged_in_its_place_and_with_its_key() {
    let (store, keys) =
        require_value(&[("a", "one", "the first"), ("a", "two", "the second")]).await;
    let (one, two) = (row(&store, "one").await, row(&store, "two").await);
    assert_eq!(keys.open(&one).unwrap().expose(), "the first");
    let text = String::from_utf8_lossy(&one.sealed).into_owned();
    assert!(!text.contains("first"));

    let is_sealed = |row: &SealedSecret| matches!(keys.open(row), Err(SecretError::Sealed { .. }));
    // The contents of one row in the place of another.
    assert!(is_sealed(&SealedSecret { sealed: two.sealed, ..one.clone() }));
    assert!(is_sealed(&SealedSecret { namespace: "b".into(), ..one.clone() }));
    assert!(is_sealed(&SealedSecret { name: "two".into(), ..one.clone() }));
    assert!(is_sealed(&SealedSecret { key: "other".into(), ..one.clone() }));
    assert!(is_sealed(&SealedSecret { revision: 2, ..one.clone() }));
    // Parts that look alike when they are put together.
    assert!(is_sealed(&SealedSecret { namespace: "ao".into(), name: "ne".into(), ..one.clone() }));
    for place in 0..one.sealed.len() {
        let mut changed = one.clone();
        changed.sealed[place] ^= 1;
        assert!(is_sealed(&changed), "byte {place}");
    }
    for len in [0, 10, 24, one.sealed.len() - 1] {
        assert!(is_sealed(&SealedSecret { sealed: one.sealed[..len].to_vec(), ..one.clone() }));
    }
    let other = Keyring::generate().unwrap();
    assert!(matches!(other.open(&one), Err(SecretError::KeyMissing { .. })));
    // A wrong key under the right id.
    let forged = SealedSecret { key_id: other.current().to_string(), ..one };
    assert!(matches!(other.open(&forged), Err(SecretError::Sealed { .. })));
}

#[tokio::test]
async fn the_same_value_never_looks_the_same() {
    let (store, keys) = require_value(&[("a", "one", "the same"), ("a", "two", "the same")]).await;
    assert_ne!(row(&store, "one").await.sealed, row(&store, "two").await.sealed);
    let before = row(&store, "one").await;
    Vault::new(store.clone(), keys)
        .set("a", &named("one"), &Secret::from("the same"))
        .await
        .unwrap();
    let after = row(&store, "one").await;
    assert_ne!(before.sealed, after.sealed);
    assert_eq!((before.revision, after.revision), (1, 2));
}

#[test]
fn keys_are_read_in_both_forms_and_nothing_else_is() {
    let keys = Keyring::generate().unwrap().with_new_key().unwrap();
    let again = Keyring::parse(keys.to_text().expose()).unwrap();
    assert_eq!(again.ids().collect::<Vec<_>>(), keys.ids().collect::<Vec<_>>());
    assert_eq!(again.only_current().ids().count(), 1);
    let hex = "0123456789abcdef".repeat(4);
    assert_eq!(Keyring::parse(&format!("{hex},{hex}\n# no key")).unwrap().ids().count(), 1);
    for text in ["", "# only words", "abc", &hex[1..], &format!("{hex}0"), "AAAA"] {
        let error = Keyring::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(text.len() < 5 || !error.to_string().contains(text), "{error}");
    }
    assert!(!format!("{keys:?}").contains(&keys.to_text().expose()[80..100]));
}

/// A store whose process dies after some writes.
struct Dying {
    inner: Arc<InMemorySecretStore>,
    left: AtomicU64,
}

impl SecretStore for Dying {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<SealedSecret>, SecretError>> {
        self.inner.get(namespace, name, key)
    }

    fn put(
        &self,
        row: SealedSecret,
        replaces: Option<u64>,
    ) -> BoxFuture<'_, Result<bool, SecretError>> {
        let is_alive = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        match is_alive {
            true => self.inner.put(row, replaces),
            false => Box::pin(async {
                Err(SecretError::unreadable("the store", ErrorKind::Unavailable, "it died"))
            }),
        }
    }

    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<SecretLocation>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SealedSecret>, SecretError>> {
        self.inner.list(namespace, after, limit)
    }

    fn delete<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<u64, SecretError>> {
        self.inner.delete(namespace, name, key)
    }
}

#[tokio::test]
async fn a_rotation_that_was_killed_half_way_is_finished_by_the_next_one() {
    let names: Vec<String> = (0..450).map(|n| format!("s{n:03}")).collect();
    let values: Vec<(&str, &str, &str)> =
        names.iter().map(|name| ("a", name.as_str(), "a value")).collect();
    let (store, old) = require_value(&values).await;
    let new = old.with_new_key().unwrap();
    let dying = Dying { inner: store.clone(), left: AtomicU64::new(217) };
    Vault::new(Arc::new(dying), new.clone()).reseal().await.unwrap_err();
    // Half of them are under each key, and all can be read.
    for name in &names {
        assert_eq!(new.open(&row(&store, name).await).unwrap().expose(), "a value");
    }
    let vault = Vault::new(store.clone(), new.clone());
    let done = vault.reseal().await.unwrap();
    assert_eq!((done.resealed, done.current), (450 - 217, 217));
    assert_eq!(vault.reseal().await.unwrap().resealed, 0);
    // The old key is no longer needed.
    let only = new.only_current();
    for facts in vault.list(None).await.unwrap() {
        assert_eq!(facts.key_id, only.current().as_str());
        only.open(&row(&store, &facts.name).await).unwrap();
    }
}

#[tokio::test]
async fn the_database_keeps_sealed_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(StoreOptions::for_test(dir.path())).unwrap());
    let keys = Keyring::generate().unwrap();
    let vault = Vault::new(store.clone(), keys.clone());
    for name in ["mail:user", "mail:password", "other"] {
        vault.set("a", &named(name), &Secret::from("swordfish")).await.unwrap();
    }
    vault.set("b", &named("mail"), &Secret::from("swordfish")).await.unwrap();
    assert_eq!(vault.set("a", &named("other"), &Secret::from("new one")).await.unwrap(), 2);
    let list = vault.list(Some("a")).await.unwrap();
    let names: Vec<_> =
        list.iter().map(|facts| (facts.name.as_str(), facts.key.as_str())).collect();
    assert_eq!(names, [("mail", "password"), ("mail", "user"), ("other", "value")]);
    assert_eq!(vault.list(None).await.unwrap().len(), 4);

    let new = keys.with_new_key().unwrap();
    assert_eq!(Vault::new(store.clone(), new.clone()).reseal().await.unwrap().resealed, 4);
    let resolver = StoreResolver::new(store.clone(), new.only_current());
    let found = resolver.resolve("a", &named("other")).await.unwrap().unwrap();
    assert_eq!(found.expose(), "new one");
    assert_eq!(vault.delete("a", "mail", Some("user")).await.unwrap(), 1);
    assert_eq!(vault.delete("a", "mail", None).await.unwrap(), 1);
    assert_eq!(vault.delete("a", "mail", None).await.unwrap(), 0);
    assert!(resolver.resolve("b", &named("mail")).await.unwrap().is_some());
    // A store that is closed is no missing secret.
    store.close().await;
    assert!(matches!(
        resolver.resolve("b", &named("mail")).await,
        Err(SecretError::Unreadable { .. })
    ));
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!bytes.windows(9).any(|part| part == b"swordfish"));
    }
}

#[test]
fn the_key_file_is_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let source = KeySource::find(dir.path(), |_| None).unwrap();
    assert!(source.load(|_| None).unwrap().is_none());
    let keys = source.create().unwrap();
    // Who comes second takes what is there.
    assert_eq!(source.create().unwrap().current(), keys.current());
    let more = keys.with_new_key().unwrap();
    source.replace(&more).unwrap();
    assert_eq!(source.load(|_| None).unwrap().unwrap().ids().count(), 2);
    let KeySource::File(path) = &source else { panic!() };
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = source.load(|_| None).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }
}

#[test]
fn variables_say_where_the_keys_are() {
    let hex = "0123456789abcdef".repeat(4);
    let dir = std::path::Path::new("nowhere");
    let only = |name: &'static str, value: &str| {
        let value = value.to_owned();
        move |asked: &str| (asked == name).then(|| value.clone())
    };
    let source = KeySource::find(dir, only(KEY_VARIABLE, &hex)).unwrap();
    assert_eq!(source, KeySource::Variable);
    let keys = source.load(only(KEY_VARIABLE, &hex)).unwrap().unwrap();
    assert!(source.replace(&keys).is_err() && source.create().is_err());
    let named = KeySource::find(dir, only(KEY_FILE_VARIABLE, "/x/y")).unwrap();
    assert_eq!(named, KeySource::File("/x/y".into()));
    // Set and empty is a mistake, and so are both.
    assert!(KeySource::find(dir, only(KEY_VARIABLE, " ")).is_err());
    assert!(KeySource::find(dir, |_| Some(hex.clone())).is_err());
}
