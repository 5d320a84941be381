//! Sessions and their explanations over the API.

use provost_api::{NewSession, PageQuery, SessionQuery};
use provost_core::scheduling::{InputMode, InputQueueOverride};
use provost_core::{Env, RunId};
use provost_model as scripted;
use serde_json::json;

use crate::test_app::TestApp;

#[tokio::test]
async fn a_session_tells_what_was_said_in_it() {
    let test_app = TestApp::with_model(|_, n| scripted::text(format!("answer {n}"))).await;
    for text in ["one", "two"] {
        let accepted = test_app.submit_text("chat", text).await;
        test_app.ended(accepted.run).await;
    }
    let session = test_app.client.session("chat").await.unwrap();
    assert!(session.revision > 0 && session.holder.is_none());
    let all = test_app.client.session_messages("chat", &PageQuery::default()).await.unwrap();
    let said: Vec<_> = all.items.iter().map(|item| item.message.text()).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!((said[0].as_str(), said[2].as_str()), ("one", "two"));
    let page = PageQuery { limit: Some(3), cursor: None };
    let first = test_app.client.session_messages("chat", &page).await.unwrap();
    let later = test_app.submit_text("chat", "three").await;
    test_app.ended(later.run).await;
    let next = PageQuery { cursor: first.next, ..page };
    let second = test_app.client.session_messages("chat", &next).await.unwrap();
    let joined: Vec<_> = first.items.iter().chain(&second.items).map(|item| item.id).collect();
    let before: Vec<_> = all.items.iter().map(|item| item.id).collect();
    assert_eq!(joined, before, "pages of one reading belong together");
}

#[tokio::test]
async fn sessions_are_listed_and_found() {
    let test_app = TestApp::idle(Vec::new()).await;
    for name in ["a", "b", "x/y?z#%"] {
        test_app.submit_text(name, "hi").await;
    }
    let odd = test_app.client.session("x/y?z#%").await.unwrap();
    assert_eq!(odd.id, "x/y?z#%");
    let page = SessionQuery { limit: Some(2), ..SessionQuery::default() };
    let first = test_app.client.sessions(&page).await.unwrap();
    let next = SessionQuery { cursor: first.next, ..page };
    let second = test_app.client.sessions(&next).await.unwrap();
    let ids: Vec<_> = first.items.iter().chain(&second.items).map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["x/y?z#%", "b", "a"]);
    let none = SessionQuery { key: Some("none".to_owned()), ..SessionQuery::default() };
    assert!(test_app.client.sessions(&none).await.unwrap().items.is_empty());
    assert_eq!(test_app.client.session("nobody").await.unwrap_err().code(), "not_found");
    let missing =
        test_app.client.session_messages("nobody", &PageQuery::default()).await.unwrap_err();
    assert_eq!(missing.code(), "not_found");
}

#[tokio::test]
async fn a_key_leads_to_one_session_until_a_fresh_one_is_created() {
    let test_app = TestApp::idle(Vec::new()).await;
    let key = Some("my talk".to_owned());
    let named = NewSession { key: key.clone(), fresh: false };
    let first = test_app.client.create_session(&named).await.unwrap();
    assert_eq!((first.key.as_ref(), first.revision), (key.as_ref(), 0));
    assert_eq!(test_app.client.create_session(&named).await.unwrap(), first);
    let fresh = NewSession { fresh: true, ..named.clone() };
    let fresh = test_app.client.create_session(&fresh).await.unwrap();
    assert_ne!(fresh.id, first.id);
    assert_eq!(test_app.client.create_session(&named).await.unwrap().id, fresh.id);
    assert_eq!(test_app.client.session(&first.id).await.unwrap().key, None);
    let unnamed = test_app.client.create_session(&NewSession::default()).await.unwrap();
    assert_eq!(unnamed.key, None);
    let again = test_app.send_json("POST sessions", &json!({"key": "my talk"})).await;
    assert_eq!(again.status, 200);
    let created = test_app.send_json("POST sessions", &json!({"key": "other"})).await;
    assert_eq!(created.status, 201);
    let refused = test_app.send_json("POST sessions", &json!({"key": " "})).await;
    assert_eq!((refused.problem(), refused.field()), ((400, "invalid"), "key"));
}

#[tokio::test]
async fn how_messages_wait_is_set_and_taken_back() {
    let test_app = TestApp::idle(Vec::new()).await;
    test_app.submit_text("chat", "hi").await;
    let queue =
        InputQueueOverride { mode: Some(InputMode::Collect), ..InputQueueOverride::default() };
    let set = test_app.client.set_session_queue("chat", &queue).await.unwrap();
    assert_eq!(set.queue, Some(queue));
    let refused = test_app.send_json("PUT sessions/chat/queue", &json!({"cap": 0})).await;
    assert_eq!((refused.problem(), refused.field()), ((400, "invalid"), "queue.cap"));
    let unset =
        test_app.client.set_session_queue("chat", &InputQueueOverride::default()).await.unwrap();
    assert_eq!(unset.queue, None);
    let missing = test_app.send_json("PUT sessions/nobody/queue", &json!({})).await;
    assert_eq!(missing.problem(), (404, "not_found"));
}

#[tokio::test]
async fn everything_that_waits_can_be_explained() {
    let test_app = TestApp::idle(Vec::new()).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    for id in [accepted.run.to_string(), accepted.task.to_string(), "chat".to_owned()] {
        let told = test_app.client.explain(&id).await.unwrap();
        assert_eq!(told.subject, id);
        assert!(!told.cause.is_empty() && !told.code.is_empty() && !told.evidence.is_empty());
    }
    let unknown: RunId = Env::system().id();
    for id in [unknown.to_string(), "nobody".to_owned()] {
        assert_eq!(test_app.client.explain(&id).await.unwrap_err().code(), "not_found");
    }
}
