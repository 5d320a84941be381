//! Takes over the terminal for the chat and restores it, also after a panic.

use std::io::{self, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

use crate::render::output::printable;

static PANIC_HOOK: Once = Once::new();
/// True while the chat uses the terminal.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
/// Message of the last panic while the chat used the terminal.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Terminal in raw mode on the alternate screen. Dropping it restores the terminal.
pub(crate) struct Screen {
    /// Terminal to draw on.
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes over the terminal.
    pub(crate) fn open(has_mouse: bool) -> io::Result<Self> {
        PANIC_HOOK.call_once(|| {
            let before = std::panic::take_hook();
            // The message of a panic must not overwrite the screen. A panic of a tool is caught, and the message of a
            // panic of the chat is printed after the terminal was restored.
            std::panic::set_hook(Box::new(move |info| {
                if IS_OPEN.load(Ordering::SeqCst) {
                    let mut last = LAST_PANIC.lock();
                    *last = info.to_string();
                } else {
                    before(info);
                }
            }));
        });
        IS_OPEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        // Every later error must restore the terminal.
        let open = || -> io::Result<Self> {
            execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
            if has_mouse {
                execute!(io::stdout(), EnableMouseCapture)?;
            }
            let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
            Ok(Self { terminal })
        };
        open().inspect_err(|_| restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
        if std::thread::panicking() {
            let last = LAST_PANIC.lock();
            writeln!(io::stderr(), "{}", printable(&last)).ok();
        }
    }
}

/// Restores the terminal. Safe to call twice. Errors are ignored, because they cannot be reported.
fn restore() {
    execute!(
        io::stdout(),
        DisableMouseCapture,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    )
    .ok();
    disable_raw_mode().ok();
    IS_OPEN.store(false, Ordering::SeqCst);
    io::stdout().flush().ok();
}
