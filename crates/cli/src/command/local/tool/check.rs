//! `provost tool test`: checks the runtime, secret and address of tools, and runs the calls of fixtures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_api::Page;
use provost_core::Timestamp;
use provost_core::contract::ToolErrorCode;
use provost_core::resource::ToolResource;
use provost_host::tool::ToolNetwork;
use provost_net::{Dialer, SystemResolver, Url};
use provost_tool::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ToolCommand;
use crate::error::CliError;
use crate::render::printer::TableRow;
use crate::render::table::{Cell, Column, fixed, flexible};

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a fixture file in bytes.
const FIXTURE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Arguments of `provost tool test`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Names of the tools, or the path of one WASM module; default: all declared tools
    pub(super) names: Vec<String>,
    /// File of calls and expected results; for a module also a directory of such files
    #[arg(long, value_name = "PATH")]
    pub(super) fixtures: Option<PathBuf>,
    /// Do not open network connections
    #[arg(long)]
    offline: bool,
}

/// A call and its expected result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fixture {
    /// Name of the tool. Empty for a module, which has only one tool.
    #[serde(default)]
    tool: String,
    #[serde(default = "no_arguments")]
    args: Value,
    #[serde(default)]
    expect: Expect,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expect {
    /// Expected error code. `None` if the call must succeed.
    code: Option<ToolErrorCode>,
    /// Text that the output must contain.
    contains: Option<String>,
}

fn no_arguments() -> Value {
    json!({})
}

/// Result of one check of a tool: whether it passed, and the observed behaviour.
#[derive(Serialize)]
pub(super) struct CheckResult {
    pub(super) tool: String,
    pub(super) check: String,
    pub(super) ok: bool,
    pub(super) found: String,
}

impl TableRow for CheckResult {
    const COLUMNS: &'static [Column] =
        &[fixed("TOOL"), fixed("CHECK"), fixed("RESULT"), flexible("DETAIL")];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let state = if self.ok { "ok" } else { "failed" };
        vec![
            Cell::from(&self.tool),
            Cell::from(&self.check),
            Cell::state(state),
            Cell::from(&self.found),
        ]
    }

    fn name(&self) -> String {
        self.tool.clone()
    }
}

impl ToolCommand<'_> {
    /// Checks the selected tools and runs the fixtures.
    pub(super) async fn test(&self, args: &CheckArgs) -> Result<u8, CliError> {
        let mut items = Vec::new();
        let is_selected = |name: &str| {
            args.names.is_empty() || args.names.iter().any(|other| other.eq_ignore_ascii_case(name))
        };
        for name in &args.names {
            self.find(name)?;
        }
        if let Some(declared) = &self.tools.declared {
            for rule in declared.current().declared().unmatched_permissions() {
                self.printer.output.note(&rule);
            }
            for tool in declared.current().tools(self.namespace()) {
                if is_selected(&tool.resource().name) {
                    self.check_tool(&tool, args.offline, &mut items).await;
                }
            }
            if args.names.is_empty() && !args.offline {
                self.check_servers(&mut items).await;
            }
        }
        if let Some(path) = &args.fixtures {
            for fixture in fixtures(path)? {
                if is_selected(&fixture.tool) {
                    items.push(self.run_fixture(&fixture).await?);
                }
            }
        }
        self.print_results(items)
    }

    /// Prints the results. The exit code is 1 if a check failed.
    pub(super) fn print_results(&self, items: Vec<CheckResult>) -> Result<u8, CliError> {
        let failed = items.iter().filter(|result| !result.ok).count();
        self.printer.print_list(&Page { items, next: None })?;
        Ok(u8::from(failed > 0))
    }

    /// Checks a declared tool, and adds the results. Without `offline`, connects to its service.
    async fn check_tool(
        &self,
        tool: &provost_tool::DeclaredTool,
        offline: bool,
        items: &mut Vec<CheckResult>,
    ) {
        let resource = tool.resource();
        let mut add = |check: &str, outcome: Result<String, String>| {
            let (ok, found) = match outcome {
                Ok(found) => (true, found),
                Err(found) => (false, found),
            };
            items.push(CheckResult {
                tool: resource.name.clone(),
                check: check.to_owned(),
                ok,
                found,
            });
        };
        let runtime =
            tool.verify().map(|()| format!("{}, {}", resource.kind, resource.isolation()));
        add("runtime", runtime.map_err(|fault| fault.message));
        if let (Some(auth), Some(declared)) = (&resource.auth, &self.tools.declared) {
            let credentials =
                declared.current().authenticator().credentials(self.namespace(), auth).await;
            let found = credentials.map(|_| format!("{} by {}", auth.secret_ref, auth.profile));
            add("secret", found.map_err(|fault| fault.message));
        }
        if !offline && let Ok(url) = Url::parse(&resource.endpoint) {
            add("address", self.check_address(resource, &url).await);
        }
    }

    /// Connects to the address of a tool without sending data.
    async fn check_address(&self, resource: &ToolResource, url: &Url) -> Result<String, String> {
        let network = ToolNetwork::from(self.options.tool_network);
        let policy = network.for_tool(resource.allow_private);
        policy.check_url(url).map_err(|error| error.to_string())?;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let dialer = Dialer::new(policy, Arc::new(SystemResolver));
        let connection = dialer.connect(host, port, Instant::now() + CONNECT_TIMEOUT).await;
        connection.map(|_| format!("{host} is reachable")).map_err(|error| error.to_string())
    }

    /// Connects to each MCP server, and adds the results.
    async fn check_servers(&self, items: &mut Vec<CheckResult>) {
        let Some(declared) = &self.tools.declared else { return };
        let registry = declared.current();
        for server in registry.declared().servers(self.namespace()) {
            let name = std::slice::from_ref(&server.name);
            let Some(tools) = registry.servers_of(self.namespace(), name).pop() else { continue };
            let (ok, found) = match tools.connect().await {
                Ok(count) => (true, format!("{count} tools")),
                Err(error) => (false, error.to_string()),
            };
            items.push(CheckResult {
                tool: server.name.clone(),
                check: "server".to_owned(),
                ok,
                found,
            });
        }
    }

    async fn run_fixture(&self, fixture: &Fixture) -> Result<CheckResult, CliError> {
        let tool = self.find(&fixture.tool)?;
        self.run_fixture_on(&tool, fixture).await
    }

    /// Executes the call of a fixture and compares the result.
    pub(super) async fn run_fixture_on(
        &self,
        tool: &Arc<dyn Tool>,
        fixture: &Fixture,
    ) -> Result<CheckResult, CliError> {
        let result = self.call_tool(tool, &fixture.args, /*yes*/ true).await?;
        let (code, text) = match &result.outcome {
            Ok(text) => (None, text.as_str()),
            Err(fault) => (Some(fault.code), fault.message.as_str()),
        };
        let is_expected = code == fixture.expect.code
            && fixture.expect.contains.as_ref().is_none_or(|part| text.contains(part.as_str()));
        let found = match code {
            None => text.to_owned(),
            Some(code) => format!("{code}: {text}"),
        };
        let name = tool.spec().name().to_owned();
        Ok(CheckResult { tool: name, check: "call".to_owned(), ok: is_expected, found })
    }
}

/// Reads a file of fixtures.
pub(super) fn fixtures(file: &Path) -> Result<Vec<Fixture>, CliError> {
    let path = file.display();
    let failed = |error: std::io::Error| CliError::io(format!("the fixtures {path}"), &error);
    let size = std::fs::metadata(file).map_err(failed)?.len();
    if size > FIXTURE_BYTES_MAX {
        let message = format!("{path} has {size} bytes, the limit is {FIXTURE_BYTES_MAX}");
        return Err(CliError::invalid(message).hint("split the file"));
    }
    let text = std::fs::read_to_string(file).map_err(failed)?;
    serde_yaml_ng::from_str(&text).map_err(|error| {
        CliError::invalid(format!("{path}: {error}"))
            .hint("use a list of `tool`, `args` and `expect`; `provost tool test --help` shows an example")
    })
}
