//! State of the dashboard, and how it is drawn.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use provost_api::{Approval, ExecutionClass, Run, StreamItem};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::{DurableEventKind, Timestamp};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use serde_json::{Value, json};

use crate::render::printer::TableRow;
use crate::render::table::draw;
use crate::tui::Theme;

/// Period over which events are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of events that are counted in the period.
const EVENTS_MAX: usize = 100_000;

/// Runs, approvals and classes of the last refresh, and recent events.
#[derive(Default)]
pub(super) struct Dashboard {
    namespace: String,
    pub(super) runs: Vec<Run>,
    pub(super) approvals: Vec<Approval>,
    pub(super) classes: Vec<ExecutionClass>,
    /// True if the namespace has more runs than were requested.
    pub(super) has_more_runs: bool,
    /// Error of the last refresh, if it failed.
    pub(super) error: Option<String>,
    /// End times of recent runs, and whether each run succeeded.
    ended: VecDeque<(Timestamp, bool)>,
    events: VecDeque<Timestamp>,
}

impl Dashboard {
    /// Creates an empty dashboard of a namespace.
    pub(super) fn new(namespace: &Namespace) -> Self {
        Self { namespace: namespace.to_string(), ..Self::default() }
    }

    /// Counts an event.
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
        self.events.truncate(EVENTS_MAX);
        self.ended.truncate(EVENTS_MAX);
    }

    /// Removes events that are older than the period.
    pub(super) fn prune(&mut self, now: Timestamp) {
        let from = now.before(WINDOW);
        while self.events.front().is_some_and(|at| *at < from) {
            self.events.pop_front();
        }
        while self.ended.front().is_some_and(|(at, _)| *at < from) {
            self.ended.pop_front();
        }
    }

    /// Returns the number of runs in each state. Parked runs are grouped by their wait reason.
    fn states(&self) -> BTreeMap<String, usize> {
        let mut states = BTreeMap::new();
        for run in &self.runs {
            let state = match (run.phase, &run.parked_for) {
                (RunPhase::Leased, _) => "running".to_owned(),
                (RunPhase::Parked, Some(reason)) => format!("waiting for {reason}"),
                (phase, _) => phase.to_string(),
            };
            *states.entry(state).or_insert(0) += 1;
        }
        states
    }

    /// Returns the dashboard as JSON.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "runs": self.states(), "approvals": self.approvals.len(), "more": self.has_more_runs,
            "classes": self.classes.iter().map(|class| json!({
                "key": class.key, "running": class.running, "desired": class.concurrency_limit,
                "health": class.health,
            })).collect::<Vec<_>>(),
        })
    }

    /// Returns the number of runs in each state as text.
    fn summary_text(&self) -> String {
        let states = self.states();
        let mut parts: Vec<String> =
            states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        if parts.is_empty() {
            parts.push("no active runs".to_owned());
        }
        if self.has_more_runs {
            parts.push("and more".to_owned());
        }
        parts.join(" · ")
    }

    /// Returns the dashboard as text.
    pub(super) fn text(&self, now: Timestamp, width: Option<usize>) -> String {
        let mut text = format!("{}\n", self.summary_text());
        for (title, table) in [
            ("runs", rows(&self.runs, now, width)),
            ("approvals", rows(&self.approvals, now, width)),
            ("classes", rows(&self.classes, now, width)),
        ] {
            if let Some(table) = table {
                text.push_str(&format!("\n{title}\n{table}"));
            }
        }
        text
    }

    /// Draws the dashboard.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, theme: &Theme, now: Timestamp) {
        let approvals = u16::try_from(self.approvals.len()).unwrap_or(u16::MAX).min(6);
        let classes = u16::try_from(self.classes.len()).unwrap_or(u16::MAX).min(5);
        let rows_of = |count: u16| if count == 0 { 0 } else { count + 2 };
        let [header, runs, open_approvals, lanes, footer] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Min(3),
            Constraint::Length(rows_of(approvals)),
            Constraint::Length(rows_of(classes)),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.summary(theme), header);
        section(frame, runs, "runs", theme, rows(&self.runs, now, Some(runs.width.into())));
        let table = rows(&self.approvals, now, Some(open_approvals.width.into()));
        section(frame, open_approvals, "approvals: provost approval approve ID", theme, table);
        let table = rows(&self.classes, now, Some(lanes.width.into()));
        section(frame, lanes, "classes", theme, table);
        let status = match &self.error {
            Some(error) => Span::styled(format!("✗ {error}"), theme.error),
            None => Span::styled("q quits", theme.dim),
        };
        frame.render_widget(Paragraph::new(Line::from(status)), footer);
    }

    fn summary(&self, theme: &Theme) -> Paragraph<'static> {
        let succeeded = self.ended.iter().filter(|(_, is_ok)| *is_ok).count();
        let failed = self.ended.len() - succeeded;
        let seconds = WINDOW.as_secs();
        let title = format!("provost top · {}", self.namespace);
        Paragraph::new(vec![
            Line::from(Span::styled(title, theme.heading)),
            Line::from(self.summary_text()),
            Line::from(vec![
                Span::raw(format!("last {seconds} s: ")),
                Span::styled(format!("{succeeded} succeeded"), theme.ok),
                Span::raw(" · "),
                Span::styled(format!("{failed} failed"), theme.error),
                Span::raw(format!(" · {} events", self.events.len())),
            ]),
        ])
    }
}

fn rows<T: TableRow>(items: &[T], now: Timestamp, width: Option<usize>) -> Option<String> {
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

    fn event(kind: &str, at: Timestamp) -> StreamItem {
        let run_event = RunEvent {
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
        StreamItem::Event { cursor: "1-1".to_owned(), event: Box::new(run_event) }
    }

    fn render(board: &Dashboard, now: Timestamp) -> String {
        let mut terminal = Terminal::new(TestBackend::new(60, 12)).unwrap();
        terminal.draw(|frame| board.draw(frame, &Theme::mono(), now)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn what_ended_within_a_minute_is_counted() {
        let now = Timestamp::from_millis(1_000_000_000);
        let mut board = Dashboard { namespace: "team".to_owned(), ..Dashboard::default() };
        board.count(&event("finished", now.before(Duration::from_secs(61))));
        for kind in ["accepted", "finished", "failed"] {
            board.count(&event(kind, now));
        }
        board.prune(now);
        let shown = render(&board, now);
        assert!(shown.contains("1 succeeded · 1 failed · 3 events"), "{shown}");
        assert!(shown.contains("no active runs") && shown.contains("team"), "{shown}");
    }

    #[test]
    fn trouble_is_shown() {
        let board = Dashboard { error: Some("nothing answers".to_owned()), ..Dashboard::default() };
        let shown = render(&board, Timestamp::from_millis(0));
        assert!(shown.contains("✗ nothing answers"), "{shown}");
    }
}
