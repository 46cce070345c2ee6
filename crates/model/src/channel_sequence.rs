//! `Open.ChannelSequence` and the outstanding requests of an open: [MS-SMB2] 3.3.5.2.10.
//!
//! A client that loses a channel increments its channel sequence number, and sends it with every
//! later request. So the server can tell requests from before the loss and their repetitions apart,
//! in any order of arrival: a request with an earlier number must not change anything any more, and
//! a repetition must not run beside the original.

use wire::{Command, Header, HeaderFlags};

use crate::reject::Reject;
use crate::request_id::RequestId;

/// Channel sequence number of an open, with its outstanding requests.
///
/// Only pending requests are listed: a request that finishes at once cannot be outstanding when
/// another one is verified. Hence two lists here instead of the two counts of the specification.
#[derive(Debug, Default)]
pub struct ChannelSequence {
    /// `Open.ChannelSequence`. Unset until the first request names the open: no request can have
    /// been sent to it with an earlier number.
    current: Option<u16>,
    /// Requests counted by `Open.OutstandingRequestCount`.
    outstanding: Vec<RequestId>,
    /// Requests counted by `Open.OutstandingPreRequestCount`: those with earlier numbers.
    outstanding_before: Vec<RequestId>,
}

/// Largest difference that counts as a step forward; a larger one is an earlier number.
const FORWARD_MAX: u16 = 0x7FFF;

impl ChannelSequence {
    /// True if a request has the number of the one before it and is no replay, as nearly always.
    /// There is nothing to verify then.
    #[must_use]
    #[inline]
    pub fn continues(&self, header: &Header) -> bool {
        self.current == Some(header.channel_sequence()) && !is_replay(header)
    }

    /// Verifies a request's number before the request begins, and adopts a later number.
    ///
    /// # Errors
    /// If the request would change something, and its number is an earlier one, or it is a replay
    /// while requests of earlier numbers are outstanding.
    pub fn verify(&mut self, header: &Header) -> Result<(), Reject> {
        let number = header.channel_sequence();
        let ahead = number.wrapping_sub(self.current.unwrap_or(number));
        let is_late = ahead > FORWARD_MAX;
        if !is_late {
            self.current = Some(number);
        }
        if ahead > 0 && !is_late {
            self.outstanding_before.append(&mut self.outstanding);
        }
        let meets_earlier = is_replay(header) && !self.outstanding_before.is_empty();
        // [MS-SMB2] 3.3.5.2.10 refuses no other command: those go on, and are not counted.
        match (is_late || meets_earlier) && changes_state(header.command) {
            true => Err(Reject::ChannelSequence { got: number, current: self.current }),
            false => Ok(()),
        }
    }

    /// Counts a pending request as outstanding. Requests with an earlier number and replays beside
    /// earlier requests are not counted.
    pub fn wait(&mut self, id: RequestId, header: &Header) {
        let is_known = self.outstanding.contains(&id) || self.outstanding_before.contains(&id);
        let is_counted = self.current == Some(header.channel_sequence())
            && (!is_replay(header) || self.outstanding_before.is_empty());
        if is_counted && !is_known {
            self.outstanding.push(id);
        }
    }

    /// Removes a request once its response is made.
    pub fn end(&mut self, id: RequestId) {
        self.outstanding.retain(|it| *it != id);
        self.outstanding_before.retain(|it| *it != id);
    }
}

fn is_replay(header: &Header) -> bool {
    header.flags.contains(HeaderFlags::REPLAY_OPERATION)
}

/// Whether [MS-SMB2] 3.3.5.2.10 can refuse this command.
fn changes_state(command: Command) -> bool {
    matches!(command, Command::WRITE | Command::SET_INFO | Command::IOCTL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: Command, number: u16, replays: bool) -> Header {
        let mut header = Header { command, ..Header::default() };
        header.flags.set(HeaderFlags::REPLAY_OPERATION, replays);
        header.set_channel_sequence(number);
        header
    }

    #[track_caller]
    fn check(sequence: &mut ChannelSequence, command: Command, number: u16, want: bool) {
        for replays in [false, true] {
            let header = header(command, number, replays);
            assert_eq!(sequence.verify(&header).is_ok(), want, "{number:#x}, replays: {replays}");
        }
    }

    #[test]
    fn numbers_go_forward_by_at_most_half_of_their_range() {
        for command in [Command::WRITE, Command::SET_INFO, Command::IOCTL] {
            let sequence = &mut ChannelSequence::default();
            check(sequence, command, 0, true);
            check(sequence, command, 0x8000, false);
            check(sequence, command, 0xFFFF, false);
            check(sequence, command, 0x7FFF, true);
            check(sequence, command, 0x7FFE, false);
            check(sequence, command, 0, false);
            check(sequence, command, 0x8000, true);
            check(sequence, command, 0xFFFF, true);
            check(sequence, command, 0, true);
            check(sequence, command, 0xFFFF, false);
        }
    }

    #[test]
    fn an_open_that_was_made_late_in_the_count_begins_there() {
        check(&mut ChannelSequence::default(), Command::WRITE, 0x9000, true);
    }

    #[test]
    fn a_request_without_changes_passes_with_an_earlier_number_and_is_not_counted() {
        let sequence = &mut ChannelSequence::default();
        check(sequence, Command::WRITE, 5, true);
        check(sequence, Command::READ, 4, true);
        sequence.wait(RequestId(1), &header(Command::READ, 4, false));
        check(sequence, Command::WRITE, 6, true);
    }

    #[test]
    fn a_repetition_waits_for_the_requests_of_the_lost_channel_and_new_ones_do_not() {
        let sequence = &mut ChannelSequence::default();
        check(sequence, Command::WRITE, 1, true);
        sequence.wait(RequestId(1), &header(Command::WRITE, 1, false));
        // With the same number no channel was lost, so the repetition runs beside the original.
        sequence.verify(&header(Command::WRITE, 1, true)).expect("nothing earlier is under way");
        let repetition = header(Command::WRITE, 2, true);
        let refused = Reject::ChannelSequence { got: 2, current: Some(2) };
        assert_eq!(sequence.verify(&repetition), Err(refused));
        sequence.verify(&header(Command::WRITE, 2, false)).expect("a new request");
        assert_eq!(sequence.verify(&repetition), Err(refused));
        sequence.end(RequestId(1));
        assert_eq!(sequence.verify(&repetition), Ok(()));
    }

    #[test]
    fn a_request_that_waits_twice_is_outstanding_once() {
        let sequence = &mut ChannelSequence::default();
        let write = header(Command::WRITE, 1, false);
        sequence.verify(&write).expect("the first");
        sequence.wait(RequestId(1), &write);
        sequence.wait(RequestId(1), &write);
        sequence.end(RequestId(1));
        check(sequence, Command::WRITE, 2, true);
    }
}
