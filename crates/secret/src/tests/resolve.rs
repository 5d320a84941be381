//! References, places and the order in which they are asked.

use std::env::VarError;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ErrorKind, Secret};
use provost_redact::Redactor;

use super::{named, require_value};
use crate::{
    ChainResolver, EnvResolver, FileResolver, Keyring, SecretError, SecretRef, SecretResolver,
    SecretService, SecretStore, StoreResolver, Vault,
};

fn env(pairs: &'static [(&'static str, &'static str)]) -> EnvResolver {
    EnvResolver::with_reader(|name| {
        let found = pairs.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
    })
}

async fn found(resolver: &impl SecretResolver, namespace: &str, text: &str) -> Option<String> {
    let value = resolver.resolve(namespace, &named(text)).await.unwrap();
    value.map(|value| value.expose().clone())
}

#[test]
fn references_are_read_strictly() {
    for (text, namespace, name, key) in [
        ("mail", None, "mail", "value"),
        (" mail ", None, "mail", "value"),
        ("mail:user", None, "mail", "user"),
        ("ops/mail", Some("ops"), "mail", "value"),
        ("ops/mail:user", Some("ops"), "mail", "user"),
    ] {
        let found = named(text);
        assert_eq!(
            (found.namespace.as_deref(), found.name.as_str(), found.key.as_str()),
            (namespace, name, key)
        );
        assert_eq!(named(&found.to_string()), found);
    }
    for text in [
        "",
        ":x",
        "a:",
        "/a",
        "a/",
        "a/b/c",
        "../a",
        "a:../b",
        ".a",
        "a b",
        "a:b:c",
        "ä",
        "a\n",
        &"x".repeat(200),
    ] {
        let is_fine = text.trim() != text && text.trim().parse::<SecretRef>().is_ok();
        assert!(is_fine || text.parse::<SecretRef>().is_err(), "{text:?}");
    }
}

#[tokio::test]
async fn variables_are_named_after_the_place_and_never_shared() {
    let resolver = env(&[
        ("PROVOST_SECRET_MAIL", "one"),
        ("PROVOST_SECRET_MAIL__USER", "two"),
        ("PROVOST_SECRET__TEAM_A__MAIL", "three"),
        ("PROVOST_SECRET__TEAM_A__MAIL__USER", "four"),
        ("PROVOST_SECRET_MAIL_SERVER", "five"),
        ("MAIL", "never"),
        ("PATH", "never"),
    ]);
    assert_eq!(found(&resolver, "default", "mail").await.as_deref(), Some("one"));
    assert_eq!(found(&resolver, "default", "mail:user").await.as_deref(), Some("two"));
    assert_eq!(found(&resolver, "team-a", "mail").await.as_deref(), Some("three"));
    assert_eq!(found(&resolver, "team-a", "mail:user").await.as_deref(), Some("four"));
    assert_eq!(found(&resolver, "default", "mail-server").await.as_deref(), Some("five"));
    for (namespace, text) in [
        ("default", "PATH"),
        ("mail", "user"),
        ("team_a", "mail"),
        ("TEAM-A", "mail"),
        ("default", "team-a__mail"),
        ("team", "a--mail"),
        ("default", "mail--user"),
        ("team-b", "mail"),
    ] {
        assert_eq!(found(&resolver, namespace, text).await, None, "{namespace} {text}");
    }
}

#[tokio::test]
async fn files_are_found_by_their_place_and_nothing_leads_out() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("team-a/mail");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("value"), "swordfish\n").unwrap();
    std::fs::write(place.join("empty"), "\n").unwrap();
    std::fs::write(place.join("binary"), [0xff, 0xfe]).unwrap();
    let resolver = FileResolver::new(dir.path());
    assert_eq!(found(&resolver, "team-a", "mail").await.as_deref(), Some("swordfish"));
    assert_eq!(found(&resolver, "team-a", "none").await, None);
    assert_eq!(found(&resolver, "team-b", "mail").await, None);
    let error = |key: &str| {
        let reference = named(&format!("mail:{key}"));
        let resolver = resolver.clone();
        async move { resolver.resolve("team-a", &reference).await.unwrap_err() }
    };
    assert!(matches!(error("empty").await, SecretError::Empty { .. }));
    assert!(matches!(error("binary").await, SecretError::Unreadable { .. }));
    let outside = SecretRef { namespace: None, name: "..".into(), key: "value".into() };
    assert!(resolver.resolve("team-a", &outside).await.is_err());
    assert!(resolver.resolve("..", &named("mail")).await.is_err());
    // A directory that is gone is no missing secret.
    let gone = FileResolver::new(dir.path().join("gone"));
    assert!(matches!(gone.resolve("a", &named("x")).await, Err(SecretError::Unreadable { .. })));
}

/// A place that cannot be read.
struct Broken;

impl SecretResolver for Broken {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: &'a SecretRef,
    ) -> BoxFuture<'a, Result<Option<Secret<String>>, SecretError>> {
        Box::pin(async {
            Err(SecretError::unreadable("the store", ErrorKind::Unavailable, "disk on fire"))
        })
    }
}

#[tokio::test]
async fn only_not_found_goes_on_to_the_next_place() {
    let (store, keys) = require_value(&[("default", "mail", "from the store")]).await;
    let variables = env(&[
        ("PROVOST_SECRET_MAIL", "from a variable"),
        ("PROVOST_SECRET_OTHER", "another"),
        ("PROVOST_SECRET_BLANK", " "),
    ]);
    let chain = ChainResolver::new()
        .then(StoreResolver::new(store.clone(), keys.clone()))
        .then(variables.clone());
    assert_eq!(found(&chain, "default", "mail").await.as_deref(), Some("from the store"));
    assert_eq!(found(&chain, "default", "other").await.as_deref(), Some("another"));
    assert_eq!(found(&chain, "default", "none").await, None);
    // Set and empty is an error, and what comes behind is not asked.
    let chain =
        ChainResolver::new().then(variables.clone()).then(env(&[("PROVOST_SECRET_BLANK", "x")]));
    assert!(matches!(
        chain.resolve("default", &named("blank")).await,
        Err(SecretError::Empty { .. })
    ));
    // A store that fails closes the door, whatever the environment has.
    let chain = ChainResolver::new().then(Broken).then(variables.clone());
    let error = chain.resolve("default", &named("mail")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // So does one whose key is missing, and one whose row was changed.
    let chain = ChainResolver::new()
        .then(StoreResolver::new(store.clone(), Keyring::generate().unwrap()))
        .then(variables.clone());
    assert!(matches!(
        chain.resolve("default", &named("mail")).await,
        Err(SecretError::KeyMissing { .. })
    ));
    let mut row = store.get("default", "mail", "value").await.unwrap().unwrap();
    row.sealed[30] ^= 1;
    store.put(row, Some(1)).await.unwrap();
    let chain = ChainResolver::new().then(StoreResolver::new(store, keys)).then(variables);
    assert!(matches!(
        chain.resolve("default", &named("mail")).await,
        Err(SecretError::Sealed { .. })
    ));
}

#[tokio::test]
async fn a_namespace_sees_its_own_and_what_is_shared() {
    let (store, keys) =
        require_value(&[("ops", "mail", "of ops"), ("team-a", "mail", "of team a")]).await;
    let resolver = StoreResolver::new(store, keys);
    assert_eq!(found(&resolver, "ops", "mail").await.as_deref(), Some("of ops"));
    assert_eq!(found(&resolver, "ops", "ops/mail").await.as_deref(), Some("of ops"));
    let error = resolver.resolve("team-a", &named("ops/mail")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let resolver = resolver.share("ops");
    assert_eq!(found(&resolver, "team-a", "ops/mail").await.as_deref(), Some("of ops"));
    assert_eq!(found(&resolver, "team-a", "mail").await.as_deref(), Some("of team a"));
    assert!(resolver.resolve("ops", &named("team-a/mail")).await.is_err());
    for other in [
        env(&[]).resolve("a", &named("b/x")).await,
        FileResolver::new(".").resolve("a", &named("b/x")).await,
    ] {
        assert!(matches!(other, Err(SecretError::Namespace { .. })));
    }
}

#[tokio::test]
async fn values_are_known_before_they_are_handed_out_or_not_handed_out() {
    let redactor = Redactor::new();
    let variables = env(&[("PROVOST_SECRET_MAIL", "swordfish"), ("PROVOST_SECRET_PIN", "123")]);
    let secrets = SecretService::new(Arc::new(variables), redactor.clone());
    secrets.get("default", &named("mail")).await.unwrap();
    assert!(redactor.contains_secret(b"a swordfish"));
    let error = secrets.get("default", &named("pin")).await.unwrap_err();
    assert!(matches!(error, SecretError::Unredactable { .. }));
    assert!(!error.to_string().contains("123"));
    assert_eq!(
        secrets.get("default", &named("none")).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn what_could_not_be_kept_secret_is_not_taken_in() {
    let (store, keys) = require_value(&[]).await;
    let vault = Vault::new(store, keys);
    for value in ["", "  ", "abc"] {
        assert!(vault.set("a", &named("x"), &Secret::from(value)).await.is_err(), "{value:?}");
    }
    assert!(vault.set("../a", &named("x"), &Secret::from("swordfish")).await.is_err());
    assert!(vault.list(None).await.unwrap().is_empty());
}
