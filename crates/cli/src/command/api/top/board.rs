//! How everything stands, and how it looks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use provost_api::{Approval, Class, Run, StreamItem};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::{DurableEventKind, Timestamp};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use serde_json::{Value, json};

use crate::render::show::Shown;
use crate::render::table::draw;
use crate::tui::Theme;

/// The time over which throughput is counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Things that are counted at most.
const COUNTED_MAX: usize = 100_000;

/// What is known.
#[derive(Default)]
pub(super) struct Board {
    namespace: String,
    pub(super) runs: Vec<Run>,
    pub(super) approvals: Vec<Approval>,
    pub(super) classes: Vec<Class>,
    /// True if there are more runs than were looked at.
    pub(super) is_cut: bool,
    /// Why the last look failed.
    pub(super) trouble: Option<String>,
    /// When runs ended lately, and whether well.
    ended: VecDeque<(Timestamp, bool)>,
    events: VecDeque<Timestamp>,
}

impl Board {
    /// Nothing is known of a namespace yet.
    pub(super) fn of(namespace: &Namespace) -> Self {
        Self { namespace: namespace.to_string(), ..Self::default() }
    }

    /// Counts what happened.
    pub(super) fn count(&mut self, item: &StreamItem) {
        let StreamItem::Event { event, .. } = item else { return };
        self.events.push_back(event.at.0);
        match DurableEventKind::from_name(&event.kind) {
            Some(DurableEventKind::Finished) => self.ended.push_back((event.at.0, true)),
            Some(DurableEventKind::Failed | DurableEventKind::TimedOut) => {
                self.ended.push_back((event.at.0, false));
            }
            _ => {}
        }
        self.events.truncate(COUNTED_MAX);
        self.ended.truncate(COUNTED_MAX);
    }

    /// Leaves out what is too long ago to count.
    pub(super) fn forget_before(&mut self, now: Timestamp) {
        let from = now.before(WINDOW);
        while self.events.front().is_some_and(|at| *at < from) {
            self.events.pop_front();
        }
        while self.ended.front().is_some_and(|(at, _)| *at < from) {
            self.ended.pop_front();
        }
    }

    /// How many runs are in each state: at work, queued, and what the parked ones wait for.
    fn states(&self) -> BTreeMap<String, usize> {
        let mut states = BTreeMap::new();
        for run in &self.runs {
            let state = match (run.phase, &run.parked_for) {
                (RunPhase::Leased, _) => "working".to_owned(),
                (RunPhase::Parked, Some(why)) => format!("waiting for {why}"),
                (phase, _) => phase.to_string(),
            };
            *states.entry(state).or_insert(0) += 1;
        }
        states
    }

    /// For programs.
    pub(super) fn as_json(&self) -> Value {
        json!({
            "runs": self.states(), "approvals": self.approvals.len(), "more": self.is_cut,
            "classes": self.classes.iter().map(|class| json!({
                "key": class.key, "running": class.running, "desired": class.desired,
                "health": class.health,
            })).collect::<Vec<_>>(),
        })
    }

    fn head(&self) -> String {
        let states = self.states();
        let mut parts: Vec<String> =
            states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        if parts.is_empty() {
            parts.push("nothing to do".to_owned());
        }
        if self.is_cut {
            parts.push("and more".to_owned());
        }
        parts.join(" · ")
    }

    /// As text, once.
    pub(super) fn text(&self, now: Timestamp, width: Option<usize>) -> String {
        let mut text = format!("{}\n", self.head());
        for (title, table) in [
            ("runs", rows(&self.runs, now, width)),
            ("questions", rows(&self.approvals, now, width)),
            ("classes", rows(&self.classes, now, width)),
        ] {
            if let Some(table) = table {
                text.push_str(&format!("\n{title}\n{table}"));
            }
        }
        text
    }

    /// As a picture.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, theme: &Theme, now: Timestamp) {
        let asked = u16::try_from(self.approvals.len()).unwrap_or(u16::MAX).min(6);
        let classes = u16::try_from(self.classes.len()).unwrap_or(u16::MAX).min(5);
        let rows_of = |count: u16| if count == 0 { 0 } else { count + 2 };
        let [head, runs, questions, lanes, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Min(3),
            Constraint::Length(rows_of(asked)),
            Constraint::Length(rows_of(classes)),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.summary(theme), head);
        section(frame, runs, "runs", theme, rows(&self.runs, now, Some(runs.width.into())));
        let table = rows(&self.approvals, now, Some(questions.width.into()));
        section(frame, questions, "questions: provost approve ID", theme, table);
        let table = rows(&self.classes, now, Some(lanes.width.into()));
        section(frame, lanes, "classes", theme, table);
        let foot_text = match &self.trouble {
            Some(trouble) => Span::styled(format!("✗ {trouble}"), theme.error),
            None => Span::styled("q quits", theme.dim),
        };
        frame.render_widget(Paragraph::new(Line::from(foot_text)), foot);
    }

    fn summary(&self, theme: &Theme) -> Paragraph<'static> {
        let well = self.ended.iter().filter(|(_, is_ok)| *is_ok).count();
        let badly = self.ended.len() - well;
        let seconds = WINDOW.as_secs();
        let title = format!("provost top · {}", self.namespace);
        Paragraph::new(vec![
            Line::from(Span::styled(title, theme.heading)),
            Line::from(self.head()),
            Line::from(vec![
                Span::raw(format!("last {seconds} s: ")),
                Span::styled(format!("{well} answered"), theme.ok),
                Span::raw(" · "),
                Span::styled(format!("{badly} failed"), theme.error),
                Span::raw(format!(" · {} events", self.events.len())),
            ]),
        ])
    }
}

fn rows<T: Shown>(items: &[T], now: Timestamp, width: Option<usize>) -> Option<String> {
    let rows: Vec<_> = items.iter().map(|item| item.cells(now)).collect();
    (!rows.is_empty()).then(|| draw(T::COLUMNS, &rows, width, /*has_color*/ false))
}

fn section(frame: &mut Frame<'_>, area: Rect, title: &str, theme: &Theme, text: Option<String>) {
    let block = Block::new().borders(Borders::TOP).title(title).border_style(theme.dim);
    frame.render_widget(Paragraph::new(text.unwrap_or_default()).block(block), area);
}

#[cfg(test)]
mod tests {
    use provost_api::RunEvent;
    use provost_core::Env;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn happened(kind: &str, at: Timestamp) -> StreamItem {
        let event = RunEvent {
            run: Env::system().id(),
            seq: 1,
            epoch: 1,
            attempt: 1,
            agent: None,
            call_id: None,
            kind: kind.to_owned(),
            at: at.into(),
            data: None,
            message: None,
            result: None,
        };
        StreamItem::Event { cursor: "1-1".to_owned(), event: Box::new(event) }
    }

    fn picture(board: &Board, now: Timestamp) -> String {
        let mut terminal = Terminal::new(TestBackend::new(60, 12)).unwrap();
        terminal.draw(|frame| board.draw(frame, &Theme::mono(), now)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn what_ended_within_a_minute_is_counted() {
        let now = Timestamp::from_millis(1_000_000_000);
        let mut board = Board { namespace: "team".to_owned(), ..Board::default() };
        board.count(&happened("finished", now.before(Duration::from_secs(61))));
        for kind in ["accepted", "finished", "failed"] {
            board.count(&happened(kind, now));
        }
        board.forget_before(now);
        let shown = picture(&board, now);
        assert!(shown.contains("1 answered · 1 failed · 3 events"), "{shown}");
        assert!(shown.contains("nothing to do") && shown.contains("team"), "{shown}");
    }

    #[test]
    fn trouble_is_shown() {
        let board = Board { trouble: Some("nothing answers".to_owned()), ..Board::default() };
        let shown = picture(&board, Timestamp::from_millis(0));
        assert!(shown.contains("✗ nothing answers"), "{shown}");
    }
}
