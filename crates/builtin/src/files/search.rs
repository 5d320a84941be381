//! The `search` tool: lines that match a regular expression.

mod sink;

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use provost_redact::Redact;
use provost_tool::{EffectClass, FnTool, ToolSpecError, tool_fn};
use provost_workspace::walk::{Glob, SkipCounts, WalkControl, walk};
use provost_workspace::{Error, Result, check_cancelled};
use provost_workspace::{WorkspacePath, WorkspaceRoot, excerpt, open_in};
use rustix::fs::{FileType, OFlags, fstat};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use self::sink::MatchList;
use crate::blocking;
use crate::files::list::workspace_root;
use crate::limits::{
    PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX, SEARCH_BYTES_MAX, SEARCH_CONTEXT_MAX,
    SEARCH_HEAP_BYTES_MAX, SEARCH_MATCHES_DEFAULT, SEARCH_MATCHES_MAX,
};

const DESCRIPTION: &str = "Searches the text files of the workspace for lines that match a regular expression. \
     Returns path:line: text. Skips binary files and files that .gitignore excludes.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// The regular expression. It is matched against one line at a time.
    pattern: String,
    /// File or directory to search, relative to the workspace.
    #[serde(default = "workspace_root")]
    path: String,
    /// Only files that match, such as `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    glob: String,
    /// True to ignore the case of letters.
    #[serde(default)]
    ignore_case: bool,
    /// Number of lines to show around each match.
    #[serde(default)]
    #[schemars(range(max = SEARCH_CONTEXT_MAX))]
    context: u64,
    /// Maximum number of matches to show.
    #[serde(default = "matches_default")]
    #[schemars(range(min = 1, max = SEARCH_MATCHES_MAX))]
    limit: u64,
}

fn matches_default() -> u64 {
    SEARCH_MATCHES_DEFAULT
}

/// Creates the `search` tool. It searches text files for lines that match a pattern.
pub fn search(workspace: &WorkspaceRoot) -> std::result::Result<FnTool, ToolSpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn("search", DESCRIPTION, move |cx, arguments: SearchArguments| {
        let workspace = workspace.clone();
        async move {
            let redact = cx.redactor().cloned();
            let found =
                blocking::run(move |cancel| run_search(&workspace, &arguments, redact, cancel));
            found.await
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// State of one search.
struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    matches: MatchList,
    bytes_left: u64,
    cancel: &'a CancellationToken,
}

/// Searches a file, or the files below a directory, and returns the matches as text.
fn run_search(
    workspace: &WorkspaceRoot,
    arguments: &SearchArguments,
    redact: Option<Arc<dyn Redact>>,
    cancel: &CancellationToken,
) -> Result<String> {
    let path = WorkspacePath::parse(&arguments.path)?;
    let mut search = Search::new(arguments, redact, cancel)?;
    let glob = match arguments.glob.as_str() {
        "" => None,
        glob => Some(Glob::parse(glob)?),
    };
    if !workspace.is_directory(&path)? {
        let opened = workspace.open_file(&path)?;
        let mut skipped = SkipCounts::default();
        search.search_file(opened.file, &path, &mut skipped)?;
        return Ok(search.finish(&skipped));
    }
    let skipped = walk(workspace, &path, cancel, |found, skipped| {
        if glob.as_ref().is_some_and(|glob| !glob.matches(found.relative_path)) {
            return Ok(WalkControl::Continue);
        }
        let opened = open_in(found.directory, found.name, OFlags::RDONLY | OFlags::NONBLOCK);
        let is_file =
            |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        match opened {
            Ok(opened) if fstat(&opened).is_ok_and(is_file) => {
                search.search_file(File::from(opened), found.path, skipped)
            }
            _ => {
                skipped.add_unreadable();
                Ok(WalkControl::Continue)
            }
        }
    })?;
    Ok(search.finish(&skipped))
}

impl<'a> Search<'a> {
    /// Compiles the pattern. Returns an error if it is empty, too long or invalid.
    fn new(
        arguments: &SearchArguments,
        redact: Option<Arc<dyn Redact>>,
        cancel: &'a CancellationToken,
    ) -> Result<Self> {
        let pattern = &arguments.pattern;
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
            return Err(Error::Argument(format!(
                "the pattern must have 1 to {PATTERN_BYTES_MAX} bytes"
            )));
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(arguments.ignore_case)
            .line_terminator(Some(b'\n'))
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build(pattern)
            .map_err(|error| {
                let problem = excerpt(&error.to_string());
                Error::Argument(format!("`{}` is not a valid pattern: {problem}", excerpt(pattern)))
            })?;
        let context = usize::try_from(arguments.context.min(SEARCH_CONTEXT_MAX)).unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(SEARCH_HEAP_BYTES_MAX))
            .build();
        let matches = MatchList::new(arguments.limit.clamp(1, SEARCH_MATCHES_MAX), redact);
        Ok(Self { matcher, searcher, matches, bytes_left: SEARCH_BYTES_MAX, cancel })
    }

    /// Searches one file. Returns [`WalkControl::Stop`] if the result is full or the byte limit is reached.
    fn search_file(
        &mut self,
        file: File,
        path: &WorkspacePath,
        skipped: &mut SkipCounts,
    ) -> Result<WalkControl> {
        self.matches.begin_file(path);
        let mut reader = LimitedReader { file, left: &mut self.bytes_left, cancel: self.cancel };
        let searched =
            self.searcher.search_reader(&self.matcher, &mut reader, self.matches.file_sink());
        check_cancelled(self.cancel)?;
        if searched.is_err() {
            // A line that exceeds the memory limit, or a failing disk. The search continues with the other files.
            skipped.add_unreadable();
        }
        let is_enough = self.matches.is_full() || self.bytes_left == 0;
        Ok(if is_enough { WalkControl::Stop } else { WalkControl::Continue })
    }

    /// Returns the matches with notes about skipped files and limits.
    fn finish(self, skipped: &SkipCounts) -> String {
        let mut notes = skipped.notes();
        if self.bytes_left == 0 {
            notes.push(format!("[stopped after {SEARCH_BYTES_MAX} bytes: narrow the search]"));
        }
        self.matches.finish(&notes)
    }
}

/// A reader that ends at a byte limit, and returns an error once the call is cancelled.
struct LimitedReader<'a> {
    file: File,
    left: &'a mut u64,
    cancel: &'a CancellationToken,
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        let length =
            usize::try_from(*self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.file.read(&mut buffer[..length])?;
        *self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
