//! How machines of other networks find the server, seen from such machines.
//!
//! It needs root, iproute2 and, for multicast DNS, python3-zeroconf or avahi-utils. What is missing
//! is left out, with a message.

mod harness;

use std::fs;
use std::process::{Command, Stdio};

use harness::choro::{Server, Site, children, wait_until};
use harness::namespace::Namespace;
use harness::smbtorture::progress;
use nix::unistd::User;
use rustix::process::Signal;

/// Network of the server: two cables to two neighbors, and a bridge without a port.
const SETUP: &str = "ip link add near1 type veth peer name far1\n\
     ip link add near2 type veth peer name far2\n\
     ip link add idle type bridge\n\
     ip addr add 192.0.2.1/24 dev near1\n\
     ip -6 addr add 2001:db8:1::1/64 dev near1 nodad\n\
     ip addr add 198.51.100.1/24 dev near2\n\
     ip addr add 203.0.113.1/24 dev idle\n\
     ip link set near1 up\n\
     ip link set near2 up\n\
     ip link set idle up";

/// A server, its network, and two neighbors.
struct Neighborhood {
    site: Site,
    neighbors: [Namespace; 2],
    home: Namespace,
}

impl Neighborhood {
    /// `None`, and it says why, where the test cannot be made.
    fn new(global: &str) -> Option<Self> {
        let make = || -> Result<Self, String> {
            let home = Namespace::of_network(SETUP)?;
            let neighbor = |number: u8, network: &str, prefix: &str| {
                let neighbor = Namespace::of_network("")?;
                let (pid, far) = (neighbor.id().to_string(), format!("far{number}"));
                home.run(&["ip", "link", "set", &far, "netns", &pid])?;
                let address = format!("{network}.7/24");
                for command in [
                    vec!["link", "set", &far, "up"],
                    vec!["addr", "add", &address, "dev", &far],
                    vec!["-6", "addr", "add", prefix, "dev", &far, "nodad"],
                    vec!["route", "add", "224.0.0.0/4", "dev", &far],
                ] {
                    neighbor.run(&[vec!["ip"], command].concat())?;
                }
                Ok::<_, String>(neighbor)
            };
            let neighbors = [
                neighbor(1, "192.0.2", "2001:db8:1::7/64")?,
                neighbor(2, "198.51.100", "2001:db8:2::7/64")?,
            ];
            let mut site = Site::new();
            site.launch_with(&home.launcher());
            Ok(Self { site, neighbors, home })
        };
        match make() {
            Ok(made) => {
                made.configure(global);
                Some(made)
            }
            Err(why) => {
                progress(&format!("left out, this machine does not allow networks: {why}"));
                None
            }
        }
    }

    fn configure(&self, global: &str) {
        let directory = |name: &str| self.site.path(name).display().to_string();
        let (base, data) = (directory("base"), directory("data"));
        let config = format!(
            "[global]\nbase directory = {base}\nnetbios name = nas\nnetbios aliases = files\n\
             workgroup = office\nfruit:model = RackMac\n{global}\n\
             [backup]\npath = {data}\nvfs objects = fruit streams_xattr\n\
             fruit:time machine = yes\n[data]\npath = {data}\n"
        );
        fs::write(self.site.path("smb.conf"), config).expect("there is space");
    }

    /// Runs a script of Python at a neighbor. Returns what it prints.
    fn ask(&self, neighbor: usize, script: &str) -> String {
        let mut python = self.neighbors[neighbor].command("/usr/bin/python3");
        let output = python.args(["-c", script]).output().expect("python3 is installed");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}");
        String::from_utf8(output.stdout).expect("it is text")
    }
}

/// Interfaces of the tests: cables between networks are left out unless they are named.
const NAMED: &str = "interfaces = near1 near2";

/// Pid of the process that tells of the server.
fn discoveryd(server: &Server) -> Option<u32> {
    children(server.pid()).into_iter().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split('\0').nth(1) == Some("discoveryd"))
    })
}

/// A probe of Windows. It prints each answer, the answer to a Resolve, and the metadata.
const PROBE: &str = r#"
import re, socket, sys, urllib.request, uuid
def envelope(action, body):
    return f'''<?xml version="1.0" encoding="utf-8"?><soap:Envelope
 xmlns:soap="http://www.w3.org/2003/05/soap-envelope"
 xmlns:wsa="http://schemas.xmlsoap.org/ws/2004/08/addressing"
 xmlns:wsd="http://schemas.xmlsoap.org/ws/2005/04/discovery"
 xmlns:wsdp="http://schemas.xmlsoap.org/ws/2006/02/devprof"><soap:Header>
<wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>
<wsa:Action>http://schemas.xmlsoap.org/ws/{action}</wsa:Action>
<wsa:MessageID>urn:uuid:{uuid.uuid4()}</wsa:MessageID></soap:Header>
<soap:Body>{body}</soap:Body></soap:Envelope>'''.encode()
own = sys.argv[1] if len(sys.argv) > 1 else OWN
def ask(message, source=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source or own, 0))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    s.settimeout(2)
    s.sendto(message, ('239.255.255.250', 3702))
    try:
        return s.recv(65536).decode()
    except TimeoutError:
        return ''
probe = lambda types: ask(envelope('2005/04/discovery/Probe',
    f'<wsd:Probe><wsd:Types>{types}</wsd:Types></wsd:Probe>'))
found = probe('wsdp:Device')
print('PROBE', found)
print('PRINTER', probe('wprt:PrintDeviceType'))
address = re.search('urn:uuid:[-0-9a-f]+(?=</wsa:Address>)', found)[0]
resolve = lambda urn: ask(envelope('2005/04/discovery/Resolve', '<wsd:Resolve>'
    f'<wsa:EndpointReference><wsa:Address>{urn}</wsa:Address></wsa:EndpointReference></wsd:Resolve>'))
print('RESOLVE', resolve(address))
print('OTHER', resolve('urn:uuid:0'))
url = re.search('<wsd:XAddrs>(.*)</wsd:XAddrs>', found)[1]
print('URL', url)
get = urllib.request.Request(url, envelope('2004/09/transfer/Get', ''),
    {'Content-Type': 'application/soap+xml'})
print('GET', urllib.request.urlopen(get, timeout=5).read().decode())
"#;

#[test]
fn windows_finds_the_server_by_probe_and_learns_its_name() {
    let Some(site) = Neighborhood::new(NAMED) else { return };
    let server = site.site.serve();
    server.wait_for_log("announced on near2");
    for (neighbor, own, url) in [
        (0, "192.0.2.7", "http://192.0.2.1:5357/"),
        (1, "198.51.100.7", "http://198.51.100.1:5357/"),
    ] {
        let text = site.ask(neighbor, &format!("OWN = '{own}'\n{PROBE}"));
        let line = |word: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(word));
            found.map(str::to_owned).unwrap_or_else(|| panic!("no {word} in {text}"))
        };
        assert!(line("PROBE ").contains("<wsd:Types>wsdp:Device pub:Computer</wsd:Types>"));
        assert!(line("RESOLVE ").contains("ResolveMatches"), "{text}");
        assert!(line("URL ").starts_with(url), "only the address of its interface: {text}");
        assert_eq!(line("URL ").split_whitespace().count(), 1, "{text}");
        assert!(line("GET ").contains("<pub:Computer>NAS/Workgroup:OFFICE</pub:Computer>"));
        assert_eq!(line("PRINTER"), " ");
        assert_eq!(line("OTHER"), " ");
    }
}

#[test]
fn the_process_has_no_rights_and_comes_back() {
    let Some(site) = Neighborhood::new(NAMED) else { return };
    let server = site.site.serve();
    server.wait_for_log("announced on near2");
    let pid = discoveryd(&server).expect("it runs");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{status}");
    }
    let own = User::from_name("choro-discovery").expect("users can be looked up");
    let uid = own.map_or(65_534, |user| user.uid.as_raw());
    assert!(status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}")), "{status}");
    harness::choro::signal_process(pid, Signal::KILL);
    wait_until(|| discoveryd(&server).is_some_and(|it| it != pid), || server.log());
    // Switched off it costs nothing, not even a process.
    let off = "multicast dns register = no\nchoro:wsd = no\nchoro:llmnr = no";
    site.configure(off);
    server.signal(Signal::HUP);
    wait_until(|| discoveryd(&server).is_none(), || server.log());
    let log = server.log();
    assert_eq!(log.matches("is started again").count(), 1, "{log}");
    site.configure(NAMED);
    server.signal(Signal::HUP);
    wait_until(|| discoveryd(&server).is_some(), || server.log());
    let (code, _) = server.stop();
    assert_eq!(code, Some(0));
}

#[test]
fn cables_to_containers_and_bridges_without_ports_are_left_out() {
    let Some(site) = Neighborhood::new("") else { return };
    let server = site.site.serve();
    server.wait_for_log("other machines cannot find this server");
    // An interface that comes later is served.
    if let Err(why) = site.home.run(&["ip", "link", "add", "card", "type", "ifb"]) {
        return progress(&format!("left out: no interface without a cable: {why}"));
    }
    site.home.run(&["ip", "addr", "add", "203.0.113.9/24", "dev", "card"]).expect("root may");
    site.home.run(&["ip", "link", "set", "card", "up"]).expect("root may");
    server.wait_for_log("announced on card");
    assert!(!server.log().contains("announced on near"), "{}", server.log());
    assert!(!server.log().contains("announced on idle"), "{}", server.log());
}

/// Asks for a name by LLMNR and prints the addresses of the answer.
const LLMNR: &str = r#"
import socket, struct
def ask(name, kind):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((OWN, 0))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(OWN))
    s.settimeout(2)
    s.sendto(struct.pack('>6H', 7, 0, 1, 0, 0, 0) + bytes([len(name)]) + name.encode() + b'\0'
        + struct.pack('>2H', kind, 1), ('224.0.0.252', 5355))
    try:
        answer = s.recv(65536)
    except TimeoutError:
        return 'none'
    at, found = 12 + len(name) + 6, []
    for _ in range(struct.unpack('>H', answer[6:8])[0]):
        length = struct.unpack('>H', answer[at + 10:at + 12])[0]
        data = answer[at + 12:at + 12 + length]
        found.append(socket.inet_ntop(socket.AF_INET if length == 4 else socket.AF_INET6, data))
        at += 12 + length
    return ' '.join(found)
print('A', ask('Nas', 1))
print('ALIAS', ask('files', 1))
print('AAAA', ask('nas', 28))
print('OTHER', ask('printer', 1))
"#;

#[test]
fn windows_resolves_the_names_of_the_server() {
    let Some(site) = Neighborhood::new(NAMED) else { return };
    let server = site.site.serve();
    server.wait_for_log("announced on near2");
    let text = site.ask(0, &format!("OWN = '192.0.2.7'\n{LLMNR}"));
    assert!(text.contains("A 192.0.2.1\n"), "{text}");
    assert!(text.contains("ALIAS 192.0.2.1\n"), "{text}");
    assert!(text.contains("2001:db8:1::1"), "{text}");
    assert!(text.contains("OTHER none\n"), "{text}");
    let text = site.ask(1, &format!("OWN = '198.51.100.7'\n{LLMNR}"));
    assert!(text.contains("A 198.51.100.1\n"), "{text}");
}

/// Looks services up, and prints their addresses and texts.
const BROWSE: &str = r#"
from zeroconf import Zeroconf
zeroconf = Zeroconf(interfaces=[OWN])
for kind in '_smb', '_adisk', '_device-info':
    service = f'{kind}._tcp.local.'
    info = zeroconf.get_service_info(service, 'NAS.' + service, timeout=8000)
    if info:
        print(kind, info.port, info.server, sorted(info.parsed_addresses()), info.properties)
zeroconf.close()
"#;

fn has_zeroconf() -> bool {
    let python = Command::new("/usr/bin/python3")
        .args(["-c", "import zeroconf"])
        .stderr(Stdio::null())
        .status();
    python.is_ok_and(|status| status.success())
}

#[test]
fn macos_finds_the_server_and_its_time_machine() {
    if !has_zeroconf() {
        return progress("left out: python3-zeroconf is not installed");
    }
    let Some(site) = Neighborhood::new(NAMED) else { return };
    let server = site.site.serve();
    server.wait_for_log("announced on near2");
    for (neighbor, own, address) in
        [(0, "192.0.2.7", "192.0.2.1"), (1, "198.51.100.7", "198.51.100.1")]
    {
        let text = site.ask(neighbor, &format!("OWN = '{own}'\n{BROWSE}"));
        assert!(text.contains("_smb 445 nas.local."), "{text}\n{}", server.log());
        assert!(text.contains(&format!("'{address}'")), "{text}");
        let others = ["192.0.2.1", "198.51.100.1", "203.0.113.1"];
        for other in others.into_iter().filter(|other| *other != address) {
            assert!(!text.contains(&format!("'{other}'")), "{text}");
        }
        assert!(text.contains("b'sys': b'adVF=0x100'"), "{text}");
        assert!(text.contains("b'dk0': b'adVN=backup,adVF=0x82'"), "{text}");
        assert!(text.contains("b'model': b'RackMac'"), "{text}");
    }
}

/// Asks by multicast DNS for the address of the server, from a port of its own. `TO` is the
/// receiver.
const ASK_FOR_ADDRESS: &str = "import socket, struct\n\
     s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
     s.bind((OWN, 0))\n\
     s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(OWN))\n\
     query = struct.pack('>6H', 7, 0, 1, 0, 0, 0) + b'\\x03nas\\x05local\\x00' \
         + struct.pack('>2H', 1, 1)\n\
     s.settimeout(WAIT)\n\
     for attempt in range(3):\n\
     \x20   s.sendto(query, (TO, 5353))\n\
     \x20   try:\n\
     \x20       s.recvfrom(1000)\n\
     \x20       print('answered')\n\
     \x20       break\n\
     \x20   except socket.timeout:\n\
     \x20       pass\n\
     else:\n\
     \x20   print('silent')";

/// Who is beyond a router cannot ask the group, but could ask the machine, in another's name.
#[test]
fn questions_of_multicast_dns_are_answered_where_the_group_was_asked() {
    let Some(site) = Neighborhood::new(NAMED) else { return };
    let server = site.site.serve();
    server.wait_for_log("announced on near2");
    let ask = |to: &str, wait: &str| {
        let script = format!("OWN, TO, WAIT = '192.0.2.7', '{to}', {wait}\n{ASK_FOR_ADDRESS}");
        site.ask(0, &script)
    };
    assert_eq!(ask("224.0.0.251", "10").trim(), "answered", "{}", server.log());
    assert_eq!(ask("192.0.2.1", "0.3").trim(), "silent");
}

/// Announces by multicast DNS one thing after the other that nobody has asked for.
const FLOOD: &str = "import socket, struct\n\
     s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
     s.bind((OWN, 5353))\n\
     s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(OWN))\n\
     s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)\n\
     text = (b'\\xff' + bytes(255)) * 30\n\
     for number in range(1_000_000):\n\
     \x20   name = b'\\x08%08d\\x05local\\x00' % number\n\
     \x20   record = struct.pack('>2HIH', 16, 1, 4500, len(text)) + text\n\
     \x20   header = struct.pack('>6H', 0, 0x8400, 0, 1, 0, 0)\n\
     \x20   s.sendto(header + name + record, ('224.0.0.251', 5353))";

#[test]
fn announcements_of_neighbors_take_bounded_memory() {
    let Some(site) = Neighborhood::new(NAMED) else { return };
    let server = site.site.serve();
    server.wait_for_log("announced on near2");
    let first = discoveryd(&server).expect("it runs");
    let mut neighbor = site.neighbors[0].command("/usr/bin/python3");
    let script = format!("OWN = '192.0.2.7'\n{FLOOD}");
    let mut flood = neighbor.args(["-c", &script]).spawn().expect("python3 is installed");
    let mut highest = 0;
    let is_over = || {
        highest = resident_mib(first).unwrap_or_default().max(highest);
        highest > 96 || discoveryd(&server).is_some_and(|it| it != first)
    };
    wait_until(is_over, || server.log());
    let _ = flood.kill();
    let _ = flood.wait();
    assert!(highest <= 96, "it has taken {highest} MiB");
    let is_back = || server.log().matches("announced on near2").count() > 1;
    wait_until(is_back, || server.log());
    let script = format!("OWN, TO, WAIT = '192.0.2.7', '224.0.0.251', 3\n{ASK_FOR_ADDRESS}");
    assert_eq!(site.ask(0, &script).trim(), "answered", "{}", server.log());
}

/// Memory of a process; none after its end.
fn resident_mib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|it| it / 1_024)
}

/// Holds the port of multicast DNS in the server's network, as Avahi does.
const HOLD: &str = "import socket, time\n\
     s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
     s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
     s.bind(('', 5353))\nprint('held', flush=True)\ntime.sleep(60)";

#[test]
fn beside_another_responder_the_server_writes_a_service_file() {
    let Some(site) = Neighborhood::new(NAMED) else { return };
    // Nobody else may see the file: the folder is in mounts of the server's own.
    let services = site.site.path("services");
    fs::create_dir(&services).expect("it is new");
    let script = "mkdir -p /etc/avahi/services; mount --bind \"$1\" /etc/avahi/services";
    let folder = match fs::exists("/etc/avahi/services") {
        Ok(true) => Namespace::of_mounts(script, &[&services]),
        _ => Err("there is no folder /etc/avahi/services".to_owned()),
    };
    let view = match folder {
        Ok(view) => view,
        Err(why) => return progress(&format!("left out: {why}")),
    };
    let mut holder = site
        .home
        .command("/usr/bin/python3")
        .args(["-c", HOLD])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut line = String::new();
    let output = holder.stdout.as_mut().expect("it is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("it says");
    let Neighborhood { mut site, neighbors: _neighbors, home } = site;
    site.launch_with(&[home.launcher(), view.launcher()].concat());
    let server = site.serve();
    server.wait_for_log("multicast DNS is left to another program");
    let text = fs::read_to_string(services.join("choro.service")).expect("it was written");
    for part in [
        "<name>NAS</name>",
        "<type>_smb._tcp</type>\n    <port>445</port>",
        "<txt-record>dk0=adVN=backup,adVF=0x82</txt-record>",
        "<txt-record>model=RackMac</txt-record>",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let (code, _) = server.stop();
    assert_eq!(code, Some(0));
    assert!(!services.join("choro.service").exists(), "it goes with the server");
    let _ = holder.kill();
    let _ = holder.wait();
}
