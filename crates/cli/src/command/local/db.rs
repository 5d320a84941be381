//! `provost db`: check, back up, restore and measure the database.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use provost_core::ErrorKind;
use serde_json::{Value, json};

use super::block_on;
use crate::boot::database::{self, CopyProgress, DatabaseSize};
use crate::data;
use crate::problem::Problem;
use crate::render::output::{Output, printable};

const EXAMPLES: &str = "\
Examples:
  provost db stats                                where the database is and what is in it
  provost db check                                is everything whole?
  provost db backup ~/provost-monday.db           a copy, while others go on working
  provost db restore ~/provost-monday.db          where there is no database yet
  provost db restore ~/provost-monday.db --replace
  provost db check --json --data /srv/provost

It exits with 0 if all is well, with 11 if the database is damaged, with 6 if another program is in the way.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Look for damage: in the file, in the references, in the rows and in large contents
    #[command(
        after_help = "Examples:\n  provost db check\n  provost db check --json | jq .problems"
    )]
    Check,
    /// Copy everything to a new file while others go on working
    #[command(after_help = "Examples:\n  provost db backup ~/provost-monday.db")]
    Backup {
        /// The file to make; one that is there is never replaced
        file: PathBuf,
    },
    /// Make the database of a backup; no other program may use it meanwhile
    #[command(after_help = "Examples:\n  provost db restore ~/provost-monday.db --replace\n\n\
                      Runs that were under way when the backup was made are taken up again.")]
    Restore {
        /// The backup, which is checked first and only read
        file: PathBuf,
        /// Replace the database that is there
        #[arg(long)]
        replace: bool,
    },
    /// Show where the database is, how large it is, and how many rows its tables have
    #[command(after_help = "Examples:\n  provost db stats\n  provost db stats --json | jq .bytes")]
    Stats,
}

/// What an action came to.
struct Done {
    text: String,
    json: Value,
    code: u8,
}

/// Does it and prints what came of it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let dir = data::real_dir(data)?;
    let done = match &args.action {
        Action::Check => check(&dir, output)?,
        Action::Backup { file } => backup(&dir, file, output)?,
        Action::Restore { file, replace } => restore(&dir, file, *replace, output)?,
        Action::Stats => stats(&dir)?,
    };
    let text =
        if args.json { format!("{:#}\n", done.json) } else { printable(&done.text).into_owned() };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Problem::io("standard output", &error))
        }
        _ => Ok(done.code),
    }
}

fn check(dir: &Path, output: &Output) -> Result<Done, Problem> {
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
        0 => format!("✓ {} is whole\n", path.display()),
        count => format!(
            "\n{count} problems in {}\n→ stop all programs that use it; `provost db restore` brings a backup back\n",
            path.display()
        ),
    });
    let found = problems.iter().map(|it| json!({ "code": it.code, "detail": it.detail }));
    let code = if problems.is_empty() { 0 } else { ErrorKind::Malformed.exit_code() };
    let json = json!({
        "path": path, "ok": problems.is_empty(), "problems": found.collect::<Vec<_>>(),
    });
    Ok(Done { text, json, code })
}

fn backup(dir: &Path, file: &Path, output: &Output) -> Result<Done, Problem> {
    let shown = *output;
    let mut last = None;
    let tell = move |at: CopyProgress| {
        let percent = at.pages.saturating_mul(100).checked_div(at.pages_total);
        if percent != last {
            last = percent;
            progress(&shown, &format!("copying … {} %", percent.unwrap_or(100)));
        }
    };
    let backup = block_on(database::backup(dir, file, tell))?;
    end_progress(output);
    let backup = backup?;
    Ok(Done {
        text: format!("✓ {}: {}\n", backup.path.display(), size(backup.bytes)),
        json: json!({ "path": backup.path, "bytes": backup.bytes }),
        code: 0,
    })
}

fn restore(dir: &Path, file: &Path, replace: bool, output: &Output) -> Result<Done, Problem> {
    let to = database::path(dir);
    progress(output, "checking and copying …");
    let restored = database::restore(dir, file, replace);
    end_progress(output);
    let restored = restored?;
    Ok(Done {
        text: format!("✓ {} is restored from {}\n", to.display(), file.display()),
        json: json!({
            "path": to, "from": file, "generation": restored.generation,
            "schema_version": restored.schema_version,
        }),
        code: 0,
    })
}

fn stats(dir: &Path) -> Result<Done, Problem> {
    let found = block_on(database::size(dir))??;
    let DatabaseSize { path, schema_version, generation, bytes, free_bytes, log_bytes, .. } =
        &found;
    let mut text = format!("{}\n\n", path.display());
    for (name, value) in [
        ("schema version", schema_version.to_string()),
        ("restored", format!("{generation} times")),
        ("size", size(*bytes)),
        ("of it free", size(*free_bytes)),
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
    Ok(Done { text, json, code: 0 })
}

/// Shows on a terminal that something takes its time.
fn progress(output: &Output, text: &str) {
    if output.stderr_tty {
        write!(io::stderr(), "\r{text}\x1b[K").ok();
    }
}

/// Takes it away again.
fn end_progress(output: &Output) {
    if output.stderr_tty {
        write!(io::stderr(), "\r\x1b[K").ok();
    }
}

/// A number of bytes for people.
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
