//! A server for checks from outside: a scripted agent, a worker, one token for each role.
//!
//! `served <directory> [--streams-stay]` prints the address and the tokens as JSON on one line and serves until its standard input ends.
#![expect(clippy::print_stdout, clippy::expect_used, reason = "a program for checks")]

use std::io::Read;
use std::path::PathBuf;

use provost_agent::Agent;
use provost_api::{Client, CreatedToken, NewTask, NewToken, Scope};
use provost_core::Env;
use provost_core::id::name::Namespace;
use provost_core::resource::AgentSpec;
use provost_engine::{AgentRevision, Engine, EngineDeps, EngineOptions, Lease};
use provost_model::ScriptedModel;
use provost_server::{App, AppOptions, Limits, LocalTransport, WebhookSigningKey, serve};
use provost_store::{Store, StoreOptions};
use provost_tool::GuardServices;
use serde_json::{Map, Value, json};

#[tokio::main]
async fn main() {
    let dir: PathBuf = std::env::args_os().nth(1).expect("usage: served <directory>").into();
    let store = Store::open(StoreOptions::new(dir.join("provost.db"))).expect("a database");
    let agents = |_: &AgentRevision, _: &Lease| {
        // Each run says one thing; there is no script that could run out.
        let model = ScriptedModel::new().turn(provost_model::text("done"));
        Ok(Agent::builder("default", model).build().expect("an agent"))
    };
    let deps = EngineDeps::new(store, agents, GuardServices::default(), Env::system());
    let engine = Engine::new(deps, EngineOptions::default());
    let namespace = Namespace::default();
    let config = AgentSpec::default_for("default");
    engine.put_agent(&namespace, "default", None, config).await.expect("an agent");
    let worker = engine.start().await.expect("a worker");
    // Checks are allowed to hurry, and look at streams for a moment only; unless they count what a stream costs.
    let stay = std::env::args().nth(2).is_some_and(|word| word == "--streams-stay");
    let stream_timeout = (!stay).then_some(std::time::Duration::from_millis(200));
    let limits = Limits { rate_per_second: 0, stream_timeout, ..Limits::default() };
    let app = App::new(
        engine.clone(),
        AppOptions {
            limits,
            webhook_signing_key: Some(WebhookSigningKey::new([1; 32])),
            ..AppOptions::default()
        },
    );
    let client = Client::new(LocalTransport::new(app.clone()), namespace.clone());
    let known = known_ids(&client, &engine, &namespace).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let tokens = tokens(&app).await;
    println!("{}", json!({"address": address, "tokens": tokens, "known": known}));
    let stopped = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]).map(drop));
    serve(app, listener, async move { drop(stopped.await) }).await;
    worker.stop(std::time::Duration::from_secs(5)).await;
}

/// One token for each role, as text.
async fn tokens(app: &App) -> Map<String, Value> {
    let roles: [(&str, &[Scope], &str); 5] = [
        ("read", &[Scope::Read], "default"),
        ("write", &[Scope::Read, Scope::Write], "default"),
        ("approve", &[Scope::Read, Scope::Approve], "default"),
        ("admin", &[Scope::Admin], "*"),
        ("foreign", &[Scope::Admin], "elsewhere"),
    ];
    let client = Client::new(LocalTransport::new(app.clone()), Namespace::default());
    let mut tokens = Map::new();
    for (name, scopes, namespace) in roles {
        let new = NewToken {
            name: name.to_owned(),
            scopes: scopes.to_vec(),
            namespaces: vec![namespace.to_owned()],
            expires: None,
        };
        let made: CreatedToken = client.create_token(&new).await.expect("a token");
        tokens.insert(name.to_owned(), json!(made.secret));
    }
    tokens
}

/// Something that is there, so that paths with ids lead somewhere.
async fn known_ids(client: &Client, engine: &Engine, namespace: &Namespace) -> Value {
    let accepted = client.submit(&NewTask::text("hello")).await.expect("a task");
    engine.runs().wait(namespace, accepted.run).await.expect("an end");
    json!({"task": accepted.task, "run": accepted.run, "session": accepted.session, "agent": "default"})
}
