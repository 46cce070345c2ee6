//! Report of this client's channels for an administrator.
//!
//! Nothing is counted for it: the kernel counts the bytes of each connection, and the engine knows
//! the rest. So it costs nothing without a request.

use std::time::Instant;

use dtyp::ServerId;
use interfaces::Multichannel;
use interfaces::Offer;
use messaging::{Channel as ReportedChannel, Channels, Content, MessageKind, SingleChannel};
use proto::ChannelInfo;
use tracing::debug;
use uring::tcp;
use wire::Dialect;
use wire::negotiate::Capabilities;

use super::event_loop::Worker;
use super::kept_offer::list_interfaces;

impl Worker {
    /// Answers an administrator's request for the list of channels.
    pub(super) fn report_channels(&mut self, to: ServerId) {
        let data = self.list_channels().encode();
        self.store.revert_to_server();
        let content = Content::new(MessageKind::CHANNELS, &data);
        if let Err(error) = self.messaging.send(Instant::now(), to, &content) {
            debug!("cannot send channels to {to}: {error}");
        }
    }

    fn list_channels(&mut self) -> Channels {
        let channels = self.server.channels();
        if channels.is_empty() {
            return Channels::default();
        }
        self.store.revert_to_server();
        let offer = list_interfaces(&self.settings.config.global);
        let multichannel = Multichannel::of(&self.settings.config.global);
        let has_one = |session_id| {
            channels.iter().filter(|channel| channel.session_id == session_id).nth(1).is_none()
        };
        let report = |channel: &ChannelInfo| {
            let socket = self.transports.get(&channel.connection).map(|it| it.descriptor());
            let info = socket.and_then(|socket| tcp::info(socket).ok());
            // A socket for both families names addresses of the older one in the form of the newer.
            let interface = offer.address(channel.server.ip().to_canonical());
            ReportedChannel {
                session_id: channel.session_id,
                client_address: channel.client.to_string(),
                server_address: channel.server.to_string(),
                interface: interface.map_or_else(String::new, |it| it.interface.clone()),
                speed: interface.map_or(0, |it| it.speed.value),
                bytes_in: info.map_or(0, |it| it.bytes_received),
                bytes_out: info.map_or(0, |it| it.bytes_acknowledged),
                break_retries: channel.repeated_breaks,
                connected_at: channel.connected_at,
                single: has_one(channel.session_id)
                    .then(|| why_single(channel, &multichannel, &offer)),
            }
        };
        Channels(channels.iter().map(report).collect())
    }
}

/// Why a session has this channel only. What was negotiated counts before what holds now.
fn why_single(channel: &ChannelInfo, multichannel: &Multichannel, offer: &Offer) -> SingleChannel {
    let negotiated = &channel.negotiated;
    if negotiated.dialect < Dialect::SMB_3_0 {
        SingleChannel::Dialect
    } else if !negotiated.client_capabilities.contains(Capabilities::MULTI_CHANNEL) {
        SingleChannel::NotWanted
    } else if !negotiated.server_capabilities.contains(Capabilities::MULTI_CHANNEL) {
        match multichannel {
            Multichannel::Unsupported(_) => SingleChannel::Unsupported,
            Multichannel::On | Multichannel::Off => SingleChannel::SwitchedOff,
        }
    } else if !channel.can_be_bound {
        SingleChannel::Guest
    } else if !offer.invites_channels() {
        SingleChannel::OneInterface
    } else if !channel.asked_for_interfaces {
        SingleChannel::NeverAsked
    } else {
        SingleChannel::NotConnected
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crypto::SigningAlgorithm;
    use dtyp::{FileTime, Guid};
    use interfaces::{Offered, OfferedValue, Origin};
    use proto::ConnectionId;
    use proto::connection::Negotiated;
    use wire::negotiate::SecurityMode;

    use super::*;

    /// An offer that invites further channels.
    fn offer_of_two_interfaces() -> Offer {
        let offered = |index: u8| Offered {
            address: [192, 0, 2, index].into(),
            interface: format!("eth{index}"),
            if_index: OfferedValue { value: index.into(), origin: Origin::Default },
            speed: OfferedValue { value: 1_000_000_000, origin: Origin::Default },
            rss: OfferedValue { value: false, origin: Origin::Default },
            rdma: OfferedValue { value: false, origin: Origin::Default },
        };
        Offer { offered: vec![offered(1), offered(2)], ..Offer::default() }
    }

    /// The only channel of a client that could have several.
    fn channel() -> (ChannelInfo, Negotiated) {
        let negotiated = Negotiated {
            dialect: Dialect::SMB_3_1_1,
            client_guid: Guid::ZERO,
            client_capabilities: Capabilities::MULTI_CHANNEL,
            client_security_mode: SecurityMode::empty(),
            client_dialects: Vec::new(),
            server_capabilities: Capabilities::MULTI_CHANNEL,
            server_security_mode: SecurityMode::empty(),
            cipher: None,
            signing_algorithm: SigningAlgorithm::AesGmac,
            posix_extensions: false,
            max_read_size: 0,
            max_write_size: 0,
            max_transact_size: 0,
            supports_multi_credit: true,
        };
        let address = "192.0.2.1:445".parse().expect("an address");
        let channel = ChannelInfo {
            session_id: 1,
            can_be_bound: true,
            connection: ConnectionId(1),
            client: address,
            server: address,
            connected_at: FileTime(0),
            negotiated: Arc::new(negotiated.clone()),
            asked_for_interfaces: true,
            repeated_breaks: 0,
        };
        (channel, negotiated)
    }

    /// Checks the reason for a client that differs in this.
    #[track_caller]
    fn check(change: impl FnOnce(&mut ChannelInfo, &mut Negotiated), want: SingleChannel) {
        let (mut channel, mut negotiated) = channel();
        change(&mut channel, &mut negotiated);
        channel.negotiated = Arc::new(negotiated);
        let why = why_single(&channel, &Multichannel::On, &offer_of_two_interfaces());
        assert_eq!(why, want);
    }

    #[test]
    fn the_first_reason_on_the_way_to_a_second_channel_counts() {
        check(|_, _| {}, SingleChannel::NotConnected);
        check(|channel, _| channel.asked_for_interfaces = false, SingleChannel::NeverAsked);
        check(|channel, _| channel.can_be_bound = false, SingleChannel::Guest);
        let off = |_: &mut ChannelInfo, it: &mut Negotiated| {
            it.server_capabilities = Capabilities::empty();
        };
        check(off, SingleChannel::SwitchedOff);
        let unwilling = |_: &mut ChannelInfo, it: &mut Negotiated| {
            it.client_capabilities = Capabilities::empty();
            it.server_capabilities = Capabilities::empty();
        };
        check(unwilling, SingleChannel::NotWanted);
        check(
            |channel, it| {
                channel.can_be_bound = false;
                it.dialect = Dialect::SMB_2_1;
                unwilling(channel, it);
            },
            SingleChannel::Dialect,
        );
    }

    #[test]
    fn one_interface_without_rss_is_a_reason_whether_the_client_asked_or_not() {
        let (channel, _) = channel();
        let offer = Offer::default();
        let why = why_single(&channel, &Multichannel::On, &offer);
        assert_eq!(why, SingleChannel::OneInterface);
    }

    #[test]
    fn an_unsupported_platform_differs_from_a_parameter() {
        let (mut channel, mut negotiated) = channel();
        negotiated.server_capabilities = Capabilities::empty();
        channel.negotiated = Arc::new(negotiated);
        let offer = offer_of_two_interfaces();
        let unsupported = Multichannel::Unsupported("no SIOCOUTQ".to_owned());
        assert_eq!(why_single(&channel, &unsupported, &offer), SingleChannel::Unsupported);
        assert_eq!(why_single(&channel, &Multichannel::Off, &offer), SingleChannel::SwitchedOff);
    }
}
