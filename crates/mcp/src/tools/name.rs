//! Tool names that all model vendors accept, derived from the names at the server.
//!
//! Invariant: the names depend on the set of tools and not on their order, so a tool keeps its name across lists.

use std::collections::HashMap;

use provost_core::usage::limits::NAME_CHARS_MAX;

/// Digits of the hash that distinguishes two equal names.
const MARK_CHARS: usize = 8;

/// Returns the public name of each tool of a server. A changed or ambiguous name gets a hash suffix. `None` if the name
/// equals another name nevertheless.
pub(crate) fn public_names(server: &str, tools: &[&str]) -> Vec<Option<String>> {
    let plain: Vec<String> = tools.iter().map(|tool| sanitize(server, tool)).collect();
    let mut shares: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *shares.entry(name).or_default() += 1;
    }
    let mut taken: HashMap<String, usize> = HashMap::new();
    let mut names = vec![None; tools.len()];
    // Names that need no change take precedence.
    let (exact, changed): (Vec<usize>, Vec<usize>) =
        (0..tools.len()).partition(|&at| plain[at] == format!("{server}_{}", tools[at]));
    for at in exact.into_iter().chain(changed) {
        let is_exact = plain[at] == format!("{server}_{}", tools[at]);
        let too_long = server.len() + 1 + tools[at].len() > NAME_CHARS_MAX;
        let name = match !is_exact && (shares[plain[at].as_str()] > 1 || too_long) {
            true => with_hash_suffix(&plain[at], tools[at]),
            false => plain[at].clone(),
        };
        if !taken.contains_key(&name) {
            taken.insert(name.clone(), at);
            names[at] = Some(name);
        }
    }
    names
}

/// Returns `<server>_<tool>` with invalid characters replaced by `_`, cut to the maximum length.
fn sanitize(server: &str, tool: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = tool.chars().map(|c| if legal(c) { c } else { '_' });
    server.chars().chain(['_']).chain(name).take(NAME_CHARS_MAX).collect()
}

/// Returns the name with a hash of the tool's original name.
fn with_hash_suffix(plain: &str, tool: &str) -> String {
    let keep = plain.len().min(NAME_CHARS_MAX - MARK_CHARS - 1);
    format!("{}_{:08x}", &plain[..keep], hash(tool))
}

/// Returns the FNV-1a hash. Collisions are harmless, because a server can only affect its own tools.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tools: &[&str]) -> Vec<Option<String>> {
        public_names("files", tools)
    }

    #[test]
    fn a_good_name_gets_the_server_before_it() {
        assert_eq!(
            names(&["read", "wr-ite"]),
            [Some("files_read".into()), Some("files_wr-ite".into())]
        );
    }

    #[test]
    fn what_vendors_refuse_is_replaced() {
        assert_eq!(names(&["a.b/c"]), [Some("files_a_b_c".into())]);
        assert_eq!(names(&["größe"]), [Some("files_gr__e".into())]);
        assert_eq!(names(&[""]), [Some("files_".into())]);
    }

    #[test]
    fn names_that_become_the_same_are_kept_apart_whatever_their_order() {
        let forth = names(&["a.b", "a_b", "a/b"]);
        let mut back = names(&["a/b", "a_b", "a.b"]);
        back.reverse();
        assert_eq!(forth, back);
        assert_eq!(forth[1].as_deref(), Some("files_a_b"), "the unchanged one keeps its name");
        assert!(forth[0] != forth[2]);
        assert!(forth.iter().flatten().all(|name| name.starts_with("files_a_b")));
    }

    #[test]
    fn long_names_are_cut_and_kept_apart() {
        let (one, two) = ("x".repeat(100) + "1", "x".repeat(100) + "2");
        let both = names(&[&one, &two]);
        let (one, two) = (both[0].as_deref().unwrap(), both[1].as_deref().unwrap());
        assert!(one != two);
        assert_eq!((one.len(), two.len()), (64, 64));
    }

    #[test]
    fn the_second_of_two_equal_names_is_left_out() {
        assert_eq!(names(&["a", "a"]), [Some("files_a".into()), None]);
    }
}
