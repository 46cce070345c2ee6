//! Converts rights to cache between the wire's types and those of `arbitration`.

use arbitration::Caching;
use dtyp::upcase;
use object::ObjectPath;
use wire::OplockLevel;
use wire::lease::LeaseState;

use crate::share::Share;

/// Returns the oplock level that grants `caching`.
pub fn oplock_level(caching: Caching) -> OplockLevel {
    match caching {
        it if it == Caching::BATCH => OplockLevel::BATCH,
        it if it.contains(Caching::WRITE) => OplockLevel::EXCLUSIVE,
        it if it.contains(Caching::READ) => OplockLevel::II,
        _ => OplockLevel::NONE,
    }
}

/// Converts to the wire's type; both have the same bits.
pub fn lease_state(caching: Caching) -> LeaseState {
    LeaseState::from_bits_retain(caching.bits().into())
}

/// Converts from the wire's type, without the bits that have no meaning, as Windows does.
pub fn caching(state: LeaseState) -> Caching {
    Caching::from_bits_truncate(u8::try_from(state.bits() & 0xff).expect("masked"))
}

/// Returns `Lease.Filename`, the name that a lease key is bound to.
pub fn lease_name(share: &Share, path: &ObjectPath) -> String {
    let fold = |name: &str| -> String {
        if share.case_sensitive { name.to_owned() } else { upcase::fold(name) }
    };
    let stream = path.stream().map(fold).unwrap_or_default();
    format!("{}/{}:{stream}", share.name, fold(path.as_str()))
}
