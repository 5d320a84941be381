//! A program on a pseudo-terminal of its own.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::World;

/// How long anything may take before the test fails; nothing waits that long when all is well.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of the last pictures that a failed test shows.
const SHOWN_BYTES_MAX: usize = 4096;

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    /// Nothing once the terminal was closed.
    keyboard: Option<File>,
    /// Closing it ends the reader.
    open: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
    /// The other side, kept open so that the terminal outlives the program and can be looked at.
    side: File,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
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
        let (closed, open) = std::io::pipe().unwrap();
        let (sender, shown) = channel();
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while is_readable(&screen, &closed) {
                let Ok(length @ 1..) = screen.read(&mut piece) else { return };
                if sender.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let (keyboard, open, reader) = (Some(keyboard), Some(open), Some(reader));
        Self { child, keyboard, open, reader, side, shown, seen: String::new() }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a word is drawn, and forgets what was drawn up to it. Spaces are not drawn where the screen was empty.
    pub(crate) fn expect(&mut self, word: &str) {
        let begun = Instant::now();
        loop {
            if let Some(place) = self.seen.find(word) {
                self.seen.drain(..place + word.len());
                return;
            }
            // A screen that moves is never silent: what counts is the time in all.
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let piece = self.shown.recv_timeout(left);
            let end =
                self.seen.floor_char_boundary(self.seen.len().saturating_sub(SHOWN_BYTES_MAX));
            assert!(piece.is_ok(), "no {word:?} in {:?}", &self.seen[end..]);
            self.seen.push_str(&String::from_utf8_lossy(&piece.unwrap()));
        }
    }

    /// Kills the program as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the terminal as a window is closed: nothing can be read or written any more, and the program is told.
    pub(crate) fn hang_up(&mut self) {
        self.keyboard = None;
        self.open = None;
        self.reader.take().unwrap().join().unwrap();
        self.signal("-HUP");
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        crate::signal(&self.child, name);
    }

    pub(crate) fn is_cooked(&self) -> bool {
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

/// Waits until there is something to read; false once the terminal was closed.
fn is_readable(screen: &File, closed: &PipeReader) -> bool {
    let mut waited = [PollFd::new(screen, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
    poll(&mut waited, None).unwrap();
    waited[1].revents().is_empty()
}
