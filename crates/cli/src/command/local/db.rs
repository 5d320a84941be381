//! `provost db`: checks, backs up, restores and measures the database.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use provost_core::ErrorKind;
use serde_json::{Value, json};

use super::block_on;
use crate::boot::database::{self, CopyProgress, DatabaseSize};
use crate::data;
use crate::error::CliError;
use crate::render::output::{Output, printable};

const EXAMPLES: &str = "\
Examples:
  provost db stats                                path, size and number of rows
  provost db check                                checks the database for damage
  provost db backup ~/provost-monday.db          copies the database while it is in use
  provost db restore ~/provost-monday.db          creates the database from a backup
  provost db restore ~/provost-monday.db --replace
  provost db check --json --data-dir /srv/provost

The exit code is 11 if the database is damaged, and 6 if another program uses the database.";

/// Arguments of `provost db`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: DbCommand,
    /// Print a JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Check the file, references, rows and large values for damage
    #[command(
        after_help = "Examples:\n  provost db check\n  provost db check --json | jq .problems"
    )]
    Check,
    /// Copy the database to a new file while it is in use
    #[command(after_help = "Examples:\n  provost db backup ~/provost-monday.db")]
    Backup {
        /// File to create; an existing file is never replaced
        file: PathBuf,
    },
    /// Restore the database from a backup; no other program may use the database
    #[command(after_help = "Examples:\n  provost db restore ~/provost-monday.db --replace\n\n\
                      Runs that were active during the backup are resumed.")]
    Restore {
        /// Backup; it is checked first and not changed
        file: PathBuf,
        /// Replace the existing database
        #[arg(long)]
        replace: bool,
    },
    /// Show the path and size of the database and the number of rows in each table
    #[command(after_help = "Examples:\n  provost db stats\n  provost db stats --json | jq .bytes")]
    Stats,
}

/// Result of an action.
struct ActionResult {
    text: String,
    json: Value,
    code: u8,
}

/// Runs the command and prints the result.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, CliError> {
    let dir = data::dir_from_env(data)?;
    let result = match &args.action {
        DbCommand::Check => check(&dir, output)?,
        DbCommand::Backup { file } => backup(&dir, file, output)?,
        DbCommand::Restore { file, replace } => restore(&dir, file, *replace, output)?,
        DbCommand::Stats => stats(&dir)?,
    };
    let text = if args.json {
        format!("{:#}\n", result.json)
    } else {
        printable(&result.text).into_owned()
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::io("standard output", &error))
        }
        _ => Ok(result.code),
    }
}

/// Checks the database, and prints each damage.
fn check(dir: &Path, output: &Output) -> Result<ActionResult, CliError> {
    let path = database::path(dir);
    progress(output, "checking …");
    let found = block_on(database::check(dir))?;
    end_progress(output);
    let problems = found?;
    let mut text = String::new();
    for problem in &problems {
        text.push_str(&format!("✗ {}: {}\n", problem.code, problem.detail));
    }
    text.push_str(&match problems.len() {
        0 => format!("✓ {}: no problems found\n", path.display()),
        count => format!(
            "\n{count} problems in {}\n→ stop all programs that use the database, then restore a backup with `provost db restore`\n",
            path.display()
        ),
    });
    let found = problems.iter().map(|it| json!({ "code": it.code, "detail": it.detail }));
    let code = if problems.is_empty() { 0 } else { ErrorKind::Malformed.exit_code() };
    let json = json!({
        "path": path, "ok": problems.is_empty(), "problems": found.collect::<Vec<_>>(),
    });
    Ok(ActionResult { text, json, code })
}

/// Copies the database to a file while it is in use.
fn backup(dir: &Path, file: &Path, output: &Output) -> Result<ActionResult, CliError> {
    let stderr = *output;
    let mut last = None;
    let report = move |copied: CopyProgress| {
        let percent = copied.pages.saturating_mul(100).checked_div(copied.pages_total);
        if percent != last {
            last = percent;
            progress(&stderr, &format!("copying … {} %", percent.unwrap_or(100)));
        }
    };
    let backup = block_on(database::backup(dir, file, report))?;
    end_progress(output);
    let backup = backup?;
    Ok(ActionResult {
        text: format!("✓ {}: {}\n", backup.path.display(), size(backup.bytes)),
        json: json!({ "path": backup.path, "bytes": backup.bytes }),
        code: 0,
    })
}

/// Restores the database from a backup. Returns an error if a database exists and `replace` is false.
fn restore(
    dir: &Path,
    file: &Path,
    replace: bool,
    output: &Output,
) -> Result<ActionResult, CliError> {
    let to = database::path(dir);
    progress(output, "checking and copying …");
    let restored = database::restore(dir, file, replace);
    end_progress(output);
    let restored = restored?;
    Ok(ActionResult {
        text: format!("✓ restored {} from {}\n", to.display(), file.display()),
        json: json!({
            "path": to, "from": file, "generation": restored.generation,
            "schema_version": restored.schema_version,
        }),
        code: 0,
    })
}

/// Returns the size of the database.
fn stats(dir: &Path) -> Result<ActionResult, CliError> {
    let found = block_on(database::size(dir))??;
    let DatabaseSize { path, schema_version, generation, bytes, free_bytes, log_bytes, .. } =
        &found;
    let mut text = format!("{}\n\n", path.display());
    for (name, value) in [
        ("schema version", schema_version.to_string()),
        ("restored", format!("{generation} times")),
        ("size", size(*bytes)),
        ("free", size(*free_bytes)),
        ("log", size(*log_bytes)),
    ] {
        text.push_str(&format!("{name:<16} {value:>12}\n"));
    }
    text.push_str("\nrows\n");
    for table in &found.tables {
        text.push_str(&format!("{:<16} {:>12}\n", table.name, table.rows));
    }
    let rows: serde_json::Map<String, Value> =
        found.tables.iter().map(|table| (table.name.clone(), table.rows.into())).collect();
    let json = json!({
        "path": path, "schema_version": schema_version, "generation": generation, "bytes": bytes,
        "free_bytes": free_bytes, "log_bytes": log_bytes, "rows": rows,
    });
    Ok(ActionResult { text, json, code: 0 })
}

/// Shows the progress of an operation on a terminal.
fn progress(output: &Output, text: &str) {
    if output.stderr_tty {
        write!(io::stderr(), "\r{text}\x1b[K").ok();
    }
}

/// Removes the progress line.
fn end_progress(output: &Output) {
    if output.stderr_tty {
        write!(io::stderr(), "\r\x1b[K").ok();
    }
}

/// Formats a number of bytes with a unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1024 * 1024, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
