//! Baseline server with `axum`: a typed request, a typed response, and one committed row in between.

use std::sync::mpsc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::served::PendingRow;
use crate::Result;

#[derive(Deserialize, Serialize)]
struct Command {
    message: String,
}

#[derive(Serialize)]
struct Taken {
    task: &'static str,
}

/// Serves one path, without layers.
pub(super) async fn serve(listener: TcpListener, rows: mpsc::Sender<PendingRow>) -> Result<()> {
    let listener = listener.tap_io(|stream| {
        // Reading the connection detects a closed one.
        let _set = stream.set_nodelay(true).is_ok();
    });
    let submitting = post(submit).with_state(rows);
    let router = Router::new().route("/v1/namespaces/{namespace}/tasks", submitting);
    Ok(axum::serve(listener, router).await?)
}

async fn submit(
    State(rows): State<mpsc::Sender<PendingRow>>,
    Json(command): Json<Command>,
) -> Result<(StatusCode, Json<Taken>), StatusCode> {
    let broken = StatusCode::INTERNAL_SERVER_ERROR;
    let command = serde_json::to_string(&command).map_err(|_error| broken)?;
    let (done, committed) = oneshot::channel();
    rows.send((command, done)).map_err(|_gone| broken)?;
    committed.await.map_err(|_gone| broken)?;
    Ok((StatusCode::CREATED, Json(Taken { task: "t" })))
}
