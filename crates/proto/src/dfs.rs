//! Paths of a DFS namespace: [MS-DFSC] 3.2.4, 3.2.5.

use dtyp::upcase::equal_ignoring_case;
use engine::request::Incoming;
use model::share::Share;
use wire::header::HeaderFlags;

/// A path of a namespace: `\server\share\path`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DfsPath<'a> {
    pub(crate) server: &'a str,
    pub(crate) share: &'a str,
    /// Path in the share; empty for the root.
    pub(crate) path: &'a str,
}

impl<'a> DfsPath<'a> {
    /// Parses a path, with any number of separators before it.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let mut parts = path.trim_start_matches('\\').splitn(3, '\\');
        let (server, share) = (parts.next()?, parts.next()?);
        let path = parts.next().unwrap_or_default().trim_end_matches('\\');
        (!server.is_empty() && !share.is_empty()).then_some(Self { server, share, path })
    }
}

/// Returns the name of a CREATE relative to its share: [MS-SMB2] 3.3.5.9 has clients of a namespace
/// send the whole path. Other paths are relative already, as with Samba.
pub(crate) fn local_name<'a>(incoming: &Incoming, share: &Share, name: &'a [u8]) -> &'a [u8] {
    let is_dfs = incoming.header.flags.contains(HeaderFlags::DFS_OPERATIONS);
    if !is_dfs || !share.is_dfs_root {
        return name;
    }
    let Ok(whole) = dtyp::utf16::decode(name) else { return name };
    match DfsPath::parse(&whole) {
        Some(path) if is_called(share, path.share) => {
            let bytes = dtyp::utf16::to_bytes(path.path).len();
            let trailing = whole.len() - whole.trim_end_matches('\\').len();
            let end = name.len() - 2 * trailing;
            &name[end - bytes..end]
        }
        _ => name,
    }
}

fn is_called(share: &Share, name: &str) -> bool {
    [&share.name, &share.requested_name].iter().any(|it| equal_ignoring_case(it, name))
}

#[cfg(test)]
mod tests {
    use super::DfsPath;

    #[test]
    fn a_path_of_a_namespace_has_a_server_and_a_share() {
        let whole = DfsPath { server: "srv", share: "dfs", path: "a\\b" };
        for text in ["srv\\dfs\\a\\b", "\\srv\\dfs\\a\\b", "\\\\srv\\dfs\\a\\b\\"] {
            assert_eq!(DfsPath::parse(text), Some(whole), "{text}");
        }
        assert_eq!(DfsPath::parse("\\srv\\dfs"), Some(DfsPath { path: "", ..whole }));
        for text in ["", "\\", "srv", "\\srv\\"] {
            assert_eq!(DfsPath::parse(text), None, "{text}");
        }
    }
}
