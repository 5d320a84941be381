use provost_core::{ApprovalRequestKind, ContentPart, Env, ErrorInfo, Role, StopReason, ToolCall};
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use serde_json::json;

use super::*;
use crate::error::tests::summary;

fn app() -> App {
    let status = StatusInfo {
        model: "demo".to_owned(),
        tools: vec![("clock".to_owned(), "tells the time".to_owned())],
        approves_all: false,
    };
    App::new(status, "welcome".to_owned())
}

fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    app.update(KeyAction::Key(KeyEvent::new(code, modifiers)))
}

fn send(app: &mut App, text: &str) -> Vec<Effect> {
    for typed in text.chars() {
        press(app, KeyCode::Char(typed), KeyModifiers::NONE);
    }
    press(app, KeyCode::Enter, KeyModifiers::NONE)
}

fn ctrl(app: &mut App, key: char) -> Vec<Effect> {
    press(app, KeyCode::Char(key), KeyModifiers::CONTROL)
}

fn run(app: &mut App, kind: EventKind) -> Vec<Effect> {
    app.update(KeyAction::Run(kind))
}

fn request(env: &Env, call_id: &str, tool: &str) -> ApprovalRequest {
    ApprovalRequest {
        id: env.id(),
        kind: ApprovalRequestKind::Call,
        call: ToolCall::new(call_id, tool, &json!({ "name": "x" })),
        hint: None,
        payload: None,
        policy_revision: None,
        approvers: None,
    }
}

/// A question comes, is drawn, and has been there long enough.
fn ask(app: &mut App, asked: &[ApprovalRequest]) {
    for request in asked {
        run(app, EventKind::ApprovalNeeded { request: request.clone().into() });
    }
    let wait = app.now + DECISION_DELAY;
    draw(app);
    app.update(KeyAction::Tick(wait));
}

#[test]
fn a_question_in_words_is_answered_by_what_is_typed() {
    let env = Env::simulated(1);
    let mut app = app();
    app.status.approves_all = true;
    send(&mut app, "hi");
    let request = request(&env, "c1", "ask_user");
    app.update(KeyAction::AnswerIsText(request.id));
    ask(&mut app, std::slice::from_ref(&request));
    assert!(!app.accepts_decision() && app.wants_text());
    // A letter that answers other questions is a letter here.
    assert_eq!(send(&mut app, "yes"), [Effect::Reply(request.id, "yes".to_owned())]);
    assert!(app.approvals.is_empty() && app.queued.is_empty());
}

fn draw(app: &mut App) {
    let shows_approval = !app.approvals.is_empty();
    app.update(KeyAction::Drawn(ViewMetrics { shows_approval, ..ViewMetrics::default() }));
}

fn last(app: &App) -> String {
    match &app.transcript.entries().last().unwrap().body {
        EntryBody::Notice(text) | EntryBody::User(text) | EntryBody::Answer(text) => text.clone(),
        EntryBody::Error(problem) => problem.message.clone(),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_message_begins_a_run_and_more_text_steers_it() {
    let mut app = app();
    assert_eq!(send(&mut app, "hello"), [Effect::Start("hello".into())]);
    let message = Arc::new(Message::user("hello"));
    run(&mut app, EventKind::UserMessage { message });
    assert_eq!(app.transcript.entries().len(), 2);

    assert_eq!(send(&mut app, "and this"), [Effect::Steer("and this".into())]);
    assert_eq!(app.queued.len(), 1);
    let message = Arc::new(Message::user("and this"));
    run(&mut app, EventKind::UserMessage { message });
    assert!(app.queued.is_empty());
    assert_eq!(last(&app), "and this");
}

#[test]
fn what_a_run_did_not_hear_is_answered_by_the_next_one() {
    let mut app = app();
    send(&mut app, "one");
    send(&mut app, "two");
    let error = ErrorInfo::new(ErrorKind::Unavailable, "overloaded", "it is down");
    let effects = run(&mut app, EventKind::Failed { error: error.into() });
    assert_eq!(effects, [Effect::ContinueRun("two".into())]);
    assert!(app.running.is_some());
    // It waits until the next run begins with it.
    assert_eq!(app.queued, ["two"]);
    run(&mut app, EventKind::UserMessage { message: Arc::new(Message::user("two")) });
    assert!(app.queued.is_empty());
    assert_eq!(last(&app), "two");
}

#[test]
fn a_message_that_did_not_get_through_is_in_the_box_again() {
    let mut app = app();
    send(&mut app, "one");
    let problem = CliError::new(ErrorKind::Unavailable, "the database is busy");
    app.update(KeyAction::NotStarted("one".into(), problem));
    assert!(app.running.is_none());
    assert_eq!(app.input.text(), "one");
    assert_eq!(last(&app), "the database is busy");
    app.input.clear();
    send(&mut app, "two");
    send(&mut app, "three");
    run(&mut app, EventKind::Cancelled);
    app.update(KeyAction::InputNotDelivered("three".into()));
    assert!(app.running.is_none() && app.queued.is_empty());
    assert_eq!(app.input.text(), "three");
}

#[test]
fn a_turn_that_was_begun_elsewhere_is_shown_from_its_message_on() {
    let mut app = app();
    app.update(KeyAction::Follow);
    assert!(app.running.is_some());
    run(&mut app, EventKind::UserMessage { message: Arc::new(Message::user("hello")) });
    assert_eq!(last(&app), "hello");
    run(&mut app, EventKind::TextDelta { text: "Hi!".into() });
    assert_eq!(ctrl(&mut app, 'c'), [Effect::Cancel]);
    run(&mut app, EventKind::Cancelled);
    assert!(app.running.is_none());
}

#[test]
fn ctrl_c_stops_the_turn_and_not_the_program() {
    let mut app = app();
    send(&mut app, "one");
    send(&mut app, "two");
    assert_eq!(ctrl(&mut app, 'c'), [Effect::Cancel]);
    assert_eq!(ctrl(&mut app, 'c'), [Effect::Detach]);
    assert_eq!(run(&mut app, EventKind::Cancelled), []);
    // What was not heard comes back into the box instead of being sent.
    assert_eq!(app.input.text(), "two");
    assert!(app.running.is_none());

    assert_eq!(ctrl(&mut app, 'c'), []);
    assert!(app.input.is_empty());
    assert_eq!(ctrl(&mut app, 'c'), []);
    assert!(app.is_quit_armed);
    press(&mut app, KeyCode::Left, KeyModifiers::NONE);
    assert!(!app.is_quit_armed);
    ctrl(&mut app, 'c');
    assert_eq!(ctrl(&mut app, 'c'), [Effect::Quit]);
}

#[test]
fn ctrl_d_leaves_only_an_empty_box() {
    let mut app = app();
    app.update(KeyAction::Paste("ab".to_owned()));
    press(&mut app, KeyCode::Home, KeyModifiers::NONE);
    assert_eq!(ctrl(&mut app, 'd'), []);
    assert_eq!(app.input.text(), "b");
    ctrl(&mut app, 'd');
    assert_eq!(ctrl(&mut app, 'd'), [Effect::Quit]);
}

#[test]
fn questions_are_answered_in_order_with_one_key() {
    let env = Env::simulated(1);
    let mut app = app();
    send(&mut app, "go");
    let (first, second) = (request(&env, "c1", "save"), request(&env, "c2", "other"));
    ask(&mut app, &[first.clone(), second.clone()]);
    let effects = press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE);
    assert_eq!(effects, [Effect::Decide(first.id, ApprovalDecision::Approve)]);
    // The next question is seen first, too.
    draw(&mut app);
    app.update(KeyAction::Tick(app.now + DECISION_DELAY));
    let effects = press(&mut app, KeyCode::Char('N'), KeyModifiers::SHIFT);
    let reason = "the user denied the call".to_owned();
    let deny = ApprovalDecision::Deny { reason };
    assert_eq!(effects, [Effect::Decide(second.id, deny)]);
    assert!(app.approvals.is_empty());
}

#[test]
fn a_key_with_control_or_alt_is_no_answer() {
    let env = Env::simulated(3);
    let mut app = app();
    send(&mut app, "go");
    ask(&mut app, &[request(&env, "c1", "save")]);
    for modifiers in [
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
        KeyModifiers::SUPER,
        KeyModifiers::CONTROL | KeyModifiers::SHIFT,
    ] {
        for key in ['y', 'Y', 'a', 'A', 'n', 'N'] {
            assert_eq!(press(&mut app, KeyCode::Char(key), modifiers), [], "{modifiers} {key}");
        }
        assert_eq!(press(&mut app, KeyCode::Esc, modifiers), []);
        app.input.clear();
    }
    assert_eq!(app.approvals.len(), 1);
}

#[test]
fn what_is_being_typed_answers_nothing() {
    let env = Env::simulated(4);
    let mut app = app();
    send(&mut app, "go");
    app.update(KeyAction::Paste("m".to_owned()));
    let asked = request(&env, "c1", "save");
    ask(&mut app, std::slice::from_ref(&asked));
    // The question stays, and the letters are letters.
    for key in ['a', 'n', 'y'] {
        assert_eq!(press(&mut app, KeyCode::Char(key), KeyModifiers::NONE), []);
        draw(&mut app);
    }
    assert_eq!(press(&mut app, KeyCode::Esc, KeyModifiers::NONE), []);
    assert_eq!(app.input.text(), "many");
    assert_eq!(press(&mut app, KeyCode::Enter, KeyModifiers::NONE), [Effect::Steer("many".into())]);
    // The box is empty again, and whoever types on means the box.
    draw(&mut app);
    assert_eq!(press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE), []);
    assert_eq!(app.input.text(), "y");
    draw(&mut app);
    press(&mut app, KeyCode::Backspace, KeyModifiers::NONE);
    draw(&mut app);
    app.update(KeyAction::Tick(app.now + DECISION_DELAY));
    let effects = press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE);
    assert_eq!(effects, [Effect::Decide(asked.id, ApprovalDecision::Approve)]);
}

#[test]
fn a_question_is_seen_before_a_key_answers_it() {
    let env = Env::simulated(5);
    let mut app = app();
    send(&mut app, "go");
    let (first, second) = (request(&env, "c1", "save"), request(&env, "c2", "save"));
    for request in [&first, &second] {
        run(&mut app, EventKind::ApprovalNeeded { request: request.clone().into() });
    }
    let yes = |app: &mut App| {
        let effects = press(app, KeyCode::Char('y'), KeyModifiers::NONE);
        app.input.clear();
        effects
    };
    // Not drawn at all, however long it waits.
    app.update(KeyAction::Tick(Duration::from_secs(5)));
    assert_eq!(yes(&mut app), []);
    // Drawn, but not on the screen, which is too small for it.
    app.update(KeyAction::Drawn(ViewMetrics::default()));
    app.update(KeyAction::Tick(Duration::from_secs(6)));
    assert_eq!(yes(&mut app), []);
    draw(&mut app);
    app.update(KeyAction::Tick(Duration::from_millis(6499)));
    assert_eq!(yes(&mut app), []);
    app.update(KeyAction::Tick(Duration::from_millis(6500)));
    let approve = |request: &ApprovalRequest| Effect::Decide(request.id, ApprovalDecision::Approve);
    assert_eq!(yes(&mut app), [approve(&first)]);
    // A key held down does not answer the next one.
    draw(&mut app);
    assert_eq!(yes(&mut app), []);
    assert_eq!(app.approvals.len(), 1);
}

#[test]
fn always_answers_waiting_and_later_questions_of_that_tool_only() {
    let env = Env::simulated(2);
    let mut app = app();
    send(&mut app, "go");
    let asked: Vec<_> = [("c1", "save"), ("c2", "other"), ("c3", "save")]
        .map(|(id, tool)| request(&env, id, tool))
        .into();
    ask(&mut app, &asked);
    let effects = press(&mut app, KeyCode::Char('a'), KeyModifiers::NONE);
    let approve = |index: usize| Effect::Decide(asked[index].id, ApprovalDecision::Approve);
    assert_eq!(effects, [approve(0), approve(2)]);
    assert_eq!(app.approvals.len(), 1);
    let later = request(&env, "c4", "save");
    let id = later.id;
    let effects = run(&mut app, EventKind::ApprovalNeeded { request: later.into() });
    assert_eq!(effects, [Effect::Decide(id, ApprovalDecision::Approve)]);
}

#[test]
fn slash_commands_do_what_they_say() {
    let mut app = app();
    assert_eq!(send(&mut app, "/quit"), [Effect::Quit]);
    send(&mut app, "/help");
    assert!(last(&app).contains("/save [file]"));
    send(&mut app, "/tools");
    assert!(last(&app).contains("`clock`: tells the time"));
    send(&mut app, "/model");
    assert!(last(&app).contains("`demo`"));
    assert_eq!(send(&mut app, "/model openai/x"), [Effect::Model("openai/x".into())]);
    app.update(KeyAction::Model("openai/x".to_owned()));
    assert_eq!(app.status.model, "openai/x");
    send(&mut app, "/nope");
    assert_eq!(last(&app), "there is no command /nope");
    assert_eq!(send(&mut app, "/clear"), [Effect::StartConversation, Effect::Redraw]);
    app.update(KeyAction::NewConversation);
    assert_eq!(app.transcript.entries().len(), 1);
    let effects = send(&mut app, "/save out.md");
    assert!(matches!(&effects[..], [Effect::Save(Some(file), _)] if file == "out.md"));
    // While a turn runs the model and the conversation stay.
    send(&mut app, "go");
    assert_eq!(send(&mut app, "/model demo"), []);
    assert_eq!(last(&app), "not while a run is active");
}

#[test]
fn the_saved_text_holds_what_was_said_and_done() {
    let mut app = app();
    send(&mut app, "what time is it?");
    let call = ToolCall::new("c1", "clock", &json!({}));
    let result = provost_core::ToolResult::text(&call, "noon ``` noon");
    run(&mut app, EventKind::ToolCallReady { call: call.into() });
    let duration = Duration::ZERO;
    run(&mut app, EventKind::ToolFinished { result: result.into(), duration });
    run(&mut app, EventKind::TextDelta { text: "Noon.".into() });
    let text = app.transcript.to_markdown();
    assert!(text.contains("## You\n\nwhat time is it?\n"), "{text}");
    assert!(text.contains("- tool `clock` {}\n\n````\nnoon ``` noon\n````"), "{text}");
    assert!(text.contains("## Provost\n\nNoon.\n"), "{text}");
}

#[test]
fn tokens_add_up_and_a_lost_stream_is_told() {
    let mut app = app();
    send(&mut app, "go");
    for turn in 1..=2 {
        let kind = EventKind::TurnFinished {
            turn,
            message: Message::assistant("x").into(),
            stop: StopReason::EndTurn,
            usage: Usage::new(10, 5),
        };
        run(&mut app, kind);
    }
    assert_eq!(app.usage, Usage::new(20, 10));
    app.update(KeyAction::RunEnded);
    assert_eq!(last(&app), "the run ended without a result");
    assert!(app.running.is_none());
}

#[test]
fn an_answer_that_lacks_something_says_so() {
    let finished = |app: &mut App, stop, text: &str| {
        send(app, "go");
        let summary = summary(stop, text);
        run(app, EventKind::Finished { summary: Box::new(summary) });
        last(app)
    };
    let mut app = app();
    assert!(finished(&mut app, StopReason::MaxTokens, "Hel").contains("cut off"));
    assert!(finished(&mut app, StopReason::EndTurn, " ").contains("empty answer"));
    assert!(finished(&mut app, StopReason::ContentFilter, "").contains("content filter"));
    assert!(finished(&mut app, StopReason::Refusal, "No.").contains("declined"));
    assert_eq!(finished(&mut app, StopReason::EndTurn, "Hello"), "go");
}

#[test]
fn equal_call_ids_of_two_runs_are_two_calls() {
    let at = Env::simulated(6).now();
    let turn = |result: &str| {
        let call = ToolCall::new("call_0", "clock", &json!({}));
        let result = provost_core::ToolResult::text(&call, result);
        [
            Message::user("what time is it?"),
            Message::new(Role::Assistant, vec![ContentPart::ToolCall(call)], at),
            Message::new(Role::Tool, vec![ContentPart::ToolResult(result)], at),
        ]
    };
    let history = [turn("noon"), turn("one")].into_iter().flatten().map(Arc::new).collect();
    let mut app = app();
    app.update(KeyAction::History(history));
    let results: Vec<&str> = app
        .transcript
        .entries()
        .iter()
        .filter_map(|entry| match &entry.body {
            EntryBody::Tool(tool) => Some(tool.result.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["noon", "one"]);
}

#[test]
fn a_call_that_never_ended_is_shown_as_stopped() {
    let mut app = app();
    send(&mut app, "go");
    let call = ToolCall::new("c1", "clock", &json!({}));
    run(&mut app, EventKind::ToolCallReady { call: call.into() });
    run(&mut app, EventKind::Cancelled);
    let stopped = app.transcript.entries().iter().any(|entry| {
        matches!(&entry.body, EntryBody::Tool(tool)
            if tool.state == super::super::transcript::ToolCallState::Cancelled)
    });
    assert!(stopped);
}
