//! Netgroups: lists of hosts, users and domains that the system's name service keeps.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Mutex;

use anyhow::Context;

/// Returns true if a netgroup has an entry for this user, of any host and of this system's NIS
/// domain, or of any domain if it has none. A netgroup that does not exist, or that no module of
/// the name service knows, has no users: the C library does not tell these cases apart.
///
/// # Errors
/// A name has a zero in it.
pub fn netgroup_includes(netgroup: &str, user: &str) -> anyhow::Result<bool> {
    let netgroup = CString::new(netgroup).context("the name of a netgroup has a zero")?;
    let user = CString::new(user).context("the name of a user has a zero")?;
    let system = rustix::system::uname();
    let domain = Some(system.domainname()).filter(|it| !matches!(it.to_bytes(), b"" | b"(none)"));
    let domain = domain.map_or(ptr::null(), |it| it.as_ptr());
    // The library walks a netgroup by one state of the process.
    let _alone = ALONE.lock();
    // SAFETY: the pointers are null, for any value, or to texts that end with a zero and live until
    // the function returns; it keeps none of them.
    Ok(unsafe { innetgr(netgroup.as_ptr(), ptr::null(), user.as_ptr(), domain) } == 1)
}

/// Returns true if some module of the name service knows this netgroup.
///
/// # Errors
/// The name has a zero in it.
pub fn netgroup_exists(netgroup: &str) -> anyhow::Result<bool> {
    let netgroup = CString::new(netgroup).context("the name of a netgroup has a zero")?;
    let _alone = ALONE.lock();
    // SAFETY: the pointer is to a text that ends with a zero and lives until the function returns.
    let exists = unsafe { setnetgrent(netgroup.as_ptr()) } == 1;
    // SAFETY: the function takes no arguments, and ends the walk that the other one has begun.
    unsafe { endnetgrent() };
    Ok(exists)
}

static ALONE: Mutex<()> = Mutex::new(());

unsafe extern "C" {
    /// Function of `<netdb.h>`, which the crate `libc` lacks.
    fn innetgr(
        netgroup: *const c_char,
        host: *const c_char,
        user: *const c_char,
        domain: *const c_char,
    ) -> c_int;

    /// Begins a walk through the entries of a netgroup; also of `<netdb.h>`.
    fn setnetgrent(netgroup: *const c_char) -> c_int;

    /// Ends the walk through a netgroup.
    fn endnetgrent();
}

#[cfg(test)]
mod tests {
    use super::{netgroup_exists, netgroup_includes};

    #[test]
    fn an_unknown_netgroup_includes_nobody() {
        assert!(!netgroup_includes("choro-none", "root").expect("it is a name"));
        assert!(!netgroup_exists("choro-none").expect("it is a name"));
        netgroup_includes("a\0b", "root").expect_err("no name has a zero");
    }
}
