//! Netgroups: lists of hosts, users and domains that the system's name service keeps.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};

/// Longest wait for other look-ups of netgroups in this process, of which there is one at a time.
const NETGROUP_WAIT_MAX: Duration = Duration::from_secs(3);

/// Returns true if a netgroup has an entry for this user, of any host and of this system's NIS
/// domain, or of any domain if it has none. A netgroup that does not exist, or that no module of
/// the name service knows, has no users: the C library does not tell these cases apart.
///
/// # Errors
/// A name has a zero in it, or another look-up hangs.
pub fn netgroup_includes(netgroup: &str, user: &str) -> anyhow::Result<bool> {
    let netgroup = CString::new(netgroup).context("the name of a netgroup has a zero")?;
    let user = CString::new(user).context("the name of a user has a zero")?;
    let system = rustix::system::uname();
    let domain = Some(system.domainname()).filter(|it| !matches!(it.to_bytes(), b"" | b"(none)"));
    let domain = domain.map_or(ptr::null(), |it| it.as_ptr());
    let _alone = Alone::wait()?;
    // SAFETY: the pointers are null, for any value, or to texts that end with a zero and live until
    // the function returns; it keeps none of them.
    Ok(unsafe { innetgr(netgroup.as_ptr(), ptr::null(), user.as_ptr(), domain) } == 1)
}

/// Returns true if some module of the name service knows this netgroup.
///
/// # Errors
/// The name has a zero in it, or another look-up hangs.
pub fn netgroup_exists(netgroup: &str) -> anyhow::Result<bool> {
    let netgroup = CString::new(netgroup).context("the name of a netgroup has a zero")?;
    let _alone = Alone::wait()?;
    // SAFETY: the pointer is to a text that ends with a zero and lives until the function returns.
    let exists = unsafe { setnetgrent(netgroup.as_ptr()) } == 1;
    // SAFETY: the function takes no arguments, and ends the walk that the other one has begun.
    unsafe { endnetgrent() };
    Ok(exists)
}

/// Right to walk through a netgroup: the library, or a module of the name service, does so by one
/// state of the process.
struct Alone;

static IS_WALKING: Mutex<bool> = Mutex::new(false);
static WALK_ENDED: Condvar = Condvar::new();

impl Alone {
    /// Waits for the right. A look-up that hangs does not keep all others hanging.
    fn wait() -> anyhow::Result<Self> {
        let is_walking = IS_WALKING.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = WALK_ENDED.wait_timeout_while(is_walking, NETGROUP_WAIT_MAX, |it| *it);
        let (mut is_walking, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ensure!(!*is_walking, "another look-up of a netgroup hangs");
        *is_walking = true;
        Ok(Self)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        *IS_WALKING.lock().unwrap_or_else(PoisonError::into_inner) = false;
        WALK_ENDED.notify_one();
    }
}

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
    use super::{Alone, netgroup_exists, netgroup_includes};

    #[test]
    fn an_unknown_netgroup_includes_nobody_and_while_a_look_up_hangs_nothing_is_known() {
        assert!(!netgroup_includes("choro-none", "root").expect("it is a name"));
        assert!(!netgroup_exists("choro-none").expect("it is a name"));
        netgroup_includes("a\0b", "root").expect_err("no name has a zero");
        let hanging = Alone::wait().expect("no other test walks");
        let error = netgroup_includes("choro-none", "root").expect_err("it cannot be known");
        assert!(error.to_string().contains("hangs"), "{error}");
        drop(hanging);
        assert!(!netgroup_includes("choro-none", "root").expect("it is known again"));
    }
}
