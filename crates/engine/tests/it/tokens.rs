//! Tokens as they are stored.

use std::time::Duration;

use provost_core::TokenId;
use provost_engine::NewToken;

use crate::conversations::Conversation;

fn new(name: &str) -> NewToken {
    NewToken {
        hash: format!("hash of {name}"),
        name: name.to_owned(),
        scopes: vec!["read".to_owned(), "write".to_owned()],
        namespaces: vec!["*".to_owned()],
        expires: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_made_found_used_and_taken_back_once() {
    let conversation = Conversation::simulated().await;
    let engine = &conversation.engine;
    let expires = Some(conversation.env.now().after(Duration::from_secs(60)));
    let made = engine.tokens().create(NewToken { expires, ..new("first") }).await.unwrap();
    conversation.env.advance(Duration::from_millis(5));
    let second = engine.tokens().create(new("second")).await.unwrap();
    assert_eq!(engine.tokens().get(made.id).await.unwrap(), made);
    assert_eq!((made.expires, made.revoked, made.last_used), (expires, None, None));
    assert_eq!((made.scopes.len(), made.hash.as_str()), (2, "hash of first"));
    let page = engine.tokens().list(None, 1).await.unwrap();
    assert_eq!((&page.items[0], page.next), (&made, Some(made.id)));
    assert_eq!(engine.tokens().list(page.next, 9).await.unwrap().items, [second]);
    let used = conversation.env.now();
    engine.tokens().touch(made.id, used).await.unwrap();
    engine.tokens().touch(made.id, used.before(Duration::from_secs(9))).await.unwrap();
    assert_eq!(engine.tokens().get(made.id).await.unwrap().last_used, Some(used));
    let revoked = engine.tokens().revoke(made.id).await.unwrap().revoked;
    assert_eq!(revoked, Some(conversation.env.now()));
    conversation.env.advance(Duration::from_secs(1));
    assert_eq!(engine.tokens().revoke(made.id).await.unwrap().revoked, revoked);
    let unknown: TokenId = conversation.env.id();
    assert_eq!(engine.tokens().get(unknown).await.unwrap_err().code(), "not_found");
    assert_eq!(engine.tokens().revoke(unknown).await.unwrap_err().code(), "not_found");
}
