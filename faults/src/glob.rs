//! Path patterns, as in a `.gitignore`: `*` and `?` stop at a slash, `**` does not.

/// Whether a pattern names a path, which begins with a slash. Without a slash it names the last component, wherever that lies; with one, the end
/// of the path; with a leading slash, the whole path.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    if pattern.starts_with('/') {
        return glob(pattern.as_bytes(), path.as_bytes());
    }
    let depth = pattern.matches('/').count();
    if pattern.contains("**") {
        return starts(path).any(|at| glob(pattern.as_bytes(), &path.as_bytes()[at..]));
    }
    let tail = path.rmatch_indices('/').nth(depth).map(|(at, _)| &path[at + 1..]);
    tail.is_some_and(|tail| glob(pattern.as_bytes(), tail.as_bytes()))
}

/// Where the components of a path begin.
fn starts(path: &str) -> impl Iterator<Item = usize> + '_ {
    std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1))
}

/// Backtracks to the last star only, so the time is bounded by the product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on after the last star, and what it has swallowed so far; one for `*`, one for `**`.
    let mut star: Option<(usize, usize)> = None;
    let mut deep: Option<(usize, usize)> = None;
    loop {
        if pattern[p..].starts_with(b"**") {
            p += 2;
            deep = Some((p, t));
            star = None;
        } else if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            star = Some((p, t));
        } else if p < pattern.len()
            && t < text.len()
            && (pattern[p] == text[t] || (pattern[p] == b'?' && text[t] != b'/'))
        {
            p += 1;
            t += 1;
        } else if p == pattern.len() && t == text.len() {
            return true;
        } else if let Some((after, taken)) =
            star.filter(|(_, taken)| *taken < text.len() && text[*taken] != b'/')
        {
            star = Some((after, taken + 1));
            (p, t) = (after, taken + 1);
        } else if let Some((after, taken)) = deep.filter(|(_, taken)| *taken < text.len()) {
            deep = Some((after, taken + 1));
            star = None;
            (p, t) = (after, taken + 1);
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_without_a_slash_names_the_last_component() {
        assert!(matches("*.log", "/data/orders/0/00000000000000000000.log"));
        assert!(!matches("*.log", "/data/orders/0/00000000000000000000.index"));
        assert!(!matches("*.log", "/data/x.log/file"));
        assert!(matches("?.log", "/1.log"));
        assert!(!matches("?.log", "/12.log"));
        assert!(matches("clean", "/data/clean"));
        assert!(!matches("clean", "/data/unclean"));
    }

    #[test]
    fn a_pattern_with_a_slash_names_the_end_of_the_path() {
        assert!(matches("orders/0/*.log", "/data/orders/0/1.log"));
        assert!(!matches("orders/0/*.log", "/data/orders/10/1.log"));
        assert!(!matches("orders/*.log", "/data/orders/0/1.log"));
        assert!(matches("*/clean", "/data/clean"));
        assert!(!matches("*/*/clean", "/data/clean"), "there is one directory, and not two");
        assert!(matches("orders/**.log", "/data/orders/0/1.log"));
        assert!(matches("orders/**/1.*", "/data/orders/0/1/1.log"));
    }

    #[test]
    fn a_leading_slash_names_the_whole_path() {
        assert!(matches("/data/*", "/data/clean"));
        assert!(!matches("/data/*", "/data/orders/clean"));
        assert!(!matches("/orders/*", "/data/orders/clean"));
        assert!(matches("/**", "/data/orders/clean"));
        assert!(matches("**", "/data/orders/clean"));
    }
}
