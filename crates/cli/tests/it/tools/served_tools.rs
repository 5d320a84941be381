//! The tools of agents that a server makes: they can ask a person, and start others if that is allowed.

use provost_testkit::Reply;
use serde_json::{Value, json};

use crate::Ran;
use crate::remote::{Server, command, provider_env};
use crate::support::{Stage, ended};

/// How often something is looked for that must come.
const LOOKS_MAX: usize = 200;

struct House {
    stage: Stage,
    server: Server,
    token: String,
}

impl House {
    async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let stage = Stage::new(replies).await;
        let server =
            Server::start(&stage.world, &["--listen", "127.0.0.1:0"], &provider_env(&stage));
        let token = server.token.clone().unwrap();
        Self { stage, server, token }
    }

    fn ask(&self, args: &[&str]) -> Ran {
        let mut command = command(&self.stage.world, &self.server.url, &self.token, args);
        let ran = Ran::of(&command.output().unwrap());
        assert_eq!(ran.code, 0, "{args:?} {ran:?}");
        ran
    }

    fn first(&self, args: &[&str]) -> Value {
        let look = |_| {
            let list = self.ask(&[args, &["-o", "json"]].concat());
            let list: Value = serde_json::from_str(&list.out).unwrap();
            list["items"].get(0).cloned()
        };
        (0..LOOKS_MAX).find_map(look).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_asks_a_person_and_waits_without_holding_its_session() {
    let asks = json!({"questions": [{"question": "Which colour?", "options": ["red", "blue"]}]});
    let replies =
        [Reply::call("c1", "ask_user", &asks), Reply::text("Hello."), Reply::text("Blue it is.")];
    let house = House::new(replies).await;
    let args = ["task", "submit", "paint it", "--session", "wall", "--wait"];
    let command = &mut command(&house.stage.world, &house.server.url, &house.token, &args);
    let waiting = command.spawn().unwrap();
    let question = house.first(&["approval", "list"]);
    let id = question["id"].as_str().unwrap();
    assert!(question.to_string().contains("Which colour?"), "{question}");
    assert!(house.ask(&["explain", id]).out.contains("Which colour?"));
    // Others are served in the session meanwhile.
    let other = ["task", "submit", "hi", "--session", "wall", "--new-task", "--wait"];
    assert_eq!(house.ask(&other).out, "Hello.\n");
    house.ask(&["approval", "reply", id, "blue"]);
    let ran = ended(waiting).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Blue it is.\n"), "{ran:?}");
    let told = house.stage.asked()[2].to_string();
    assert!(told.contains("blue"), "the model is told the answer: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_is_offered_is_what_its_profile_allows() {
    let house = House::new((0..5).map(|_| Reply::text("ok"))).await;
    let all = ["clock", "calculator", "save_note", "ask_user", "spawn_task", "await_tasks"];
    for (name, settings, offered) in [
        ("default", &[][..], &all[..4]),
        ("lead", &["children=true"], &all[..]),
        ("mute", &["ask_user=false"], &all[..3]),
        ("bare", &["tools=false", "children=true"], &[]),
        // Nobody is there who could answer.
        ("alone", &[r#"policy={"interactive":false}"#], &all[..3]),
    ] {
        if name != "default" {
            let set = settings.iter().flat_map(|setting| ["--set", setting]);
            house.ask(&["agent", "create", name].into_iter().chain(set).collect::<Vec<_>>());
        }
        house.ask(&["task", "submit", "hi", "--agent", name, "--wait"]);
        let body = house.stage.provider.bodies().pop().unwrap();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let tools: Vec<&str> =
            tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(tools, offered, "{name}");
    }
}
