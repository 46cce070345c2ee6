//! Messages of the host, as text.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use super::HTTP_PORT;

/// Namespaces of elements in all messages.
const NAMESPACES: &str = "xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
     xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
     xmlns:wsd=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\" \
     xmlns:wsx=\"http://schemas.xmlsoap.org/ws/2004/09/mex\" \
     xmlns:wsdp=\"http://schemas.xmlsoap.org/ws/2006/02/devprof\" \
     xmlns:pnpx=\"http://schemas.microsoft.com/windows/pnpx/2005/10\" \
     xmlns:pub=\"http://schemas.microsoft.com/windows/pub/2005/07\"";

const DISCOVERY: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
const GET_RESPONSE: &str = "http://schemas.xmlsoap.org/ws/2004/09/transfer/GetResponse";
const PROFILE: &str = "http://schemas.xmlsoap.org/ws/2006/02/devprof";

/// Receiver of multicasts, and of answers.
const EVERYBODY: &str = "urn:schemas-xmlsoap-org:ws:2005:04:discovery";
const REQUESTER: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous";

/// Properties of the host in its messages.
#[derive(Clone, Debug)]
pub struct Host {
    /// Address of the host that it keeps.
    pub uuid: String,
    /// NetBIOS name of the server.
    pub name: String,
    /// Workgroup in whose list the server appears.
    pub workgroup: String,
    /// Time of the start in seconds, by which clients notice a restart.
    pub instance: u64,
}

/// Identity of one message of the host.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A UUID of the message's own.
    pub uuid: String,
    /// Number of the message since the start.
    pub number: u64,
}

/// Says that the host is there.
#[must_use]
pub fn hello(host: &Host, identity: &Identity, addresses: &[IpAddr]) -> String {
    let body = format!("<wsd:Hello>{}</wsd:Hello>", endpoint(host, addresses));
    let action = format!("{DISCOVERY}/Hello");
    envelope(host, identity, &Head { to: EVERYBODY, action: &action, relates_to: None }, &body)
}

/// Says that the host goes away.
#[must_use]
pub fn bye(host: &Host, identity: &Identity) -> String {
    let body = format!("<wsd:Bye>{}</wsd:Bye>", reference(host));
    let action = format!("{DISCOVERY}/Bye");
    envelope(host, identity, &Head { to: EVERYBODY, action: &action, relates_to: None }, &body)
}

/// Answers the probe with this id.
#[must_use]
pub fn probe_matches(host: &Host, identity: &Identity, to: &str, addresses: &[IpAddr]) -> String {
    matches(host, identity, "Probe", to, addresses)
}

/// Answers the search for the host's address with this id.
#[must_use]
pub fn resolve_matches(host: &Host, identity: &Identity, to: &str, addresses: &[IpAddr]) -> String {
    matches(host, identity, "Resolve", to, addresses)
}

fn matches(
    host: &Host,
    identity: &Identity,
    kind: &str,
    relates_to: &str,
    addresses: &[IpAddr],
) -> String {
    let body = format!(
        "<wsd:{kind}Matches><wsd:{kind}Match>{}</wsd:{kind}Match></wsd:{kind}Matches>",
        endpoint(host, addresses)
    );
    let action = format!("{DISCOVERY}/{kind}Matches");
    let head = Head { to: REQUESTER, action: &action, relates_to: Some(relates_to) };
    envelope(host, identity, &head, &body)
}

/// Hands out name and workgroup.
#[must_use]
pub fn metadata(host: &Host, identity: &Identity, relates_to: &str) -> String {
    let (name, workgroup) = (escaped(&host.name), escaped(&host.workgroup));
    let uuid = &host.uuid;
    let section = |kind: &str, content: &str| {
        format!("<wsx:MetadataSection Dialect=\"{PROFILE}/{kind}\">{content}</wsx:MetadataSection>")
    };
    let device = section(
        "ThisDevice",
        &format!(
            "<wsdp:ThisDevice><wsdp:FriendlyName>{name}</wsdp:FriendlyName>\
             <wsdp:FirmwareVersion>1.0</wsdp:FirmwareVersion>\
             <wsdp:SerialNumber>1</wsdp:SerialNumber></wsdp:ThisDevice>"
        ),
    );
    let model = section(
        "ThisModel",
        "<wsdp:ThisModel><wsdp:Manufacturer>Choro</wsdp:Manufacturer>\
         <wsdp:ModelName>Choro</wsdp:ModelName>\
         <pnpx:DeviceCategory>Computers</pnpx:DeviceCategory></wsdp:ThisModel>",
    );
    let relationship = section(
        "Relationship",
        &format!(
            "<wsdp:Relationship Type=\"{PROFILE}/host\"><wsdp:Host>{}\
             <wsdp:Types>pub:Computer</wsdp:Types>\
             <wsdp:ServiceId>urn:uuid:{uuid}</wsdp:ServiceId>\
             <pub:Computer>{name}/Workgroup:{workgroup}</pub:Computer>\
             </wsdp:Host></wsdp:Relationship>",
            reference(host)
        ),
    );
    let body = format!("<wsx:Metadata>{device}{model}{relationship}</wsx:Metadata>");
    let head = Head { to: REQUESTER, action: GET_RESPONSE, relates_to: Some(relates_to) };
    envelope(host, identity, &head, &body)
}

/// Fields of a message's header.
struct Head<'a> {
    to: &'a str,
    action: &'a str,
    /// Id of the request; it needs no escape.
    relates_to: Option<&'a str>,
}

fn envelope(host: &Host, identity: &Identity, head: &Head<'_>, body: &str) -> String {
    let Head { to, action, relates_to } = head;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><soap:Envelope {NAMESPACES}><soap:Header>\
         <wsa:To>{to}</wsa:To><wsa:Action>{action}</wsa:Action>\
         <wsa:MessageID>urn:uuid:{}</wsa:MessageID>",
        identity.uuid
    );
    if let Some(id) = relates_to {
        let _ = write!(text, "<wsa:RelatesTo>{id}</wsa:RelatesTo>");
    }
    let _ = write!(
        text,
        "<wsd:AppSequence InstanceId=\"{}\" SequenceId=\"urn:uuid:{}\" MessageNumber=\"{}\"/>\
         </soap:Header><soap:Body>{body}</soap:Body></soap:Envelope>",
        host.instance, host.uuid, identity.number
    );
    text
}

fn reference(host: &Host) -> String {
    format!(
        "<wsa:EndpointReference><wsa:Address>urn:uuid:{}</wsa:Address></wsa:EndpointReference>",
        host.uuid
    )
}

fn endpoint(host: &Host, addresses: &[IpAddr]) -> String {
    let mut urls = String::new();
    for address in addresses {
        let separator = if urls.is_empty() { "" } else { " " };
        let socket = SocketAddr::new(*address, HTTP_PORT);
        let _ = write!(urls, "{separator}http://{socket}/{}", host.uuid);
    }
    format!(
        "{}<wsd:Types>wsdp:Device pub:Computer</wsd:Types><wsd:XAddrs>{urls}</wsd:XAddrs>\
         <wsd:MetadataVersion>1</wsd:MetadataVersion>",
        reference(host)
    )
}

/// Escapes a name from the configuration; control characters are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars().filter(|it| !it.is_control()) {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{Host, Identity, bye, hello, metadata, probe_matches};

    fn host() -> Host {
        Host {
            uuid: "0a6dc791-2be6-4991-9af1-454778a1917a".to_owned(),
            name: "N&S".to_owned(),
            workgroup: "WORK<GROUP>".to_owned(),
            instance: 7,
        }
    }

    fn identity() -> Identity {
        Identity { uuid: "1a6dc791-2be6-4991-9af1-454778a1917a".to_owned(), number: 3 }
    }

    #[test]
    fn messages_have_the_address_and_the_places_of_the_name() {
        let addresses = ["192.0.2.1".parse().expect("one"), "2001:db8::1".parse().expect("one")];
        let text = hello(&host(), &identity(), &addresses);
        let urls = "<wsd:XAddrs>http://192.0.2.1:5357/0a6dc791-2be6-4991-9af1-454778a1917a \
                    http://[2001:db8::1]:5357/0a6dc791-2be6-4991-9af1-454778a1917a</wsd:XAddrs>";
        assert!(text.contains(urls), "{text}");
        assert!(text.contains("InstanceId=\"7\"") && text.contains("MessageNumber=\"3\""));
        assert!(!text.contains("RelatesTo"), "{text}");
        let text = probe_matches(&host(), &identity(), "urn:uuid:5", &addresses);
        assert!(text.contains("<wsa:RelatesTo>urn:uuid:5</wsa:RelatesTo>"), "{text}");
        assert!(text.contains("discovery/ProbeMatches</wsa:Action>"), "{text}");
        assert!(bye(&host(), &identity()).contains("<wsd:Bye><wsa:EndpointReference>"));
    }

    #[test]
    fn names_are_escaped() {
        let text = metadata(&host(), &identity(), "urn:uuid:5");
        let name = "<pub:Computer>N&amp;S/Workgroup:WORK&lt;GROUP&gt;</pub:Computer>";
        assert!(text.contains(name), "{text}");
    }
}
