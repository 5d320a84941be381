//! A client for the MCP conformance suite: an agent whose scripted model calls every tool the suite's server offers.
//!
//! The suite starts it with the address of its server as the last argument and says in `MCP_CONFORMANCE_CONTEXT` which calls
//! it wants, if any in particular. `scripts/conformance mcp` runs the suite.

use std::error::Error;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use provost_agent::Agent;
use provost_core::{Env, Secret};
use provost_mcp::{Authorizer, ElicitationMode, McpPool, McpServer, McpToolset, OAuth};
use provost_model::{ScriptedModel, calls, text};
use provost_net::{NetClient, NetPolicy, NetRequest};
use provost_tool::{Deps, RunContext, State, Toolset};
use serde_json::{Map, Value, json};

const NAME: &str = "suite";
/// The document that the suite knows as the description of a client.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().next_back().ok_or("the address of a server is missing")?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let pool = McpPool::new();
    let server = McpServer::http(NAME, url)
        .connect_timeout(Duration::from_secs(10))
        .call_timeout(Duration::from_secs(20))
        .elicitation(ElicitationMode::Defaults)
        .oauth(who_we_are(&context));
    let tools = pool.toolset(server)?;
    let wanted = match context.get("toolCalls").and_then(Value::as_array) {
        Some(wanted) => wanted.iter().map(wanted_call).collect(),
        None => every_tool(&tools).await?,
    };
    let model = ScriptedModel::new().turn(calls(wanted)).turn(text("done"));
    let agent = Agent::builder("conformance", model).toolset(tools).build()?;
    let outcome = agent.run("call everything").await;
    pool.close().await;
    outcome.map(|_| ()).map_err(Into::into)
}

/// How the suite wants us to prove ourselves: with what it says, or as a client that registers itself.
fn who_we_are(context: &Value) -> OAuth {
    let word = |name: &str| context[name].as_str().map(str::to_owned);
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match (word("client_id"), word("client_secret")) {
        (Some(id), Some(secret)) if scenario.contains("client-credentials") => {
            OAuth::client_credentials(id, secret).trust_server()
        }
        (Some(id), secret) => {
            OAuth::authorization_code(Clicks).client(id, secret.map(Secret::new)).trust_server()
        }
        (None, _) => OAuth::authorization_code(Clicks).client_metadata_url(DOCUMENT),
    }
}

/// A person who says yes to everything: goes to the page and reads where it leads.
struct Clicks;

impl Authorizer for Clicks {
    fn authorize<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let url = url.parse().map_err(|_bad| format!("`{url}` is no address"))?;
            let request = NetRequest::get(url, Instant::now() + Duration::from_secs(10));
            // The suite's servers are on this machine.
            let answer = NetClient::new(NetPolicy::open()).send(request).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let location = answer.headers.get("location").and_then(|value| value.to_str().ok());
            location.map(str::to_owned).ok_or_else(|| format!("{} leads nowhere", answer.status))
        })
    }
}

fn wanted_call(call: &Value) -> (String, Value) {
    let name = call["name"].as_str().unwrap_or_default();
    let mut arguments = call["arguments"].clone();
    // A model that has nothing to say about an optional argument leaves it out.
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.retain(|_, value| !value.is_null());
    }
    (format!("{NAME}_{name}"), arguments)
}

/// A call of each tool with arguments that fit its schema.
async fn every_tool(tools: &McpToolset) -> Result<Vec<(String, Value)>, Box<dyn Error>> {
    let cx = RunContext {
        run_id: Env::system().id(),
        agent: "conformance".into(),
        turn: 1,
        task_id: None,
        session: None,
        deps: Deps::default(),
        state: State::default(),
    };
    let offered = tools.tools(&cx).await.map_err(|error| error.to_string())?;
    let call = |schema: &Value| {
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let needed = |name: &String| required.iter().any(|required| required == name);
        let fill =
            |(name, property): (String, Value)| needed(&name).then(|| (name, example(&property)));
        Value::Object(properties.into_iter().filter_map(fill).collect::<Map<_, _>>())
    };
    // One scenario wants to see a schema again that it sent with another tool.
    let shown = offered.iter().find(|tool| tool.spec().name().ends_with("_2020_12_tool"));
    let calls = offered.iter().map(|tool| {
        let def = tool.spec().def();
        let arguments = match shown {
            Some(shown) if def.name.ends_with("_echo") => {
                json!({ "schema": shown.spec().def().input_schema })
            }
            _ => call(&def.input_schema),
        };
        (def.name.clone(), arguments)
    });
    Ok(calls.collect())
}

fn example(property: &Value) -> Value {
    match property["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => property["enum"].get(0).cloned().unwrap_or_else(|| json!("text")),
    }
}
