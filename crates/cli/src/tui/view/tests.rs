use provost_core::{
    ApprovalRequest, ApprovalRequestKind, Env, ErrorInfo, ErrorKind, EventKind, ToolCall,
    ToolResult, Usage,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::super::app::{KeyAction, StatusInfo};
use super::*;

/// A chat on a screen in memory.
struct Stage {
    app: App,
    view: View,
    terminal: Terminal<TestBackend>,
}

impl Stage {
    fn new(width: u16, height: u16) -> Self {
        let status = StatusInfo { model: "demo".to_owned(), ..StatusInfo::default() };
        Self {
            app: App::new(status, "welcome".to_owned()),
            view: View::new(Theme::color()),
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
        }
    }

    fn key(&mut self, code: KeyCode) -> &mut Self {
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        self.app.update(KeyAction::Key(key));
        self
    }

    fn say(&mut self, text: &str) -> &mut Self {
        self.app.update(KeyAction::Paste(text.to_owned()));
        self.key(KeyCode::Enter)
    }

    fn run(&mut self, kind: EventKind) -> &mut Self {
        self.app.update(KeyAction::Run(kind));
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.run(EventKind::TextDelta { text: text.into() })
    }

    fn draw(&mut self) -> Vec<String> {
        for _ in 0..2 {
            let mut metrics = ViewMetrics::default();
            let (view, app) = (&mut self.view, &self.app);
            self.terminal.draw(|frame| metrics = view.draw(frame, app)).unwrap();
            self.app.update(KeyAction::Drawn(metrics));
        }
        let buffer = self.terminal.backend().buffer().clone();
        let (width, height) = (buffer.area.width, buffer.area.height);
        let row = |y| {
            let (mut row, mut x) = (String::new(), 0);
            while x < width {
                let symbol = buffer[(x, y)].symbol();
                row.push_str(symbol);
                // The cell behind a wide character belongs to it.
                x += u16::try_from(symbol.width().max(1)).unwrap();
            }
            row.trim_end().to_owned()
        };
        (0..height).map(row).collect()
    }

    fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        self.terminal.backend_mut().resize(width, height);
        self
    }
}

fn call() -> ToolCall {
    ToolCall::new("c1", "calculator", &json!({ "expression": "6 * 7" }))
}

fn with_tool(stage: &mut Stage) {
    stage.say("what is 6*7?");
    stage.run(EventKind::ToolCallReady { call: call().into() });
    stage.run(EventKind::ToolFinished {
        result: ToolResult::text(&call(), "42").into(),
        duration: Duration::from_millis(3),
    });
    stage.text("It is **42**.");
}

#[test]
fn a_turn_is_on_the_screen() {
    let mut stage = Stage::new(50, 12);
    with_tool(&mut stage);
    stage.app.update(KeyAction::Tick(Duration::from_millis(1200)));
    stage.app.usage = Usage::new(12_345, 67);
    assert_eq!(
        stage.draw(),
        [
            "welcome",
            "",
            "› what is 6*7?",
            "",
            "● calculator ▸ 6 * 7 → 42",
            "",
            "It is 42.",
            "",
            "",
            "──────────────────────────────────────────────────",
            "›",
            "⠹ 1.2 s · Ctrl-C cancels      demo · 12k in 67 out",
        ]
    );
}

#[test]
fn a_tool_call_folds_open_and_shut() {
    let mut stage = Stage::new(40, 14);
    with_tool(&mut stage);
    let shut = stage.draw();
    stage.key(KeyCode::Tab).key(KeyCode::Enter);
    let open = stage.draw();
    assert_eq!(open[4], "● calculator ▾ 6 * 7");
    assert_eq!(open[5], "  │ expression: 6 * 7");
    assert_eq!(open[6], "  → 42");
    stage.key(KeyCode::Enter).key(KeyCode::Esc);
    assert_eq!(stage.draw(), shut);
    let ctrl_o = KeyEvent::new(KeyCode::Char('o'), KeyModifiers::CONTROL);
    stage.app.update(KeyAction::Key(ctrl_o));
    assert_eq!(stage.draw()[5], open[5]);
}

#[test]
fn a_question_shows_what_it_is_about_and_the_keys() {
    let mut stage = Stage::new(50, 12);
    stage.say("save it");
    let call = ToolCall::new("c1", "save_note", &json!({ "name": "milk", "text": "buy" }));
    let request = ApprovalRequest {
        id: Env::simulated(1).id(),
        kind: ApprovalRequestKind::Call,
        call,
        hint: Some("it writes a file".to_owned()),
        payload: None,
        policy_revision: None,
        approvers: None,
    };
    stage.run(EventKind::ApprovalNeeded { request: request.into() });
    let rows = stage.draw();
    assert!(rows[4].starts_with("? save_note"), "{rows:#?}");
    assert_eq!(rows[5], "  │ name: milk");
    assert_eq!(rows[6], "  │ text: buy");
    assert_eq!(rows[7], "  │ it writes a file");
    assert_eq!(rows[9], "allow save_note?");
    assert_eq!(rows[10], "›");
    assert!(rows[11].starts_with("waiting for approval"));
    // Letters go to the box at first, and a full box says why they do not answer.
    let rows = stage.key(KeyCode::Char('n')).draw();
    assert_eq!(rows[9], "allow save_note? clear the input to decide");
    assert_eq!(rows[10], "› n");
    stage.key(KeyCode::Backspace).draw();
    stage.app.update(KeyAction::Tick(Duration::from_secs(1)));
    assert_eq!(stage.draw()[9], "allow save_note? y yes · n no · a always");
    stage.key(KeyCode::Char('n'));
    let rows = stage.draw();
    assert!(rows[4].starts_with("✗ save_note"), "{rows:#?}");
    assert_eq!(rows[10], "›");
}

#[test]
fn a_long_question_is_shown_to_its_end() {
    let mut stage = Stage::new(50, 12);
    stage.say("save it");
    let text: String = (0..500).map(|n| format!("line {n}\n")).collect();
    let request = ApprovalRequest {
        id: Env::simulated(1).id(),
        kind: ApprovalRequestKind::Call,
        call: ToolCall::new("c1", "save_note", &json!({ "text": text + "the end" })),
        hint: None,
        payload: None,
        policy_revision: None,
        approvers: None,
    };
    stage.run(EventKind::ApprovalNeeded { request: request.into() });
    let rows = stage.draw();
    assert_eq!(rows[7], "  │ the end", "{rows:#?}");
}

#[test]
fn a_question_that_has_no_room_cannot_be_answered() {
    let mut stage = Stage::new(50, 2);
    stage.say("save it");
    let request = ApprovalRequest {
        id: Env::simulated(1).id(),
        kind: ApprovalRequestKind::Call,
        call: ToolCall::new("c1", "save_note", &json!({})),
        hint: None,
        payload: None,
        policy_revision: None,
        approvers: None,
    };
    stage.run(EventKind::ApprovalNeeded { request: request.into() });
    for (height, waiting) in [(2, 1), (3, 0)] {
        stage.resize(50, height).draw();
        stage.app.update(KeyAction::Tick(stage.app.now + Duration::from_secs(1)));
        stage.key(KeyCode::Char('y'));
        stage.app.input.clear();
        assert_eq!(stage.app.approvals.len(), waiting, "{height} rows");
    }
}

#[test]
fn an_error_comes_with_its_fix() {
    let mut stage = Stage::new(60, 12);
    stage.say("go");
    let error = ErrorInfo::new(ErrorKind::Unauthenticated, "auth", "the key is wrong");
    stage.run(EventKind::Failed { error: error.into() });
    let rows = stage.draw();
    assert_eq!(rows[4], "✗ the key is wrong");
    assert!(rows[5].starts_with("→ check the key"), "{rows:#?}");
}

#[test]
fn the_screen_can_be_resized_down_to_nothing() {
    let mut stage = Stage::new(60, 16);
    with_tool(&mut stage);
    stage.text("\n\n# Title\n\n- 日本語 and more text that wraps\n\n```\ncode\n```\n");
    stage.draw();
    for (width, height) in [(10, 10), (1, 1), (3, 2), (2, 30), (200, 3), (60, 16)] {
        let rows = stage.resize(width, height).draw();
        assert_eq!(rows.len(), usize::from(height));
    }
    let rows = stage.resize(10, 30).draw();
    assert!(rows.iter().any(|row| row.contains("日本語")), "{rows:#?}");
    assert!(rows.iter().all(|row| row.width() <= 10));
}

#[test]
fn a_long_transcript_scrolls_and_follows_again() {
    let mut stage = Stage::new(20, 8);
    stage.say("go");
    let lines: String = (0..50).map(|n| format!("line{n}\n\n")).collect();
    stage.text(&lines);
    let rows = stage.draw();
    assert_eq!(rows[4], "line49");
    stage.key(KeyCode::PageUp);
    let back = stage.draw();
    assert!(!back.contains(&"line49".to_owned()), "{back:#?}");
    assert!(back[5].contains("PgDn"));
    // New text does not move what is being read.
    stage.text("\n\nnewest");
    assert_eq!(stage.draw()[..5], back[..5]);
    for _ in 0..3 {
        stage.key(KeyCode::PageDown);
        stage.draw();
    }
    assert_eq!(stage.draw()[4], "newest");
}

#[test]
fn the_box_grows_with_a_paste_up_to_a_bound_and_keeps_the_cursor() {
    let mut stage = Stage::new(20, 20);
    let pasted: Vec<String> = (0..12).map(|n| format!("row {n}")).collect();
    stage.app.update(KeyAction::Paste(pasted.join("\n")));
    let rows = stage.draw();
    assert_eq!(rows[18], "  row 11");
    assert_eq!(rows[11], "  row 4");
    let cursor = stage.terminal.get_cursor_position().unwrap();
    assert_eq!((cursor.x, cursor.y), (8, 18));
}

#[test]
fn the_cursor_stands_behind_wide_characters() {
    let mut stage = Stage::new(20, 6);
    stage.app.update(KeyAction::Paste("日本".to_owned()));
    assert_eq!(stage.draw()[4], "› 日本");
    let cursor = stage.terminal.get_cursor_position().unwrap();
    assert_eq!((cursor.x, cursor.y), (6, 4));
}

#[test]
fn only_what_changed_is_rendered_again() {
    let mut stage = Stage::new(40, 12);
    with_tool(&mut stage);
    stage.draw();
    let revisions = |stage: &Stage| {
        let mut all: Vec<(u64, u64)> =
            stage.view.cache.iter().map(|(id, cached)| (*id, cached.revision)).collect();
        all.sort_unstable();
        all
    };
    let before = revisions(&stage);
    stage.text(" More.");
    stage.draw();
    let after = revisions(&stage);
    assert_eq!(before[..before.len() - 1], after[..after.len() - 1]);
    assert_ne!(before.last(), after.last());
}

#[test]
fn a_message_in_waiting_is_shown_above_the_box() {
    let mut stage = Stage::new(30, 10);
    stage.say("one").say("two\nlines");
    let rows = stage.draw();
    assert_eq!(rows[6], "… two lines");
}

#[test]
fn thoughts_are_one_line_until_they_are_opened() {
    let mut stage = Stage::new(30, 12);
    stage.say("go");
    let text = "first thought\nsecond thought that is long".to_owned();
    stage.run(EventKind::ReasoningDelta { text });
    let rows = stage.draw();
    assert!(rows[4].starts_with("∴ thought: first thought"), "{rows:#?}");
    assert_eq!(rows[5], "");
    stage.key(KeyCode::Tab).key(KeyCode::Enter);
    let rows = stage.draw();
    assert_eq!(rows[4], "│ first thought");
}

#[test]
fn nothing_that_is_said_can_steer_the_terminal() {
    let evil = "\x1b[2J\x1b]0;title\x07";
    let mut stage = Stage::new(40, 20);
    stage.say("go").text(evil);
    let call = ToolCall::new("c1", evil, &json!({ "x": evil }));
    let result = ToolResult::text(&call, evil);
    stage.run(EventKind::ToolCallReady { call: call.into() });
    let duration = Duration::ZERO;
    stage.run(EventKind::ToolFinished { result: result.into(), duration });
    stage.key(KeyCode::Tab).key(KeyCode::Enter).draw();
    let buffer = stage.terminal.backend().buffer();
    let steers = |cell: &ratatui::buffer::Cell| cell.symbol().contains(char::is_control);
    assert!(!buffer.content().iter().any(steers));
}
