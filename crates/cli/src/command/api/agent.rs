//! `provost agent`: who does the work, and how they are configured.

use clap::Subcommand;
use provost_api::{AgentChange, AgentConfig, NewAgent};
use provost_core::execution_policy::ExecutionPolicyPatch;
use serde_json::{Map, Value, json};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs, IfMissing};

const EXAMPLES: &str = "\
Examples:
  provost agent list
  provost agent create helper --model anthropic/claude-sonnet-5-5 --system \"Be brief.\"
  provost agent update helper --set model='\"openai/gpt-5-mini\"' --revision 1
  provost agent delete helper";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List agents
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost agent list -o name")]
    List(ListArgs),
    /// Show how an agent is configured
    #[command(after_help = "Examples:\n  provost agent get helper -o yaml")]
    Get {
        /// The agent
        name: String,
    },
    /// Show how an agent would be configured if nothing had been said
    #[command(after_help = "Examples:\n  provost agent defaults helper -o yaml")]
    Defaults {
        /// The agent
        name: String,
    },
    /// Make an agent
    #[command(
        after_help = "Examples:\n  provost agent create helper --model openai/gpt-5-mini\n  \
                            provost agent create quiet --set tools=false --set max_turns=3"
    )]
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        said: Said,
    },
    /// Change an agent; runs that were accepted before keep what they had
    #[command(after_help = "Examples:\n  provost agent update helper --system \"Be brief.\"\n  \
                            provost agent update helper --set max_turns=null")]
    Update {
        /// The agent
        name: String,
        /// Only if this is still its revision
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
        #[command(flatten)]
        said: Said,
    },
    /// Remove an agent; its tasks stay
    #[command(after_help = "Examples:\n  provost agent delete helper")]
    Delete {
        /// The agent
        name: String,
    },
}

/// What is said about an agent.
#[derive(Debug, clap::Args)]
struct Said {
    /// The model: provider/model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// What it is told before anything else
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// A name for people
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Anything of its configuration: KEY=JSON; a text needs no quotes, null takes the key away
    #[arg(long, value_name = "KEY=JSON", value_parser = parse_set)]
    set: Vec<(String, Value)>,
}

impl Said {
    fn config(&self) -> Map<String, Value> {
        let mut config = Map::new();
        if let Some(model) = &self.model {
            config.insert("model".to_owned(), json!(model));
        }
        if let Some(system) = &self.system {
            config.insert("system_prompt".to_owned(), json!(system));
        }
        config.extend(self.set.iter().cloned());
        config
    }
}

fn parse_set(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=JSON, such as max_turns=3")?;
    if key.is_empty() {
        return Err("the key is missing: write KEY=JSON".to_owned());
    }
    // A word that is no JSON is meant as a text.
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok((key.to_owned(), value))
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    fn if_missing(&self) -> IfMissing {
        match self.action {
            Action::Create { .. } => IfMissing::Create,
            _ => IfMissing::Fail,
        }
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::List(list) => {
                let paging = list.paging();
                return list.run(show, async || client.agents(&paging).await).await;
            }
            Action::Get { name } => show.one(&client.agent(name).await?, name)?,
            Action::Defaults { name } => show.one(&client.default_config(name).await?, name)?,
            Action::Create { name, said } => {
                let mut config: AgentConfig = serde_json::from_value(said.config().into())
                    .map_err(|error| Problem::invalid(format!("--set: {error}")))?;
                // People can be asked over the API, so its questions wait for them.
                let policy = config.policy.get_or_insert_default();
                *policy = ExecutionPolicyPatch {
                    interactive: policy.interactive.or(Some(true)),
                    ..policy.clone()
                };
                let agent = NewAgent { name: name.clone(), title: said.title.clone(), config };
                let made = client.create_agent(&agent).await?;
                show.done(&made, name, &format!("{name} is made"))?;
            }
            Action::Update { name, revision, said } => {
                let change = AgentChange { title: said.title.clone(), config: said.config() };
                let changed = client.update_agent(name, &change, *revision).await?;
                let sentence = format!("{name} is changed: revision {}", changed.revision);
                show.done(&changed, name, &sentence)?;
            }
            Action::Delete { name } => {
                client.delete_agent(name).await?;
                show.done(&json!({ "name": name }), name, &format!("{name} is removed"))?;
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_json_or_a_text() {
        assert_eq!(parse_set("a=3").unwrap(), ("a".to_owned(), json!(3)));
        assert_eq!(parse_set("a=b=c").unwrap(), ("a".to_owned(), json!("b=c")));
        assert_eq!(parse_set("a=null").unwrap(), ("a".to_owned(), Value::Null));
        assert!(parse_set("a").is_err() && parse_set("=1").is_err());
    }
}
