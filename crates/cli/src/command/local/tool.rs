//! `provost tool`: lists, calls, tests, creates and imports tools.

mod call;
mod check;
mod import;
mod import_openapi;
mod module;
mod new;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use provost_api::{Page, ToolInfo};
use provost_core::id::name::Namespace;
use provost_core::{Env, ErrorKind, Timestamp};
use provost_host::agent::{HostDefaults, Workspaces};
use provost_host::model::{ModelRequest, Models};
use provost_host::tool::{Files, ToolProvider, builtin_tools};
use provost_redact::Redactor;
use provost_tool::Tool;
use serde_json::json;

use self::call::CallArgs;
use self::check::CheckArgs;
use self::import::ImportArgs;
use self::import_openapi::ImportOpenApiArgs;
use self::new::NewArgs;
use super::block_on;
use crate::args::{NOTES_DIR_DEFAULT, ShellArgs, ToolArgs};
use crate::boot::{self, Config, Runtime};
use crate::catalog::declared_tool;
use crate::data;
use crate::error::CliError;
use crate::model_catalog::user_catalog;
use crate::render::output::Output;
use crate::render::printer::{Format, Printer, TableRow};
use crate::render::table::{Cell, Column, fixed, flexible};

/// Hint for builds without WASM.
pub(crate) const BUILD_WITH_WASM: &str =
    "build it with: cargo install --path crates/cli --features wasm";

const EXAMPLES: &str = "\
Examples:
  provost tool list
  provost tool call calculator '{\"expression\": \"2 + 3\"}'
  provost tool list --manifests manifests/
  provost tool get search --manifests manifests/ --role reader
  provost tool call search '{\"q\": \"pears\"}' --manifests manifests/ --role reader
  provost tool test --manifests manifests/          checks every declared tool
  provost tool test --manifests manifests/ --fixtures calls.yaml
  provost tool new word_count --lang rust           creates the source of a WASM tool
  provost tool test word_count.wasm --fixtures fixtures/
  provost tool import word_count.wasm               copies a module to the data directory
  provost tool import-openapi shop.json > manifests/shop.yaml   declares the operations of a service

A call is executed like a call of an agent, with rules, secrets, deadline, retries, redaction and audit records.";

/// Arguments of `provost tool`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ToolAction,
    #[command(flatten)]
    options: ToolOptions,
}

/// Tools that a command uses, and the agent that calls them.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolOptions {
    /// File or directory of manifests: tools, rules and MCP servers
    #[arg(long, global = true, alias = "resources", value_name = "PATH")]
    manifests: Option<PathBuf>,
    /// Networks that declared tools can reach
    #[arg(long, global = true, value_enum, default_value_t, value_name = "NETWORK")]
    tool_network: crate::args::ToolNetworkArg,
    /// Program that declared MCP servers can start, exactly as declared; repeatable
    #[arg(long, global = true, value_name = "COMMAND")]
    allow_command: Vec<String>,
    /// Directory with one file per secret
    #[arg(long, global = true, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
    #[command(flatten)]
    container: crate::args::ContainerArgs,
    /// Directory that the file tools can read, list and search
    #[arg(long, global = true, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Enable the tools that write and edit files in the workspace
    #[arg(long, global = true, alias = "write")]
    workspace_write: bool,
    #[command(flatten)]
    shell: ShellArgs,
    /// Agent on whose behalf tools are called
    #[arg(long, global = true, value_name = "NAME", default_value = provost_host::agent::AGENT)]
    agent: String,
    /// Role of the agent, if the agent is not declared; repeatable
    #[arg(long, global = true, value_name = "ROLE")]
    role: Vec<String>,
    /// Namespace
    #[arg(long, short, global = true, value_name = "NAME", default_value_t)]
    namespace: Namespace,
    /// Output format
    #[arg(long, short, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum ToolAction {
    /// List tools
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost tool list -o name")]
    List,
    /// Show a tool, and the decision of the rules about a call
    #[command(alias = "describe", after_help = "Examples:\n  provost tool get calculator -o yaml")]
    Get {
        /// Name of the tool
        name: String,
    },
    /// Call a tool
    #[command(
        after_help = "Examples:\n  provost tool call calculator '{\"expression\": \"2 + 3\"}'\n  \
                      echo '{\"expression\": \"1/3\"}' | provost tool call calculator"
    )]
    Call(CallArgs),
    /// Check the runtime, secret and address of tools, and run the calls of fixtures
    #[command(after_help = "Examples:\n  provost tool test --manifests manifests/\n  \
                      provost tool test pay --manifests manifests/ --fixtures calls.yaml\n\nA fixture file is a list:\n  \
                      - tool: calculator\n    args: {expression: 2 + 3}\n    expect: {contains: \"5\"}\n  \
                      - tool: pay\n    args: {}\n    expect: {code: permission_denied}")]
    Test(CheckArgs),
    /// Create a new WASM tool: source, manifest, fixtures and build script
    #[command(
        alias = "scaffold",
        after_help = "Examples:\n  provost tool new word_count --lang rust\n  \
                      provost tool new word_count --lang c --dir tools/word_count"
    )]
    New(NewArgs),
    /// Copy a WASM module to the data directory; manifests then refer to it by its hash
    #[command(
        alias = "keep",
        after_help = "Examples:\n  provost tool import word_count.wasm\n  \
                      provost tool import word_count.wasm -o name      prints only `blob:` and the SHA-256\n\n\
                      A manifest refers to the module by its hash:\n  wasm:\n    module: blob:3b1f..."
    )]
    Import(ImportArgs),
    /// Print a manifest for each operation of an OpenAPI document
    #[command(
        after_help = "Examples:\n  provost tool import-openapi shop.json > manifests/shop.yaml\n  \
                      provost tool import-openapi shop.yaml --prefix shop_ --secret api_key=shop-key\n\n\
                      Standard error lists the operations that cannot be tools, with reasons."
    )]
    ImportOpenapi(ImportOpenApiArgs),
}

/// Context of a command: the tools and the runtime that executes them.
pub(crate) struct ToolCommand<'a> {
    options: &'a ToolOptions,
    runtime: Runtime,
    tools: Arc<ToolProvider>,
    built_in: Vec<Arc<dyn Tool>>,
    printer: Printer,
    dir: PathBuf,
    redactor: Redactor,
}

/// Runs the command.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, CliError> {
    let options = &args.options;
    if let ToolAction::New(args) = &args.action {
        return new::run(args, output);
    }
    let printer = Printer { output: *output, format: options.output };
    let dir = data::dir_from_env(data)?;
    if let ToolAction::Import(args) = &args.action {
        return import::run(args, &dir, printer);
    }
    if let ToolAction::ImportOpenapi(args) = &args.action {
        return import_openapi::run(args, options.namespace.as_str(), printer);
    }
    block_on(async {
        let context = ToolCommand::open(options, &dir, printer).await?;
        let result = match &args.action {
            ToolAction::List => context.list(),
            ToolAction::Get { name } => context.get(name),
            ToolAction::Call(args) => Box::pin(context.call(args)).await,
            ToolAction::Test(args) => match module::module_path(args) {
                Some(path) => Box::pin(context.test_module(path, args)).await,
                None => Box::pin(context.test(args)).await,
            },
            ToolAction::New(_) | ToolAction::Import(_) | ToolAction::ImportOpenapi(_) => Ok(0),
        };
        context.runtime.close(Duration::ZERO).await;
        result
    })?
}

impl ToolOptions {
    /// Returns the arguments of declared tools.
    fn tool_args(&self) -> ToolArgs {
        ToolArgs {
            manifests: self.manifests.clone(),
            tool_network: self.tool_network,
            allow_command: self.allow_command.clone(),
            secrets_dir: self.secrets_dir.clone(),
            container: self.container.clone(),
        }
    }
}

impl<'a> ToolCommand<'a> {
    /// Opens the tools of the command.
    async fn open(
        options: &'a ToolOptions,
        dir: &Path,
        printer: Printer,
    ) -> Result<Self, CliError> {
        let shell = options.shell.shell()?;
        let tools = options.tool_args().config(shell.clone())?;
        let models = Arc::new(Models::new(Duration::ZERO, user_catalog()?));
        let files = Files::new(options.workspace.as_ref(), options.workspace_write)?;
        let defaults = HostDefaults {
            model: ModelRequest::default(),
            notes_dir: PathBuf::from(NOTES_DIR_DEFAULT),
            workspaces: Workspaces::new(files.clone()),
            shell: shell.clone(),
            is_terminal: true,
        };
        let config = Config { tools, ..Config::local(dir, models, defaults) };
        let redactor = config.redactor.clone();
        let runtime = boot::build(config).await?;
        let mut built_in = builtin_tools(&Env::system(), PathBuf::from(NOTES_DIR_DEFAULT))?;
        if let Some(files) = &files {
            built_in.extend(files.tools()?);
        }
        if let Some(shell) = &shell {
            built_in.extend(shell.tools(files.as_ref(), runtime.tools.shell_host()?)?);
        }
        built_in.extend(runtime.tools.output_reader()?);
        let tools = Arc::clone(&runtime.tools);
        Ok(Self { options, runtime, tools, built_in, printer, dir: dir.to_owned(), redactor })
    }

    /// Finds a declared or built-in tool by its name.
    fn find(&self, name: &str) -> Result<Arc<dyn Tool>, CliError> {
        let declared = self.tools.declared.as_ref();
        let declared = declared.and_then(|set| set.current().tool(self.namespace(), name).cloned());
        let declared = declared.map(|tool| tool as Arc<dyn Tool>);
        let built_in = || self.built_in.iter().find(|tool| tool.spec().name() == name).cloned();
        declared.or_else(built_in).ok_or_else(|| {
            let message = format!("there is no tool `{name}` in namespace `{}`", self.namespace());
            CliError::new(ErrorKind::NotFound, message)
                .hint("`provost tool list` lists the tools; --manifests PATH adds declared tools")
        })
    }

    fn namespace(&self) -> &str {
        self.options.namespace.as_str()
    }

    /// Returns all tools, built-in and declared.
    fn all(&self) -> Vec<ToolInfo> {
        let declared = self.tools.declared.as_ref();
        let declared =
            declared.map(|set| set.current().tools(self.namespace())).unwrap_or_default();
        let built_in = self.built_in.iter().map(|tool| builtin_tool(tool.as_ref()));
        declared.iter().map(|tool| declared_tool(tool)).chain(built_in).collect()
    }

    /// Prints all tools.
    fn list(&self) -> Result<u8, CliError> {
        let items: Vec<ToolRow> = self.all().into_iter().map(ToolRow).collect();
        self.printer.print_list(&Page { items, next: None })?;
        Ok(0)
    }

    /// Prints one tool. Returns an error if it does not exist.
    fn get(&self, name: &str) -> Result<u8, CliError> {
        let tool = self.find(name)?;
        let declared = self.tools.declared.as_ref();
        let declared = declared.and_then(|set| set.current().tool(self.namespace(), name).cloned());
        let mut details = match declared {
            Some(declared) => json!(declared.resource()),
            None => json!(builtin_tool(tool.as_ref())),
        };
        if let Some(decision) = self.decision(tool.as_ref())? {
            details["agent"] = json!(self.options.agent);
            details["decision"] = json!(decision.as_str());
            details["because"] = json!(decision.reason());
        }
        self.printer.print_details(&details, name)?;
        Ok(0)
    }
}

/// Converts a built-in tool to its API type.
fn builtin_tool(tool: &dyn Tool) -> ToolInfo {
    let spec = tool.spec();
    let facts = spec.tool_attributes();
    ToolInfo {
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

/// Row of the list of tools.
#[derive(serde::Serialize)]
#[serde(transparent)]
struct ToolRow(ToolInfo);

impl TableRow for ToolRow {
    const COLUMNS: &'static [Column] = &[
        fixed("NAME"),
        fixed("TYPE"),
        flexible("OPERATIONS"),
        flexible("RISK"),
        flexible("EFFECT"),
        flexible("STATE"),
        flexible("DESCRIPTION"),
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
