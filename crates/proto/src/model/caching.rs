//! Rights to cache, between the wire and `arbitration`.

use arbitration::Caching;
use dtyp::upcase;
use object::ObjectPath;
use wire::OplockLevel;
use wire::lease::LeaseState;

use crate::model::share::Share;

/// The level of an oplock that allows this.
pub(crate) fn oplock_level(caching: Caching) -> OplockLevel {
    match caching {
        it if it == Caching::BATCH => OplockLevel::BATCH,
        it if it.contains(Caching::WRITE) => OplockLevel::EXCLUSIVE,
        it if it.contains(Caching::READ) => OplockLevel::II,
        _ => OplockLevel::NONE,
    }
}

/// The bits are the same.
pub(crate) fn lease_state(caching: Caching) -> LeaseState {
    LeaseState::from_bits_retain(caching.bits().into())
}

/// Bits without a meaning are passed over, as Windows does.
pub(crate) fn caching(state: LeaseState) -> Caching {
    Caching::from_bits_truncate(u8::try_from(state.bits() & 0xff).expect("masked"))
}

/// `Lease.Filename`: what a lease key is bound to.
pub(crate) fn lease_name(share: &Share, path: &ObjectPath) -> String {
    let fold = |name: &str| -> String {
        if share.case_sensitive { name.to_owned() } else { upcase::fold(name) }
    };
    let stream = path.stream().map(fold).unwrap_or_default();
    format!("{}/{}:{stream}", share.name, fold(path.as_str()))
}
