//! The whole journey, the same with a server and without one: submit, follow, steer, approve, cancel, fork, explain.

use std::process::{Child, Command};

use provost_testkit::Reply;
use serde_json::{Value, json};

use crate::Ran;
use crate::remote::{Server, command, provider_env};
use crate::support::{Stage, ended, save_milk, slow};

/// How often something is looked for that must come.
const LOOKS_MAX: usize = 200;

/// Pieces of the first answer: it takes longer than a worker needs to see what another process said to the run.
const PIECES: usize = 150;

/// Where the runs are.
struct Way {
    stage: Stage,
    server: Option<(Server, String)>,
}

impl Way {
    async fn local(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { stage: Stage::new(replies).await, server: None }
    }

    async fn remote(replies: impl IntoIterator<Item = Reply>) -> Self {
        let stage = Stage::new(replies).await;
        let server =
            Server::start(&stage.world, &["--listen", "127.0.0.1:0"], &provider_env(&stage));
        let token = server.token.clone().unwrap();
        Self { stage, server: Some((server, token)) }
    }

    fn command(&self, args: &[&str]) -> Command {
        match &self.server {
            Some((server, token)) => command(&self.stage.world, &server.url, token, args),
            None => {
                let mut command = self.stage.world.command(args);
                command.envs(provider_env(&self.stage));
                command
            }
        }
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().unwrap())
    }

    /// The first name that a list has, once it has one.
    fn name(&self, args: &[&str]) -> String {
        let args = [args, &["-o", "name"]].concat();
        let look = |_| self.run(&args).out.lines().next().map(str::to_owned);
        (0..LOOKS_MAX).find_map(look).unwrap()
    }
}

fn replies() -> Vec<Reply> {
    vec![
        slow(PIECES).and_call("c0", "clock", &json!({})),
        Reply::text("Bonjour!"),
        save_milk(),
        Reply::text("All-done."),
        Reply::text("never-ends").hang_midway(),
        Reply::text("Forked!"),
        Reply::raw_response(400, "application/json", r#"{"error":{"message":"no such thing"}}"#),
    ]
}

async fn journey(way: Way) {
    // Submit, follow, steer.
    let follower = way.start(&["task", "submit", "tell-me", "--follow"]);
    way.stage.provider.wait_for_requests(1).await;
    let first = way.name(&["run", "list"]);
    let steered = way.run(&["run", "send", &first, "in-French-please"]);
    assert_eq!(steered.code, 0, "{steered:?}");
    let ran = ended(follower).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: String = (0..PIECES).map(|piece| format!("piece{piece} ")).collect();
    assert!(ran.out.contains(told.trim_end()), "{ran:?}");
    assert!(ran.out.ends_with("Bonjour!\n"), "{ran:?}");
    assert_eq!(ran.out.matches("piece149").count(), 1, "{ran:?}");
    let asked = way.stage.asked();
    assert!(asked[1].to_string().contains("in-French-please"), "{asked:?}");

    // Approve.
    let waiting = way.start(&["task", "submit", "save-it", "--wait"]);
    let question = way.name(&["approval", "list"]);
    let explained = way.run(&["explain", &question]);
    assert!(explained.out.lines().next().unwrap().contains("save_note"), "{explained:?}");
    assert!(
        explained.out.contains(&format!("provost approval approve {question}")),
        "{explained:?}"
    );
    let approved = way.run(&["approval", "approve", &question]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let again = way.run(&["approval", "deny", &question, "--reason", "too late"]);
    assert_eq!(again.code, 6, "{again:?}");
    let ran = ended(waiting).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "All-done.\n"), "{ran:?}");

    // Cancel.
    let waiting = way.start(&["task", "submit", "hang", "--wait"]);
    way.stage.provider.wait_for_requests(5).await;
    let run = way.name(&["run", "list", "--status", "running"]);
    let cancelled = way.run(&["run", "cancel", &run]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    let ran = ended(waiting).await;
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.err.contains(&format!("provost explain {run}")), "{ran:?}");

    // Fork, replay, explain.
    let forked = way.run(&["run", "fork", &first, "--message", "once-more", "-o", "json"]);
    assert_eq!(forked.code, 0, "{forked:?}");
    let forked: Value = serde_json::from_str(&forked.out).unwrap();
    let forked = forked["run"].as_str().unwrap();
    let ran = way.run(&["run", "wait", forked]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Forked!\n"), "{ran:?}");
    for run in [&first, forked] {
        let replayed = way.run(&["run", "replay", run]);
        assert_eq!(replayed.code, 0, "{replayed:?}");
        let explained = way.run(&["explain", run]);
        assert!(explained.out.lines().next().unwrap().contains("succeeded"), "{explained:?}");
    }

    // A run that fails says so, and why.
    let ran = way.run(&["task", "submit", "fail", "--wait"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.contains("provost explain run_"), "{ran:?}");
    let failed = way.name(&["run", "list", "--status", "error"]);
    let explained = way.run(&["explain", &failed]);
    assert_eq!(explained.code, 0, "{explained:?}");
    assert_eq!(way.stage.provider.replies_left(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_journey_with_a_server() {
    journey(Way::remote(replies()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_journey_without_a_server() {
    journey(Way::local(replies()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_handed_in_without_a_server_waits_for_somebody() {
    let way = Way::local([Reply::text("Hello!")]).await;
    let submitted = way.run(&["task", "submit", "hi", "--idempotency-key", "k"]);
    assert_eq!(submitted.code, 0, "{submitted:?}");
    assert!(submitted.err.contains("`provost serve` executes the task"), "{submitted:?}");
    let again = way.run(&["task", "submit", "hi", "--idempotency-key", "k", "-o", "json"]);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["deduped"], true);
    let task = way.name(&["task", "list", "--state", "queued"]);
    assert!(submitted.out.starts_with(&task), "{submitted:?}");
    let ran = way.run(&["task", "wait", &task]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello!\n"), "{ran:?}");
    let logs = way.run(&["task", "logs", &task, "--follow"]);
    assert!(logs.out.contains("user") && logs.out.contains("Hello!"), "{logs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_others_cannot_choose_where_the_key_goes() {
    let way = Way::remote([]).await;
    let recipe = format!(
        "endpoint={{\"base_url\":\"{}\",\"api_key_env\":\"OPENAI_API_KEY\"}}",
        way.stage.url
    );
    let made = way.run(&["agent", "create", "thief", "--model", "m", "--set", &recipe]);
    assert_eq!(made.code, 0, "{made:?}");
    let policy = r#"policy={"retry":{"max_attempts":1}}"#;
    way.run(&["agent", "update", "thief", "--set", policy]);
    let ran = way.run(&["task", "submit", "x", "--agent", "thief", "--wait"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(way.stage.provider.request_count(), 0);
}
