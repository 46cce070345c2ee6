//! `choro healthcheck`, which tells an orchestrator whether the server serves.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use dtyp::NtStatus;
use messaging::{Content, MessageKind};
use observe::report;
use settings::{Settings, Source};
use wire::frame::{self, FrameHeader};
use wire::negotiate::{NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::{Codes, Command, Decode, Dialect, Encode, Header};

use super::message::requester::Requester;

/// Test whether the server answers clients and administrators.
///
/// Sends a NEGOTIATE over loopback, without a logon, and pings the supervisor. The exit code is 0
/// if both answer within --timeout, else 1.
#[derive(Args, Debug)]
pub(super) struct Healthcheck {
    /// Seconds to wait for each answer.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "5",
        value_parser = super::message::seconds
    )]
    timeout: Duration,
}

/// Longest response to NEGOTIATE that is read; a real one has a few hundred bytes.
const RESPONSE_BYTES_MAX: usize = 4_096;

impl Healthcheck {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let lock = Settings::find(config)?.directories.lock;
        let mut requester = Requester::join(&lock, self.timeout)?;
        let supervisor = requester.supervisor().server_id;
        let data = tables::random_unique_id().context("cannot read random numbers")?.to_le_bytes();
        let ping = Content::new(MessageKind::PING, &data);
        let answers = requester.ask(&[supervisor], &ping, |answer| {
            answer.kind == MessageKind::PONG && answer.data == data
        })?;
        ensure!(
            answers.by_process.contains_key(&supervisor),
            "the supervisor (pid {}) does not answer",
            supervisor.pid
        );
        // The file may have been edited since, and the default share may use another port.
        let settings = Settings::load(Source::File(supervisor::effective_config(&lock)))?;
        let mut stream = connect(&addresses(&settings)?, self.timeout)?;
        let peer = stream.peer_addr().context("cannot read the address of the server")?;
        negotiate(&mut stream, self.timeout).with_context(|| format!("NEGOTIATE to {peer}"))?;
        report::print(&format!("{peer} answers\n"))
    }
}

/// Returns addresses that the server may listen on, loopback first.
fn addresses(settings: &Settings) -> anyhow::Result<Vec<SocketAddr>> {
    let global = &settings.config.global;
    let mut hosts: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if global.bind_interfaces_only {
        let machine =
            interfaces::addresses::list().context("cannot list this machine's addresses")?;
        let named = machine.iter().filter(|address| {
            !address.is_link_local() && global.interfaces.iter().any(|it| address.is_named_by(it))
        });
        hosts.extend(named.map(|address| address.address));
    }
    let ports = &global.smb_ports;
    Ok(hosts.iter().flat_map(|host| ports.iter().map(|port| (*host, *port).into())).collect())
}

fn connect(addresses: &[SocketAddr], timeout: Duration) -> anyhow::Result<TcpStream> {
    let mut failure = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = failure.or(Some((address, error))),
        }
    }
    match failure {
        Some((address, error)) => bail!("cannot connect to {address}: {error}"),
        None => bail!("the server listens on no address"),
    }
}

/// Offers SMB 2.1, which needs no negotiate context. A server with a higher `server min protocol`
/// refuses it, and that is an answer too.
fn negotiate(stream: &mut TcpStream, timeout: Duration) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut message = Vec::new();
    Header { command: Command::NEGOTIATE, credits: 1, ..Header::default() }.encode(&mut message);
    let dialects = [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0, Dialect::SMB_3_0_2];
    let request = NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialects: Codes::new(&dialects),
        ..NegotiateRequest::default()
    };
    request.encode(&mut message);
    let frame = FrameHeader::message(message.len()).expect("it is short");
    stream.write_all(&[&frame[..], &message].concat())?;
    let mut frame = [0; frame::SIZE];
    stream.read_exact(&mut frame).context("no response")?;
    let length = FrameHeader::decode(frame).length;
    ensure!(length <= RESPONSE_BYTES_MAX, "a response of {length} bytes");
    let mut message = vec![0; length];
    stream.read_exact(&mut message).context("the response is incomplete")?;
    let header = Header::decode(&message).context("the response is invalid")?;
    ensure!(header.command == Command::NEGOTIATE, "the response is to another command");
    if header.status == NtStatus::NOT_SUPPORTED {
        return Ok(());
    }
    ensure!(header.status == NtStatus::SUCCESS, "the status is {}", header.status);
    NegotiateResponse::decode(&message).context("the response is invalid")?;
    Ok(())
}
