//! Line numbers of documents and fields, for error messages.

/// Returns the first line of each document of a file, counted from 1.
pub(crate) fn document_starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let is_end = line == "..." || line.starts_with("--- ") || line == "---";
        if is_end {
            open = false;
        }
        let has_content = !is_end && !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if has_content && !open {
            starts.push(number);
            open = true;
        }
    }
    starts
}

/// Returns the line of a field such as `spec.runtime.timeout` in the document that starts at line `start`. This is a
/// heuristic for block style; for other styles it returns the line of the innermost parent that it found.
pub(crate) fn field_line(text: &str, start: usize, path: &str) -> usize {
    let mut current = start;
    let mut lines = (1..).zip(text.lines()).skip(start.saturating_sub(1)).peekable();
    for segment in path.split('.') {
        let name = segment.split('[').next().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        loop {
            let Some((number, line)) = lines.peek().copied() else { return current };
            if number > start && (line == "---" || line.starts_with("--- ")) {
                return current;
            }
            if has_key(line, name) {
                current = number;
                break;
            }
            lines.next();
        }
    }
    current
}

/// Returns true if the line has the key `name`, alone or in a flow mapping. Case and underscores are ignored.
fn has_key(line: &str, name: &str) -> bool {
    let normalized = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let line = line.trim_start().trim_start_matches("- ").trim_start_matches(['{', '"', '\'']);
    let key = line.split([':', '"', '\'']).next().unwrap_or_default();
    // The fields of a flow mapping share a line.
    normalized(key.trim()) == normalized(name) || line.contains(&format!("{name}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# tools\n---\nkind: Tool\nmetadata:\n  name: a\nspec:\n  runtime:\n    timeout: 3s\n    retry: {max_attempts: 2}\n---\nkind: Tool\nspec:\n  riskLevel: low\n";

    #[test]
    fn document_starts_skip_comments_and_blank_lines() {
        assert_eq!(document_starts(TEXT), [3, 11]);
        assert_eq!(document_starts("a: 1\n"), [1]);
        assert_eq!(document_starts("---\n---\n\n# x\nb: 2\n...\n"), [5]);
    }

    #[test]
    fn field_line_searches_only_its_document() {
        let found = |start, path| field_line(TEXT, start, path);
        assert_eq!(found(3, "spec.runtime.timeout"), 8);
        assert_eq!(found(3, "spec.runtime.retry.max_attempts"), 9);
        assert_eq!(found(11, "spec.risk_level"), 13);
        assert_eq!(found(3, "spec.risk_level"), 6, "the field of another document is not found");
        assert_eq!(found(3, ""), 3);
    }
}
