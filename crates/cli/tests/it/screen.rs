//! The chat on a real pseudo-terminal: the one part that a screen in memory cannot show.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::World;

/// How long anything may take before the test fails; nothing waits that long when all is well.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    /// The other side, kept open so that the terminal outlives the program and can be looked at.
    side: File,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(world: &World, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let side = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&side, size).unwrap();
        let stream = || Stdio::from(side.try_clone().unwrap());
        let child = world
            .command(args)
            .env("TERM", "xterm-256color")
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap();
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().unwrap();
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                if sender.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, side, shown, seen: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a word is drawn, and forgets what was drawn up to it. Spaces are not drawn where the screen was empty.
    fn expect(&mut self, word: &str) {
        loop {
            if let Some(place) = self.seen.find(word) {
                self.seen.drain(..place + word.len());
                return;
            }
            let piece = self.shown.recv_timeout(PATIENCE);
            assert!(piece.is_ok(), "no {word:?} in {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&piece.unwrap()));
        }
    }

    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.side).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

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
    terminal.expect("stopped");
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
    let id = terminal.child.id().to_string();
    let kill = std::process::Command::new("kill").arg(id).status();
    assert!(kill.unwrap().success());
    terminal.expect("\x1b[?1049l");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(130));
    assert!(terminal.is_cooked());
}

#[test]
fn run_asks_at_the_terminal() {
    let world = World::new();
    let mut terminal = Terminal::start(&world, &["run", "save a note: buy milk"]);
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
    let mut terminal = Terminal::start(&world, &["run", &prompt]);
    terminal.expect("allow save_note");
    terminal.expect("theend\"}? [y/N]");
    terminal.press("n\n");
    terminal.expect("not saved");
}
