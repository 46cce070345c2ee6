//! Requests, read as a closed set of shapes.
//!
//! This is no XML library: it finds five elements by their path, takes their text, and refuses
//! whatever could expand or refer to something: a DOCTYPE, entities, CDATA. Prefixes are ignored,
//! because the five names have one meaning wherever they come from.

use super::MESSAGE_BYTES_MAX;

/// Deepest nesting of elements; requests of Windows have five levels.
const DEPTH_MAX: usize = 16;

/// Longest text of an element that is taken, such as an action.
const TEXT_BYTES_MAX: usize = 256;

/// A request that concerns a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request<'a> {
    /// Operation named by the request.
    pub query: Query<'a>,
    /// Identifies the request in its answer; only characters that need no escape.
    pub message_id: &'a str,
}

/// Operation of a request, with its arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Query<'a> {
    /// Name and workgroup of the host (WS-Transfer).
    Get,
    /// All hosts of these types, of any type if there are none.
    Probe {
        /// The types are none, or one of them is that of a computer or device.
        is_for_computers: bool,
    },
    /// The host with this address, a URN.
    Resolve(&'a str),
}

/// Texts of the elements of interest, once each.
#[derive(Debug, Default)]
struct Found<'a> {
    action: Option<&'a str>,
    message_id: Option<&'a str>,
    types: Option<&'a str>,
    scopes: Option<&'a str>,
    address: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// Reads a request; `None` for everything else.
    #[must_use]
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        if message.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let found = find(str::from_utf8(message).ok()?)?;
        let message_id = found.message_id.filter(|id| is_plain(id))?;
        let query = match found.action?.rsplit_once('/')? {
            ("http://schemas.xmlsoap.org/ws/2004/09/transfer", "Get") => Query::Get,
            ("http://schemas.xmlsoap.org/ws/2005/04/discovery", "Probe") => {
                // A scope is a place of the site's own making, and this host is in none.
                if found.scopes.is_some_and(|scopes| !scopes.is_empty()) {
                    return None;
                }
                Query::Probe { is_for_computers: are_for_computers(found.types) }
            }
            ("http://schemas.xmlsoap.org/ws/2005/04/discovery", "Resolve") => {
                Query::Resolve(found.address?)
            }
            _ => return None,
        };
        Some(Self { query, message_id })
    }
}

fn are_for_computers(types: Option<&str>) -> bool {
    let types = types.unwrap_or_default();
    let is_ours = |word: &str| matches!(local(word), "Computer" | "Device");
    types.is_empty() || types.split_ascii_whitespace().any(is_ours)
}

/// Whether a text is the same in any XML.
fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-._/#?=".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

/// The name without its prefix.
fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// Walks through the elements. `None` if the message is not made of elements and texts alone.
fn find(mut rest: &str) -> Option<Found<'_>> {
    let mut found = Found::default();
    let mut path: Vec<&str> = Vec::new();
    let mut is_finished = false;
    rest = rest.strip_prefix('\u{feff}').unwrap_or(rest);
    while let Some((text, after)) = rest.split_once('<') {
        let (tag, after) = split_tag(after)?;
        rest = after;
        if path.is_empty() && !text.trim().is_empty() {
            return None;
        }
        match tag.as_bytes().first()? {
            // The declaration, which is at the beginning only.
            b'?' if path.is_empty() && !is_finished => {}
            b'?' | b'!' => return None,
            b'/' => {
                found.take(&path, text)?;
                if path.pop()? != local(tag[1..].trim()) {
                    return None;
                }
                is_finished = path.is_empty();
            }
            _ => {
                let name = tag.split([' ', '\t', '\r', '\n', '/']).next()?;
                if is_finished || path.len() >= DEPTH_MAX || name.is_empty() {
                    return None;
                }
                path.push(local(name));
                if tag.ends_with('/') {
                    found.take(&path, "")?;
                    path.pop();
                    is_finished = path.is_empty();
                }
            }
        }
    }
    (is_finished && rest.trim().is_empty()).then_some(found)
}

/// Splits at the end of a tag: the first `>` outside of an attribute's value.
fn split_tag(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some((&text[..at], &text[at + 1..])),
            (None, b'<') => return None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

impl<'a> Found<'a> {
    /// Takes the text of the element at this path. `None` if it must not be there.
    fn take(&mut self, path: &[&str], text: &'a str) -> Option<()> {
        let place = match *path {
            ["Envelope", "Header", "Action"] => &mut self.action,
            ["Envelope", "Header", "MessageID"] => &mut self.message_id,
            ["Envelope", "Body", "Probe", "Types"] => &mut self.types,
            ["Envelope", "Body", "Probe", "Scopes"] => &mut self.scopes,
            ["Envelope", "Body", "Resolve", "EndpointReference", "Address"] => &mut self.address,
            _ => return Some(()),
        };
        let text = text.trim();
        // An entity would mean something else, and the second of two could be the one that counts.
        if place.is_some() || text.len() > TEXT_BYTES_MAX || text.contains('&') {
            return None;
        }
        *place = Some(text);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Query, Request};

    const ID: &str = "urn:uuid:0a6dc791-2be6-4991-9af1-454778a1917a";

    fn envelope(action: &str, body: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n\
             <soap:Envelope xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
             xmlns:wsa='http://schemas.xmlsoap.org/ws/2004/08/addressing'><soap:Header>\
             <wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>\
             <wsa:Action>http://schemas.xmlsoap.org/ws/{action}</wsa:Action>\
             <wsa:MessageID>{ID}</wsa:MessageID></soap:Header>\
             <soap:Body>{body}</soap:Body></soap:Envelope>"
        )
    }

    #[track_caller]
    fn query(action: &str, body: &str) -> Option<Query<'static>> {
        let text = envelope(action, body).leak();
        let request = Request::parse(text.as_bytes())?;
        assert_eq!(request.message_id, ID);
        Some(request.query)
    }

    const PROBE: &str = "2005/04/discovery/Probe";

    #[test]
    fn a_probe_is_for_some_types_or_for_all() {
        for (types, is_for_computers) in [
            ("<wsd:Types>wsdp:Device</wsd:Types>", true),
            ("<wsd:Types> pub:Computer </wsd:Types>", true),
            ("<Types>a:Printer b:Computer</Types>", true),
            ("<wsd:Types>wprt:PrintDeviceType</wsd:Types>", false),
            ("<wsd:Types/>", true),
            ("", true),
        ] {
            let body = format!("<wsd:Probe xmlns:wsd=\"x>y\">{types}</wsd:Probe>");
            let want = Query::Probe { is_for_computers };
            assert_eq!(query(PROBE, &body), Some(want), "{types}");
        }
        let scoped = "<wsd:Probe><wsd:Scopes>ldap:///ou=x</wsd:Scopes></wsd:Probe>";
        assert_eq!(query(PROBE, scoped), None);
    }

    #[test]
    fn an_address_is_resolved_and_a_name_handed_out() {
        let body = "<wsd:Resolve><wsa:EndpointReference><wsa:Address>urn:uuid:1</wsa:Address>\
                    </wsa:EndpointReference></wsd:Resolve>";
        let resolve = query("2005/04/discovery/Resolve", body);
        assert_eq!(resolve, Some(Query::Resolve("urn:uuid:1")));
        assert_eq!(query("2005/04/discovery/Resolve", "<wsd:Resolve/>"), None);
        assert_eq!(query("2004/09/transfer/Get", ""), Some(Query::Get));
        assert_eq!(query("2004/09/transfer/Put", ""), None);
        assert_eq!(query("2005/04/discovery/Hello", ""), None);
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let whole = envelope(PROBE, "<Probe/>");
        assert!(Request::parse(whole.as_bytes()).is_some());
        for unfit in [
            whole.replace("<soap:Header>", "<!DOCTYPE x [<!ENTITY a \"b\">]><soap:Header>"),
            whole.replace("<Probe/>", "<Probe><![CDATA[x]]></Probe>"),
            whole.replace("<Probe/>", "<Probe><!-- x --></Probe>"),
            whole.replace(ID, "&a;"),
            whole.replace(ID, "<x>"),
            whole.replace(ID, "a\"b"),
            whole.replace(ID, ""),
            whole.replace(ID, &"x".repeat(257)),
            whole.replace("<Probe/>", &"<a>".repeat(20)),
            whole.replace("</soap:Body>", "</soap:Header>"),
            whole.replace("<wsa:MessageID>", "<wsa:MessageID>x</wsa:MessageID><wsa:MessageID>"),
            format!("{whole}<more/>"),
            format!("{whole}text"),
            format!("{whole}{}", " ".repeat(32 << 10)),
        ] {
            assert!(Request::parse(unfit.as_bytes()).is_none(), "{unfit}");
        }
        for len in 0..whole.len() {
            assert!(Request::parse(&whole.as_bytes()[..len]).is_none(), "{len} bytes");
        }
    }
}
