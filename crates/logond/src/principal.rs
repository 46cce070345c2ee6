//! Names of Kerberos users: RFC 4120 6.2, in the text form of RFC 1964 2.1.3.

/// Name of a user in a realm.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Principal {
    pub(crate) name: String,
    pub(crate) realm: String,
}

impl Principal {
    /// Reads the text form. `None` for a name of several components, such as a host's or an
    /// instance's (`carol/admin`): it is another name than its first part. Control characters
    /// have no place in a name either.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = [String::new(), String::new()];
        let mut is_realm = false;
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let character = match character {
                '/' => return None,
                '@' if is_realm => return None,
                '@' => {
                    is_realm = true;
                    continue;
                }
                '\\' => characters.next().filter(|it| ['/', '@', '\\'].contains(it))?,
                other => other,
            };
            if character.is_control() {
                return None;
            }
            parts[usize::from(is_realm)].push(character);
        }
        let [name, realm] = parts;
        (!name.is_empty() && !realm.is_empty()).then_some(Self { name, realm })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Principal;

    fn parts(text: &str) -> Option<(String, String)> {
        Principal::parse(text).map(|it| (it.name, it.realm))
    }

    #[test]
    fn a_user_has_one_component_and_a_realm() {
        let want = Some(("carol".to_owned(), "LAB.TEST".to_owned()));
        assert_eq!(parts("carol@LAB.TEST"), want);
        for text in ["", "carol", "carol@", "@LAB.TEST", "carol/admin@LAB.TEST", "a@b@c"] {
            assert_eq!(parts(text), None, "{text}");
        }
    }

    #[test]
    fn escaped_separators_belong_to_the_name() {
        let of = |name: &str, realm: &str| Some((name.to_owned(), realm.to_owned()));
        assert_eq!(parts(r"carol\@ad@LAB"), of("carol@ad", "LAB"));
        assert_eq!(parts(r"a\\b\/c@LAB"), of(r"a\b/c", "LAB"));
        for text in [r"carol\n@LAB", r"carol\0@LAB", "carol@LAB\\", "ca\nrol@LAB"] {
            assert_eq!(parts(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn an_escaped_principal_is_read(name in "[a-z@/\\\\]{1,8}", realm in "[A-Z@.]{1,8}") {
            let escape = |text: &str| -> String {
                text.chars()
                    .flat_map(|it| {
                        let needs = ['/', '@', '\\'].contains(&it);
                        needs.then_some('\\').into_iter().chain([it])
                    })
                    .collect()
            };
            let text = format!("{}@{}", escape(&name), escape(&realm));
            prop_assert_eq!(parts(&text), Some((name, realm)));
        }

        #[test]
        fn any_text_does_no_harm(text: String) {
            if let Some(Principal { name, realm }) = Principal::parse(&text) {
                prop_assert!(!name.is_empty() && !realm.is_empty());
            }
        }
    }
}
