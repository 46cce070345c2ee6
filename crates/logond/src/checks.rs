//! The checks themselves, in the threads of the pools: tickets, and passwords of the domain.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use config::Global;
use dtyp::{NtStatus, ServerId, Sid};
use logon::gss::{Accepted, Context, Gss, Keys, Pac};
use logon::winbind::{Connection, NtlmResponse, SystemUser, Verified, Winbind, WinbindError};
use messaging::{
    AcceptedLogon, DomainAccount, GROUPS_MAX, LogonKey, LogonOwner, LogonProof, LogonVerdict,
    NameToFind,
};
use tracing::{debug, error, info};
use zeroize::Zeroizing;

use crate::complaints::{Cause, Complaints, quoted};
use crate::contexts::Contexts;
use crate::ids_of_sids::IdsOfSids;
use crate::keys::{KeySource, LoadedKeys};
use crate::known_groups::KnownGroups;
use crate::lookup::Lookup;
use crate::machine_keys::MachineKeys;
use crate::names::KnownNames;
use crate::principal::Principal;

// Parameters of the checks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Parameters {
    /// `realm`, the Kerberos realm of the server.
    pub(crate) realm: String,
    /// `workgroup`, the short name of the domain.
    pub(crate) workgroup: String,
    /// True if a domain decides about users.
    pub(crate) is_member: bool,
    // `min domain uid`.
    pub(crate) min_uid: u32,
    /// Source of the keys of tickets.
    pub(crate) keys: Option<KeySource>,
}

/// Values that all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parameters: Parameters,
    /// File of the authenticators that were used already.
    pub(crate) replay_cache: PathBuf,
    pub(crate) contexts: Contexts<Context>,
    pub(crate) machine_keys: MachineKeys,
    pub(crate) known_groups: KnownGroups,
    pub(crate) known_names: KnownNames,
    /// Ids for the workers' ACLs.
    pub(crate) ids_of_sids: IdsOfSids,
    pub(crate) complaints: Complaints,
}

impl Parameters {
    pub(crate) fn of(global: &Global) -> Self {
        Self {
            realm: global.realm.clone(),
            workgroup: global.workgroup.clone(),
            is_member: global.is_member(),
            min_uid: global.min_domain_uid,
            keys: KeySource::of(global),
        }
    }
}

impl Shared {
    pub(crate) fn new(
        parameters: Parameters,
        replay_cache: PathBuf,
        ids_of_sids: IdsOfSids,
    ) -> Self {
        Self {
            parameters,
            ids_of_sids,
            replay_cache,
            contexts: Contexts::default(),
            machine_keys: MachineKeys::default(),
            known_groups: KnownGroups::default(),
            known_names: KnownNames::default(),
            complaints: Complaints::default(),
        }
    }
}

/// One thread's own library handles.
#[derive(Debug)]
pub(crate) struct Checker {
    shared: Arc<Shared>,
    gss: Option<Gss>,
    keys: Option<LoadedKeys>,
    winbind: Option<Winbind>,
    domain: Option<Connection>,
}

/// Result of a check, and whether the domain has answered.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) verdict: LogonVerdict,
    pub(crate) is_outage: bool,
}

/// Result of the check of a ticket.
#[derive(Debug)]
pub(crate) enum TicketStep {
    Answered(LogonVerdict),
    /// The ticket is valid. The domain has to give the ids of its owner.
    NeedsIds(Box<ProvenTicket>),
}

/// A valid ticket whose owner has no ids yet.
#[derive(Debug)]
pub(crate) struct ProvenTicket {
    pub(crate) principal: String,
    /// The PAC of a domain.
    pac: Option<Pac>,
    context: Context,
    mic_follows: bool,
    key: LogonKey,
    token: Vec<u8>,
    mech_list_mic: Vec<u8>,
    lifetime: u32,
}

impl From<LogonVerdict> for Checked {
    fn from(verdict: LogonVerdict) -> Self {
        Self { verdict, is_outage: false }
    }
}

impl Checker {
    pub(crate) fn new(shared: Arc<Shared>, gss: Option<Gss>, winbind: Option<Winbind>) -> Self {
        Self { shared, gss, keys: None, winbind, domain: None }
    }

    /// Checks a ticket of a worker's client, or the signature that follows one.
    pub(crate) fn check_ticket(&mut self, asker: ServerId, proof: LogonProof) -> TicketStep {
        match proof {
            LogonProof::Ticket { token, mech_list, mech_list_mic, mic_follows } => {
                let mic = mech_list_mic.as_deref();
                self.ticket(asker, &token, &mech_list, mic, mic_follows)
                    .unwrap_or_else(TicketStep::Answered)
            }
            LogonProof::Mic { context, mech_list, mech_list_mic } => {
                let context = self.shared.contexts.take(Instant::now(), asker, context);
                let is_right =
                    context.is_some_and(|mut it| it.verify_mic(&mech_list, &mech_list_mic));
                TicketStep::Answered(LogonVerdict::Mic(is_right))
            }
            LogonProof::Response { .. } | LogonProof::OwnResponse { .. } => {
                TicketStep::Answered(LogonVerdict::InvalidTicket)
            }
        }
    }

    /// Checks a password of a worker's client.
    pub(crate) fn check_password(&mut self, proof: &LogonProof) -> Checked {
        match proof {
            LogonProof::Response { user, domain, workstation, challenge, nt_response } => self
                .response(&NtlmResponse {
                    user,
                    domain,
                    workstation,
                    challenge: *challenge,
                    nt_response,
                }),
            _ => LogonVerdict::Refused(NtStatus::LOGON_FAILURE).into(),
        }
    }

    /// Finds the ids of a ticket's owner.
    pub(crate) fn find_ids(&mut self, asker: ServerId, mut ticket: ProvenTicket) -> LogonVerdict {
        let Some(pac) = ticket.pac.take() else { return LogonVerdict::InvalidTicket };
        match self.account(|domain| domain.user_of_pac(&pac)) {
            Ok((owner, _)) => self.accept(asker, ticket, owner),
            Err(Checked { verdict, .. }) => verdict,
        }
    }

    /// Looks up names in the domain, as many as one turn and the time allow.
    pub(crate) fn find_names(&mut self, lookup: &mut Lookup) {
        let shared = Arc::clone(&self.shared);
        let workgroup = &shared.parameters.workgroup;
        lookup.go_on(&shared.known_names, Instant::now, |name| {
            self.with_domain(|domain| {
                let found = match name {
                    NameToFind::Sid(sid) => domain.name_of(sid),
                    NameToFind::Name { domain: of, name } if of.is_empty() => {
                        domain.sid_of(workgroup, name)
                    }
                    NameToFind::Name { domain: of, name } => domain.sid_of(of, name),
                }?;
                if let Some(found) = &found {
                    shared.ids_of_sids.learn_found(domain, found);
                }
                Ok(found)
            })
        });
    }

    /// Asks the domain for a sign of life.
    pub(crate) fn ping(&mut self) -> bool {
        let result = self.with_domain(Connection::ping_controller);
        result.inspect_err(|error| debug!("no sign of life: {error}")).is_ok()
    }

    fn ticket(
        &mut self,
        asker: ServerId,
        token: &[u8],
        mech_list: &[u8],
        mic: Option<&[u8]>,
        mic_follows: bool,
    ) -> Result<TicketStep, LogonVerdict> {
        // The client is not to blame for this, and its address does not wait for it.
        let keys = self.keys().ok_or(LogonVerdict::Refused(NtStatus::LOGON_FAILURE))?;
        let accepted = match keys.accept(token) {
            Ok(accepted) => accepted,
            Err(refusal) => {
                let reason = quoted(&refusal.reason);
                let text = format!("a ticket is not valid: {reason}");
                self.complain(Cause::Ticket, &text);
                return Err(match refusal.token {
                    token if token.is_empty() => LogonVerdict::InvalidTicket,
                    token => LogonVerdict::TryAgain(token),
                });
            }
        };
        let Accepted { mut context, token, session_key, principal, lifetime, pac, .. } = accepted;
        if mic.is_some_and(|mic| !context.verify_mic(mech_list, mic)) {
            return Err(LogonVerdict::Mic(false));
        }
        let own_mic = match mech_list {
            [] => Ok(Vec::new()),
            list => context.mic(list),
        };
        let mech_list_mic = own_mic.map_err(|_| LogonVerdict::InvalidTicket)?;
        let pac = pac.filter(Pac::has_logon_info);
        let owner = self.owner(&principal, pac.is_some())?;
        debug!("a ticket of {principal:?} is valid for {lifetime} s");
        let key = LogonKey(session_key);
        let ticket = ProvenTicket {
            principal,
            pac,
            context,
            mic_follows,
            key,
            token,
            mech_list_mic,
            lifetime,
        };
        Ok(match owner {
            Some(owner) => TicketStep::Answered(self.accept(asker, ticket, owner)),
            None => TicketStep::NeedsIds(Box::new(ticket)),
        })
    }

    /// Accepts a ticket of a known owner.
    fn accept(&self, asker: ServerId, ticket: ProvenTicket, owner: LogonOwner) -> LogonVerdict {
        let ProvenTicket {
            principal,
            context,
            mic_follows,
            key,
            token,
            mech_list_mic,
            lifetime,
            ..
        } = ticket;
        let context = if mic_follows {
            self.shared.contexts.keep(Instant::now(), asker, &principal, context)
        } else {
            Some(0)
        };
        let Some(context) = context else {
            return LogonVerdict::Refused(NtStatus::INSUFF_SERVER_RESOURCES);
        };
        let lifetime = lifetime.max(1);
        let accepted = AcceptedLogon { key, token, mech_list_mic, context, lifetime, owner };
        LogonVerdict::Accepted(Box::new(accepted))
    }

    /// Returns the owner of a valid ticket. In a domain the PAC decides and nothing else, so there
    /// the owner is not known here: names of a domain may be those of users of this system.
    /// Elsewhere the name decides, and a domain's ticket is refused.
    fn owner(&self, principal: &str, has_pac: bool) -> Result<Option<LogonOwner>, LogonVerdict> {
        match (self.shared.parameters.is_member, has_pac) {
            (true, true) => return Ok(None),
            (true, false) => {
                self.complain(
                    Cause::Owner,
                    &format!("the ticket of {principal:?} has no PAC that the domain has signed"),
                );
                return Err(LogonVerdict::InvalidTicket);
            }
            (false, true) => {
                self.complain(
                    Cause::Owner,
                    &format!(
                        "the ticket of {principal:?} is a domain's, and `security` is not `ads`"
                    ),
                );
                return Err(LogonVerdict::InvalidTicket);
            }
            (false, false) => {}
        }
        match Principal::parse(principal) {
            Some(Principal { name, realm }) if realm == self.shared.parameters.realm => {
                Ok(Some(LogonOwner::Principal { name, realm }))
            }
            _ => {
                self.complain(
                    Cause::Owner,
                    &format!(
                        "{principal:?} is no user of the realm {}",
                        self.shared.parameters.realm
                    ),
                );
                Err(LogonVerdict::InvalidTicket)
            }
        }
    }

    fn response(&mut self, response: &NtlmResponse<'_>) -> Checked {
        match self.account(|domain| domain.verify_response(response).map_err(of_controller)) {
            Ok((owner, key)) => {
                LogonVerdict::Accepted(Box::new(AcceptedLogon::of_response(&key, owner))).into()
            }
            Err(checked) => checked,
        }
    }

    fn complain(&self, cause: Cause, text: &str) {
        self.shared.complaints.log(cause, text);
    }

    /// Verifies a user and finds the user's ids.
    fn account(
        &mut self,
        verify: impl Fn(&mut Connection) -> Result<Verified, WinbindError>,
    ) -> Result<(LogonOwner, Zeroizing<[u8; 16]>), Checked> {
        let refused = |status| Checked::from(LogonVerdict::Refused(status));
        let found = self.with_domain(|domain| {
            let verified = verify(domain)?;
            if verified.groups.len() > GROUPS_MAX {
                let reason = format!("{} is in more than {GROUPS_MAX} groups", verified.sid);
                return Err(WinbindError::Other(reason));
            }
            let user = domain.system_user(&verified.sid).map_err(|error| match error {
                WinbindError::Other(reason) => {
                    WinbindError::Other(format!("{} has no user id: {reason}", verified.sid))
                }
                error => error,
            })?;
            let of_domain: Vec<Sid> =
                verified.groups.iter().filter(|sid| is_of_domain(sid)).cloned().collect();
            let ids = match domain.group_ids(&of_domain) {
                Err(WinbindError::Other(reason)) => Err(reason),
                ids => Ok(ids?),
            };
            Ok((verified, user, of_domain, ids))
        });
        let (verified, user, of_domain, ids) = match found {
            Ok(found) => found,
            Err(WinbindError::Unavailable(reason)) => {
                self.complain(Cause::Domain, &format!("the domain cannot be asked: {reason}"));
                let verdict = LogonVerdict::Refused(NtStatus::NO_LOGON_SERVERS);
                return Err(Checked { verdict, is_outage: true });
            }
            Err(WinbindError::Refused {
                status: NtStatus::NO_SUCH_USER,
                is_authoritative: false,
            }) => {
                return Err(LogonVerdict::NotInDomain.into());
            }
            Err(WinbindError::Refused { status, .. }) => {
                debug!("the domain refuses a user: {status:?}");
                return Err(refused(status_for_client(status)));
            }
            Err(WinbindError::Other(reason)) => {
                let text = format!("a user of the domain cannot log on: {}", quoted(&reason));
                self.complain(Cause::Account, &text);
                return Err(refused(NtStatus::LOGON_FAILURE));
            }
        };
        if let Ok(ids) = &ids {
            self.shared.ids_of_sids.learn_account((&verified.sid, user.uid), &of_domain, ids);
        }
        let known_groups = &self.shared.known_groups;
        let gids = ids.and_then(|ids| {
            known_groups.ids(Instant::now(), &of_domain, &ids).map_err(|sid| {
                format!("{sid} had a group id and has none now; restart to accept that")
            })
        });
        let gids = gids.map_err(|reason| {
            let text = format!("the group ids of {} cannot be found: {reason}", user.name);
            self.complain(Cause::Domain, &text);
            refused(NtStatus::NO_LOGON_SERVERS)
        })?;
        if let Err(reason) = check_ids(&user, &gids, self.shared.parameters.min_uid) {
            self.complain(Cause::Account, &format!("{} {reason}", user.name));
            return Err(refused(NtStatus::LOGON_FAILURE));
        }
        let account = DomainAccount {
            user: user.name,
            domain: verified.domain,
            sid: verified.sid,
            groups: verified.groups,
            uid: user.uid,
            gid: user.gid,
            gids,
        };
        Ok((LogonOwner::Account(account), verified.session_base_key))
    }

    /// Returns the keys as they are now: those of a machine's account change.
    fn keys(&mut self) -> Option<&Keys> {
        let (gss, source) = (self.gss?, self.shared.parameters.keys.as_ref()?);
        let secrets = &self.shared.machine_keys;
        let replay_cache = &self.shared.replay_cache;
        match LoadedKeys::renew(self.keys.take(), gss, source, secrets, replay_cache) {
            Ok(keys) => Some(self.keys.insert(keys).keys()),
            Err(error) => {
                self.complain(Cause::Keytab, &format!("tickets cannot be checked: {error}"));
                None
            }
        }
    }

    /// Asks winbindd. It must be that of the configured domain: the winbindd of another one would
    /// give users ids that are others' here. A connection that failed is made anew.
    fn with_domain<T>(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> Result<T, WinbindError>,
    ) -> Result<T, WinbindError> {
        if self.domain.is_none() {
            let Some(winbind) = self.winbind else {
                return Err(WinbindError::Unavailable("libwbclient is missing".to_owned()));
            };
            let mut domain = winbind.connection()?;
            let details = domain.details()?;
            let Parameters { workgroup, realm, .. } = &self.shared.parameters;
            if !details.netbios_domain.eq_ignore_ascii_case(workgroup)
                || !details.dns_domain.eq_ignore_ascii_case(realm)
            {
                error!(
                    "winbindd is a member of {} ({}), and the configuration says {workgroup} \
                     ({realm}): nobody of the domain can log on",
                    details.netbios_domain, details.dns_domain
                );
                return Err(WinbindError::Unavailable("winbindd is another domain's".to_owned()));
            }
            info!("winbindd answers for {} in {workgroup}", details.netbios_name);
            self.domain = Some(domain);
        }
        let domain = self.domain.as_mut().expect("made above");
        let result = ask(domain);
        if let Err(WinbindError::Unavailable(_)) = &result {
            self.domain = None;
        }
        result
    }
}

/// Refuses ids of the system's own users and groups: a domain must make nobody root, or a member of
/// the group that reads password hashes. Groups of the domain have ids within the ranges that the
/// administrator gave to winbindd, but the primary group of a user has what the domain says
/// (`unix_primary_group` of `idmap_ad`).
fn check_ids(user: &SystemUser, gids: &[u32], min_uid: u32) -> Result<(), String> {
    let SystemUser { uid, gid, .. } = user;
    if *uid < min_uid {
        return Err(format!("has the user id {uid}, below `min domain uid`"));
    }
    if *gid < min_uid && !gids.contains(gid) {
        return Err(format!("has the primary group id {gid}, below `min domain uid`"));
    }
    if *gid == 0 || gids.contains(&0) {
        return Err("has the group id 0, which is root's".to_owned());
    }
    Ok(())
}

/// True for SIDs that domains and machines issue. Others have no ids of their own here.
fn is_of_domain(sid: &Sid) -> bool {
    sid.authority() == 5 && sid.subauthorities().first() == Some(&21)
}

/// Names the cause of a controller that only says that a logon has failed: the password. Other
/// failures without a cause are this server's own refusals.
fn of_controller(error: WinbindError) -> WinbindError {
    match error {
        WinbindError::Refused { status: NtStatus::LOGON_FAILURE, is_authoritative } => {
            WinbindError::Refused { status: NtStatus::WRONG_PASSWORD, is_authoritative }
        }
        error => error,
    }
}

/// Returns the status for the client: the reasons that users can do something about; any other is
/// a failed logon.
fn status_for_client(status: NtStatus) -> NtStatus {
    match status {
        NtStatus::ACCOUNT_DISABLED
        | NtStatus::ACCOUNT_EXPIRED
        | NtStatus::ACCOUNT_LOCKED_OUT
        | NtStatus::ACCOUNT_RESTRICTION
        | NtStatus::INVALID_LOGON_HOURS
        | NtStatus::INVALID_WORKSTATION
        | NtStatus::LOGON_TYPE_NOT_GRANTED
        | NtStatus::NO_LOGON_SERVERS
        | NtStatus::NO_SUCH_USER
        | NtStatus::PASSWORD_EXPIRED
        | NtStatus::PASSWORD_MUST_CHANGE
        | NtStatus::WRONG_PASSWORD => status,
        _ => NtStatus::LOGON_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use dtyp::{NtStatus, Sid};

    use super::{
        SystemUser, WinbindError, check_ids, is_of_domain, of_controller, status_for_client,
    };

    #[test]
    fn only_a_status_that_the_user_can_act_on_is_reported() {
        assert_eq!(status_for_client(NtStatus::PASSWORD_EXPIRED), NtStatus::PASSWORD_EXPIRED);
        assert_eq!(status_for_client(NtStatus::ACCESS_DENIED), NtStatus::LOGON_FAILURE);
        assert_eq!(status_for_client(NtStatus(0xC000_0190)), NtStatus::LOGON_FAILURE);
        assert_eq!(status_for_client(NtStatus::SUCCESS), NtStatus::LOGON_FAILURE);
    }

    #[test]
    fn a_logon_failure_of_a_controller_is_a_wrong_password() {
        let refused = |status| WinbindError::Refused { status, is_authoritative: true };
        let wrong = of_controller(refused(NtStatus::LOGON_FAILURE));
        assert_eq!(wrong, refused(NtStatus::WRONG_PASSWORD));
        let disabled = refused(NtStatus::ACCOUNT_DISABLED);
        assert_eq!(of_controller(disabled.clone()), disabled);
        let other = WinbindError::Other("no user id".to_owned());
        assert_eq!(of_controller(other.clone()), other);
    }

    #[test]
    fn well_known_groups_are_not_asked_for() {
        assert!(is_of_domain(&Sid::new(5, &[21, 1, 2, 3, 513])));
        assert!(!is_of_domain(&Sid::new(18, &[1])) && !is_of_domain(&Sid::users()));
    }

    #[test]
    fn no_user_of_a_domain_has_ids_of_the_systems_own() {
        let user = |uid, gid| SystemUser { name: "ADLAB\\alice".to_owned(), uid, gid };
        assert_eq!(check_ids(&user(11_103, 10_513), &[10_513], 1_000), Ok(()));
        assert_eq!(check_ids(&user(11_103, 20_000), &[], 1_000), Ok(()), "a group without a SID");
        assert_eq!(
            check_ids(&user(11_103, 100), &[100], 1_000),
            Ok(()),
            "winbindd's ranges have it"
        );
        for (wrong, gids) in [
            (user(999, 10_513), &[10_513][..]),
            (user(0, 10_513), &[10_513]),
            (user(11_103, 42), &[10_513]),
            (user(11_103, 0), &[]),
            (user(11_103, 0), &[0]),
            (user(11_103, 10_513), &[10_513, 0]),
        ] {
            check_ids(&wrong, gids, 1_000).expect_err("an id of the system");
        }
        check_ids(&user(5, 0), &[], 0).expect_err("root's group in any case");
    }
}
