//! Data of an administrator's request for the channels of a worker's client.

use dtyp::FileTime;

use super::{push_name, take_name};

/// The data of [`crate::MessageKind::CHANNELS`]: the channels of all sessions of a worker.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Channels(pub Vec<Channel>);

/// A channel: a connection bound to a session ([MS-SMB2] 3.3.1.14).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Channel {
    /// Id of the session. A connection with several sessions is listed once for each.
    pub session_id: u64,
    /// Address and port of the client.
    pub client_address: String,
    /// Address and port that the client connected to.
    pub server_address: String,
    /// Interface with that address; empty if no interface has it any more.
    pub interface: String,
    /// Bits per second of the interface, as told to clients; 0 without an interface.
    pub speed: u64,
    /// Bytes received from the client over the connection.
    pub bytes_in: u64,
    /// Bytes sent to the client over the connection and acknowledged by its TCP.
    pub bytes_out: u64,
    /// Breaks of oplocks and leases repeated on it because another connection ended before the
    /// acknowledgment.
    pub break_retries: u32,
    /// Time at which the client connected.
    pub connected_at: FileTime,
    /// Reason why the session has no other channel; `None` if it has one.
    pub single: Option<SingleChannel>,
}

/// Reason why a session has only one channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SingleChannel {
    /// The dialect is below 3.0.
    Dialect,
    /// The client did not announce support for several channels.
    NotWanted,
    /// Multichannel was switched off during NEGOTIATE.
    SwitchedOff,
    /// The platform does not report acknowledged bytes.
    Unsupported,
    /// The user is a guest or anonymous: the session has no key to bind connections with.
    Guest,
    /// The server announces one interface only, without RSS.
    OneInterface,
    /// The client never queried the interfaces.
    NeverAsked,
    /// The client queried the interfaces and has no further connection, or has lost it.
    NotConnected,
}

impl SingleChannel {
    const ALL: [Self; 8] = [
        Self::Dialect,
        Self::NotWanted,
        Self::SwitchedOff,
        Self::Unsupported,
        Self::Guest,
        Self::OneInterface,
        Self::NeverAsked,
        Self::NotConnected,
    ];

    /// Stable name, for programs that read the output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dialect => "dialect",
            Self::NotWanted => "not_wanted",
            Self::SwitchedOff => "switched_off",
            Self::Unsupported => "unsupported",
            Self::Guest => "guest",
            Self::OneInterface => "one_interface",
            Self::NeverAsked => "never_asked",
            Self::NotConnected => "not_connected",
        }
    }

    /// Reason in words, for administrators.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Dialect => "its dialect is below 3.0, which knows one connection only",
            Self::NotWanted => {
                "the client did not ask for more: it sent no SMB2_GLOBAL_CAP_MULTI_CHANNEL"
            }
            Self::SwitchedOff => "`server multi channel support` was off when the client connected",
            Self::Unsupported => {
                "this platform does not tell what clients have acknowledged, so multichannel is off"
            }
            Self::Guest => "guests have no key to bind a further connection with",
            Self::OneInterface => {
                "clients are told of one interface only, without RSS (choro check --interfaces)"
            }
            Self::NeverAsked => "the client never asked for the interfaces of this server",
            Self::NotConnected => {
                "the client asked for the interfaces, and has no further connection: it wants \
                 none, does not reach the other addresses, or has lost them"
            }
        }
    }

    fn to_byte(self) -> u8 {
        let at = Self::ALL.iter().position(|it| *it == self).expect("all are listed");
        u8::try_from(at + 1).expect("there are few")
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.to_byte() == byte)
    }
}

/// Highest number of channels in [`Channels`].
const CHANNELS_MAX: usize = 8_192;

impl Channels {
    /// Returns the data. Channels beyond the maximum, more than any known use, are left out.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for channel in self.0.iter().take(CHANNELS_MAX) {
            for number in [
                channel.session_id,
                channel.speed,
                channel.bytes_in,
                channel.bytes_out,
                channel.connected_at.0,
            ] {
                data.extend_from_slice(&number.to_le_bytes());
            }
            data.extend_from_slice(&channel.break_retries.to_le_bytes());
            data.push(channel.single.map_or(0, SingleChannel::to_byte));
            for name in [&channel.client_address, &channel.server_address, &channel.interface] {
                push_name(&mut data, name);
            }
        }
        data
    }

    /// Reads the data; `None` if it is incomplete or contains an unknown reason.
    #[must_use]
    pub fn decode(mut data: &[u8]) -> Option<Self> {
        let mut channels = Vec::new();
        while !data.is_empty() {
            if channels.len() == CHANNELS_MAX {
                return None;
            }
            let mut number = || {
                let (number, rest) = data.split_first_chunk()?;
                data = rest;
                Some(u64::from_le_bytes(*number))
            };
            let [session_id, speed, bytes_in, bytes_out, connected_at] =
                [number()?, number()?, number()?, number()?, number()?];
            let (break_retries, rest) = data.split_first_chunk()?;
            let (single, rest) = rest.split_first()?;
            data = rest;
            channels.push(Channel {
                session_id,
                speed,
                bytes_in,
                bytes_out,
                connected_at: FileTime(connected_at),
                break_retries: u32::from_le_bytes(*break_retries),
                single: match single {
                    0 => None,
                    byte => Some(SingleChannel::from_byte(*byte)?),
                },
                client_address: take_name(&mut data)?,
                server_address: take_name(&mut data)?,
                interface: take_name(&mut data)?,
            });
        }
        Some(Self(channels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(single: Option<SingleChannel>) -> Channel {
        Channel {
            session_id: 7,
            client_address: "192.0.2.9:50000".to_owned(),
            server_address: "[2001:db8::1]:445".to_owned(),
            interface: "eth0".to_owned(),
            speed: 10_000_000_000,
            bytes_in: u64::MAX,
            bytes_out: 3,
            break_retries: 1,
            connected_at: FileTime(1_700_000_000),
            single,
        }
    }

    #[test]
    fn channels_round_trip_with_every_reason_and_are_whole_or_refused() {
        let reasons = SingleChannel::ALL.into_iter().map(Some).chain([None]);
        let channels = Channels(reasons.map(channel).collect());
        let data = channels.encode();
        assert_eq!(Channels::decode(&data), Some(channels));
        let data = Channels(vec![channel(None)]).encode();
        for len in 1..data.len() {
            assert_eq!(Channels::decode(&data[..len]), None, "{len}");
        }
        assert_eq!(Channels::decode(&[]), Some(Channels::default()));
    }

    #[test]
    fn a_reason_of_another_version_is_refused() {
        let mut data = Channels(vec![channel(None)]).encode();
        data[44] = 200;
        assert_eq!(Channels::decode(&data), None);
    }

    #[test]
    fn more_channels_than_there_is_room_for_are_left_out() {
        let data = Channels(vec![channel(None); CHANNELS_MAX + 1]).encode();
        assert_eq!(Channels::decode(&data).map(|it| it.0.len()), Some(CHANNELS_MAX));
    }
}
