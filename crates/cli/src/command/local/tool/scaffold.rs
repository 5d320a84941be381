//! `provost tool scaffold`: a WASM tool to begin with, that builds and passes its fixtures as it is.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::problem::Problem;
use crate::render::output::Output;

/// Characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// What stands in the templates for the name of the tool.
const NAME: &str = "TOOL_NAME";

/// What to make.
#[derive(Debug, clap::Args)]
pub(crate) struct ScaffoldArgs {
    /// The name of the tool: letters, digits and `_`
    name: String,
    /// The language
    #[arg(long, value_enum, default_value_t, value_name = "LANGUAGE")]
    lang: Language,
    /// Where to make it; a directory with its name if nothing is said
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Languages that modules are made from with one compiler and no more.
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
    /// Files that only this language has, with their templates.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Rust => &[
                ("Cargo.toml", include_str!("scaffold/rust.Cargo.toml")),
                ("src/main.rs", include_str!("scaffold/rust.main.rs")),
                ("build.sh", include_str!("scaffold/rust.build.sh")),
            ],
            Self::C => &[
                ("tool.c", include_str!("scaffold/c.tool.c")),
                ("build.sh", include_str!("scaffold/c.build.sh")),
            ],
            Self::Assemblyscript => &[
                ("tool.ts", include_str!("scaffold/assemblyscript.tool.ts")),
                ("build.sh", include_str!("scaffold/assemblyscript.build.sh")),
            ],
        }
    }
}

/// Files that all have.
const SHARED: [(&str, &str); 2] = [
    ("tool.yaml", include_str!("scaffold/tool.yaml")),
    ("fixtures/calls.yaml", include_str!("scaffold/calls.yaml")),
];

/// Makes it. Nothing that is there is changed.
pub(super) fn run(args: &ScaffoldArgs, output: &Output) -> Result<u8, Problem> {
    let name = &args.name;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(is_plain);
    if !is_name {
        return Err(Problem::invalid(format!("`{name}` cannot be the name of a module"))
            .help("use small letters, digits and `_`, beginning with a letter"));
    }
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(name));
    if dir.exists() {
        return Err(Problem::invalid(format!("{} is there already", dir.display()))
            .help("name another place with --dir"));
    }
    let files = SHARED.iter().chain(args.lang.files());
    for (path, template) in files {
        write(&dir.join(path), &template.replace(NAME, name))?;
    }
    let dir = dir.display();
    output.dim(&format!("{dir} is made; next:"));
    let next =
        format!("cd {dir}\nsh build.sh\nprovost tool test {name}.wasm --fixtures fixtures\n");
    io::stdout().write_all(next.as_bytes()).map_err(|error| Problem::io("the output", &error))?;
    Ok(0)
}

fn write(path: &Path, text: &str) -> Result<(), Problem> {
    let failed = |error: io::Error| Problem::io(path.display(), &error);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}
