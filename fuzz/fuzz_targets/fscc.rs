//! Lists and structures of [MS-FSCC], and name expressions. The first byte is the information
//! class.
#![no_main]

use dtyp::fscc::{
    FileNameInformation, FileRenameInformation, FullEaList, GetEaList, GetQuotaList, QuotaList,
    ReparseData, SymbolicLinkReparse, decode_directory_entry, decode_stream_list,
    encode_directory_entry, encode_full_ea_entry,
};
use dtyp::name_expression::NameExpression;
use dtyp::upcase::fold;
use dtyp::{FileInformationClass, utf16};
use libfuzzer_sys::fuzz_target;

/// Longest name and expression that are matched: their product is the work.
const NAME_LEN_MAX: usize = 256;

fn expressions(input: &[u8]) {
    let text = utf16::decode(input).unwrap_or_default();
    let (pattern, name) = text.split_once('\0').unwrap_or((&text, "a name"));
    if name.is_empty() || pattern.len() > NAME_LEN_MAX || name.len() > NAME_LEN_MAX {
        return;
    }
    let matches = NameExpression::new(pattern).matches(name);
    assert_eq!(NameExpression::new(&fold(pattern)).matches(name), matches, "case is nothing");
    assert_eq!(NameExpression::new(pattern).matches(&fold(name)), matches, "case is nothing");
    let _ = NameExpression::case_sensitive(pattern).matches(name);
    assert!(NameExpression::new("*").matches(name));
}

fuzz_target!(|input: &[u8]| {
    let Some((class, input)) = input.split_first() else { return };
    let class = FileInformationClass(*class);
    if let Some(fields) = decode_directory_entry(class, input) {
        let mut bytes = Vec::new();
        encode_directory_entry(class, &fields, &mut bytes).expect("a directory class");
        let again = decode_directory_entry(class, &bytes).expect("what we encode decodes");
        assert_eq!(again.file_name, fields.file_name);
        assert_eq!(again.end_of_file, fields.end_of_file);
    }
    for ea in FullEaList(input).iter() {
        let Ok(ea) = ea else { break };
        let mut bytes = Vec::new();
        if encode_full_ea_entry(&ea, &mut bytes).is_some() {
            let again = FullEaList(&bytes).iter().next().expect("one entry");
            assert_eq!(again, Ok(ea));
        }
    }
    GetEaList(input).iter().take_while(Result::is_ok).for_each(drop);
    QuotaList(input).iter().take_while(Result::is_ok).for_each(drop);
    GetQuotaList(input).iter().take_while(Result::is_ok).for_each(drop);
    let _ = decode_stream_list(input);
    if let Some(point) = ReparseData::decode(input)
        && let Some(link) = SymbolicLinkReparse::decode(point.data)
    {
        let mut bytes = Vec::new();
        link.encode(&mut bytes);
        assert_eq!(SymbolicLinkReparse::decode(&bytes), Some(link));
    }
    let _ = dtyp::FileTime::from_gmt_token(&String::from_utf8_lossy(input));
    let _ = FileRenameInformation::decode(input);
    let _ = FileRenameInformation::decode_ex(input);
    if let Some(name) = FileNameInformation::decode(input) {
        let mut bytes = Vec::new();
        name.encode(&mut bytes);
        assert_eq!(FileNameInformation::decode(&bytes), Some(name));
    }
    expressions(input);
});
