//! Finds the line of a field, so that an error can name it.

/// The first line of each document of a file, counted from one.
pub(crate) fn documents(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let is_end = line == "..." || line.starts_with("--- ") || line == "---";
        if is_end {
            open = false;
        }
        let says = !is_end && !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if says && !open {
            starts.push(number);
            open = true;
        }
    }
    starts
}

/// The line of a field such as `spec.runtime.timeout`, in the document that begins at a line. A guess that is right for what
/// people write; for anything else the line where it stopped being sure.
pub(crate) fn of_field(text: &str, start: usize, path: &str) -> usize {
    let mut found = start;
    let mut lines = (1..).zip(text.lines()).skip(start.saturating_sub(1)).peekable();
    for segment in path.split('.') {
        let name = segment.split('[').next().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        loop {
            let Some((number, line)) = lines.peek().copied() else { return found };
            if number > start && (line == "---" || line.starts_with("--- ")) {
                return found;
            }
            if names(line, name) {
                found = number;
                break;
            }
            lines.next();
        }
    }
    found
}

fn names(line: &str, name: &str) -> bool {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let line = line.trim_start().trim_start_matches("- ").trim_start_matches(['{', '"', '\'']);
    let key = line.split([':', '"', '\'']).next().unwrap_or_default();
    // A field of a flow mapping shares its line with others.
    plain(key.trim()) == plain(name) || line.contains(&format!("{name}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# tools\n---\nkind: Tool\nmetadata:\n  name: a\nspec:\n  runtime:\n    timeout: 3s\n    retry: {max_attempts: 2}\n---\nkind: Tool\nspec:\n  riskLevel: low\n";

    #[test]
    fn documents_begin_where_they_say_something() {
        assert_eq!(documents(TEXT), [3, 11]);
        assert_eq!(documents("a: 1\n"), [1]);
        assert_eq!(documents("---\n---\n\n# x\nb: 2\n...\n"), [5]);
    }

    #[test]
    fn fields_are_found_in_their_document() {
        let found = |start, path| of_field(TEXT, start, path);
        assert_eq!(found(3, "spec.runtime.timeout"), 8);
        assert_eq!(found(3, "spec.runtime.retry.max_attempts"), 9);
        assert_eq!(found(11, "spec.risk_level"), 13);
        assert_eq!(found(3, "spec.risk_level"), 6, "not that of another document");
        assert_eq!(found(3, ""), 3);
    }
}
