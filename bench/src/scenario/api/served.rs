//! The servers that are measured, each in a process of its own.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use provost_agent::Agent;
use provost_model::ScriptedModel;
use provost_server::{App, AppOptions, Limits, serve};
use rusqlite::params;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::bare_axum;
use crate::baseline::sqlite;
use crate::{Result, engine};

/// Requests that share a commit at most.
const GROUP_MAX: usize = 256;

/// A command to be stored, and who waits for that.
pub(super) type Wanted = (String, oneshot::Sender<()>);

/// Serves until standard input ends.
pub(super) fn run(side: &str, dir: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _guard = runtime.enter();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let token = match side {
        "ours" => {
            let (app, token) = runtime.block_on(app(dir))?;
            runtime.spawn(serve(app, listener, std::future::pending()));
            token
        }
        _ => {
            runtime.spawn(bare_axum::serve(listener, writer(dir)?));
            "none".to_owned()
        }
    };
    writeln!(io::stdout(), "{address} {token}")?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// An app that takes work in and does none of it.
async fn app(dir: &Path) -> Result<(App, String)> {
    let agent = Agent::builder("default", ScriptedModel::new()).build()?;
    let engine = engine::open(dir, 1, engine::always(agent)).await?;
    let limits = Limits { rate_per_second: 0, ..Limits::default() };
    let app = App::new(engine, AppOptions { limits, ..AppOptions::default() });
    let token = app.first_token().await.map_err(|problem| problem.to_string())?;
    Ok((app, token.ok_or("a database that has a token")?))
}

/// One thread that writes a row for each request, and one commit for those that wait.
fn writer(dir: &Path) -> Result<mpsc::Sender<Wanted>> {
    let mut connection = sqlite::open(&dir.join("floor.db"))?;
    connection
        .execute_batch("CREATE TABLE task (id INTEGER PRIMARY KEY, command TEXT NOT NULL)")?;
    let (rows, waiting) = mpsc::channel::<Wanted>();
    thread::spawn(move || -> Result<()> {
        while let Ok(first) = waiting.recv() {
            let transaction = connection.transaction()?;
            let mut done = Vec::new();
            for (command, waits) in std::iter::once(first).chain(waiting.try_iter().take(GROUP_MAX))
            {
                transaction
                    .prepare_cached("INSERT INTO task (command) VALUES (?1)")?
                    .execute(params![command])?;
                done.push(waits);
            }
            transaction.commit()?;
            for waits in done {
                // Whoever waited may have gone.
                let _told = waits.send(()).is_ok();
            }
        }
        Ok(())
    });
    Ok(rows)
}
