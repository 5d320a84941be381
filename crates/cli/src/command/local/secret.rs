//! `provost secret`: values that tools need, sealed in the database. Nothing here shows one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use provost_api::{Page, Time};
use provost_core::id::name::Namespace;
use provost_core::{ErrorKind, Secret, Timestamp};
use provost_secret::{
    KeySource, Keyring, SealedStore, SecretError, SecretFacts, SecretRef, VALUE_KEY, Vault,
};
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, read};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use serde::Serialize;
use serde_json::json;

use super::block_on;
use crate::boot::database;
use crate::data;
use crate::problem::Problem;
use crate::render::output::Output;
use crate::render::show::{Format, Show, Shown};
use crate::render::table::{Cell, Column, ago, rigid, text};
use crate::stdin;

const EXAMPLES: &str = "\
Examples:
  provost secret set mail                         asks for the value, which is not shown
  provost secret set mail password < password.txt
  pass show crm | provost secret set crm client_secret
  provost secret list
  provost secret rotate                           a new key; everything is sealed anew
  provost secret delete mail password

A tool names a secret as `mail` or `mail:password`. Values are sealed with the key in PROVOST_MASTER_KEY, or in the file that
PROVOST_MASTER_KEY_FILE names, or in `secrets.key` beside the database, which is made when it is first needed.
Keep a copy of it: without it no secret can be read again.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// The namespace; `default` if nothing is said
    #[arg(long, short, global = true, value_name = "NAME", default_value_t)]
    namespace: Namespace,
    /// In which form: table, json, jsonl, yaml, name
    #[arg(long, short, global = true, value_enum, default_value_t, value_name = "FORM")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set a value, which comes from standard input or is asked for
    #[command(after_help = "Examples:\n  provost secret set mail password < password.txt")]
    Set {
        /// The secret's name
        name: String,
        /// Which of its values
        #[arg(default_value = VALUE_KEY)]
        key: String,
    },
    /// List secrets, without their values
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost secret list -o json")]
    List {
        /// Of all namespaces
        #[arg(long)]
        all: bool,
    },
    /// Make a new key and seal everything with it; after a crash, finish what was begun
    #[command(
        after_help = "Examples:\n  provost secret rotate\n  provost secret rotate --forget\n\n\
                      Old keys stay in the file, because backups need them, until --forget."
    )]
    Rotate {
        /// Forget all old keys afterwards: older backups cannot be read any more
        #[arg(long)]
        forget: bool,
    },
    /// Remove a value, or all values of a secret
    #[command(visible_alias = "rm", after_help = "Examples:\n  provost secret delete mail")]
    Delete {
        /// The secret's name
        name: String,
        /// Which of its values; all if nothing is said
        key: Option<String>,
    },
}

/// A secret in a list.
#[derive(Serialize)]
struct Listed {
    namespace: String,
    name: String,
    key: String,
    key_id: String,
    revision: u64,
    updated: Time,
}

impl Shown for Listed {
    const COLUMNS: &'static [Column] = &[
        rigid("NAME"),
        rigid("KEY"),
        text("NAMESPACE"),
        text("SEALED WITH"),
        text("REVISION"),
        text("UPDATED"),
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

impl From<SecretFacts> for Listed {
    fn from(facts: SecretFacts) -> Self {
        let SecretFacts { namespace, name, key, key_id, revision, updated } = facts;
        Self { namespace, name, key, key_id, revision, updated: Time(updated) }
    }
}

/// Does it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let show = Show { output: *output, format: args.output };
    let dir = data::real_dir(data)?;
    let here = Here { dir, namespace: args.namespace.as_str(), show };
    match &args.action {
        Action::Set { name, key } => here.set(name, key),
        Action::List { all } => here.list(*all),
        Action::Rotate { forget } => here.rotate(*forget),
        Action::Delete { name, key } => here.delete(name, key.as_deref()),
    }
}

/// Where secrets are kept, and for whom.
struct Here<'a> {
    dir: PathBuf,
    namespace: &'a str,
    show: Show,
}

impl Here<'_> {
    fn set(&self, name: &str, key: &str) -> Result<u8, Problem> {
        let reference = SecretRef { namespace: None, name: name.to_owned(), key: key.to_owned() };
        reference.check().map_err(problem)?;
        // Asked for before anything is made, so that whoever changes their mind leaves nothing behind.
        let value = value(&reference, &self.show.output)?;
        let vault = Vault::new(self.store()?, self.keys()?.1);
        let revision = block_on(vault.set(self.namespace, &reference, &value))?.map_err(problem)?;
        let what =
            json!({ "namespace": self.namespace, "name": name, "key": key, "revision": revision });
        let sentence = format!("{reference} is set in `{}`", self.namespace);
        self.show.done(&what, &reference.to_string(), &sentence)?;
        Ok(0)
    }

    fn list(&self, all: bool) -> Result<u8, Problem> {
        // No key is needed to see what there is.
        let store = self.store()?;
        let namespace = (!all).then_some(self.namespace);
        let found = block_on(Vault::facts(&*store, namespace))?.map_err(problem)?;
        let items: Vec<Listed> = found.into_iter().map(Listed::from).collect();
        self.show.list(&Page { items, next: None })?;
        Ok(0)
    }

    fn rotate(&self, forget: bool) -> Result<u8, Problem> {
        let (source, mut keys) = self.keys()?;
        let store = self.store()?;
        let facts = block_on(Vault::facts(&*store, None))?.map_err(problem)?;
        // A rotation that was cut short is finished before the next one begins; so is one whose key an operator put first.
        let is_begun = facts.iter().any(|facts| facts.key_id != keys.current().as_str());
        if !is_begun {
            keys = keys.with_new_key().map_err(problem)?;
            source.replace(&keys).map_err(problem)?;
        }
        let done = block_on(Vault::new(store, keys.clone()).reseal())?.map_err(problem)?;
        if forget {
            keys = keys.only_current();
            source.replace(&keys).map_err(problem)?;
        }
        let current = keys.current().to_string();
        let what =
            json!({ "key_id": current, "resealed": done.resealed, "keys": keys.ids().count() });
        let sentence = format!("{} values are sealed with the key {current} now", done.resealed);
        self.show.done(&what, &current, &sentence)?;
        Ok(0)
    }

    fn delete(&self, name: &str, key: Option<&str>) -> Result<u8, Problem> {
        let store = self.store()?;
        let gone =
            block_on(SealedStore::delete(&*store, self.namespace, name, key))?.map_err(problem)?;
        if gone == 0 {
            let what = format!("there is no such secret in `{}`", self.namespace);
            return Err(Problem::new(ErrorKind::NotFound, what)
                .help("`provost secret list` shows what there is"));
        }
        let what = json!({ "namespace": self.namespace, "name": name, "removed": gone });
        self.show.done(&what, name, &format!("{gone} values of {name} are gone"))?;
        Ok(0)
    }

    fn store(&self) -> Result<Arc<dyn SealedStore>, Problem> {
        database::open_sealed(&self.dir)
    }

    /// The keys, made if there are none.
    fn keys(&self) -> Result<(KeySource, Keyring), Problem> {
        data::make(&self.dir)?;
        let env = |name: &str| std::env::var(name).ok();
        let source = KeySource::find(&self.dir, env).map_err(problem)?;
        let keys = match source.load(env).map_err(problem)? {
            Some(keys) => keys,
            None => {
                let keys = source.create().map_err(problem)?;
                if let KeySource::File(path) = &source {
                    self.show
                        .output
                        .dim(&format!("made the master key {}: keep a copy of it", path.display()));
                }
                keys
            }
        };
        Ok((source, keys))
    }
}

/// The value: what is piped in, or what a person types without seeing it.
fn value(reference: &SecretRef, output: &Output) -> Result<Secret<String>, Problem> {
    let text = match stdin::read_piped()? {
        Some(text) => Secret::new(text),
        None => ask(reference, output)?,
    };
    // The line end of a file or of `echo` is not part of it.
    let line = text.expose();
    let line = line
        .strip_suffix('\n')
        .map_or(line.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(Secret::from(line))
}

fn ask(reference: &SecretRef, output: &Output) -> Result<Secret<String>, Problem> {
    use std::io::IsTerminal;
    if !io::stdin().is_terminal() || !output.stderr_tty {
        return Err(Problem::invalid("there is no value on standard input")
            .help("pipe it in: provost secret set NAME < FILE"));
    }
    let broken = |error: io::Error| Problem::io("the terminal", &error);
    write!(io::stderr(), "value of {reference} (not shown): ").map_err(broken)?;
    io::stderr().flush().map_err(broken)?;
    enable_raw_mode().map_err(broken)?;
    let typed = type_unseen();
    disable_raw_mode().map_err(broken)?;
    writeln!(io::stderr()).map_err(broken)?;
    typed.map_err(broken)?.ok_or_else(|| Problem::new(ErrorKind::Cancelled, "nothing was set"))
}

/// Reads keys until Enter; nothing if it was given up.
fn type_unseen() -> io::Result<Option<Secret<String>>> {
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

fn problem(error: SecretError) -> Problem {
    Problem::new(error.kind(), error.to_string())
}
