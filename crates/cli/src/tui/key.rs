//! What each key does.

use provost_core::ApprovalDecision;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Effect, Scroll};

impl App {
    /// Takes a key in.
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_ctrl && key.code == KeyCode::Char('c') {
            return self.interrupt();
        }
        self.is_leaving = false;
        if let Some(effects) = self.look_key(key, is_ctrl) {
            return effects;
        }
        if self.is_answerable()
            && let Some(effects) = self.approval_key(key)
        {
            return effects;
        }
        self.edit_key(key, is_ctrl)
    }

    /// Ctrl-C: stops what runs; on an idle chat it empties the box, and asks before it leaves.
    fn interrupt(&mut self) -> Vec<Effect> {
        if let Some(running) = &mut self.running {
            if running.is_stopping {
                return vec![Effect::Abandon];
            }
            running.is_stopping = true;
            self.approvals.clear();
            return vec![Effect::Cancel];
        }
        if !self.input.is_empty() {
            self.input.clear();
            return Vec::new();
        }
        if self.is_leaving {
            return vec![Effect::Quit];
        }
        self.is_leaving = true;
        Vec::new()
    }

    /// Keys that look around and work at any time; `None` if it is none of them.
    fn look_key(&mut self, key: KeyEvent, is_ctrl: bool) -> Option<Vec<Effect>> {
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

    /// Answers the question on the screen; `None` if the key is none of the answers. Only the bare key is one: Ctrl-A goes to
    /// the start of the line, whatever is asked.
    fn approval_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        if !key.modifiers.difference(KeyModifiers::SHIFT).is_empty() {
            return None;
        }
        let reason = "the user said no".to_owned();
        Some(match key.code {
            KeyCode::Char('y' | 'Y') => self.answer(ApprovalDecision::Approve, false),
            KeyCode::Char('a' | 'A') => self.answer(ApprovalDecision::Approve, true),
            KeyCode::Char('n' | 'N') | KeyCode::Esc => {
                self.answer(ApprovalDecision::Deny { reason }, false)
            }
            _ => return None,
        })
    }

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

    /// Marks the next foldable entry: upwards from the newest, or downwards.
    fn select(&mut self, is_down: bool) {
        let entries = self.transcript.entries();
        let foldable = |index: &usize| entries[*index].is_foldable();
        self.selected = match (self.selected, is_down) {
            (None, _) => (0..entries.len()).rev().find(foldable),
            (Some(now), false) => (0..now).rev().find(foldable).or(Some(now)),
            (Some(now), true) => (now + 1..entries.len()).find(foldable).or(Some(now)),
        };
    }

    /// Folds the marked entry, or the newest one, open or shut.
    fn fold(&mut self) {
        let entries = self.transcript.entries();
        let newest = || (0..entries.len()).rev().find(|i| entries[*i].is_foldable());
        if let Some(index) = self.selected.or_else(newest) {
            self.transcript.toggle(index);
        }
    }
}
