use super::{Basis, Hash, decode, encode, encode_v3};
use dtyp::security_descriptor::Control;
use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};

fn bytes(hex: &str) -> Vec<u8> {
    let nibbles: Vec<_> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).expect("two nibbles");
    nibbles.chunks(2).map(byte).collect()
}

fn counting(from: u8) -> String {
    (from..from + 64).map(|byte| format!("{byte:02x}")).collect()
}

/// O:S-1-22-1-1001 G:S-1-22-2-1002 D:(A;;FA;;;WD), with the offsets of its parts.
fn descriptor_hex(offsets: &str) -> String {
    format!(
        "01000480{offsets}\
         010200000000001601000000e9030000010200000000001602000000ea030000\
         04001c000100000000001400ff010000010100000000000100000000"
    )
}

fn descriptor() -> SecurityDescriptor {
    let mask = AccessMask::from_bits_retain(0x1FF);
    let entry = Ace::allow(Sid::everyone(), mask, AceFlags::empty());
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        owner: Some(Sid::unix_user(1001)),
        group: Some(Sid::unix_group(1002)),
        sacl: None,
        dacl: Some(Acl { revision: 4, aces: vec![entry] }),
    }
}

/// As Samba 4.17 encodes them. The hashes of the first are those that the others have none of.
fn from_samba() -> [Vec<u8>; 4] {
    let (low, high) = (counting(0), counting(100));
    [
        bytes(&format!("0100010000000200{}", descriptor_hex("1c0000002c000000000000003c000000"))),
        bytes(&format!(
            "020002000000020004000200000102030405060708090a0b0c0d0e0f{}",
            descriptor_hex("30000000400000000000000050000000")
        )),
        bytes(&format!(
            "030003000000020004000200\
             0100{low}0000{}",
            descriptor_hex("64000000740000000000000084000000")
        )),
        bytes(&format!(
            "040004000000020004000200\
             0100{low}706f7369785f61636c00\
             0000000000000000{high}{}",
            descriptor_hex("b4000000c400000000000000d4000000")
        )),
    ]
}

/// A SHA-256 leaves half of its field empty, which the examples do not.
fn with_empty_halves(mut value: Vec<u8>) -> Vec<u8> {
    let fields: &[usize] = match value[0] {
        3 => &[14],
        4 => &[14, 96],
        _ => &[],
    };
    for field in fields {
        value[field + 32..field + 64].fill(0);
    }
    value
}

#[test]
fn all_four_versions_of_samba_are_read() {
    let half = |from: u8| Hash(std::array::from_fn(|at| from + u8::try_from(at).expect("small")));
    let want = [
        Basis::None,
        Basis::None,
        Basis::Descriptor(half(0)),
        Basis::System { descriptor: half(0), system: half(100) },
    ];
    for (value, basis) in from_samba().into_iter().zip(want) {
        let stored = decode(&with_empty_halves(value)).expect("Samba wrote it");
        assert_eq!(stored.descriptor, descriptor());
        assert_eq!(stored.basis, basis);
    }
}

#[test]
fn the_encoding_is_sambas() {
    let value = with_empty_halves(from_samba()[3].clone());
    let Basis::System { descriptor: first, system } = decode(&value).expect("Samba's").basis else {
        panic!("version 4")
    };
    assert_eq!(encode(&descriptor(), first, system), value);
    let mut third = from_samba()[2].clone();
    third[14..78].fill(0);
    assert_eq!(encode_v3(&descriptor()), third);
}

#[test]
fn a_hash_of_another_kind_is_told_apart_from_none() {
    let mut value = with_empty_halves(from_samba()[2].clone());
    value[12] = 7;
    assert_eq!(decode(&value).expect("the rest is whole").basis, Basis::Unknown);
}

#[test]
fn no_value_makes_it_panic() {
    for value in from_samba() {
        let value = with_empty_halves(value);
        for cut in 0..value.len() {
            assert_eq!(decode(&value[..cut]), None, "cut at {cut}");
        }
        for at in 0..value.len() {
            for byte in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut value = value.clone();
                value[at] = byte;
                // Whatever it is, it is an answer.
                let _ = decode(&value);
            }
        }
    }
}
