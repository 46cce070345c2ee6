//! Event sources of the supervisor.

/// An event source that became ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// A listener, by its place in the list, may have a client.
    Listener(usize),
    /// A message may have come.
    Message,
    /// A signal may have come.
    Signal,
    /// A worker, by its pid, says something or has gone.
    Worker(u32),
}

impl From<Event> for u64 {
    /// The kind in the upper half, the number in the lower.
    fn from(event: Event) -> Self {
        let (kind, number) = match event {
            Event::Signal => (0, 0),
            // Listeners are few; a number that does not fit is one that is not watched.
            Event::Listener(index) => (1, u32::try_from(index).unwrap_or(u32::MAX)),
            Event::Worker(pid) => (2, pid),
            Event::Message => (3, 0),
        };
        kind << 32 | Self::from(number)
    }
}

impl From<u64> for Event {
    fn from(data: u64) -> Self {
        let number = u32::try_from(data & 0xffff_ffff).expect("it is masked");
        match data >> 32 {
            0 => Self::Signal,
            1 => Self::Listener(usize::try_from(number).unwrap_or(usize::MAX)),
            2 => Self::Worker(number),
            _ => Self::Message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn events_survive_the_kernel() {
        for event in [Event::Signal, Event::Listener(3), Event::Worker(u32::MAX), Event::Message] {
            assert_eq!(Event::from(u64::from(event)), event);
        }
    }
}
