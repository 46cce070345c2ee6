//! Doc comments say more than the name below them.

use crate::comments::{Comment, Kind};
use crate::place::Findings;
use crate::rule::{Goal, Rule};
use crate::source_file::SourceFile;
use crate::words::words;
use crate::workspace::Crate;

const WORDS_MIN: usize = 5;
/// These crates write down the layouts of specifications. Their fields have a specification's
/// names and meanings, and a doc comment has little to add.
const LAYOUTS: [&str; 3] = ["dtyp", "rpc", "wire"];

/// Too short to say anything.
pub const RULE: Rule = Rule {
    name: "short docs",
    demand: "A doc comment has five words or more. Exempt are names of a specification: a comment \
             that cites one ([MS-…] or RFC) or names an element such as `Open.GrantedAccess`, and \
             the public fields, variants and constants of the crates dtyp, rpc and wire.",
    reason: "Fewer words repeat the name below them.",
    remedy: "Add what the name does not say: unit, bound, purpose, moment. If there is nothing to \
             add, leave the comment out.",
    example: ("/// The limit.", "/// Highest number of opens of one session; more are refused."),
    unit: "doc comments",
    goal: Goal::None,
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let is_layout = LAYOUTS.contains(&checked.name.as_str());
    let mut places = Vec::new();
    let mut of = 0;
    for file in &checked.files {
        for comment in file.scan.comments.iter().filter(|comment| comment.kind != Kind::Plain) {
            of += 1;
            let short = words(comment).len() < WORDS_MIN;
            if short && !names_specification(comment) && !(is_layout && on_field(file, comment)) {
                places.push(file.place(comment, 0));
            }
        }
    }
    Findings::each(places, of)
}

fn names_specification(comment: &Comment) -> bool {
    let text = &comment.text;
    text.contains("[MS-")
        || text.contains("RFC ")
        || text.split('`').skip(1).step_by(2).any(is_element)
}

/// Whether a span of code is an element of a specification's abstract data model, as in
/// `Session.SigningKey`.
fn is_element(code: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(char::is_uppercase) && part.chars().all(char::is_alphanumeric)
    };
    code.contains('.') && code.split('.').all(is_name)
}

/// Whether a comment describes a public field, a variant or a constant.
fn on_field(file: &SourceFile, comment: &Comment) -> bool {
    let Some(line) = file.described_line(comment) else { return false };
    let public = line.strip_prefix("pub ");
    let declared = public.unwrap_or(line);
    let name_len = declared.find(|c: char| !c.is_alphanumeric() && c != '_');
    let (name, rest) = declared.split_at(name_len.unwrap_or(declared.len()));
    let is_field = public.is_some() && rest.starts_with(':') && !rest.starts_with("::");
    let is_variant = public.is_none()
        && name.starts_with(char::is_uppercase)
        && (rest.is_empty() || rest.trim_start().starts_with([',', '(', '{', '=']));
    is_field || is_variant || declared.starts_with("const ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    fn count(name: &str, text: &str) -> usize {
        measure(&snippet::with_files(name, &[("src/lib.rs", text)])).count
    }

    #[test]
    fn a_doc_of_four_words_counts() {
        assert_eq!(count("a", "/// The limit of opens.\npub const OPENS_MAX: u32 = 1;\n"), 1);
    }

    #[test]
    fn a_doc_of_five_words_and_an_ordinary_comment_do_not_count() {
        let text = "/// Highest number of pending requests.\npub fn f() {} // enough\n";
        assert_eq!(count("a", text), 0);
    }

    #[test]
    fn a_citation_and_an_element_do_not_count() {
        let text =
            "/// [MS-SMB2] 3.3.5.9.\npub fn f() {}\n/// `Open.GrantedAccess`.\npub fn g() {}\n";
        assert_eq!(count("a", text), 0);
        assert_eq!(count("a", "/// A `file.rs`.\npub fn f() {}\n"), 1);
    }

    #[test]
    fn fields_variants_and_constants_of_layouts_do_not_count() {
        let text = "pub struct S {\n/// Offset.\npub offset: u32,\n}\npub enum E {\n/// Lease.\n\
                    Lease = 1,\n}\n/// Length.\npub const LEN: u8 = 1;\n";
        assert_eq!(count("wire", text), 0);
        assert_eq!(count("proto", text), 3);
    }

    #[test]
    fn functions_and_private_fields_of_layouts_count() {
        let text =
            "pub struct S {\n/// Offset.\noffset: u32,\n}\n/// Decodes.\npub fn decode() {}\n";
        assert_eq!(count("wire", text), 2);
    }
}
