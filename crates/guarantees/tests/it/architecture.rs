//! The layout of the workspace: direction of dependencies, homes of libraries, sizes.
//!
//! The rules are data (`tests/data/architecture.toml`). Add a new crate to a row there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use syn::visit::Visit;

#[derive(Deserialize)]
struct Rules {
    rows: BTreeMap<String, Vec<String>>,
    homes: BTreeMap<String, BTreeSet<String>>,
    unsafe_code: CrateList,
    printing: CrateList,
    composition_root: CompositionRoot,
    size: SizeLimits,
}

#[derive(Deserialize)]
struct CrateList {
    crates: BTreeSet<String>,
}

#[derive(Deserialize)]
struct CompositionRoot {
    #[serde(rename = "crate")]
    package: String,
    module: String,
    names: Vec<String>,
}

#[derive(Deserialize)]
struct SizeLimits {
    crate_lines: usize,
    folder_modules: usize,
    engine_folders: usize,
    large_crates: BTreeMap<String, String>,
    large_folders: BTreeMap<String, String>,
}

/// Maximum number of files between the socket and the stream of a request.
const TRACE_FILES_MAX: usize = 25;
/// Words of the trace that explain a function and that its file does not define.
const EXPLAINED: [&str; 4] = ["accepted", "Run", "match", "Run::next_step()"];

/// One package of the workspace.
struct Package {
    name: String,
    source: PathBuf,
    dependencies: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<MetadataDependency>,
}

#[derive(Deserialize)]
struct MetadataDependency {
    name: String,
    kind: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn rules() -> Rules {
    toml::from_str(include_str!("../data/architecture.toml")).unwrap()
}

/// The packages of the workspace with their dependencies, development dependencies left out.
fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    metadata
        .packages
        .into_iter()
        .map(|package| {
            let dependencies = package
                .dependencies
                .into_iter()
                .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
                .map(|dependency| dependency.name)
                .collect();
            let source = package.manifest_path.parent().unwrap().join("src");
            Package { name: package.name, source, dependencies }
        })
        .collect()
}

/// All Rust files below a folder. Empty if the folder does not exist.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in folder.read_dir().into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension() == Some(OsStr::new("rs")) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The number of modules side by side in a folder: `name.rs` and `name/` are one.
fn modules_of(folder: &Path) -> usize {
    let names: BTreeSet<_> = folder
        .read_dir()
        .unwrap()
        .filter_map(|entry| entry.unwrap().path().file_stem().map(OsStr::to_owned))
        .filter(|name| name != "lib" && name != "main")
        .collect();
    names.len()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn assert_none(problems: &[String], rule: &str) {
    assert!(problems.is_empty(), "{rule}:\n{}", problems.join("\n"));
}

#[test]
fn crates_depend_only_on_lower_rows() {
    let mut row_of = BTreeMap::new();
    for (row, crates) in rules().rows {
        for name in crates {
            row_of.insert(name, row.parse::<u32>().unwrap());
        }
    }
    let packages = packages();
    let existing: BTreeSet<_> = packages.iter().map(|package| package.name.clone()).collect();
    let mut problems = Vec::new();
    for name in row_of.keys().filter(|name| !existing.contains(*name)) {
        problems.push(format!("{name} has a row, but the workspace has no such crate"));
    }
    for package in &packages {
        let Some(row) = row_of.get(&package.name) else {
            problems.push(format!("{} has no row", package.name));
            continue;
        };
        for dependency in package.dependencies.intersection(&existing) {
            if row_of.get(dependency) >= Some(row) {
                problems.push(format!("{} depends on {dependency}", package.name));
            }
        }
    }
    assert_none(&problems, "dependencies that do not point to a lower row");
}

#[test]
fn libraries_stay_in_their_crates() {
    let homes = rules().homes;
    let mut problems = Vec::new();
    for package in packages() {
        for library in &package.dependencies {
            if homes.get(library).is_some_and(|crates| !crates.contains(&package.name)) {
                problems.push(format!("{} uses {library}", package.name));
            }
        }
    }
    assert_none(&problems, "libraries outside of the crates that may use them");
}

#[test]
fn only_named_crates_use_unsafe_or_print() {
    let rules = rules();
    let mut problems = Vec::new();
    for package in packages() {
        for file in rust_files(&package.source) {
            let text = std::fs::read_to_string(&file).unwrap();
            let lifts = |lint: &str| {
                ["expect(", "allow("].iter().any(|attribute| {
                    text.split(attribute).skip(1).any(|rest| {
                        rest.split(')').next().is_some_and(|lints| lints.contains(lint))
                    })
                })
            };
            if lifts("unsafe_code") && !rules.unsafe_code.crates.contains(&package.name) {
                problems.push(format!("{} allows unsafe code", shown(&file)));
            }
            if (lifts("print_stdout") || lifts("print_stderr"))
                && !rules.printing.crates.contains(&package.name)
            {
                problems.push(format!("{} prints", shown(&file)));
            }
        }
    }
    assert_none(&problems, "lints that are lifted outside of the crates that may do so");
}

#[test]
fn only_the_composition_root_names_the_engine_and_the_store() {
    let CompositionRoot { package, module, names } = rules().composition_root;
    let packages = packages();
    let package = packages.iter().find(|found| found.name == package).unwrap();
    let mut problems = Vec::new();
    let mut composed = BTreeSet::new();
    for file in rust_files(&package.source) {
        let text = std::fs::read_to_string(&file).unwrap();
        let path = file.strip_prefix(&package.source).unwrap();
        let is_root = path
            .iter()
            .next()
            .is_some_and(|first| Path::new(first).file_stem() == Some(OsStr::new(&module)));
        for name in names.iter().filter(|name| text.contains(*name)) {
            match is_root {
                true => drop(composed.insert(name.clone())),
                false => problems.push(format!("{} names {name}", shown(&file))),
            }
        }
    }
    assert_eq!(composed.len(), names.len(), "the composition root is somewhere else");
    assert_none(&problems, "files outside of the composition root");
}

#[test]
fn crates_and_folders_stay_small() {
    let size = rules().size;
    let mut problems = Vec::new();
    let mut reasons: BTreeSet<_> =
        size.large_crates.keys().chain(size.large_folders.keys()).cloned().collect();
    for package in packages() {
        let files = rust_files(&package.source);
        let lines: usize =
            files.iter().map(|file| std::fs::read_to_string(file).unwrap().lines().count()).sum();
        if lines > size.crate_lines && !reasons.remove(&package.name) {
            problems.push(format!("{} has {lines} lines", package.name));
        }
        let mut folders = BTreeSet::from([package.source.clone()]);
        folders.extend(files.iter().filter_map(|file| file.parent().map(Path::to_path_buf)));
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            let entries = modules_of(folder);
            if entries > size.folder_modules && !reasons.remove(&shown(folder)) {
                problems.push(format!("{} has {entries} modules", shown(folder)));
            }
        }
    }
    problems.extend(reasons.iter().map(|name| format!("{name} no longer needs its reason")));
    assert_none(&problems, "crates and folders above the limit, without a reason in the rules");
}

#[test]
fn the_architecture_page_names_existing_crates_and_files() {
    let page = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let mut problems = Vec::new();
    for path in page.split('`').skip(1).step_by(2).filter(|code| code.starts_with("crates/")) {
        if !root().join(path).exists() {
            problems.push(format!("{path} does not exist"));
        }
    }
    for package in packages() {
        let name = package.name.strip_prefix("provost-").unwrap_or("sdk");
        if !page.contains(&format!("`{name}`")) {
            problems.push(format!("the page does not name {name}"));
        }
    }
    assert_none(&problems, "docs/ARCHITECTURE.md");
}

/// Returns the words in backticks.
fn code_words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns true if a file defines the function `name` or `Type::name`, or the type `Type`.
fn defines(source: &str, item: &str) -> bool {
    let item = item.trim_end_matches("()");
    let has = |keyword: &str, name: &str| {
        source.match_indices(&format!("{keyword} {name}")).any(|(at, found)| {
            !source[at + found.len()..]
                .starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
    };
    let is_type = |name: &str| ["impl", "for", "struct", "enum"].iter().any(|word| has(word, name));
    match item.split_once("::") {
        Some((owner, function)) => is_type(owner) && has("fn", function),
        None if item.starts_with(char::is_uppercase) => is_type(item),
        None => has("fn", item),
    }
}

#[test]
fn the_trace_of_a_request_names_one_real_file_and_its_functions_per_row() {
    let page = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let (_, trace) = page.split_once("## A request from socket to stream").unwrap();
    let (trace, _) = trace.split_once("\n## ").unwrap();
    let rows: Vec<Vec<&str>> = trace
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| #"))
        .map(|line| line.trim_matches('|').split('|').collect())
        .collect();
    assert!((1..=TRACE_FILES_MAX).contains(&rows.len()), "{} files", rows.len());
    let mut problems = Vec::new();
    for row in &rows {
        let [_, file, work] = row[..] else { panic!("three columns: {row:?}") };
        let files: Vec<&str> = code_words(file).collect();
        let [path] = files[..] else { panic!("one file: {row:?}") };
        let source = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        // The event `accepted`, the type `Run`, the method `next_step` and the keyword `match` explain a function.
        let items = code_words(work).filter(|word| !EXPLAINED.contains(word));
        for item in items.filter(|item| !defines(&source, item)) {
            problems.push(format!("{path} does not define `{item}`"));
        }
    }
    assert_none(&problems, "docs/ARCHITECTURE.md, \"A request from socket to stream\"");
}

#[test]
fn the_engine_has_few_folders() {
    let source = root().join("crates/engine/src");
    let folders =
        source.read_dir().unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
    let (count, limit) = (folders.count(), rules().size.engine_folders);
    assert!(count <= limit, "crates/engine/src has {count} folders, the limit is {limit}");
}

/// Functions with a parameter whose pattern takes a tuple apart.
#[derive(Default)]
struct TupleParameters {
    functions: Vec<String>,
}

impl<'ast> Visit<'ast> for TupleParameters {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let has_tuple = signature.inputs.iter().any(|input| match input {
            syn::FnArg::Typed(typed) => is_tuple(&typed.ty),
            syn::FnArg::Receiver(_) => false,
        });
        if has_tuple {
            self.functions.push(signature.ident.to_string());
        }
        syn::visit::visit_signature(self, signature);
    }
}

fn is_tuple(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

#[test]
fn no_function_takes_a_tuple() {
    let mut problems = Vec::new();
    for package in packages() {
        for file in rust_files(&package.source) {
            let text = std::fs::read_to_string(&file).unwrap();
            let mut found = TupleParameters::default();
            found.visit_file(&syn::parse_file(&text).unwrap());
            problems
                .extend(found.functions.iter().map(|name| format!("{} fn {name}", shown(&file))));
        }
    }
    assert_none(&problems, "functions with a tuple parameter; use a struct");
}

/// Comparisons of a row's state with a text.
#[derive(Default)]
struct StateTexts {
    found: Vec<String>,
}

impl StateTexts {
    /// Names of the fields that hold a state machine's state.
    const FIELDS: [&str; 3] = ["phase", "state", "status"];

    /// Returns the field if the expression is a state as text, for example `row.phase` or `row.phase.as_str()`.
    fn field(expression: &syn::Expr) -> Option<String> {
        match expression {
            syn::Expr::Field(field) => match &field.member {
                syn::Member::Named(name) if Self::FIELDS.iter().any(|field| name == field) => {
                    Some(name.to_string())
                }
                _ => None,
            },
            syn::Expr::MethodCall(call)
                if ["as_str", "as_deref"].iter().any(|method| call.method == method) =>
            {
                Self::field(&call.receiver)
            }
            syn::Expr::Reference(reference) => Self::field(&reference.expr),
            syn::Expr::Paren(paren) => Self::field(&paren.expr),
            syn::Expr::Tuple(tuple) => tuple.elems.iter().find_map(Self::field),
            _ => None,
        }
    }

    fn has_text(expression: &syn::Expr) -> bool {
        matches!(expression, syn::Expr::Lit(literal) if matches!(literal.lit, syn::Lit::Str(_)))
    }
}

/// Finds a text in a pattern.
#[derive(Default)]
struct TextPattern(bool);

impl<'ast> Visit<'ast> for TextPattern {
    fn visit_lit_str(&mut self, _: &'ast syn::LitStr) {
        self.0 = true;
    }
}

impl<'ast> Visit<'ast> for StateTexts {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let compares = matches!(binary.op, syn::BinOp::Eq(_) | syn::BinOp::Ne(_));
        for (one, other) in [(&binary.left, &binary.right), (&binary.right, &binary.left)] {
            if compares && Self::has_text(other) {
                self.found.extend(Self::field(one));
            }
        }
        syn::visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_match(&mut self, found: &'ast syn::ExprMatch) {
        let has_text = found.arms.iter().any(|arm| {
            let mut text = TextPattern::default();
            text.visit_pat(&arm.pat);
            text.0
        });
        if has_text {
            self.found.extend(Self::field(&found.expr));
        }
        syn::visit::visit_expr_match(self, found);
    }

    fn visit_macro(&mut self, found: &'ast syn::Macro) {
        let tokens = found.tokens.to_string();
        let names_state = |field: &&&str| tokens.contains(&format!(". {field}"));
        if found.path.is_ident("matches")
            && tokens.contains('"')
            && let Some(field) = Self::FIELDS.iter().find(names_state)
        {
            self.found.push((*field).to_owned());
        }
    }
}

#[test]
fn states_are_compared_as_enums() {
    let mut problems = Vec::new();
    // Only these crates see rows.
    let sees_rows = |package: &&Package| package.dependencies.contains("provost-store");
    for package in packages().iter().filter(sees_rows) {
        for file in rust_files(&package.source) {
            let mut texts = StateTexts::default();
            texts.visit_file(&syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap());
            let found = texts.found.iter();
            problems.extend(found.map(|field| format!("{} compares `{field}`", shown(&file))));
        }
    }
    assert_none(&problems, "states that are compared with a text; compare with a variant");
}

#[test]
fn a_comparison_of_a_state_with_a_text_is_found() {
    let code = r#"
        fn f(row: Row) -> bool {
            match row.state.as_str() { "open" => true, _ => false };
            matches!(row.status.as_str(), "ok" | "error") || row.phase == "leased" || row.name == "x"
        }
    "#;
    let mut texts = StateTexts::default();
    texts.visit_file(&syn::parse_file(code).unwrap());
    assert_eq!(texts.found, ["state", "status", "phase"]);
}

#[test]
fn the_server_opens_no_transactions() {
    let packages = packages();
    let server = packages.iter().find(|package| package.name == "provost-server").unwrap();
    let mut problems = Vec::new();
    for file in rust_files(&server.source) {
        let text: String = std::fs::read_to_string(&file).unwrap().split_whitespace().collect();
        for name in ["provost_store::Tx", ".store().read(", ".store().write"] {
            if text.contains(name) {
                problems.push(format!("{} names {name}", shown(&file)));
            }
        }
    }
    assert_none(&problems, "transactions in the server; add a function to `provost_store::query`");
}
