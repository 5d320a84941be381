use provost_core::{Env, Message, StopReason, ToolCall, ToolResult, Usage};
use serde_json::json;

use super::*;

fn event(kind: EventKind) -> Event {
    let env = Env::simulated(1);
    Event {
        v: provost_core::EVENT_VERSION,
        run_id: env.id(),
        seq: 0,
        at: env.now(),
        agent: "a".into(),
        kind,
    }
}

fn text(text: &str) -> Event {
    event(EventKind::TextDelta { text: text.into() })
}

fn turn() -> Vec<Event> {
    let call = ToolCall::new("c1", "clock", &json!({}));
    let result = ToolResult::text(&call, "noon");
    vec![
        text("Let me "),
        text("look."),
        event(EventKind::TurnFinished {
            turn: 1,
            message: Message::assistant("Let me look.").into(),
            stop: StopReason::ToolUse,
            usage: Usage::default(),
        }),
        event(EventKind::ToolCallReady { call: call.into() }),
        event(EventKind::ToolFinished {
            result: result.into(),
            duration: std::time::Duration::from_millis(3),
        }),
        text("It is noon.\n"),
        event(EventKind::Cancelled),
    ]
}

fn print(events: &[Event], style: Style) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut printer = EventPrinter::new(&mut out, &mut err, style);
    for event in events {
        printer.event(event).unwrap();
    }
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn text_goes_out_and_everything_else_goes_aside() {
    let (out, err) = print(&turn(), Style::default());
    assert_eq!(out, "Let me look.\nIt is noon.\n");
    assert_eq!(err, "· clock {}\n  → clock: noon (3 ms)\n");
}

#[test]
fn colour_is_only_where_it_may_be() {
    let style = Style { stderr_color: true, ..Style::default() };
    let (out, err) = print(&turn(), style);
    assert!(!out.contains('\x1b'));
    assert!(err.contains("\x1b[2m· clock {}\x1b[0m"));
}

#[test]
fn a_model_cannot_steer_a_terminal_but_a_pipe_gets_every_byte() {
    let events = [text("a\x1b[2Jb\n")];
    let style = Style { stdout_tty: true, ..Style::default() };
    assert_eq!(print(&events, style).0, "a[2Jb\n");
    assert_eq!(print(&events, Style::default()).0, "a\x1b[2Jb\n");
}

#[test]
fn what_goes_aside_steers_nothing_wherever_it_goes() {
    let call = ToolCall::new("c1", "clo\x1bck", &json!({}));
    let result = ToolResult::text(&call, "a\x1b[2J\u{202e}b");
    let events = [event(EventKind::ToolFinished {
        result: result.into(),
        duration: std::time::Duration::ZERO,
    })];
    let (_, err) = print(&events, Style::default());
    assert_eq!(err, "  → clock: a[2Jb (0 ms)\n");
}

#[test]
fn json_lines_are_the_events() {
    let style = Style { is_json: true, ..Style::default() };
    let events = turn();
    let (out, err) = print(&events, style);
    let read: Vec<Event> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, events);
    assert_eq!(err, "");
}

#[test]
fn a_reader_that_is_gone_is_an_error_of_the_stream() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut printer = EventPrinter::new(Gone, Vec::new(), Style::default());
    let error = printer.event(&text("x")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}
