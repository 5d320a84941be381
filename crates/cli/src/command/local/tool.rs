//! `provost tool`: the tools there are, what they are, calling one, and trying whether they can be called.

mod call;
mod check;
mod keep;
mod module;
mod scaffold;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use provost_api::{DeclaredTool, Page};
use provost_core::id::name::Namespace;
use provost_core::{Env, ErrorKind, Timestamp};
use provost_host::model::Models;
use provost_host::tool::{Files, ToolProvider, builtin_tools};
use provost_redact::Redactor;
use provost_tool::Tool;
use serde_json::json;

use self::call::CallArgs;
use self::check::CheckArgs;
use self::keep::KeepArgs;
use self::scaffold::ScaffoldArgs;
use super::block_on;
use crate::args::{NOTES_DIR_DEFAULT, ShellArgs, ToolArgs};
use crate::boot::{self, Config, Runtime};
use crate::catalog::told;
use crate::data;
use crate::model_catalog::user_catalog;
use crate::problem::Problem;
use crate::render::output::Output;
use crate::render::show::{Format, Show, Shown};
use crate::render::table::{Cell, Column, rigid, text};

/// What to do where modules cannot be run.
pub(crate) const BUILD_WITH_WASM: &str =
    "build it with: cargo install --path crates/cli --features wasm";

const EXAMPLES: &str = "\
Examples:
  provost tool list
  provost tool call calculator '{\"expression\": \"2 + 3\"}'
  provost tool list --resources house/
  provost tool describe search --resources house/ --role reader
  provost tool call search '{\"q\": \"pears\"}' --resources house/ --role reader
  provost tool test --resources house/              can every declared tool be called?
  provost tool test --resources house/ --fixtures calls.yaml
  provost tool scaffold word_count --lang rust      a WASM tool to begin with
  provost tool test word_count.wasm --fixtures fixtures/
  provost tool keep word_count.wasm                 keeps it here, to be named by its hash

A call here goes the way that calls of agents go: rules, secrets, deadline, retries, redaction, records.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    setting: Setting,
}

/// Which tools, and for whom.
#[derive(Debug, clap::Args)]
pub(crate) struct Setting {
    /// A file or a directory of declared tools, rules and MCP servers
    #[arg(long, global = true, value_name = "PATH")]
    resources: Option<PathBuf>,
    /// Where declared tools may be
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHERE")]
    tool_network: crate::args::ToolNetworkArg,
    /// A program that declared MCP servers may start; can be repeated
    #[arg(long, global = true, value_name = "COMMAND")]
    allow_command: Vec<String>,
    /// A directory with secrets, a file for each
    #[arg(long, global = true, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
    #[command(flatten)]
    container: crate::args::ContainerArgs,
    /// A directory for read, list and search
    #[arg(long, global = true, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Also write and edit there
    #[arg(long, global = true)]
    write: bool,
    #[command(flatten)]
    shell: ShellArgs,
    /// The agent that calls
    #[arg(long, global = true, value_name = "NAME", default_value = provost_host::agent::AGENT)]
    agent: String,
    /// A role of the agent, if the agent is not declared; can be repeated
    #[arg(long, global = true, value_name = "ROLE")]
    role: Vec<String>,
    /// The namespace
    #[arg(long, short, global = true, value_name = "NAME", default_value_t)]
    namespace: Namespace,
    /// In which form: table, json, jsonl, yaml, name
    #[arg(long, short, global = true, value_enum, default_value_t, value_name = "FORM")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List tools
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost tool list -o name")]
    List,
    /// Show what a tool is, and what the rules say about calling it
    #[command(after_help = "Examples:\n  provost tool describe calculator -o yaml")]
    Describe {
        /// The tool
        name: String,
    },
    /// Call a tool
    #[command(
        after_help = "Examples:\n  provost tool call calculator '{\"expression\": \"2 + 3\"}'\n  \
                      echo '{\"expression\": \"1/3\"}' | provost tool call calculator"
    )]
    Call(CallArgs),
    /// Try whether tools can be called: runtime, secret, address; with fixtures, also calls
    #[command(after_help = "Examples:\n  provost tool test --resources house/\n  \
                      provost tool test pay --resources house/ --fixtures calls.yaml\n\nA fixture file is a list:\n  \
                      - tool: calculator\n    args: {expression: 2 + 3}\n    expect: {contains: \"5\"}\n  \
                      - tool: pay\n    args: {}\n    expect: {code: permission_denied}")]
    Test(CheckArgs),
    /// Make a WASM tool to begin with: source, manifest, fixtures, and how it is built
    #[command(after_help = "Examples:\n  provost tool scaffold word_count --lang rust\n  \
                      provost tool scaffold word_count --lang c --dir tools/word_count")]
    Scaffold(ScaffoldArgs),
    /// Keep a WASM module in the data directory, to be named by its hash
    #[command(after_help = "Examples:\n  provost tool keep word_count.wasm\n  \
                      provost tool keep word_count.wasm -o name        only `blob:` and its SHA-256\n\n\
                      A manifest then says, wherever it lies:\n  wasm:\n    module: blob:3b1f...")]
    Keep(KeepArgs),
}

/// The tools of this command, and what stands around them.
pub(crate) struct Bench<'a> {
    setting: &'a Setting,
    runtime: Runtime,
    tools: Arc<ToolProvider>,
    own: Vec<Arc<dyn Tool>>,
    show: Show,
    dir: PathBuf,
    redactor: Redactor,
}

/// Does it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let setting = &args.setting;
    if let Action::Scaffold(args) = &args.action {
        return scaffold::run(args, output);
    }
    let show = Show { output: *output, format: setting.output };
    let dir = data::real_dir(data)?;
    if let Action::Keep(args) = &args.action {
        return keep::run(args, &dir, show);
    }
    block_on(async {
        let bench = Bench::open(setting, &dir, show).await?;
        let done = match &args.action {
            Action::List => bench.list(),
            Action::Describe { name } => bench.describe(name),
            Action::Call(args) => Box::pin(bench.call(args)).await,
            Action::Test(args) => match module::named(args) {
                Some(path) => Box::pin(bench.test_module(path, args)).await,
                None => Box::pin(bench.test(args)).await,
            },
            Action::Scaffold(_) | Action::Keep(_) => Ok(0),
        };
        bench.runtime.close(Duration::ZERO).await;
        done
    })?
}

impl Setting {
    /// What declared tools are made with.
    fn tool_args(&self) -> ToolArgs {
        ToolArgs {
            resources: self.resources.clone(),
            tool_network: self.tool_network,
            allow_command: self.allow_command.clone(),
            secrets_dir: self.secrets_dir.clone(),
            container: self.container.clone(),
        }
    }
}

impl<'a> Bench<'a> {
    async fn open(setting: &'a Setting, dir: &Path, show: Show) -> Result<Self, Problem> {
        let shell = setting.shell.shell()?;
        let tools = setting.tool_args().config(setting.role.clone(), shell.clone())?;
        let models = Arc::new(Models::new(Duration::ZERO, user_catalog()?));
        let config = Config { tools, ..Config::local(dir, models) };
        let redactor = config.redactor.clone();
        let runtime = boot::build(config).await?;
        let mut own = builtin_tools(&Env::system(), PathBuf::from(NOTES_DIR_DEFAULT))?;
        let files = Files::new(setting.workspace.as_ref(), setting.write)?;
        if let Some(files) = &files {
            own.extend(files.tools()?);
        }
        if let Some(shell) = &shell {
            own.extend(shell.tools(files.as_ref(), runtime.tools.shell_host()?)?);
        }
        own.extend(runtime.tools.outputs()?);
        let tools = Arc::clone(&runtime.tools);
        Ok(Self { setting, runtime, tools, own, show, dir: dir.to_owned(), redactor })
    }

    /// A tool by its name: one of ours, or one that was declared.
    fn find(&self, name: &str) -> Result<Arc<dyn Tool>, Problem> {
        let declared = self.tools.declared.as_ref();
        let declared =
            declared.and_then(|set| set.workshop().tool(self.namespace(), name).cloned());
        let declared = declared.map(|tool| tool as Arc<dyn Tool>);
        let own = || self.own.iter().find(|tool| tool.spec().name() == name).cloned();
        declared.or_else(own).ok_or_else(|| {
            let what = format!("there is no tool `{name}` in namespace `{}`", self.namespace());
            Problem::new(ErrorKind::NotFound, what).help(
                "`provost tool list` shows what there is; --resources PATH names what is declared",
            )
        })
    }

    fn namespace(&self) -> &str {
        self.setting.namespace.as_str()
    }

    fn all(&self) -> Vec<DeclaredTool> {
        let declared = self.tools.declared.as_ref();
        let declared =
            declared.map(|set| set.workshop().tools(self.namespace())).unwrap_or_default();
        let own = self.own.iter().map(|tool| built_in(tool.as_ref()));
        declared.iter().map(|tool| told(tool)).chain(own).collect()
    }

    fn list(&self) -> Result<u8, Problem> {
        let items: Vec<Row> = self.all().into_iter().map(Row).collect();
        self.show.list(&Page { items, next: None })?;
        Ok(0)
    }

    fn describe(&self, name: &str) -> Result<u8, Problem> {
        let tool = self.find(name)?;
        let declared = self.tools.declared.as_ref();
        let declared =
            declared.and_then(|set| set.workshop().tool(self.namespace(), name).cloned());
        let mut what = match declared {
            Some(declared) => json!(declared.resource()),
            None => json!(built_in(tool.as_ref())),
        };
        if let Some(decision) = self.decision(tool.as_ref())? {
            what["agent"] = json!(self.setting.agent);
            what["decision"] = json!(decision.as_str());
            what["because"] = json!(decision.reason());
        }
        self.show.one(&what, name)?;
        Ok(0)
    }
}

/// A tool of the program itself.
fn built_in(tool: &dyn Tool) -> DeclaredTool {
    let spec = tool.spec();
    let facts = spec.tool_facts();
    DeclaredTool {
        name: spec.name().to_owned(),
        kind: "builtin".to_owned(),
        description: spec.def().description.clone(),
        operations: facts.operations.iter().map(ToString::to_string).collect(),
        risk: facts.risk.to_string(),
        effect: spec.effect.to_string(),
        isolation: "none".to_owned(),
        problem: None,
        input_schema: spec.def().input_schema.clone(),
    }
}

/// A tool in a list.
#[derive(serde::Serialize)]
#[serde(transparent)]
struct Row(DeclaredTool);

impl Shown for Row {
    const COLUMNS: &'static [Column] = &[
        rigid("NAME"),
        rigid("TYPE"),
        text("DOES"),
        text("RISK"),
        text("EFFECT"),
        text("STATE"),
        text("DESCRIPTION"),
    ];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let tool = &self.0;
        vec![
            Cell::from(&tool.name),
            Cell::from(&tool.kind),
            Cell::from(tool.operations.join(",")),
            Cell::from(&tool.risk),
            Cell::from(&tool.effect),
            Cell::from(tool.problem.as_deref().unwrap_or("ready")),
            Cell::from(&tool.description),
        ]
    }

    fn name(&self) -> String {
        self.0.name.clone()
    }
}
