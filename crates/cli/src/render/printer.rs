//! Prints the result of a command in the selected format: a table for users, JSON and YAML for programs, ids for pipes.

use std::io::{self, Write};

use provost_api::{DateTime, Page};
use provost_core::{Env, ErrorKind, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::error::CliError;
use crate::render::output::{Output, printable};
use crate::render::table::{Cell, Column, ago, draw};

/// Width of lines if the terminal does not report it.
const WIDTH_DEFAULT: usize = 100;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// Table for users
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One line of JSON for each item
    Jsonl,
    /// One YAML document
    Yaml,
    /// Only ids, one per line
    Name,
}

/// Value that can be shown as a row of a table.
pub(crate) trait TableRow: Serialize {
    /// Columns of the table.
    const COLUMNS: &'static [Column];
    /// Returns one cell for each column.
    fn cells(&self, now: Timestamp) -> Vec<Cell>;
    /// Returns the id of the item.
    fn name(&self) -> String;
}

/// Prints results to standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    /// Streams of this process.
    pub(crate) output: Output,
    /// Output format.
    pub(crate) format: Format,
}

impl Printer {
    /// Prints a list, and the cursor of the next page if there is one.
    pub(crate) fn print_list<T: TableRow>(&self, page: &Page<T>) -> Result<(), CliError> {
        self.write(&self.list_text(page)?)?;
        if let Some(next) = page.next.as_ref().filter(|_| self.format == Format::Table) {
            self.output.note(&format!("More results: --cursor {next}"));
        }
        Ok(())
    }

    /// Returns a list as text.
    pub(crate) fn list_text<T: TableRow>(&self, page: &Page<T>) -> Result<String, CliError> {
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

    /// Prints a value with all its fields. `name` is its id.
    pub(crate) fn print_details(&self, value: &impl Serialize, name: &str) -> Result<(), CliError> {
        let text = match self.format {
            Format::Table => {
                let value = serde_json::to_value(value).map_err(|error| serialize_error(&error))?;
                details(&value, Env::system().now())
            }
            _ => self.serialize(value, name)?,
        };
        self.write(&text)
    }

    /// Prints the result of an action: a text for users, or the value for programs.
    pub(crate) fn print_result(
        &self,
        value: &impl Serialize,
        name: &str,
        text: &str,
    ) -> Result<(), CliError> {
        let text = match self.format {
            Format::Table => format!("{}\n", printable(text)),
            _ => self.serialize(value, name)?,
        };
        self.write(&text)
    }

    /// Serializes a value in the selected format.
    fn serialize(&self, value: &impl Serialize, name: &str) -> Result<String, CliError> {
        match self.format {
            Format::Jsonl => line(value),
            Format::Yaml => yaml(value),
            Format::Name => Ok(format!("{name}\n")),
            Format::Table | Format::Json => json(value),
        }
    }

    /// Writes text to standard output. Ignores a closed standard output.
    pub(crate) fn write(&self, text: &str) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(CliError::io("standard output", &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the maximum width of a line. `None` without a terminal: lines are not limited.
    pub(crate) fn width(&self) -> Option<usize> {
        self.output.stdout_tty.then(|| {
            let size = ratatui::crossterm::terminal::size();
            size.map_or(WIDTH_DEFAULT, |(width, _)| usize::from(width).max(20))
        })
    }
}

fn json(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| serialize_error(&error))?;
    Ok(text + "\n")
}

/// Returns a value as one line of JSON.
pub(crate) fn line(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string(value).map_err(|error| serialize_error(&error))?;
    Ok(text + "\n")
}

/// Serializes a value as YAML.
fn yaml(value: &impl Serialize) -> Result<String, CliError> {
    // The conversion through JSON makes numbers and enums look the same in both formats.
    let value = serde_json::to_value(value).map_err(|error| serialize_error(&error))?;
    serde_yaml_ng::to_string(&value).map_err(|error| serialize_error(&error))
}

fn serialize_error(error: &dyn std::fmt::Display) -> CliError {
    CliError::new(ErrorKind::Bug, format!("cannot serialize the result: {error}"))
}

/// Formats the fields of a value, one per line. Empty fields are omitted, and times also show their age.
fn details(value: &Value, now: Timestamp) -> String {
    let Some(fields) = value.as_object() else { return format!("{value}\n") };
    let width = fields.keys().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in fields {
        let value = match value {
            Value::Null => continue,
            Value::String(value) => match value.parse::<DateTime>() {
                Ok(time) if value.ends_with('Z') => format!("{value} ({})", since(now, time.0)),
                _ => value.clone(),
            },
            Value::Array(values) if values.is_empty() => continue,
            Value::Object(values) if values.is_empty() => continue,
            other => other.to_string(),
        };
        let value = printable(&value).replace('\n', &format!("\n{:width$}  ", ""));
        text.push_str(&format!("{name:<width$}  {value}\n"));
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
    use crate::render::table::{fixed, flexible};

    #[derive(Serialize)]
    struct Thing {
        id: &'static str,
        state: &'static str,
    }

    impl TableRow for Thing {
        const COLUMNS: &'static [Column] = &[fixed("ID"), flexible("STATE")];
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
        Printer { output, format }.list_text(&Page { items: things, next: None }).unwrap()
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
        let value = json!({
            "id": "x", "nothing": null, "none": [], "created": at.to_rfc3339(),
            "text": "a\nb\x1b", "more": {"a": 1},
        });
        let shown = details(&value, now);
        assert!(shown.contains("id       x\n"), "{shown}");
        assert!(shown.contains("(2m ago)\n"), "{shown}");
        assert!(shown.contains("text     a\n         b\n"), "{shown}");
        assert!(!shown.contains("nothing") && !shown.contains("none"), "{shown}");
    }
}
