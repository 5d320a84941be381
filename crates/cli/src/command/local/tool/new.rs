//! `provost tool new`: creates a WASM tool that builds and passes its fixtures without changes.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::error::CliError;
use crate::render::output::Output;

/// Maximum length of a name in characters.
const NAME_CHARS_MAX: usize = 64;
/// Placeholder for the name of the tool in the templates.
const NAME: &str = "TOOL_NAME";

/// Arguments of `provost tool new`.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Name of the tool: letters, digits and `_`
    name: String,
    /// Language of the source
    #[arg(long, value_enum, default_value_t, value_name = "LANGUAGE")]
    lang: Language,
    /// Directory to create; default: the name of the tool
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Languages whose modules need only one compiler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Language {
    /// Rust for wasm32-wasip1
    #[default]
    Rust,
    /// C, with clang and wasi-libc
    C,
    /// AssemblyScript, from npm
    Assemblyscript,
}

impl Language {
    /// Returns the files of the language with their templates.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Rust => &[
                ("Cargo.toml", include_str!("template/rust.Cargo.toml")),
                ("src/main.rs", include_str!("template/rust.main.rs")),
                ("build.sh", include_str!("template/rust.build.sh")),
            ],
            Self::C => &[
                ("tool.c", include_str!("template/c.tool.c")),
                ("build.sh", include_str!("template/c.build.sh")),
            ],
            Self::Assemblyscript => &[
                ("tool.ts", include_str!("template/assemblyscript.tool.ts")),
                ("build.sh", include_str!("template/assemblyscript.build.sh")),
            ],
        }
    }
}

/// Files of every language.
const SHARED: [(&str, &str); 2] = [
    ("tool.yaml", include_str!("template/tool.yaml")),
    ("fixtures/calls.yaml", include_str!("template/calls.yaml")),
];

/// Creates the tool. Returns an error if the directory exists.
pub(super) fn run(args: &NewArgs, output: &Output) -> Result<u8, CliError> {
    let name = &args.name;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(is_plain);
    if !is_name {
        return Err(CliError::invalid(format!("`{name}` is not a valid tool name"))
            .hint("use lowercase letters, digits and `_`, starting with a letter"));
    }
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(name));
    if dir.exists() {
        return Err(CliError::invalid(format!("{} already exists", dir.display()))
            .hint("select another directory with --dir"));
    }
    let files = SHARED.iter().chain(args.lang.files());
    for (path, template) in files {
        write(&dir.join(path), &template.replace(NAME, name))?;
    }
    let dir = dir.display();
    output.note(&format!("created {dir}; next:"));
    let next =
        format!("cd {dir}\nsh build.sh\nprovost tool test {name}.wasm --fixtures fixtures\n");
    io::stdout().write_all(next.as_bytes()).map_err(|error| CliError::io("the output", &error))?;
    Ok(0)
}

/// Writes a file and creates its directories. Replaces an existing file.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::io(path.display(), &error);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}
