//! The chat on a terminal: a pure state machine, a view, and a thin loop that acts.
//!
//! [`app`] decides, [`view`] draws, [`event_loop`] is the only part that touches the terminal, the agent and files.

mod app;
mod entry_view;
mod event_loop;
mod input;
mod key;
mod markdown;
mod slash;
mod terminal;
mod theme;
mod transcript;
mod view;
mod wrap;

pub(crate) use self::event_loop::{ChatOptions, run};
pub(crate) use self::slash::{Slash, parse as parse_slash};
pub(crate) use self::terminal::Screen;
pub(crate) use self::theme::Theme;
