//! `provost agent`: lists, creates, changes and deletes agents.

use clap::Subcommand;
use provost_api::{AgentChange, NewAgent};
use provost_core::resource::AgentSpec;
use serde_json::{Map, Value, json};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs, IfMissing};

const EXAMPLES: &str = "\
Examples:
  provost agent list
  provost agent create helper --model anthropic/claude-sonnet-5-5 --system-prompt \"Be brief.\"
  provost agent update helper --set model='\"openai/gpt-5-mini\"' --revision 1
  provost agent delete helper";

/// Arguments of `provost agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: AgentCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// List agents
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost agent list -o name")]
    List(ListArgs),
    /// Show an agent with its configuration
    #[command(after_help = "Examples:\n  provost agent get helper -o yaml")]
    Get {
        /// Name of the agent
        name: String,
    },
    /// Show the default configuration of an agent
    #[command(
        alias = "defaults",
        after_help = "Examples:\n  provost agent default-config helper -o yaml"
    )]
    DefaultConfig {
        /// Name of the agent
        name: String,
    },
    /// Create an agent
    #[command(
        after_help = "Examples:\n  provost agent create helper --model openai/gpt-5-mini\n  \
                            provost agent create quiet --set tools=false --set max_turns=3"
    )]
    Create {
        /// Name of the agent
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Change an agent; accepted runs keep their configuration
    #[command(
        after_help = "Examples:\n  provost agent update helper --system-prompt \"Be brief.\"\n  \
                            provost agent update helper --set max_turns=null"
    )]
    Update {
        /// Name of the agent
        name: String,
        /// Expected revision; the change fails if the agent has another one
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Delete an agent; its tasks are kept
    #[command(after_help = "Examples:\n  provost agent delete helper")]
    Delete {
        /// Name of the agent
        name: String,
    },
}

/// Configuration of an agent.
#[derive(Debug, clap::Args)]
struct Settings {
    /// Model as provider/model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// System prompt
    #[arg(long, alias = "system", value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Display name
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Configuration value as KEY=JSON; text needs no quotes, null removes the key; repeatable
    #[arg(long, value_name = "KEY=JSON", value_parser = parse_set)]
    set: Vec<(String, Value)>,
}

impl Settings {
    fn config(&self) -> Map<String, Value> {
        let mut config = Map::new();
        if let Some(model) = &self.model {
            config.insert("model".to_owned(), json!(model));
        }
        if let Some(system) = &self.system_prompt {
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
    // A value that is not JSON is text.
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok((key.to_owned(), value))
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    fn if_missing(&self) -> IfMissing {
        match self.action {
            AgentCommand::Create { .. } => IfMissing::Create,
            _ => IfMissing::Fail,
        }
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            AgentCommand::List(list) => {
                let paging = list.paging();
                return list.run(printer, async || client.agents(&paging).await).await;
            }
            AgentCommand::Get { name } => {
                printer.print_details(&client.agent(name).await?, name)?
            }
            AgentCommand::DefaultConfig { name } => {
                printer.print_details(&client.agent_default_config(name).await?, name)?
            }
            AgentCommand::Create { name, settings } => {
                let mut config: AgentSpec = serde_json::from_value(settings.config().into())
                    .map_err(|error| CliError::invalid(format!("--set: {error}")))?;
                // Approval requests of the agent wait, because users can decide them over the API.
                config.policy.interactive.get_or_insert(true);
                let agent = NewAgent { name: name.clone(), title: settings.title.clone(), config };
                let created = client.create_agent(&agent).await?;
                printer.print_result(&created, name, &format!("created {name}"))?;
            }
            AgentCommand::Update { name, revision, settings } => {
                let change =
                    AgentChange { title: settings.title.clone(), config: settings.config() };
                let updated = client.update_agent(name, &change, *revision).await?;
                let text = format!("updated {name}: revision {}", updated.revision);
                printer.print_result(&updated, name, &text)?;
            }
            AgentCommand::Delete { name } => {
                client.delete_agent(name).await?;
                printer.print_result(&json!({ "name": name }), name, &format!("deleted {name}"))?;
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
