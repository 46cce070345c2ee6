//! Words of `interfaces` that name no address of this machine.

use config::{Global, Warning, WarningKind};
use interfaces::addresses;

/// Returns a warning for each word of `interfaces` that names no address.
pub(super) fn warnings(global: &Global) -> Vec<Warning> {
    let (Some(place), Ok(machine)) = (global.place("interfaces"), addresses::list()) else {
        return Vec::new();
    };
    // Words with `=` have a warning from the parser: properties without an interface.
    let unmatched = addresses::unmatched(&global.interfaces, &machine)
        .filter(|spec| !spec.selector.contains('='));
    let message = |spec| {
        let word = addresses::with_hint(spec, &machine);
        format!("`interfaces` names no address of this machine: {word}")
    };
    unmatched.map(|it| Warning::at(place, WarningKind::UnknownInterface, message(it))).collect()
}

/// Returns the reason for which the server would not start; `None` if the machine does not tell
/// its addresses.
pub(super) fn fault(global: &Global) -> Option<String> {
    let reason = supervisor::fault_of_interfaces(global, &addresses::list().ok()?)?;
    let place = global.place("interfaces").map(|it| format!("{}:{}: ", it.file, it.line));
    Some(format!("{}{reason}; the server would not start", place.unwrap_or_default()))
}
