//! What operators look after, from the command line: webhooks, schedules, budgets, grants, deliveries, the server itself.

use provost_testkit::Reply;
use serde_json::{Value, json};

use crate::remote::{Server, command, provider_env};
use crate::support::{Stage, save_milk, slow};
use crate::{Ran, World};

/// How often something is looked for that must come.
const LOOKS_MAX: usize = 200;

/// A server and somebody who may do everything there.
struct House<'a> {
    world: &'a World,
    server: Server,
    token: String,
}

impl<'a> House<'a> {
    fn new(world: &'a World, env: &[(&str, &str)]) -> Self {
        let server = Server::start(world, &["--listen", "127.0.0.1:0"], env);
        let token = server.token.clone().unwrap();
        Self { world, server, token }
    }

    fn ask(&self, args: &[&str]) -> Ran {
        Ran::of(&command(self.world, &self.server.url, &self.token, args).output().unwrap())
    }

    fn done(&self, args: &[&str]) -> String {
        let ran = self.ask(args);
        assert_eq!(ran.code, 0, "{args:?} {ran:?}");
        ran.out
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[args, &["-o", "json"]].concat())).unwrap()
    }

    /// The first item of a list, once it has one.
    fn first(&self, args: &[&str]) -> Value {
        let look = |_| self.json(args)["items"].get(0).cloned();
        (0..LOOKS_MAX).find_map(look).unwrap()
    }

    fn refused(&self, args: &[&str], code: i32, said: &str) {
        let ran = self.ask(args);
        assert_eq!(ran.code, code, "{args:?} {ran:?}");
        assert!(ran.err.contains(said) && ran.out.is_empty(), "{args:?} {ran:?}");
    }
}

#[test]
fn webhooks_are_made_looked_through_and_removed() {
    let world = World::new();
    let house = House::new(&world, &[]);
    let url = "https://hooks.invalid/x";
    let made = house.json(&["webhook", "create", url, "--kind", "finished", "--kind", "accepted"]);
    let id = made["webhook"]["id"].as_str().unwrap();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    assert_eq!(made["webhook"]["kinds"], json!(["finished", "accepted"]));
    assert_eq!(house.json(&["webhook", "get", id])["url"], url);
    let table = house.done(&["webhook", "list"]);
    assert!(table.contains(id) && table.contains("active") && table.contains(url), "{table}");
    house.done(&["task", "submit", "what is 6 * 7?", "--wait"]);
    let post = house.first(&["webhook", "deliveries", id]);
    assert!(!post["state"].as_str().unwrap().is_empty(), "{post}");
    let post = post["id"].as_str().unwrap();
    assert!(house.done(&["webhook", "deliveries", id]).contains(post));
    assert_eq!(house.json(&["webhook", "redeliver", id, post])["id"], post);
    assert!(house.done(&["webhook", "delete", id]).contains("deleted"));
    house.refused(&["webhook", "get", id], 5, "webhook");
    house.refused(&["webhook", "create", "http://127.0.0.1/x"], 2, "https://");
    house.refused(&["webhook", "create", "https://127.0.0.1/x"], 2, "private network");
}

#[test]
fn schedules_are_set_paused_and_removed() {
    let world = World::new();
    let house = House::new(&world, &[]);
    let cron = ["--cron", "0 9 * * 1-5", "--zone", "Europe/Berlin"];
    let set = house.json(&[&["schedule", "set", "report", "write it"][..], &cron].concat());
    assert_eq!((set["active"].clone(), set["zone"].clone()), (json!(true), json!("Europe/Berlin")));
    assert_eq!(set["timing"], json!({"cron": "0 9 * * 1-5"}));
    let table = house.done(&["schedule", "list"]);
    assert!(table.contains("report") && table.contains("active"), "{table}");
    assert!(house.done(&["schedule", "pause", "report"]).contains("paused"));
    assert_eq!(house.json(&["schedule", "get", "report"])["active"], false);
    assert_eq!(house.json(&["schedule", "resume", "report"])["active"], true);
    // The same name again is the same schedule, changed.
    let every = ["--every", "15m", "--overlap", "queue", "--jitter", "30s", "--agent", "default"];
    let set = house.json(&[&["schedule", "set", "report", "other"][..], &every].concat());
    assert_eq!(set["timing"], json!({"every_ms": 900_000}));
    assert_eq!((&set["overlap"], &set["jitter_ms"]), (&json!("queue"), &json!(30_000)));
    assert_eq!(house.json(&["schedule", "list"])["items"].as_array().unwrap().len(), 1);
    let once = ["schedule", "set", "once", "hi", "--at", "2099-01-01T00:00:00Z"];
    assert!(house.done(&once).contains("2099-01-01"));
    assert!(house.done(&["schedule", "delete", "report"]).contains("deleted"));
    house.refused(&["schedule", "get", "report"], 5, "schedule");
    house.refused(&["schedule", "set", "x", "y"], 2, "--cron");
    house.refused(&["schedule", "set", "x", "y", "--cron", "61 * * * *"], 2, "timing");
    house.refused(&["schedule", "set", "x", "y", "--every", "1h", "--overlap", "odd"], 2, "skip");
}

#[test]
fn budgets_are_set_and_removed() {
    let world = World::new();
    let house = House::new(&world, &[]);
    let set = house.json(&["budget", "set", "namespace", "20.50", "--period", "day"]);
    assert_eq!((&set["scope"], &set["period"]), (&json!("namespace"), &json!("day")));
    assert_eq!(set["cap"]["amount"], "20.5");
    house.done(&["budget", "set", "agent:default", "3"]);
    let table = house.done(&["budget", "list"]);
    assert!(table.contains("namespace") && table.contains("20.5"), "{table}");
    assert_eq!(house.done(&["budget", "list", "-o", "name"]), "agent:default\nnamespace\n");
    assert!(house.done(&["budget", "remove", "namespace"]).contains("removed the budget"));
    house.refused(&["budget", "remove", "namespace"], 5, "namespace");
    house.refused(&["budget", "set", "namespace", "much"], 2, "0.50");
    house.refused(&["budget", "set", "nobody", "1"], 2, "scope");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_reaches_further_until_it_is_taken_back() {
    let stage = Stage::new([save_milk(), Reply::text("Saved.")]).await;
    let house = House::new(&stage.world, &provider_env(&stage));
    house.done(&["task", "submit", "save it", "--session", "notes"]);
    let asked = house.first(&["approval", "list"]);
    house.done(&["approval", "approve", asked["id"].as_str().unwrap(), "--scope", "session"]);
    let grant = house.first(&["grant", "list"]);
    let [scope, call] = ["scope", "call_key"].map(|field| grant[field].as_str().unwrap());
    assert_eq!(scope, "session:notes");
    assert!(house.done(&["grant", "list"]).contains(call));
    assert!(house.done(&["grant", "revoke", scope, call]).contains("requires approval again"));
    assert_eq!(house.done(&["grant", "list"]), "");
    house.refused(&["grant", "revoke", scope, call], 5, "grant");
}

#[test]
fn deliveries_are_listed_and_one_that_is_not_there_is_not_found() {
    let world = World::new();
    let house = House::new(&world, &[]);
    assert_eq!(house.json(&["delivery", "list", "--state", "failed"])["items"], json!([]));
    let missing = "dlv_01jd0000000000000000000000";
    for action in ["get", "retry", "dismiss"] {
        house.refused(&["delivery", action, missing], 5, "delivery");
    }
    house.refused(&["delivery", "list", "--state", "odd"], 2, "--state");
    house.refused(&["delivery", "get", "nonsense"], 2, "dlv_");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_run_says_what_waits_for_it_and_what_is_taken_back_is_not_read() {
    let stage = Stage::new([slow(100)]).await;
    let house = House::new(&stage.world, &provider_env(&stage));
    let submitted = house.json(&["task", "submit", "hi", "--session", "chat"]);
    let [task, run] = ["task", "run"].map(|field| submitted[field].as_str().unwrap());
    stage.provider.wait_for_requests(1).await;
    let queue = ["session", "queue", "chat", "--mode", "collect", "--debounce", "1m"];
    assert!(house.done(&queue).contains("collect"));
    let said = house.json(&["task", "send", task, "later", "--mode", "followup"]);
    let input = said["input"].as_str().unwrap();
    let next = said["run"].as_str().unwrap();
    assert_ne!(next, run);
    assert_eq!(house.first(&["run", "inputs", next])["id"], input);
    assert!(house.done(&["task", "inputs", task]).contains("later"));
    assert_eq!(house.json(&["run", "pending", run])["state"], "working");
    assert!(house.done(&["run", "delete-input", next, input]).contains("deleted"));
    assert_eq!(house.done(&["task", "inputs", task]), "");
    house.done(&["run", "delete-input", next, input]);
    house.done(&["run", "wait", run]);
    assert!(house.done(&["task", "runs", task]).contains(run));
    let snapshots = house.json(&["run", "transitions", run]);
    assert_eq!(snapshots["items"][0]["kind"], "accepted");
    assert!(house.done(&["run", "transitions", run]).contains("finished"));
    assert_eq!(stage.provider.request_count(), 1, "what was taken back is not answered");
}

#[test]
fn a_server_says_how_it_is_and_who_one_is() {
    let world = World::new();
    let house = House::new(&world, &[]);
    let status = house.json(&["server", "status"]);
    assert_eq!((&status["alive"], &status["ready"]), (&json!(true), &json!(true)));
    assert!(house.done(&["server", "status"]).contains("✓ "));
    let who = house.json(&["server", "whoami"]);
    assert!(who["scopes"].as_array().unwrap().contains(&json!("admin")), "{who}");
    assert!(house.done(&["server", "metrics"]).contains("# TYPE provost_"));
    let defaults = house.json(&["agent", "default-config", "default"]);
    assert!(defaults.is_object(), "{defaults}");
    // The same without a server.
    let here = world.run(&["server", "whoami", "-o", "json"]);
    assert_eq!(here.code, 0, "{here:?}");
}

#[test]
fn what_happens_in_a_conversation_is_shown_as_it_happens() {
    let world = World::new();
    let house = House::new(&world, &[]);
    house.done(&["task", "submit", "what is 6 * 7?", "--session", "chat", "--wait"]);
    let args = ["session", "events", "chat", "-o", "jsonl"];
    let mut watching = command(&world, &house.server.url, &house.token, &args).spawn().unwrap();
    let lines = std::io::BufReader::new(watching.stdout.take().unwrap());
    let kinds = std::io::BufRead::lines(lines).map(|line| {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        event["kind"].as_str().unwrap().to_owned()
    });
    let seen: Vec<String> = kinds.take_while(|kind| kind != "finished").collect();
    assert_eq!(seen[0], "accepted", "{seen:?}");
    crate::signal(&watching, "-INT");
    assert!(watching.wait().unwrap().success());
}
