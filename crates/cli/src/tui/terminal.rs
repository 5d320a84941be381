//! The terminal while the chat has it, and giving it back whatever happens.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

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
/// True while the chat has the terminal.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
/// What the last panic said while the chat had the terminal.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// The terminal in raw mode on its second screen. Dropping it gives the terminal back.
pub(crate) struct Screen {
    /// What is drawn on.
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    pub(crate) fn open(has_mouse: bool) -> io::Result<Self> {
        PANIC_HOOK.call_once(|| {
            let before = std::panic::take_hook();
            // A tool that panics is caught and the chat goes on: its message must not spoil the screen. A panic of the chat
            // itself is told once the terminal is given back.
            std::panic::set_hook(Box::new(move |info| {
                if IS_OPEN.load(Ordering::SeqCst) {
                    let mut last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
                    *last = info.to_string();
                } else {
                    before(info);
                }
            }));
        });
        IS_OPEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        // From here on an error must give the terminal back as well.
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
            let last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(io::stderr(), "{}", printable(&last)).ok();
        }
    }
}

/// Gives the terminal back; safe to call twice. Nothing can be done about an error here.
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
