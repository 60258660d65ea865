//! The screen of `divvy top`: eight numbers, what needs attention, one list, and what the keys do. Made for 80 columns and
//! 24 rows; more room is used, less is cut. Texts of others are shown with what would steer a terminal written out.

use std::time::Duration;

use divvy_types::alerts::{Alert, Severity};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, StatefulWidget, Table, TableState, Widget as _};

use super::model::{Model, Pane};
use crate::output::visible::on_one_line;
use crate::output::words;

/// Rows of what needs attention.
const ATTENTION_ROWS: usize = 3;

/// Draws everything.
pub(super) fn screen(model: &Model, has_color: bool, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    picture(model, area, buffer);
    if !has_color {
        for cell in &mut buffer.content {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
    }
}

/// The same as lines of plain text, with the lists below each other; of alerts, those that need attention.
pub(super) fn plain(model: &Model, width: u16) -> Vec<String> {
    let mut lines = lines(width, 6, |area, buffer| top(model, area, buffer));
    for pane in Pane::ALL {
        let (headings, mut rows, _) = list(model, pane);
        if pane == Pane::Alerts {
            rows.retain(|row| row[0] != "well");
        }
        if rows.is_empty() {
            continue;
        }
        let height = rows.len() as u16 + 1;
        lines.push(String::new());
        lines.push(pane.title().to_uppercase());
        let widths = widths(pane);
        lines.extend(self::lines(width, height, |area, buffer| {
            let header = Row::new(headings.clone());
            let rows = rows.iter().map(|row| Row::new(row.clone()));
            ratatui::widgets::Widget::render(Table::new(rows, widths).header(header), area, buffer);
        }));
    }
    lines
}

fn lines(width: u16, height: u16, draw: impl FnOnce(Rect, &mut Buffer)) -> Vec<String> {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(area, &mut buffer);
    let row = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    let mut lines: Vec<String> = (0..height).map(|y| row(y).trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn picture(model: &Model, area: Rect, buffer: &mut Buffer) {
    let [above, tabs, body, below] = Layout::vertical([
        Constraint::Length(3 + ATTENTION_ROWS as u16),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    top(model, above, buffer);
    Paragraph::new(tab_line(model)).render(tabs, buffer);
    if model.help {
        Paragraph::new(HELP).render(body, buffer);
    } else {
        show_list(model, body, buffer);
    }
    Paragraph::new(bottom(model)).render(below, buffer);
}

const HELP: &str = "\
  1 2 3 4, Tab, h l   queues, workers, dead letters, alerts
  j k, arrows, g G    choose a row
  s                   sort by the next column
  p                   pause or resume the queue or the worker
  d                   drain the worker
  r                   run the dead letters of the group again
  x                   silence the alert for an hour, or end its silence
  space               freeze the screen, or let it go on
  q, Esc, Ctrl-C      quit

What cannot be taken back is asked for first. What the token does not allow is
refused by the server, and told below. Any key goes back.";

/// Name and state, eight numbers with a chart, and what needs attention.
fn top(model: &Model, area: Rect, buffer: &mut Buffer) {
    let look = &model.look;
    let [name, numbers, more, attention] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(area);
    let up = words::span(Duration::from_millis(look.uptime_ms));
    let mut title = vec![
        Span::styled("divvy", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(" {} at {}, up {up}", look.version, on_one_line(&model.server))),
    ];
    if model.frozen {
        title.push(Span::styled("  frozen", color(Color::Yellow)));
    }
    Paragraph::new(Line::from(title)).render(name, buffer);
    let oldest = look.oldest().map_or(Duration::ZERO, |(_, ms)| Duration::from_millis(ms));
    let rate = model.rates.back().copied().unwrap_or_default();
    let workers = match look.wanted {
        Some((wanted, _)) => format!("{} of {wanted}", look.workers.len()),
        None => look.workers.len().to_string(),
    };
    let cost = look.wanted.map_or_else(|| "-".to_owned(), |(_, cost)| format!("{cost:.2}"));
    let number = |name: &str, value: String| {
        [Span::styled(format!("{name} "), color(Color::DarkGray)), Span::raw(format!("{value}   "))]
    };
    let first = [
        number("waiting", look.counts.ready.to_string()),
        number("oldest", words::span(oldest)),
        number("running", format!("{}/{}", look.running(), look.slots())),
        number("workers", workers),
        number("dead", look.counts.dead.to_string()),
    ];
    Paragraph::new(Line::from(first.concat())).render(numbers, buffer);
    let second = [
        number("done/min", rate.to_string()),
        number("failing", format!("{:.1} %", model.look.failed_share * 100.0)),
        number("$/hour", cost),
    ];
    let [words, chart] =
        Layout::horizontal([Constraint::Length(50), Constraint::Min(0)]).areas(more);
    Paragraph::new(Line::from(second.concat())).render(words, buffer);
    let room = usize::from(chart.width);
    let rates: Vec<u64> =
        model.rates.iter().skip(model.rates.len().saturating_sub(room)).copied().collect();
    Sparkline::default().data(&rates).style(color(Color::Green)).render(chart, buffer);
    Paragraph::new(attention_lines(model)).render(attention, buffer);
}

fn attention_lines(model: &Model) -> Vec<Line<'static>> {
    if let Some(problem) = &model.away {
        let text = format!("no answer, tried again: {}", on_one_line(problem));
        return vec![Line::styled(text, color(Color::Red))];
    }
    let alerts = model.look.attention();
    let more = alerts.len().saturating_sub(ATTENTION_ROWS);
    let mut lines: Vec<Line<'static>> =
        alerts.iter().take(ATTENTION_ROWS).map(|alert| attention_line(alert)).collect();
    if lines.is_empty() {
        lines.push(Line::styled("● nothing needs attention", color(Color::Green)));
    }
    if more > 0 {
        lines.pop();
        lines.push(Line::raw(format!("  and {} more: press 4", more + 1)));
    }
    lines
}

fn attention_line(alert: &Alert) -> Line<'static> {
    let word = if alert.firing { "" } else { " (pending)" };
    let mark = Span::styled(format!("● {}{word} ", alert.name), severity(alert));
    Line::from(vec![mark, Span::raw(on_one_line(&alert.text))])
}

fn severity(alert: &Alert) -> Style {
    color(if alert.severity == Severity::Fault { Color::Red } else { Color::Yellow })
}

fn color(color: Color) -> Style {
    Style::new().fg(color)
}

fn tab_line(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (place, pane) in Pane::ALL.into_iter().enumerate() {
        let title = format!(" {} {} ", place + 1, pane.title());
        let style = if pane == model.pane {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        spans.extend([Span::styled(title, style), Span::raw(" ")]);
    }
    spans.push(Span::styled(format!(" by {}", model.order()), color(Color::DarkGray)));
    Line::from(spans)
}

fn bottom(model: &Model) -> Line<'static> {
    if let Some(question) = model.question() {
        return Line::styled(on_one_line(&question), color(Color::Yellow));
    }
    if let Some(said) = &model.said {
        return Line::raw(on_one_line(said));
    }
    let own = match model.pane {
        Pane::Queues => "p pause  ",
        Pane::Workers => "p pause  d drain  ",
        Pane::Dead => "r retry  ",
        Pane::Alerts => "x silence  ",
    };
    Line::styled(
        format!("{own}s sort  j k choose  space freeze  ? help  q quit"),
        color(Color::DarkGray),
    )
}

fn show_list(model: &Model, area: Rect, buffer: &mut Buffer) {
    let (headings, rows, empty) = list(model, model.pane);
    if rows.is_empty() {
        return Paragraph::new(empty).render(area, buffer);
    }
    let styles = row_styles(model);
    let header = Row::new(headings).style(color(Color::DarkGray));
    let rows = rows.into_iter().zip(styles).map(|(row, style)| Row::new(row).style(style));
    let table = Table::new(rows, widths(model.pane))
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(model.chosen());
    StatefulWidget::render(table, area, buffer, &mut state);
}

fn widths(pane: Pane) -> Vec<Constraint> {
    let fixed = |widths: &[u16]| -> Vec<Constraint> {
        std::iter::once(Constraint::Min(12))
            .chain(widths.iter().map(|width| Constraint::Length(*width)))
            .collect()
    };
    match pane {
        Pane::Queues => fixed(&[7, 9, 9, 8, 7, 9, 8]),
        Pane::Workers => fixed(&[9, 9, 6, 8, 7, 8]),
        Pane::Dead => vec![
            Constraint::Length(7),
            Constraint::Length(16),
            Constraint::Length(10),
            Constraint::Min(20),
        ],
        Pane::Alerts => {
            vec![Constraint::Length(8), Constraint::Length(20), Constraint::Min(20)]
        }
    }
}

fn row_styles(model: &Model) -> Vec<Style> {
    let look = &model.look;
    let when = |so: bool, tint: Color| if so { color(tint) } else { Style::new() };
    match model.pane {
        Pane::Queues => {
            look.queues.iter().map(|it| when(it.queue.paused, Color::DarkGray)).collect()
        }
        Pane::Workers => look
            .workers
            .iter()
            .map(|it| when(it.draining || it.paused || it.away_until.is_some(), Color::DarkGray))
            .collect(),
        Pane::Dead => look.dead.iter().map(|_| Style::new()).collect(),
        Pane::Alerts => look
            .alerts
            .iter()
            .map(|it| if it.needs_attention() { severity(it) } else { Style::new() })
            .collect(),
    }
}

type Cells = (Vec<&'static str>, Vec<Vec<String>>, &'static str);

/// The headings of a list, its rows, and what is said if there are none.
fn list(model: &Model, pane: Pane) -> Cells {
    match pane {
        Pane::Queues => queues(model),
        Pane::Workers => workers(model),
        Pane::Dead => dead(model),
        Pane::Alerts => alerts(model),
    }
}

fn queues(model: &Model) -> Cells {
    let rows = model.look.queues.iter().map(|status| {
        let queue = &status.queue;
        let oldest = queue
            .oldest_ready_ms
            .map_or_else(|| "-".to_owned(), |ms| words::span(Duration::from_millis(ms)));
        vec![
            on_one_line(&queue.name),
            if queue.paused { "paused" } else { "open" }.to_owned(),
            oldest,
            queue.ready.to_string(),
            queue.leased.saturating_sub(queue.queued).to_string(),
            queue.queued.to_string(),
            queue.scheduled.to_string(),
            queue.blocked.to_string(),
        ]
    });
    let headings =
        vec!["QUEUE", "STATE", "OLDEST", "READY", "RUNNING", "QUEUED", "SCHEDULED", "BLOCKED"];
    (headings, rows.collect(), "No queue has tasks. Submit one: divvy submit noop")
}

fn workers(model: &Model) -> Cells {
    let rows = model.look.workers.iter().map(|worker| {
        let state = match (worker.away_until.is_some(), worker.draining, worker.paused) {
            (true, ..) => "away",
            (_, true, _) => "draining",
            (_, _, true) => "paused",
            _ => "working",
        };
        let running = worker.leased.saturating_sub(worker.queue_length);
        vec![
            on_one_line(&worker.name),
            state.to_owned(),
            format!("{running}/{}", worker.slots),
            worker.queue_length.to_string(),
            worker.finished.to_string(),
            worker.failed.to_string(),
            format!("{:.0} %", worker.success_rate * 100.0),
        ]
    });
    let headings = vec!["WORKER", "STATE", "RUNNING", "QUEUE", "DONE", "FAILED", "SUCCESS"];
    (headings, rows.collect(), "No worker is connected. Start one: divvy work")
}

fn dead(model: &Model) -> Cells {
    let rows = model.look.dead.iter().map(|group| {
        let class = serde_json::to_value(group.class).ok();
        let class = class.as_ref().and_then(|class| class.as_str()).unwrap_or_default();
        vec![
            group.count.to_string(),
            on_one_line(&group.kind),
            class.to_owned(),
            on_one_line(&group.error),
        ]
    });
    (vec!["COUNT", "KIND", "CLASS", "ERROR"], rows.collect(), "No dead letters.")
}

fn alerts(model: &Model) -> Cells {
    let rows = model.look.alerts.iter().map(|alert| {
        let state = match (alert.firing, alert.pending) {
            _ if alert.silenced_until.is_some() => "silenced",
            (true, _) => "fires",
            (_, true) => "pending",
            _ => "well",
        };
        let cure = alert.cure.as_ref().map_or_else(String::new, |cure| format!("; {cure}"));
        let text = on_one_line(&format!("{}{cure}", alert.text));
        vec![state.to_owned(), alert.name.to_string(), text]
    });
    (vec!["STATE", "RULE", "TEXT"], rows.collect(), "The server has no rules.")
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::super::model::tests::busy;
    use super::*;

    fn shown(model: &Model, width: u16, height: u16, has_color: bool) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen(model, has_color, frame)).unwrap();
        terminal.backend().to_string()
    }

    fn model() -> Model {
        let mut model = Model::new("http://127.0.0.1:7171");
        model.take(busy(0));
        model.take(busy(10));
        model
    }

    #[test]
    fn eighty_columns_show_the_numbers_the_alert_and_each_list() {
        let mut model = model();
        let screen = shown(&model, 80, 24, true);
        for text in [
            "divvy 0.1.0 at http://127.0.0.1:7171, up 60m",
            "waiting 1204",
            "running 38/8",
            "workers 2 of 8",
            "done/min 840",
            "failing 12.5 %",
            "$/hour 0.25",
            "● no_capable_worker 9 tasks need gpu",
            "BLOCKED",
            "? help",
        ] {
            assert!(screen.contains(text), "{text}:\n{screen}");
        }
        for (key, text) in
            [('2', "w1"), ('3', "status # from host"), ('4', "fires"), ('?', "drain the worker")]
        {
            model.press(KeyCode::Char(key).into());
            let screen = shown(&model, 80, 24, true);
            assert!(screen.contains(text), "{text}:\n{screen}");
        }
    }

    #[test]
    fn little_room_and_nothing_at_all_are_drawn_without_a_panic_and_colours_can_be_off() {
        for (width, height) in [(1, 1), (10, 3), (40, 10), (200, 60)] {
            shown(&model(), width, height, false);
            shown(&Model::default(), width, height, true);
        }
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| screen(&model(), false, frame)).unwrap();
        let cells = &terminal.backend().buffer().content;
        assert!(cells.iter().all(|cell| cell.fg == Color::Reset));
    }

    #[test]
    fn names_that_steer_a_terminal_are_written_out_and_plain_text_has_all_lists() {
        let mut look = busy(0);
        look.workers[0].name = "evil\u{1b}[2Jname".into();
        let mut model = Model::new("http://s");
        model.take(look);
        let lines = plain(&model, 80);
        assert!(lines.iter().all(|line| !line.contains('\u{1b}')), "{lines:?}");
        for title in ["QUEUES", "WORKERS", "DEAD LETTERS", "ALERTS"] {
            assert!(lines.iter().any(|line| line == title), "{lines:?}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    }
}
