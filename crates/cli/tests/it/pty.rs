//! The chat on a real pseudo-terminal: the one part that a screen in memory cannot show.

use crate::World;
use crate::terminal::Terminal;

#[test]
fn a_chat_asks_stops_and_gives_the_terminal_back() {
    let world = World::new();
    let mut terminal = Terminal::start(&world, &["chat"]);
    terminal.expect("\x1b[?1049h");
    terminal.expect("/help");
    assert!(!terminal.is_cooked());

    // Ctrl-C at a question stops the turn and not the program.
    terminal.press("save a note: buy milk\r");
    terminal.expect("save_note?");
    terminal.press("\x03");
    terminal.expect("cancelled");
    assert!(!world.path().join("notes").exists());

    // A pasted message of two lines is one message.
    terminal.press("\x1b[200~save a note:\nbuy milk\x1b[201~\r");
    terminal.expect("save_note?");
    // The keys are shown once they answer.
    terminal.expect("always");
    terminal.press("y");
    terminal.expect("notes/buy-milk.txt");
    let note = std::fs::read_to_string(world.path().join("notes/buy-milk.txt"));
    assert_eq!(note.unwrap(), "buy milk");

    terminal.press("\x04");
    terminal.expect("\x1b[?1049l");
    assert!(terminal.child.wait().unwrap().success());
    assert!(terminal.is_cooked());
}

#[test]
fn a_terminated_chat_gives_the_terminal_back() {
    let world = World::new();
    let mut terminal = Terminal::start(&world, &["chat"]);
    terminal.expect("/help");
    terminal.signal("-TERM");
    terminal.expect("\x1b[?1049l");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(130));
    assert!(terminal.is_cooked());
}

#[test]
fn run_asks_at_the_terminal() {
    let world = World::new();
    let mut terminal = Terminal::start(&world, &["exec", "save a note: buy milk"]);
    terminal.expect("[y/N]");
    terminal.press("y\n");
    terminal.expect("saved notes/buy-milk.txt");
    assert!(terminal.child.wait().unwrap().success());
    assert!(world.path().join("notes/buy-milk.txt").exists());
}

#[test]
fn run_shows_all_of_what_it_asks_about() {
    let world = World::new();
    let prompt = format!("save a note: {}theend", "milk ".repeat(300));
    let mut terminal = Terminal::start(&world, &["exec", &prompt]);
    terminal.expect("allow save_note");
    terminal.expect("theend\"}? [y/N]");
    terminal.press("n\n");
    terminal.expect("not saved");
}
