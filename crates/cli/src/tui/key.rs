//! Key bindings.

use provost_core::ApprovalDecision;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Effect, Scroll};

impl App {
    /// Handles a key press.
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_ctrl && key.code == KeyCode::Char('c') {
            return self.interrupt();
        }
        self.is_quit_armed = false;
        if let Some(effects) = self.navigation_key(key, is_ctrl) {
            return effects;
        }
        if self.accepts_decision()
            && let Some(effects) = self.approval_key(key)
        {
            return effects;
        }
        self.edit_key(key, is_ctrl)
    }

    /// Handles Ctrl-C: cancels the run, or empties the input box, or ends the chat at the second press.
    fn interrupt(&mut self) -> Vec<Effect> {
        if let Some(running) = &mut self.running {
            if running.is_cancelling {
                return vec![Effect::Detach];
            }
            running.is_cancelling = true;
            self.approvals.clear();
            return vec![Effect::Cancel];
        }
        if !self.input.is_empty() {
            self.input.clear();
            return Vec::new();
        }
        if self.is_quit_armed {
            return vec![Effect::Quit];
        }
        self.is_quit_armed = true;
        Vec::new()
    }

    /// Handles keys that scroll and select, which work at any time. `None` for other keys.
    fn navigation_key(&mut self, key: KeyEvent, is_ctrl: bool) -> Option<Vec<Effect>> {
        let page = isize::try_from(self.metrics.height.saturating_sub(2).max(1)).unwrap_or(1);
        let is_shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::PageUp => self.scroll_by(-page),
            KeyCode::PageDown => self.scroll_by(page),
            KeyCode::Up if is_shift => self.scroll_by(-1),
            KeyCode::Down if is_shift => self.scroll_by(1),
            KeyCode::Home if is_ctrl => self.scroll = Scroll::At(0),
            KeyCode::End if is_ctrl => self.scroll = Scroll::Follow,
            KeyCode::Tab => self.select(false),
            KeyCode::BackTab => self.select(true),
            KeyCode::Char('o') if is_ctrl => self.fold(),
            KeyCode::Char('l') if is_ctrl => return Some(vec![Effect::Redraw]),
            KeyCode::Char('d') if is_ctrl && self.input.is_empty() => {
                return Some(vec![Effect::Quit]);
            }
            KeyCode::Enter if self.selected.is_some() && self.input.is_empty() => self.fold(),
            KeyCode::Esc if self.approvals.is_empty() => {
                self.selected = None;
                self.scroll = Scroll::Follow;
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Handles a key that decides the visible approval request. `None` for other keys, and for keys with modifiers such
    /// as Ctrl-A, which moves the cursor.
    fn approval_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        if !key.modifiers.difference(KeyModifiers::SHIFT).is_empty() {
            return None;
        }
        let reason = "the user denied the call".to_owned();
        Some(match key.code {
            KeyCode::Char('y' | 'Y') => self.decide_oldest(ApprovalDecision::Approve, false),
            KeyCode::Char('a' | 'A') => self.decide_oldest(ApprovalDecision::Approve, true),
            KeyCode::Char('n' | 'N') | KeyCode::Esc => {
                self.decide_oldest(ApprovalDecision::Deny { reason }, false)
            }
            _ => return None,
        })
    }

    /// Applies a key to the input line.
    fn edit_key(&mut self, key: KeyEvent, is_ctrl: bool) -> Vec<Effect> {
        let is_alt = key.modifiers.contains(KeyModifiers::ALT);
        let input = &mut self.input;
        match key.code {
            KeyCode::Enter if is_alt || key.modifiers.contains(KeyModifiers::SHIFT) => {
                input.insert("\n");
            }
            KeyCode::Enter => return self.submit(),
            KeyCode::Char('j') if is_ctrl => input.insert("\n"),
            KeyCode::Char('a') if is_ctrl => input.home(),
            KeyCode::Char('e') if is_ctrl => input.end(),
            KeyCode::Char('w') if is_ctrl => input.delete_word(),
            KeyCode::Char('u') if is_ctrl => input.delete_to_start(),
            KeyCode::Char('k') if is_ctrl => input.delete_to_end(),
            KeyCode::Char('d') if is_ctrl => input.delete(),
            KeyCode::Char('b') if is_alt => input.word_left(),
            KeyCode::Char('f') if is_alt => input.word_right(),
            KeyCode::Backspace if is_alt || is_ctrl => input.delete_word(),
            KeyCode::Backspace => input.backspace(),
            KeyCode::Delete => input.delete(),
            KeyCode::Left if is_ctrl || is_alt => input.word_left(),
            KeyCode::Right if is_ctrl || is_alt => input.word_right(),
            KeyCode::Left => input.left(),
            KeyCode::Right => input.right(),
            KeyCode::Home => input.home(),
            KeyCode::End => input.end(),
            KeyCode::Up => input.up(),
            KeyCode::Down => input.down(),
            KeyCode::Char(typed) if !is_ctrl && !is_alt => {
                self.selected = None;
                input.insert(typed.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
        Vec::new()
    }

    /// Selects the next foldable entry: upwards from the newest, or downwards.
    fn select(&mut self, is_down: bool) {
        let entries = self.transcript.entries();
        let foldable = |index: &usize| entries[*index].is_foldable();
        self.selected = match (self.selected, is_down) {
            (None, _) => (0..entries.len()).rev().find(foldable),
            (Some(index), false) => (0..index).rev().find(foldable).or(Some(index)),
            (Some(index), true) => (index + 1..entries.len()).find(foldable).or(Some(index)),
        };
    }

    /// Folds or unfolds the selected entry, or the newest foldable entry.
    fn fold(&mut self) {
        let entries = self.transcript.entries();
        let newest = || (0..entries.len()).rev().find(|i| entries[*i].is_foldable());
        if let Some(index) = self.selected.or_else(newest) {
            self.transcript.toggle(index);
        }
    }
}
