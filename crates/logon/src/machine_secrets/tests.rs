use super::*;

/// A record of Samba 4.17 between the begin and the end of a change of the password. All secrets in
/// it are made up: keys of a password have one byte throughout, the type of encryption plus 0 for
/// the next password, 64 for the present and 128 for the old one.
const RECORD: &[u8] = include_bytes!("record.bin");

#[test]
fn keys_of_all_passwords_are_read_and_the_present_ones_come_first() {
    let secrets = MachineSecrets::decode(RECORD).expect("Samba's own form");
    assert_eq!((&*secrets.account, &*secrets.realm), ("MB$", "AD.LAB.TEST"));
    let keys = secrets.keys.iter().map(|it| (it.encryption_type, it.value.0[0], it.value.0.len()));
    let expected = [
        (18, 18 + 64, 32),
        (17, 17 + 64, 16),
        (23, 23 + 64, 16),
        (18, 18, 32),
        (17, 17, 16),
        (23, 23, 16),
        (18, 18 + 128, 32),
        (17, 17 + 128, 16),
        (23, 23 + 128, 16),
    ];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

#[test]
fn a_record_that_is_cut_or_of_another_version_is_none() {
    for len in 0..RECORD.len() {
        // The salt of the last password is all that comes after its keys, and padding after that.
        let is_whole = MachineSecrets::decode(&RECORD[..len]).is_some();
        assert!(!is_whole || len + 4 > RECORD.len(), "{len}");
    }
    for position in [0, 8] {
        let mut other = RECORD.to_vec();
        other[position] = 2;
        assert!(MachineSecrets::decode(&other).is_none());
    }
}

#[test]
fn damage_of_any_byte_is_survived() {
    for position in 0..RECORD.len() {
        for value in [0, 1, 0x7F, 0xFF] {
            let mut damaged = RECORD.to_vec();
            damaged[position] = value;
            if let Some(secrets) = MachineSecrets::decode(&damaged) {
                assert!(secrets.keytab().len() > 2);
            }
        }
    }
}

#[test]
fn keys_are_never_shown() {
    let shown = format!("{:?}", MachineSecrets::decode(RECORD));
    assert!(shown.contains("value: ..") && !shown.contains("82, 82"), "{shown}");
}

/// Entries of a keytab: name of the principal, type of encryption, and key.
fn entries(mut keytab: &[u8]) -> Vec<(String, u16, Vec<u8>)> {
    fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(len);
        *bytes = rest;
        taken
    }
    fn number(bytes: &mut &[u8], len: usize) -> usize {
        take(bytes, len).iter().fold(0, |number, byte| number * 256 + usize::from(*byte))
    }
    fn counted<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
        let len = number(bytes, 2);
        take(bytes, len)
    }
    assert_eq!(take(&mut keytab, 2), [5, 2]);
    let mut entries = Vec::new();
    while !keytab.is_empty() {
        let len = number(&mut keytab, 4);
        let mut entry = take(&mut keytab, len);
        assert_eq!(number(&mut entry, 2), 1, "components");
        let [realm, account] = [(); 2].map(|()| String::from_utf8_lossy(counted(&mut entry)));
        let (_type_and_time, version) = (take(&mut entry, 8), number(&mut entry, 1));
        let encryption_type = u16::try_from(number(&mut entry, 2)).expect("two bytes");
        let key = counted(&mut entry).to_vec();
        assert_eq!((number(&mut entry, 4), entry.len()), (version, 0));
        entries.push((format!("{account}@{realm}"), encryption_type, key));
    }
    entries
}

#[test]
fn the_keytab_has_an_entry_for_each_key() {
    let secrets = MachineSecrets::decode(RECORD).expect("Samba's own form");
    let entries = entries(&secrets.keytab());
    assert_eq!(entries.len(), secrets.keys.len());
    for ((name, encryption_type, key), of) in entries.iter().rev().zip(&secrets.keys) {
        assert_eq!((&**name, *encryption_type), ("MB$@AD.LAB.TEST", of.encryption_type));
        assert_eq!(*key, *of.value.0);
    }
}
