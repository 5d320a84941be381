//! What a command found, in the form that was asked for: a table for people, JSON and YAML for programs, names for pipes.

use std::io::{self, Write};

use provost_api::{Page, Time};
use provost_core::{Env, ErrorKind, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::problem::Problem;
use crate::render::output::{Output, printable};
use crate::render::table::{Cell, Column, ago, draw};

/// The width of lines where the terminal does not say it.
const WIDTH_DEFAULT: usize = 100;

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One line of JSON for each thing
    Jsonl,
    /// One YAML document
    Yaml,
    /// Only ids, one in a line
    Name,
}

/// Something that can be a row of a table.
pub(crate) trait Shown: Serialize {
    /// The columns.
    const COLUMNS: &'static [Column];
    /// One cell for each column.
    fn cells(&self, now: Timestamp) -> Vec<Cell>;
    /// Its id.
    fn name(&self) -> String;
}

/// Writes what was found to standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Show {
    /// The streams of this process.
    pub(crate) output: Output,
    /// In which form.
    pub(crate) format: Format,
}

impl Show {
    /// A list.
    pub(crate) fn list<T: Shown>(&self, page: &Page<T>) -> Result<(), Problem> {
        self.write(&self.list_text(page)?)?;
        if let Some(next) = page.next.as_ref().filter(|_| self.format == Format::Table) {
            self.output.dim(&format!("there is more: --cursor {next}"));
        }
        Ok(())
    }

    /// A list as text.
    pub(crate) fn list_text<T: Shown>(&self, page: &Page<T>) -> Result<String, Problem> {
        Ok(match self.format {
            Format::Table if page.items.is_empty() => String::new(),
            Format::Table => {
                let now = Env::system().now();
                let rows: Vec<_> = page.items.iter().map(|item| item.cells(now)).collect();
                draw(T::COLUMNS, &rows, self.width(), self.output.stdout_color)
            }
            Format::Json => json(page)?,
            Format::Yaml => yaml(page)?,
            Format::Jsonl => {
                let lines: Result<Vec<_>, _> = page.items.iter().map(line).collect();
                lines?.concat()
            }
            Format::Name => page.items.iter().map(|item| item.name() + "\n").collect(),
        })
    }

    /// One thing with everything that is known about it.
    pub(crate) fn one(&self, what: &impl Serialize, name: &str) -> Result<(), Problem> {
        let text = match self.format {
            Format::Table => {
                let what = serde_json::to_value(what).map_err(|error| defect(&error))?;
                details(&what, Env::system().now())
            }
            _ => self.as_data(what, name)?,
        };
        self.write(&text)
    }

    /// What an action came to: a sentence for people, the thing itself for programs.
    pub(crate) fn done(
        &self,
        what: &impl Serialize,
        name: &str,
        sentence: &str,
    ) -> Result<(), Problem> {
        let text = match self.format {
            Format::Table => format!("{}\n", printable(sentence)),
            _ => self.as_data(what, name)?,
        };
        self.write(&text)
    }

    fn as_data(&self, what: &impl Serialize, name: &str) -> Result<String, Problem> {
        match self.format {
            Format::Jsonl => line(what),
            Format::Yaml => yaml(what),
            Format::Name => Ok(format!("{name}\n")),
            Format::Table | Format::Json => json(what),
        }
    }

    /// Writes to standard output; a reader that went away is no problem.
    pub(crate) fn write(&self, text: &str) -> Result<(), Problem> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Problem::io("standard output", &error))
            }
            _ => Ok(()),
        }
    }

    /// How wide a line may be; anything goes where no terminal is.
    pub(crate) fn width(&self) -> Option<usize> {
        self.output.stdout_tty.then(|| {
            let size = ratatui::crossterm::terminal::size();
            size.map_or(WIDTH_DEFAULT, |(width, _)| usize::from(width).max(20))
        })
    }
}

fn json(what: &impl Serialize) -> Result<String, Problem> {
    let text = serde_json::to_string_pretty(what).map_err(|error| defect(&error))?;
    Ok(text + "\n")
}

/// One line of JSON.
pub(crate) fn line(what: &impl Serialize) -> Result<String, Problem> {
    let text = serde_json::to_string(what).map_err(|error| defect(&error))?;
    Ok(text + "\n")
}

fn yaml(what: &impl Serialize) -> Result<String, Problem> {
    // By way of JSON, so that numbers and enums look the same in both.
    let what = serde_json::to_value(what).map_err(|error| defect(&error))?;
    serde_yaml_ng::to_string(&what).map_err(|error| defect(&error))
}

fn defect(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(ErrorKind::Bug, format!("the answer cannot be written: {error}"))
}

/// The fields of a thing, one in a line; times also say how long ago they were.
fn details(what: &Value, now: Timestamp) -> String {
    let Some(fields) = what.as_object() else { return format!("{what}\n") };
    let wide = fields.keys().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in fields {
        let value = match value {
            Value::Null => continue,
            Value::String(value) => match value.parse::<Time>() {
                Ok(time) if value.ends_with('Z') => format!("{value} ({})", since(now, time.0)),
                _ => value.clone(),
            },
            Value::Array(values) if values.is_empty() => continue,
            Value::Object(values) if values.is_empty() => continue,
            other => other.to_string(),
        };
        let value = printable(&value).replace('\n', &format!("\n{:wide$}  ", ""));
        text.push_str(&format!("{name:<wide$}  {value}\n"));
    }
    text
}

fn since(now: Timestamp, at: Timestamp) -> String {
    let span = ago(now, at);
    if span.starts_with("in ") { span } else { format!("{span} ago") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::table::{rigid, text};

    #[derive(Serialize)]
    struct Thing {
        id: &'static str,
        state: &'static str,
    }

    impl Shown for Thing {
        const COLUMNS: &'static [Column] = &[rigid("ID"), text("STATE")];
        fn cells(&self, _: Timestamp) -> Vec<Cell> {
            vec![self.id.into(), Cell::state(self.state)]
        }
        fn name(&self) -> String {
            self.id.to_owned()
        }
    }

    fn text_of(format: Format) -> String {
        let output = Output {
            stdout_tty: false,
            stderr_tty: false,
            stdout_color: false,
            stderr_color: false,
        };
        let things =
            vec![Thing { id: "a", state: "done" }, Thing { id: "b", state: "no: #\u{e9}" }];
        Show { output, format }.list_text(&Page { items: things, next: None }).unwrap()
    }

    #[test]
    fn the_same_list_in_each_form() {
        assert_eq!(text_of(Format::Table), "ID  STATE\na   done\nb   no: #é\n");
        assert_eq!(text_of(Format::Name), "a\nb\n");
        let whole: Value = serde_json::from_str(&text_of(Format::Json)).unwrap();
        assert_eq!(whole["items"][1]["id"], "b");
        assert_eq!(serde_yaml_ng::from_str::<Value>(&text_of(Format::Yaml)).unwrap(), whole);
        let lines = text_of(Format::Jsonl);
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, *whole["items"].as_array().unwrap());
    }

    #[test]
    fn details_are_aligned_and_leave_out_what_is_not_there() {
        let at = Timestamp::from_millis(1_772_359_200_000);
        let now = Timestamp::from_millis(1_772_359_320_000);
        let what = json!({
            "id": "x", "nothing": null, "none": [], "created": at.to_rfc3339(),
            "text": "a\nb\x1b", "more": {"a": 1},
        });
        let shown = details(&what, now);
        assert!(shown.contains("id       x\n"), "{shown}");
        assert!(shown.contains("(2m ago)\n"), "{shown}");
        assert!(shown.contains("text     a\n         b\n"), "{shown}");
        assert!(!shown.contains("nothing") && !shown.contains("none"), "{shown}");
    }
}
