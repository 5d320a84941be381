//! A team's book: a value that is changed by actions.

use std::time::Duration;

use provost_agent::team::{
    BoardError, BoardTaskStatus, LEAD, MemberOutcome, MemberStatus, NewBoardTask, TeamCommand,
    TeamError, TeamResponse, TeamState,
};
use provost_core::recovery::EffectKey;
use provost_core::{Env, ErrorKind, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn book() -> TeamState {
    TeamState::new("crew", 2)
}

fn join(book: &mut TeamState, name: &str) -> Result<TeamResponse, TeamError> {
    book.apply(TeamCommand::Join { name: name.into(), task: "work".into() }, NOW)
}

fn over(book: &mut TeamState, name: &str, end: MemberOutcome) -> TeamResponse {
    book.apply(TeamCommand::MemberFinished { name: name.into(), end }, NOW).unwrap()
}

fn create(book: &mut TeamState, title: &str) -> Result<TeamResponse, TeamError> {
    let (by, title) = ("anna".into(), title.into());
    let new = NewBoardTask { by, title, depends_on: Vec::new(), deadline: None };
    book.apply(TeamCommand::CreateTask(new), NOW)
}

fn claim(book: &mut TeamState, by: &str, at: Timestamp) -> Result<TeamResponse, TeamError> {
    book.apply(TeamCommand::Claim { by: by.into(), task: "board-1".into() }, at)
}

fn complete(book: &mut TeamState, by: &str, task: &str) -> Result<TeamResponse, TeamError> {
    let (by, task, result) = (by.into(), task.into(), "done".into());
    book.apply(TeamCommand::CompleteTask { by, task, result }, NOW)
}

fn error(done: Result<TeamResponse, TeamError>) -> ErrorKind {
    done.unwrap_err().kind()
}

#[test]
fn s201_a_new_task_has_id_title_creator_and_is_open() {
    let mut book = book();
    create(&mut book, "paint").unwrap();
    create(&mut book, "frame").unwrap();
    let tasks = book.board().tasks();
    let first = &tasks[0];
    assert_eq!((first.id.as_str(), first.title.as_str()), ("board-1", "paint"));
    assert_eq!((first.created_by.as_str(), first.status), ("anna", BoardTaskStatus::Open));
    assert_eq!((first.created_at, tasks[1].id.as_str()), (NOW, "board-2"));
}

#[test]
fn s202_claiming_sets_the_assignee_and_completing_the_result() {
    let mut book = book();
    create(&mut book, "paint").unwrap();
    claim(&mut book, "anna", NOW).unwrap();
    let task = &book.board().tasks()[0];
    assert_eq!((task.status, task.assignee.as_deref()), (BoardTaskStatus::Claimed, Some("anna")));
    complete(&mut book, "anna", "board-1").unwrap();
    let task = &book.board().tasks()[0];
    assert_eq!((task.status, task.result.as_deref()), (BoardTaskStatus::Completed, Some("done")));
}

#[test]
fn s203_what_the_board_does_not_allow_is_an_error() {
    let mut book = book();
    assert!(book.board().tasks().is_empty());
    assert_eq!(error(claim(&mut book, "anna", NOW)), ErrorKind::NotFound);
    assert_eq!(error(complete(&mut book, "anna", "board-1")), ErrorKind::NotFound);
    create(&mut book, "paint").unwrap();
    let unclaimed = TeamError::Board(BoardError::Unclaimed("board-1".into()));
    assert_eq!(complete(&mut book, "anna", "board-1"), Err(unclaimed));
    claim(&mut book, "anna", NOW).unwrap();
    assert_eq!(error(claim(&mut book, "bert", NOW)), ErrorKind::Conflict);
    assert_eq!(error(complete(&mut book, "bert", "board-1")), ErrorKind::Denied);
    complete(&mut book, "anna", "board-1").unwrap();
    assert_eq!(error(complete(&mut book, "anna", "board-1")), ErrorKind::Conflict);
    assert_eq!(error(claim(&mut book, "anna", NOW)), ErrorKind::Conflict);
}

#[test]
fn a_claim_that_has_not_kept_its_deadline_lapses() {
    let mut book = book();
    let deadline = Some(NOW.after(Duration::from_secs(30)));
    let (by, title) = (LEAD.to_owned(), "paint".to_owned());
    let new = NewBoardTask { by, title, depends_on: Vec::new(), deadline };
    book.apply(TeamCommand::CreateTask(new), NOW).unwrap();
    claim(&mut book, "anna", NOW).unwrap();
    assert_eq!(error(claim(&mut book, "bert", NOW)), ErrorKind::Conflict);
    let late = NOW.after(Duration::from_secs(31));
    assert!(book.board().tasks()[0].is_overdue(late));
    claim(&mut book, "bert", late).unwrap();
    assert_eq!(book.board().tasks()[0].assignee.as_deref(), Some("bert"));
}

#[test]
fn the_lead_may_give_back_what_somebody_else_has_claimed() {
    let mut book = book();
    create(&mut book, "paint").unwrap();
    claim(&mut book, "anna", NOW).unwrap();
    let unclaim = |by: &str| TeamCommand::Unclaim { by: by.into(), task: "board-1".into() };
    assert_eq!(error(book.apply(unclaim("bert"), NOW)), ErrorKind::Denied);
    book.apply(unclaim(LEAD), NOW).unwrap();
    assert_eq!(book.board().tasks()[0].status, BoardTaskStatus::Open);
    assert_eq!(error(book.apply(unclaim(LEAD), NOW)), ErrorKind::Conflict);
}

#[test]
fn s204_members_are_counted_and_neither_twice_nor_too_many() {
    let mut small = book();
    join(&mut small, "anna").unwrap();
    assert_eq!((small.active(), small.member("anna").unwrap().is_active()), (1, true));
    assert_eq!(join(&mut small, "anna"), Err(TeamError::NameInUse("anna".into())));
    join(&mut small, "bert").unwrap();
    assert_eq!(join(&mut small, "carl"), Err(TeamError::Full { max: 2 }));
    over(&mut small, "bert", MemberOutcome::Stopped(None));
    join(&mut small, "carl").unwrap();
    let mut any = TeamState::new("crew", 0);
    for number in 0..10 {
        join(&mut any, &format!("m{number}")).unwrap();
    }
    assert_eq!(any.active(), 10);
    for bad in ["", "a b", "a/b", LEAD, "*", &"x".repeat(65)] {
        assert_eq!(error(join(&mut any, bad)), ErrorKind::Invalid, "{bad}");
    }
}

#[test]
fn s205_an_end_sets_status_and_result_or_error_and_unknown_names_are_ignored() {
    let mut book = book();
    join(&mut book, "anna").unwrap();
    join(&mut book, "bert").unwrap();
    over(&mut book, "anna", MemberOutcome::Completed("a page".into()));
    over(&mut book, "bert", MemberOutcome::Failed("no ink".into()));
    let anna = book.member("anna").unwrap();
    assert_eq!((anna.status, anna.result.as_deref()), (MemberStatus::Completed, Some("a page")));
    let bert = book.member("bert").unwrap();
    assert_eq!((bert.status, bert.error.as_deref()), (MemberStatus::Failed, Some("no ink")));
    let before = book.clone();
    assert_eq!(over(&mut book, "nobody", MemberOutcome::Stopped(None)), TeamResponse::Acknowledged);
    assert_eq!(
        over(&mut book, "anna", MemberOutcome::Failed("late".into())),
        TeamResponse::Acknowledged
    );
    assert_eq!(book, before);
}

#[test]
fn s208_a_book_tells_its_members_its_name_and_its_size() {
    let mut book = book();
    join(&mut book, "anna").unwrap();
    join(&mut book, "bert").unwrap();
    over(&mut book, "anna", MemberOutcome::Stopped(None));
    let names: Vec<&str> = book.members().iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["anna", "bert"]);
    assert_eq!(book.member("carl"), None);
    assert_eq!((book.team(), book.max_size()), ("crew", 2));
}

#[test]
fn a_call_that_is_made_again_gets_the_reply_it_had() {
    let mut book = book();
    join(&mut book, "anna").unwrap();
    let key = EffectKey::new(Env::simulated(1).id(), 1, 0);
    let send = || TeamCommand::Send { from: LEAD.into(), to: "anna".into(), content: "hi".into() };
    let first = book.apply_idempotent(&key, send(), NOW).unwrap();
    assert_eq!(book.apply_idempotent(&key, send(), NOW).unwrap(), first);
    assert_eq!(book.unread_count("anna"), 1);
    let read = || TeamCommand::Read { by: "anna".into() };
    let messages = book.apply_idempotent(&key, read(), NOW).unwrap();
    assert!(matches!(&messages, TeamResponse::Messages { messages, .. } if messages.len() == 1));
    assert_eq!(book.apply_idempotent(&key, read(), NOW).unwrap(), messages);
    let kept: TeamState = serde_json::from_str(&serde_json::to_string(&book).unwrap()).unwrap();
    assert_eq!(kept, book);
    let mut kept = kept;
    assert_eq!(kept.apply_idempotent(&key, read(), NOW).unwrap(), messages);
}

#[test]
fn a_reading_that_gave_nothing_is_not_remembered() {
    let mut book = book();
    join(&mut book, "anna").unwrap();
    let key = EffectKey::new(Env::simulated(1).id(), 1, 0);
    let read = || TeamCommand::Read { by: LEAD.into() };
    let nothing = TeamResponse::Messages { messages: Vec::new(), left: 0 };
    assert_eq!(book.apply_idempotent(&key, read(), NOW).unwrap(), nothing);
    over(&mut book, "anna", MemberOutcome::Completed("x".repeat(100_000)));
    let reply = book.apply_idempotent(&key, read(), NOW).unwrap();
    let TeamResponse::Messages { messages, .. } = reply else { panic!() };
    assert!(messages[0].content.ends_with("[…]") && messages[0].content.len() < 17_000);
}
