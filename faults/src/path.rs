//! Paths: absolute, without links, as a list of names.

use std::path::{Component, Path};

use crate::errno::Errno;

const PATH_MAX: usize = 4096;

/// A path taken apart. A relative one begins at the root; `.` and `..` are resolved by their text, which without
/// symbolic links comes to the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// `/a/b`, whatever was given.
    text: String,
}

impl Parsed {
    pub(crate) fn new(path: &Path) -> Result<Parsed, Errno> {
        if path.as_os_str().is_empty() {
            return Err(Errno::ENOENT);
        }
        if path.as_os_str().len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let mut text = String::with_capacity(path.as_os_str().len() + 1);
        for component in path.components() {
            match component {
                Component::Normal(name) => {
                    let name = name.to_str().ok_or(Errno::EILSEQ)?;
                    if name.contains('\0') {
                        return Err(Errno::EINVAL);
                    }
                    text.push('/');
                    text.push_str(name);
                }
                Component::ParentDir => text.truncate(text.rfind('/').unwrap_or(0)),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        if text.is_empty() {
            text.push('/');
        }
        Ok(Parsed { text })
    }

    pub(crate) fn root() -> Parsed {
        Parsed { text: "/".to_owned() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').filter(|name| !name.is_empty())
    }

    /// The directory and the last name; nothing for the root.
    pub(crate) fn split(&self) -> Option<(Parsed, &str)> {
        let (dir, name) = self.text.rsplit_once('/')?;
        if name.is_empty() {
            return None;
        }
        let dir = if dir.is_empty() { "/" } else { dir };
        Some((Parsed { text: dir.to_owned() }, name))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}
