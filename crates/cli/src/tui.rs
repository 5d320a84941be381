//! The terminal interface of the chat: a pure state machine, a view, and a loop that performs effects.
//!
//! [`app`] holds the state, [`view`] draws it, and only [`event_loop`] accesses the terminal, the agent and files.

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
pub(crate) use self::slash::{SlashCommand, parse as parse_slash};
pub(crate) use self::terminal::Screen;
pub(crate) use self::theme::Theme;
