//! Styles of the terminal interface, with and without colors.

use ratatui::style::{Color, Modifier, Style};

/// One style for each role of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Messages of the user.
    pub(crate) user: Style,
    /// Notes.
    pub(crate) dim: Style,
    /// Code.
    pub(crate) code: Style,
    /// Headings.
    pub(crate) heading: Style,
    /// Links.
    pub(crate) link: Style,
    /// Names of tools and models.
    pub(crate) accent: Style,
    /// Success.
    pub(crate) ok: Style,
    /// States that wait for the user.
    pub(crate) warn: Style,
    /// Errors.
    pub(crate) error: Style,
    /// Selected entry.
    pub(crate) selected: Style,
}

impl Theme {
    /// Returns styles with the colors of the terminal's palette.
    pub(crate) fn color() -> Self {
        let fg = |color| Style::new().fg(color);
        Self {
            user: fg(Color::Cyan).add_modifier(Modifier::BOLD),
            dim: fg(Color::DarkGray),
            code: fg(Color::Yellow),
            heading: fg(Color::Blue).add_modifier(Modifier::BOLD),
            link: fg(Color::Blue).add_modifier(Modifier::UNDERLINED),
            accent: fg(Color::Magenta),
            ok: fg(Color::Green),
            warn: fg(Color::Yellow).add_modifier(Modifier::BOLD),
            error: fg(Color::Red),
            selected: Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// Returns styles without colors, which differ only in weight.
    pub(crate) fn mono() -> Self {
        let plain = Style::new();
        Self {
            user: plain.add_modifier(Modifier::BOLD),
            dim: plain.add_modifier(Modifier::DIM),
            code: plain,
            heading: plain.add_modifier(Modifier::BOLD),
            link: plain.add_modifier(Modifier::UNDERLINED),
            accent: plain.add_modifier(Modifier::BOLD),
            ok: plain,
            warn: plain.add_modifier(Modifier::BOLD),
            error: plain.add_modifier(Modifier::BOLD),
            selected: plain.add_modifier(Modifier::REVERSED),
        }
    }
}
