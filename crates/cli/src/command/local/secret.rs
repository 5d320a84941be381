//! `provost secret`: manages encrypted secrets. No command shows a value.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use provost_api::{DateTime, Page};
use provost_core::id::name::Namespace;
use provost_core::{ErrorKind, Secret, Timestamp};
use provost_secret::{
    KeySource, Keyring, SecretError, SecretMetadata, SecretRef, SecretStore, VALUE_KEY, Vault,
};
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, read};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use serde::Serialize;
use serde_json::json;

use super::block_on;
use crate::boot::database;
use crate::data;
use crate::error::CliError;
use crate::render::output::Output;
use crate::render::printer::{Format, Printer, TableRow};
use crate::render::table::{Cell, Column, ago, fixed, flexible};
use crate::stdin;

const EXAMPLES: &str = "\
Examples:
  provost secret set mail                        reads the value without showing it
  provost secret set mail password < password.txt
  pass show crm | provost secret set crm client_secret
  provost secret list
  provost secret rotate                          encrypts all values with a new key
  provost secret delete mail password

A tool refers to a secret as `mail` or `mail:password`. Values are encrypted with the master key: PROVOST_MASTER_KEY, or
the file PROVOST_MASTER_KEY_FILE, or `secrets.key` in the data directory, which is created when it is first needed.
Back up the master key: without it the secrets cannot be decrypted.";

/// Arguments of `provost secret`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: SecretAction,
    /// Namespace
    #[arg(long, short, global = true, value_name = "NAME", default_value_t)]
    namespace: Namespace,
    /// Output format
    #[arg(long, short, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum SecretAction {
    /// Set a value from standard input or from a hidden prompt
    #[command(after_help = "Examples:\n  provost secret set mail password < password.txt")]
    Set {
        /// Name of the secret
        name: String,
        /// Key of the value
        #[arg(default_value = VALUE_KEY)]
        key: String,
    },
    /// List secrets, without their values
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost secret list -o json")]
    List {
        /// Include all namespaces
        #[arg(long)]
        all: bool,
    },
    /// Create a new master key and encrypt all values with it, or finish an interrupted rotation
    #[command(
        after_help = "Examples:\n  provost secret rotate\n  provost secret rotate --discard-old-keys\n\n\
                      The key file keeps old keys, because backups need them, until --discard-old-keys."
    )]
    Rotate {
        /// Discard old keys afterwards; older backups can then no longer be decrypted
        #[arg(long, alias = "forget")]
        discard_old_keys: bool,
    },
    /// Delete a value, or all values of a secret
    #[command(visible_alias = "rm", after_help = "Examples:\n  provost secret delete mail")]
    Delete {
        /// Name of the secret
        name: String,
        /// Key of the value; default: all values
        key: Option<String>,
    },
}

/// Row of the list of secrets.
#[derive(Serialize)]
struct SecretRow {
    namespace: String,
    name: String,
    key: String,
    key_id: String,
    revision: u64,
    updated: DateTime,
}

impl TableRow for SecretRow {
    const COLUMNS: &'static [Column] = &[
        fixed("NAME"),
        fixed("KEY"),
        flexible("NAMESPACE"),
        flexible("KEY ID"),
        flexible("REVISION"),
        flexible("UPDATED"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.name),
            Cell::from(&self.key),
            Cell::from(&self.namespace),
            Cell::from(&self.key_id),
            Cell::from(self.revision),
            Cell::from(ago(now, self.updated.0)),
        ]
    }

    fn name(&self) -> String {
        format!("{}/{}:{}", self.namespace, self.name, self.key)
    }
}

impl From<SecretMetadata> for SecretRow {
    fn from(facts: SecretMetadata) -> Self {
        let SecretMetadata { namespace, name, key, key_id, revision, updated } = facts;
        Self { namespace, name, key, key_id, revision, updated: DateTime(updated) }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, CliError> {
    let printer = Printer { output: *output, format: args.output };
    let dir = data::dir_from_env(data)?;
    let command = SecretCommand { dir, namespace: args.namespace.as_str(), printer };
    match &args.action {
        SecretAction::Set { name, key } => command.set(name, key),
        SecretAction::List { all } => command.list(*all),
        SecretAction::Rotate { discard_old_keys } => command.rotate(*discard_old_keys),
        SecretAction::Delete { name, key } => command.delete(name, key.as_deref()),
    }
}

/// Context of a command: the data directory, the namespace and the output.
struct SecretCommand<'a> {
    dir: PathBuf,
    namespace: &'a str,
    printer: Printer,
}

impl SecretCommand<'_> {
    /// Reads the value of a secret from a prompt or standard input, and stores it encrypted. Returns the exit code.
    fn set(&self, name: &str, key: &str) -> Result<u8, CliError> {
        let reference = SecretRef { namespace: None, name: name.to_owned(), key: key.to_owned() };
        reference.check().map_err(problem)?;
        // The value is read before the database and the key are created, so that a cancelled prompt creates nothing.
        let value = value(&reference, &self.printer.output)?;
        let vault = Vault::new(self.store()?, self.keys()?.1);
        let revision = block_on(vault.set(self.namespace, &reference, &value))?.map_err(problem)?;
        let result =
            json!({ "namespace": self.namespace, "name": name, "key": key, "revision": revision });
        let text = format!("set {reference} in `{}`", self.namespace);
        self.printer.print_result(&result, &reference.to_string(), &text)?;
        Ok(0)
    }

    /// Prints the names of the stored secrets. Needs no key.
    fn list(&self, all: bool) -> Result<u8, CliError> {
        // Listing needs no key, because it does not decrypt values.
        let store = self.store()?;
        let namespace = (!all).then_some(self.namespace);
        let found = block_on(Vault::metadata(&*store, namespace))?.map_err(problem)?;
        let items: Vec<SecretRow> = found.into_iter().map(SecretRow::from).collect();
        self.printer.print_list(&Page { items, next: None })?;
        Ok(0)
    }

    /// Encrypts all secrets with a new master key, or finishes an interrupted rotation with the current key. If
    /// `discard_old_keys` is true, removes the other keys. Returns the exit code.
    fn rotate(&self, discard_old_keys: bool) -> Result<u8, CliError> {
        let (source, mut keys) = self.keys()?;
        let store = self.store()?;
        let facts = block_on(Vault::metadata(&*store, None))?.map_err(problem)?;
        // An interrupted rotation is finished before a new key is created. The same applies if an operator inserted a
        // key.
        let is_unfinished = facts.iter().any(|facts| facts.key_id != keys.current().as_str());
        if !is_unfinished {
            keys = keys.with_new_key().map_err(problem)?;
            source.replace(&keys).map_err(problem)?;
        }
        let done = block_on(Vault::new(store, keys.clone()).reseal())?.map_err(problem)?;
        if discard_old_keys {
            keys = keys.only_current();
            source.replace(&keys).map_err(problem)?;
        }
        let current = keys.current().to_string();
        let result =
            json!({ "key_id": current, "resealed": done.resealed, "keys": keys.ids().count() });
        let text = format!("encrypted {} values with the key {current}", done.resealed);
        self.printer.print_result(&result, &current, &text)?;
        Ok(0)
    }

    /// Deletes a secret, or one of its keys. Returns the exit code.
    fn delete(&self, name: &str, key: Option<&str>) -> Result<u8, CliError> {
        let store = self.store()?;
        let removed =
            block_on(SecretStore::delete(&*store, self.namespace, name, key))?.map_err(problem)?;
        if removed == 0 {
            let message = format!("the secret does not exist in `{}`", self.namespace);
            return Err(CliError::new(ErrorKind::NotFound, message)
                .hint("`provost secret list` shows the secrets"));
        }
        let result = json!({ "namespace": self.namespace, "name": name, "removed": removed });
        self.printer.print_result(&result, name, &format!("deleted {removed} values of {name}"))?;
        Ok(0)
    }

    fn store(&self) -> Result<Arc<dyn SecretStore>, CliError> {
        database::open_sealed(&self.dir)
    }

    /// Loads the keys, or creates them if they do not exist.
    fn keys(&self) -> Result<(KeySource, Keyring), CliError> {
        data::create(&self.dir)?;
        let env = |name: &str| std::env::var(name).ok();
        let source = KeySource::find(&self.dir, env).map_err(problem)?;
        let keys = match source.load(env).map_err(problem)? {
            Some(keys) => keys,
            None => {
                let keys = source.create().map_err(problem)?;
                if let KeySource::File(path) = &source {
                    self.printer
                        .output
                        .note(&format!("created the master key {}: back it up", path.display()));
                }
                keys
            }
        };
        Ok((source, keys))
    }
}

/// Reads the value from a pipe or from a hidden prompt.
fn value(reference: &SecretRef, output: &Output) -> Result<Secret<String>, CliError> {
    let text = match stdin::read_piped()? {
        Some(text) => Secret::new(text),
        None => prompt_value(reference, output)?,
    };
    // The line end of a file or of `echo` is not part of the value.
    let line = text.expose();
    let line = line
        .strip_suffix('\n')
        .map_or(line.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(Secret::from(line))
}

/// Reads a value from the terminal without showing it. Returns an error without a terminal.
fn prompt_value(reference: &SecretRef, output: &Output) -> Result<Secret<String>, CliError> {
    use std::io::IsTerminal;
    if !io::stdin().is_terminal() || !output.stderr_tty {
        return Err(CliError::invalid("standard input contains no value")
            .hint("pipe the value: provost secret set NAME < FILE"));
    }
    let terminal = |error: io::Error| CliError::io("the terminal", &error);
    write!(io::stderr(), "value of {reference} (not shown): ").map_err(terminal)?;
    io::stderr().flush().map_err(terminal)?;
    enable_raw_mode().map_err(terminal)?;
    let typed = read_hidden_line();
    disable_raw_mode().map_err(terminal)?;
    writeln!(io::stderr()).map_err(terminal)?;
    typed
        .map_err(terminal)?
        .ok_or_else(|| CliError::new(ErrorKind::Cancelled, "cancelled, no value was set"))
}

/// Reads a line without showing it. `None` if the user cancelled.
fn read_hidden_line() -> io::Result<Option<Secret<String>>> {
    let mut typed = String::new();
    loop {
        let key = match read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => key,
            Event::Paste(text) => {
                typed.push_str(&text);
                continue;
            }
            _ => continue,
        };
        match key.code {
            KeyCode::Enter => return Ok(Some(Secret::new(typed))),
            KeyCode::Esc => return Ok(None),
            KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Ok(None);
            }
            KeyCode::Char(c) => typed.push(c),
            KeyCode::Backspace => drop(typed.pop()),
            _ => {}
        }
    }
}

fn problem(error: SecretError) -> CliError {
    CliError::new(error.kind(), error.to_string())
}
