//! The mailbox itself, as the team keeps it and behind its trait.

use provost_agent::team::{
    BROADCAST, INBOX_MESSAGES_MAX, MESSAGE_BYTES_MAX, MailError, Mailbox, MemoryMailbox,
    READ_BYTES_MAX,
};
use provost_core::{Env, ErrorKind, RunId, TeamMessage, Timestamp};

fn message(from: &str, to: &str, content: &str) -> TeamMessage {
    let (from, to, content) = (from.to_owned(), to.to_owned(), content.to_owned());
    TeamMessage { id: "msg-1".into(), from, to, content, at: Timestamp::from_millis(0) }
}

async fn mailbox(names: &[&str]) -> (MemoryMailbox, RunId) {
    let (mailbox, team) = (MemoryMailbox::new(), Env::simulated(1).id());
    for name in names {
        mailbox.register(team, name).await.unwrap();
    }
    (mailbox, team)
}

#[tokio::test]
async fn s195_a_message_has_id_sender_and_content_and_reading_takes_it_out() {
    let (mailbox, team) = mailbox(&["a", "b"]).await;
    mailbox.send(team, message("a", "b", "hi")).await.unwrap();
    let read = mailbox.read(team, "b").await.unwrap();
    assert_eq!(read, [message("a", "b", "hi")]);
    assert!(mailbox.read(team, "b").await.unwrap().is_empty());
    assert!(mailbox.read(team, "a").await.unwrap().is_empty());
}

#[tokio::test]
async fn s196_a_message_to_everybody_reaches_all_but_its_sender() {
    let (mailbox, team) = mailbox(&["a", "b", "c"]).await;
    mailbox.send(team, message("a", BROADCAST, "hi")).await.unwrap();
    assert!(mailbox.read(team, "a").await.unwrap().is_empty());
    for name in ["b", "c"] {
        assert_eq!(mailbox.read(team, name).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn s197_reading_an_empty_inbox_gives_nothing() {
    let (mailbox, team) = mailbox(&["a"]).await;
    assert_eq!(mailbox.read(team, "a").await, Ok(Vec::new()));
}

#[tokio::test]
async fn s198_after_closing_nothing_is_taken_and_nothing_given() {
    let (mailbox, team) = mailbox(&["a", "b"]).await;
    mailbox.close(team).await.unwrap();
    assert_eq!(mailbox.send(team, message("a", "b", "hi")).await, Err(MailError::Closed));
    assert_eq!(mailbox.read(team, "b").await, Err(MailError::Closed));
}

#[tokio::test]
async fn s199_messages_arrive_in_the_order_of_sending() {
    let (mailbox, team) = mailbox(&["a", "b"]).await;
    for number in 1..=5 {
        mailbox.send(team, message("a", "b", &number.to_string())).await.unwrap();
    }
    let read = mailbox.read(team, "b").await.unwrap();
    let contents: Vec<&str> = read.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(contents, ["1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn s200_registering_twice_delivers_once_and_loses_nothing() {
    let (mailbox, team) = mailbox(&["a", "b"]).await;
    mailbox.send(team, message("a", "b", "before")).await.unwrap();
    mailbox.register(team, "b").await.unwrap();
    mailbox.send(team, message("a", BROADCAST, "after")).await.unwrap();
    assert_eq!(mailbox.read(team, "b").await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_messages_of_two_teams_never_meet() {
    let env = Env::simulated(1);
    let (mailbox, one, two): (_, RunId, RunId) = (MemoryMailbox::new(), env.id(), env.id());
    for team in [one, two] {
        mailbox.register(team, "b").await.unwrap();
    }
    mailbox.send(one, message("a", "b", "hi")).await.unwrap();
    assert!(mailbox.read(two, "b").await.unwrap().is_empty());
    mailbox.close(two).await.unwrap();
    assert_eq!(mailbox.read(one, "b").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_full_inbox_refuses_and_a_message_to_everybody_reaches_all_or_none() {
    let (mailbox, team) = mailbox(&["a", "b", "c"]).await;
    for _ in 0..INBOX_MESSAGES_MAX {
        mailbox.send(team, message("a", "b", "hi")).await.unwrap();
    }
    let full = MailError::Full { name: "b".into() };
    assert_eq!(full.kind(), ErrorKind::Exhausted);
    assert_eq!(mailbox.send(team, message("a", "b", "hi")).await, Err(full.clone()));
    assert_eq!(mailbox.send(team, message("a", BROADCAST, "hi")).await, Err(full));
    assert!(mailbox.read(team, "c").await.unwrap().is_empty());
    mailbox.unregister(team, "b").await.unwrap();
    mailbox.send(team, message("a", BROADCAST, "hi")).await.unwrap();
    let unknown = mailbox.send(team, message("a", "b", "hi")).await;
    assert_eq!(unknown, Err(MailError::Unknown("b".into())));
}

#[tokio::test]
async fn one_reading_gives_no_more_than_a_model_can_be_shown() {
    let (mailbox, team) = mailbox(&["a", "b"]).await;
    let long = "x".repeat(MESSAGE_BYTES_MAX - 2);
    for _ in 0..5 {
        mailbox.send(team, message("a", "b", &long)).await.unwrap();
    }
    let mut read = 0;
    loop {
        let messages = mailbox.read(team, "b").await.unwrap();
        if messages.is_empty() {
            break;
        }
        assert!(serde_json::to_vec(&messages).unwrap().len() <= READ_BYTES_MAX);
        read += messages.len();
    }
    assert_eq!(read, 5);
}
