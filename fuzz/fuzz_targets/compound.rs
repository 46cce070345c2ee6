//! Frames: the chain of NextCommand, headers, and the SMB1 NEGOTIATE.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Header;
use wire::compound::Compound;
use wire::frame::FrameHeader;
use wire::smb1_negotiate::Smb1Negotiate;
use wire::transform::Protocol;

fuzz_target!(|frame: &[u8]| {
    let _ = Protocol::of(frame);
    if let Some(header) = frame.first_chunk() {
        let header = FrameHeader::decode(*header);
        assert!(header.length <= wire::frame::LENGTH_MAX);
    }
    if let Ok(smb1) = Smb1Negotiate::decode(frame) {
        smb1.dialects().for_each(drop);
    }
    let mut end = 0;
    for range in Compound::new(frame).ranges() {
        let Ok(range) = range else { return };
        assert_eq!(range.start, end, "elements lie behind one another");
        assert!(range.end > range.start && range.end <= frame.len());
        end = range.end;
        let header = Header::decode(&frame[range]).expect("the chain has decoded it");
        assert_eq!(Header::decode(&header.to_bytes()), Ok(header));
    }
    assert_eq!(end, frame.len(), "nothing is left over");
});
