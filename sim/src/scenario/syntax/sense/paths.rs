//! Paths that lead out of the data directory, where a simulated disk has nothing.

use crate::scenario::Surgery;

/// What is wrong with the paths of a change, and what to do.
pub(super) fn surgery(surgery: &Surgery) -> Option<(String, String)> {
    match surgery {
        Surgery::Copy { file, to } | Surgery::Rename { file, to } => path(file).or_else(|| path(to)),
        Surgery::Corrupt { file, .. }
        | Surgery::Truncate { file, .. }
        | Surgery::Zeros { file, .. }
        | Surgery::Write { file, .. }
        | Surgery::WriteRecord { file, .. }
        | Surgery::WriteEntry { file, .. }
        | Surgery::Delete { file }
        | Surgery::MakeDir { dir: file }
        | Surgery::Unreadable { file, .. } => path(file),
    }
}

/// The same of one path, or of a pattern for paths.
pub(super) fn path(path: &str) -> Option<(String, String)> {
    let odd = |part: &str| part == "." || part == "..";
    let message = match path {
        "" => "a path cannot be empty".to_owned(),
        path if path.starts_with('/') => format!("`{path}` begins with `/`"),
        path if path.split('/').any(odd) => format!("`{path}` has a part that is no name"),
        _ => return None,
    };
    let help = "paths are relative to the data directory and stay in it, as `orders/0/@last.log`";
    Some((message, help.to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;

    #[test]
    fn a_path_stays_in_the_data_directory() {
        for path in ["/tmp/x", "orders/../up", "../../etc/x", "./orders/0/x", "orders/0/..", ""] {
            for line in [
                format!("write \"{path}\" text=\"x\""),
                format!("copy \"a\" to=\"{path}\""),
                format!("rename \"{path}\" to=\"a\""),
                format!("make-dir \"{path}\""),
                format!("dump \"{path}\""),
                format!("fault write \"{path}\" full"),
                format!("fault write \"*\" misdirect=0 into=\"{path}\""),
                format!("each fault write \"{path}\" full=\"1 | 2\""),
            ] {
                let found = parse("t.kdl", &format!("scenario \"t\"\n{line}\n")).expect_err(&line).lines();
                let words = "paths are relative to the data directory";
                assert!(found[0].starts_with("t.kdl:2:") && found[0].contains(words), "{line}: {found:?}");
            }
        }
        for line in ["write \"orders/0/..x\" text=\"x\"", "dump", "fault write \"**/0/*.log\" full"] {
            assert!(parse("t.kdl", &format!("scenario \"t\"\n{line}\n")).is_ok(), "{line}");
        }
    }
}
