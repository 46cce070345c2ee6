//! The machine's account in a domain, as winbindd keeps it in its database of secrets: the record
//! `SECRETS/MACHINE_DOMAIN_INFO/DOMAIN`, in NDR (C706 14).
//!
//! It has the Kerberos keys of up to four passwords: the present one, one that the domain is just
//! told of, and two old ones. So a ticket is accepted whichever of them the controller used.

mod ndr;

use zeroize::Zeroizing;

use ndr::Reader;

/// Account and keys of this machine.
#[derive(Debug)]
pub struct MachineSecrets {
    /// Name of the account, such as `FILES$`.
    account: String,
    /// Kerberos realm of the domain.
    realm: String,
    /// Keys of all passwords, those of the present one first.
    keys: Vec<MachineKey>,
}

/// Key of one password for one type of encryption.
#[derive(Debug)]
struct MachineKey {
    // RFC 3961 8.
    encryption_type: u16,
    // Protocol key.
    value: MachineKeyBytes,
}

/// Bytes of a key, erased when dropped and never shown.
struct MachineKeyBytes(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for MachineKeyBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl MachineSecrets {
    /// Returns the key of the record for a domain, by its short name.
    #[must_use]
    pub fn record_key(workgroup: &str) -> Vec<u8> {
        format!("SECRETS/MACHINE_DOMAIN_INFO/{}", workgroup.to_uppercase()).into_bytes()
    }

    /// Reads a record. `None` if it has another form, or no key that tickets can have.
    #[must_use]
    pub fn decode(record: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(record);
        let (version, _reserved, arm) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let is_present = reader.pointer()?;
        if version != VERSION || arm != VERSION || !is_present {
            return None;
        }
        let (_flags, _join_time) = (reader.hyper()?, reader.time()?);
        let (_computer, account) = (reader.string()?, reader.string()?);
        let _channel_type = reader.u16()?;
        // LSA_DNS_DOMAIN_INFO.
        let names = [reader.large_string()?, reader.large_string()?, reader.large_string()?];
        reader.bytes(GUID_LEN)?;
        let has_sid = reader.pointer()?;
        let _trust = [reader.u32()?, reader.u32()?, reader.u32()?];
        let has_routing = reader.pointer()?;
        let _encryption_types = reader.u32()?;
        let has_salt = reader.pointer()?;
        let (_last_change, _changes) = (reader.time()?, reader.hyper()?);
        let (has_next, has_password) = (reader.pointer()?, reader.pointer()?);
        let is_old = [reader.pointer()?, reader.pointer()?];
        // Routes of a forest are reserved: no version writes them.
        if has_routing || !has_password {
            return None;
        }
        let mut texts = [String::new(), String::new(), String::new()];
        for (text, _) in texts.iter_mut().zip(names).filter(|(_, is_present)| *is_present) {
            *text = reader.string()?;
        }
        if has_sid {
            reader.sid()?;
        }
        if has_salt {
            reader.string()?;
        }
        let mut next = Vec::new();
        if has_next {
            let (_local_status, _remote_status) = (reader.u32()?, reader.u32()?);
            let (_time, _server) = (reader.time()?, reader.string()?);
            if reader.pointer()? {
                password(&mut reader, &mut next)?;
            }
        }
        let mut keys = Vec::new();
        password(&mut reader, &mut keys)?;
        keys.append(&mut next);
        for _ in is_old.into_iter().filter(|is_present| *is_present) {
            password(&mut reader, &mut keys)?;
        }
        let [_short_name, dns_name, _forest] = texts;
        let is_known = !keys.is_empty() && !dns_name.is_empty() && !account.is_empty();
        is_known.then(|| Self { account, realm: dns_name.to_uppercase(), keys })
    }

    /// Returns a keytab of the keys, in MIT's format 0x0502. Versions of keys are not in the record
    /// and count down here: a client takes its highest, the present one, and a server takes any.
    #[must_use]
    pub fn keytab(&self) -> Zeroizing<Vec<u8>> {
        // Without a reallocation, which would leave a copy of keys.
        let entry_max = 64 + self.realm.len() + self.account.len() + KEY_LEN_MAX;
        let mut keytab = Zeroizing::new(Vec::with_capacity(2 + self.keys.len() * entry_max));
        keytab.extend_from_slice(&[5, 2]);
        for (key, version) in self.keys.iter().rev().zip(1_u32..) {
            let MachineKeyBytes(value) = &key.value;
            let fixed_len = 2 + 2 + 2 + 4 + 4 + 1 + 2 + 2 + 4;
            let len = fixed_len + self.realm.len() + self.account.len() + value.len();
            keytab.extend_from_slice(&u32::try_from(len).unwrap_or(0).to_be_bytes());
            keytab.extend_from_slice(&COMPONENTS.to_be_bytes());
            for text in [self.realm.as_bytes(), self.account.as_bytes()] {
                put_counted(&mut keytab, text);
            }
            keytab.extend_from_slice(&NAME_TYPE.to_be_bytes());
            // The time is for people who look at a file.
            keytab.extend_from_slice(&0_u32.to_be_bytes());
            keytab.push(u8::try_from(version).unwrap_or(u8::MAX));
            keytab.extend_from_slice(&key.encryption_type.to_be_bytes());
            put_counted(&mut keytab, value);
            keytab.extend_from_slice(&version.to_be_bytes());
        }
        keytab
    }
}

fn put_counted(keytab: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("texts and keys of a record are bounded");
    keytab.extend_from_slice(&len.to_be_bytes());
    keytab.extend_from_slice(bytes);
}

/// Reads a password and adds its keys.
fn password(reader: &mut Reader<'_>, keys: &mut Vec<MachineKey>) -> Option<()> {
    let (_time, _server) = (reader.time()?, reader.string()?);
    let _clear_text = reader.blob()?;
    let _nt_hash = reader.bytes(NT_HASH_LEN)?;
    let has_salt = reader.pointer()?;
    let _iterations = reader.u32()?;
    let count = reader.u16()?;
    if count > KEYS_MAX {
        return None;
    }
    for _ in 0..count {
        let (encryption_type, _iterations) = (reader.u32()?, reader.u32()?);
        let value = reader.blob()?;
        if let Some((known, _)) = KEY_LENGTHS
            .into_iter()
            .find(|(known, len)| u32::from(*known) == encryption_type && *len == value.len())
        {
            let value = MachineKeyBytes(Zeroizing::new(value.to_vec()));
            keys.push(MachineKey { encryption_type: known, value });
        }
    }
    if has_salt {
        reader.string()?;
    }
    Some(())
}

/// Version of the record, the only one that Samba has had.
const VERSION: u32 = 1;
/// Types of encryption of a domain, and lengths of their keys: AES (RFC 3962), RC4 (RFC 4757).
/// DES is no longer accepted anywhere.
const KEY_LENGTHS: [(u16, usize); 3] = [(18, 32), (17, 16), (23, 16)];
/// Length of the longest of these keys.
const KEY_LEN_MAX: usize = 32;
/// Keys of one password; Samba writes three or four.
const KEYS_MAX: u16 = 16;
const GUID_LEN: usize = 16;
const NT_HASH_LEN: usize = 16;
/// Components of the account's name.
const COMPONENTS: u16 = 1;
// KRB5_NT_PRINCIPAL.
const NAME_TYPE: u32 = 1;

#[cfg(test)]
mod tests;
