//! Metadata of a directory's entries for Apple's clients.

mod support;

use dtyp::AccessMask;
use object::{AppleMetadata, EntryDetail, ObjectOp, ObjectReply};
use support::{READ, Share, WRITE};

/// AFP_AfpInfo as a client writes it.
fn afp_info(finder_info: [u8; 32]) -> Vec<u8> {
    let mut info = b"AFP\0\0\x01\0\0\0\0\0\0\x80\0\0\0".to_vec();
    info.extend(finder_info);
    info.extend([0; 12]);
    info
}

fn listed(share: &mut Share, name: &str) -> Option<AppleMetadata> {
    let open = share.open("");
    let detail = EntryDetail::Apple;
    let op = ObjectOp::ReadDirectory { open, restart: true, detail, entries_max: 100 };
    let Ok(ObjectReply::Entries(entries)) = share.run(op) else { panic!("no entries") };
    share.close(open);
    let entry = entries.into_iter().find(|entry| entry.name == name).expect("it is listed");
    assert!(entry.metadata.is_some());
    entry.apple.map(|apple| *apple)
}

#[test]
fn the_streams_of_the_finder_are_reported_with_each_entry() {
    let mut share = Share::new();
    share.local("plain", "x");
    let finder_info: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).expect("below 32"));
    for (stream, data) in
        [("f:AFP_AfpInfo", afp_info(finder_info)), ("f:AFP_Resource", vec![1; 300])]
    {
        let open = share.try_open(stream, |request| {
            request.disposition = object::Disposition::OpenIf;
            request.desired_access = READ | WRITE;
        });
        let open = open.expect("created").open;
        share.write(open, 0, &data);
        share.close(open);
    }
    let apple = listed(&mut share, "f").expect("looked at");
    assert_eq!((apple.resource_fork_size, apple.finder_info), (300, finder_info));
    assert!(apple.maximal_access.contains(AccessMask::FILE_GENERIC_READ));
    let apple = listed(&mut share, "plain").expect("looked at");
    assert_eq!((apple.resource_fork_size, apple.finder_info), (0, [0; 32]));
    assert_eq!(listed(&mut share, "."), None, "a client has asked for the directory itself");
}

/// Samba's form, byte for byte: the stream and a zero behind it.
#[test]
fn metadata_written_by_samba_are_read_and_damaged_ones_are_not() {
    let mut share = Share::new();
    let mut stored = afp_info([7; 32]);
    stored.push(0);
    let name = "user.DosStream.AFP_AfpInfo:$DATA";
    for (value, want) in [
        (&stored[..], [7; 32]),
        (&stored[..59], [0; 32]),
        (&stored[1..], [0; 32]),
        (&[0][..], [0; 32]),
        (&vec![9; 500][..], [0; 32]),
    ] {
        share.local("f", "x");
        share.set_attribute("f", name, value);
        let apple = listed(&mut share, "f").expect("looked at");
        assert_eq!(apple.finder_info, want, "{} bytes", value.len());
    }
}

#[test]
fn rights_are_those_of_the_user() {
    let mut share = Share::new();
    let Some(stranger) = share.stranger() else { return };
    share.local("f", "x");
    share.mode("f", 0o604);
    share.user = stranger;
    let rights = listed(&mut share, "f").expect("looked at").maximal_access;
    assert!(rights.contains(AccessMask::READ_DATA) && !rights.contains(AccessMask::WRITE_DATA));
}

fn volume(share: &mut Share) -> object::Volume {
    let open = share.open("");
    let Ok(ObjectReply::Volume(volume)) = share.run(ObjectOp::QueryVolume { open }) else {
        panic!("no volume");
    };
    share.close(open);
    *volume
}

#[test]
fn a_volume_for_backups_is_as_large_as_its_limit() {
    const LIMIT: u64 = 32 << 10;
    let mut share = Share::with(|root| root.backup_bytes_max = Some(LIMIT));
    let before = volume(&mut share);
    assert_eq!((before.total_bytes, before.available_bytes), (LIMIT, LIMIT));
    share.local_directory("mac.sparsebundle/bands");
    assert_eq!(volume(&mut share).available_bytes, LIMIT, "a backup that is just being made");
    let plist = "<dict>\n  <key>band-size</key>\n  <integer>8192</integer>\n</dict>\n";
    share.local("mac.sparsebundle/Info.plist", plist);
    for band in ["1", "2"] {
        share.local(&format!("mac.sparsebundle/bands/{band}"), "");
    }
    let with_two = volume(&mut share);
    assert_eq!((with_two.total_bytes, with_two.available_bytes), (LIMIT, LIMIT / 2));
    let huge = plist.replace("8192", &u64::MAX.to_string());
    share.local("mac.sparsebundle/Info.plist", &huge);
    assert_eq!(volume(&mut share).available_bytes, 0);
}

/// Neither a pipe, which would wait for a writer, nor a link out of the share is opened.
#[test]
fn a_property_list_that_is_no_file_counts_as_nothing() {
    let mut share = Share::with(|root| root.backup_bytes_max = Some(1 << 20));
    share.local_directory("a.sparsebundle/bands");
    share.local("a.sparsebundle/bands/0", "");
    let list = share.host("a.sparsebundle/Info.plist");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &list,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a pipe");
    assert_eq!(volume(&mut share).available_bytes, 1 << 20);
    std::fs::remove_file(&list).expect("it is ours");
    let outside = share.folder.path().join("outside");
    std::fs::write(&outside, "<key>band-size</key><integer>512</integer>").expect("it is ours");
    std::os::unix::fs::symlink(&outside, &list).expect("it is ours");
    assert_eq!(volume(&mut share).available_bytes, 1 << 20);
}
