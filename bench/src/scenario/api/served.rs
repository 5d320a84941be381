//! The measured servers, each in a separate process.

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

/// Maximum number of requests that share a commit.
const GROUP_MAX: usize = 256;

/// A request to store, and the sender that reports its commit.
pub(super) type PendingRow = (String, oneshot::Sender<()>);

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

/// Creates an app that accepts tasks and executes none.
async fn app(dir: &Path) -> Result<(App, String)> {
    let agent = Agent::builder("default", ScriptedModel::new()).build()?;
    let engine = engine::open(dir, 1, engine::always(agent)).await?;
    let limits = Limits { rate_per_second: 0, ..Limits::default() };
    let app = App::new(engine, AppOptions { limits, ..AppOptions::default() });
    let token = app.bootstrap_admin_token().await.map_err(|problem| problem.to_string())?;
    Ok((app, token.ok_or("a database that has a token")?))
}

/// Starts a thread that writes a row for each request, with one commit for all waiting requests.
fn writer(dir: &Path) -> Result<mpsc::Sender<PendingRow>> {
    let mut connection = sqlite::open(&dir.join("floor.db"))?;
    connection
        .execute_batch("CREATE TABLE task (id INTEGER PRIMARY KEY, command TEXT NOT NULL)")?;
    let (rows, waiting) = mpsc::channel::<PendingRow>();
    thread::spawn(move || -> Result<()> {
        while let Ok(first) = waiting.recv() {
            let transaction = connection.transaction()?;
            let mut done = Vec::new();
            for (command, done_sender) in
                std::iter::once(first).chain(waiting.try_iter().take(GROUP_MAX))
            {
                transaction
                    .prepare_cached("INSERT INTO task (command) VALUES (?1)")?
                    .execute(params![command])?;
                done.push(done_sender);
            }
            transaction.commit()?;
            for done_sender in done {
                // The receiver may have been dropped.
                let _sent = done_sender.send(()).is_ok();
            }
        }
        Ok(())
    });
    Ok(rows)
}
