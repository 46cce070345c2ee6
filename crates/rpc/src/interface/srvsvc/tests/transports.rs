//! Lists of transports and aliases: [MS-SRVS] 3.1.4.24, 3.1.4.45.

use super::{ACCESS_DENIED, House, INVALID_LEVEL, MORE_DATA, Stub, contains, result};
use crate::{Outcome, Task, TaskFailure, TransportEntry};

const SERVER_TRANSPORT_ENUM: u16 = 26;

fn transports() -> Outcome {
    let direct = TransportEntry {
        name: TransportEntry::DIRECT.to_owned(),
        network_address: TransportEntry::NO_ADDRESS.to_owned(),
        clients: 3,
    };
    let netbios = TransportEntry {
        name: format!("{}{{5}}", TransportEntry::NETBIOS),
        network_address: "0123456789AB".to_owned(),
        clients: 0,
    };
    Outcome::Transports(vec![direct, netbios])
}

fn list(house: &House, user: &str, level: u32) -> Vec<u8> {
    let stub = Stub::new().enumeration(level, u32::MAX, 0);
    house.call(user, SERVER_TRANSPORT_ENUM, &stub).expect("no fault")
}

#[test]
fn any_user_learns_the_transports_and_their_clients() {
    let house = House::new(transports());
    for level in 0..=2 {
        let listed = list(&house, "jo", level);
        assert!(contains(&listed, "\\Device\\NetbiosSmb\0") && contains(&listed, "000000000000\0"));
        assert!(contains(&listed, "\\Device\\NetBT_Tcpip_{5}\0"));
        assert!(contains(&listed, "0123456789AB\0"));
        assert_eq!(contains(&listed, "HOUSE\0"), level >= 1, "{level}");
        assert_eq!(result(Ok(listed)), 0, "{level}");
    }
    assert_eq!(house.tasks(), [Task::ListTransports, Task::ListTransports, Task::ListTransports]);
}

#[test]
fn the_transport_address_is_the_netbios_name_with_blanks() {
    let house = House::new(transports());
    let listed = list(&house, "jo", 0);
    // Level, union, container, array, and the five members of the first structure.
    let numbers: Vec<u32> = listed
        .chunks_exact(4)
        .take(11)
        .map(|it| u32::from_le_bytes(*it.first_chunk().expect("4 bytes")))
        .collect();
    assert_eq!(numbers[..3], [0, 0, 0x0002_0000]);
    assert_eq!([numbers[3], numbers[5], numbers[6], numbers[9]], [2, 2, 3, 16]);
    let address = b"\x10\0\0\0CHORO           ";
    let found = listed.windows(address.len()).filter(|it| it == address).count();
    assert_eq!(found, 2);
}

#[test]
fn levels_beyond_the_second_are_invalid() {
    let house = House::new(transports());
    for level in [3, 4, 100, u32::MAX] {
        let listed = list(&house, "anna", level);
        assert!(!contains(&listed, "NetbiosSmb"), "{level}");
        assert_eq!(result(Ok(listed)), INVALID_LEVEL, "{level}");
    }
    assert_eq!(house.tasks(), []);
}

#[test]
fn guests_learn_no_transports() {
    let house = House::new(transports());
    assert_eq!(result(Ok(list(&house, "guest", 0))), ACCESS_DENIED);
    assert_eq!(house.tasks(), []);
}

#[test]
fn a_list_of_transports_goes_on_at_its_resume_handle() {
    let house = House::new(transports());
    let part = |resume| {
        let stub = Stub::new().enumeration(0, 1, resume);
        house.call("jo", SERVER_TRANSPORT_ENUM, &stub).expect("no fault")
    };
    let (first, second) = (part(0), part(1));
    assert!(contains(&first, "NetbiosSmb") && !contains(&first, "NetBT_Tcpip_"));
    assert_eq!(result(Ok(first)), MORE_DATA);
    assert!(!contains(&second, "NetbiosSmb") && contains(&second, "NetBT_Tcpip_"));
    assert_eq!(result(Ok(second)), 0);
    assert_eq!(result(Ok(part(u32::MAX))), 0);
}

#[test]
fn a_list_that_cannot_be_made_has_the_error_of_its_task() {
    let house = House::new(Outcome::Failed(TaskFailure::Failed));
    assert_eq!(result(Ok(list(&house, "jo", 0))), 31);
}

#[test]
fn aliases_are_listed_with_the_name_they_stand_for() {
    let house = House::new(Outcome::Done);
    let stub = Stub::new().enumeration(0, u32::MAX, 0);
    let listed = house.call("jo", 55, &stub).expect("no fault");
    assert!(contains(&listed, "FILMS-PC\0") && contains(&listed, "Choro\0"));
    assert_eq!(result(Ok(listed)), 0);
    let stub = Stub::new().enumeration(1, u32::MAX, 0);
    assert_eq!(result(house.call("jo", 55, &stub)), INVALID_LEVEL);
}
