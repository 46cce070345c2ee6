//! A client of one node's ctdbd, as a worker would be one.

use std::time::{Duration, Instant};

use ctdb::{
    Access, Answer, Attachment, Call, ClusterState, Connection, Control, Database, DatabaseKind,
    Destination, Event, Failure, Function, Lost, Message, RecordChange, RequestId, Standing,
};

use crate::lab::{Lab, PATIENCE, wait_until};

/// A connection with its messages, which tests look at later.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) connection: Connection,
    messages: Vec<Message>,
}

impl Process {
    pub(crate) fn on(lab: &Lab, node: usize) -> Self {
        let connection = Connection::open(&lab.socket(node)).expect("ctdbd listens");
        Self { connection, messages: Vec::new() }
    }

    /// Waits for the next event that is no message, until `until`.
    pub(crate) fn next(&mut self, until: Instant) -> Result<Option<Event>, Lost> {
        loop {
            let now = Instant::now();
            match self.connection.next_event(now)? {
                Some(Event::Message(message)) => self.messages.push(message),
                Some(event) => return Ok(Some(event)),
                None if now >= until => return Ok(None),
                None => self.connection.wait(until, now)?,
            }
        }
    }

    /// Waits for the result of a request.
    #[track_caller]
    fn result(&mut self, request: RequestId) -> Result<Answer, Failure> {
        match self.next(Instant::now() + PATIENCE).expect("ctdbd lives") {
            Some(Event::Answered(id, result)) if id == request => result,
            other => panic!("another event: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, control: &Control<'_>) -> Answer {
        self.ask_at(Destination::Own, control)
    }

    #[track_caller]
    pub(crate) fn ask_at(&mut self, destination: Destination, control: &Control<'_>) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        let asked = self.connection.exchange().ask(destination, control, deadline);
        self.result(asked.expect("there is room")).expect("ctdbd answers")
    }

    #[track_caller]
    pub(crate) fn send(&mut self, destination: Destination, service: u64, data: &[u8]) {
        let sent = self.connection.exchange().send_message(destination, service, data);
        sent.expect("there is room");
        // It is written now, and not when the process has to wait for something.
        let event = self.next(Instant::now());
        assert!(matches!(event, Ok(None)), "{event:?}");
    }

    /// Returns the state of the cluster, as this node's ctdbd has it now.
    pub(crate) fn state(&mut self) -> ClusterState {
        let mut state = ClusterState::default();
        for control in &ClusterState::QUESTIONS {
            state.learn(&self.ask(control));
        }
        state
    }

    /// Waits until the node takes part in the cluster: one recovery may follow another.
    #[track_caller]
    pub(crate) fn becomes_active(&mut self) {
        let is_active = || self.state().standing() == Standing::Active;
        wait_until(is_active, || "the node stays out".to_owned());
    }

    /// Calls a function for a record; `None` if there is no answer within `time`.
    #[track_caller]
    pub(crate) fn call(
        &mut self,
        database: &Database,
        function: Function,
        key: &[u8],
        time: Duration,
    ) -> Option<Vec<u8>> {
        let deadline = Instant::now() + time;
        let call = Call { database: database.number(), function, key };
        let request = self.connection.exchange().call(call, deadline).expect("there is room");
        match self.next(deadline + PATIENCE).expect("ctdbd lives") {
            Some(Event::Called(id, Ok(data))) if id == request => Some(data),
            Some(Event::Called(id, Err(Failure::Expired))) if id == request => None,
            other => panic!("another event: {other:?}"),
        }
    }

    pub(crate) fn own_number(&mut self) -> u32 {
        match self.ask(&Control::OwnNumber) {
            Answer::OwnNumber(number) => number,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn attach(&mut self, lab: &Lab, name: &str, kind: DatabaseKind) -> Database {
        let own_number = self.own_number();
        let deadline = Instant::now() + PATIENCE;
        let begun = Attachment::begin(&mut self.connection, name, kind, deadline);
        let mut attachment = begun.expect("there is room");
        loop {
            let event = self.next(deadline + PATIENCE).expect("ctdbd lives");
            let Some(Event::Answered(id, result)) = event else { panic!("{event:?}") };
            let done = attachment.advance(&mut self.connection, id, &result);
            if let Some(mut attached) = done.expect("it can be attached") {
                // The file as it is called outside of the node.
                let node = usize::try_from(own_number).expect("it is low");
                attached.path = lab.path(node, &attached.path);
                return Database::open(&attached, own_number).expect("ctdbd has made it");
            }
        }
    }

    /// Changes a record, and has it moved here for that; tries again while it is locked. Returns
    /// the value before.
    #[track_caller]
    pub(crate) fn change(
        &mut self,
        database: &Database,
        key: &[u8],
        change: &RecordChange,
    ) -> Option<Vec<u8>> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let decide = |value: Option<&[u8]>| (change.clone(), value.map(<[u8]>::to_vec));
            match database.change(key, decide).expect("the file is whole") {
                Access::Busy => std::thread::sleep(Duration::from_millis(1)),
                Access::Elsewhere => {
                    // A recovery may have eaten the call: it is sent again.
                    self.call(database, Function::Migrate, key, Duration::from_secs(5));
                }
                Access::Here { result, deleted } => {
                    if let Some(header) = deleted {
                        let database = database.number();
                        let control = Control::ScheduleForDeletion { database, header, key };
                        let told = self.connection.exchange().tell(Destination::Own, &control);
                        told.expect("there is room");
                    }
                    return result;
                }
            }
        }
        panic!("the record stays elsewhere or locked");
    }

    #[track_caller]
    pub(crate) fn store(
        &mut self,
        database: &Database,
        key: &[u8],
        value: &[u8],
    ) -> Option<Vec<u8>> {
        self.change(database, key, &RecordChange::Store(value.to_vec()))
    }

    /// Returns the value of a record, moved here.
    #[track_caller]
    pub(crate) fn value(&mut self, database: &Database, key: &[u8]) -> Option<Vec<u8>> {
        self.change(database, key, &RecordChange::Keep)
    }

    /// Waits for a message to a service.
    #[track_caller]
    pub(crate) fn message(&mut self, service: u64) -> Message {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.messages.iter().position(|it| it.service == service) {
                return self.messages.remove(at);
            }
            assert!(Instant::now() < end, "no message to {service:#x} arrives");
            let event = self.next(Instant::now() + Duration::from_millis(50));
            assert!(matches!(event, Ok(None)), "{event:?}");
        }
    }

    pub(crate) fn has_message(&self, service: u64) -> bool {
        self.messages.iter().any(|it| it.service == service)
    }

    #[track_caller]
    pub(crate) fn register(&mut self, service: u64) {
        assert_eq!(self.ask(&Control::Register(service)), Answer::Done);
    }
}
