//! Parameters of the whole server.

use std::path::{Path, PathBuf};

use crate::choice::{
    EncryptionAlgorithm, KerberosMethod, MapToGuest, MdnsName, MessagingType, NtlmAuth, Protocol,
    Security, ServerRole, Signing, SigningAlgorithm, Tri,
};
use crate::interface::InterfaceSpec;
use crate::kind::Kind;
use crate::parameter::parameter_table;
use crate::place::Place;
use crate::startups::Startups;

parameter_table! {
    /// Parameters of the whole server from `[global]`. Those of shares are in each
    /// [`crate::Share`].
    Global in Global {
        /// Further names and addresses by which clients may call this server; `*` for any. A client
        /// that names its target server is refused if it names another one.
        additional_dns_hostnames: Vec<String> = "additional dns hostnames", Kind::List, "";
        /// Threads that do blocking file operations.
        aio_max_threads: u32 =
            "aio max threads", Kind::Integer { min: 1, max: 4_096 }, "100", NotYet;
        /// Folder for the directories of the server that are not named: `state`, `private`,
        /// `cache`, and `run` for the lock and pid directories. Empty: each has its own default.
        base_directory: String = "base directory", Kind::Path, "";
        /// Listen on the addresses of `interfaces` only, and refuse clients that come in elsewhere.
        bind_interfaces_only: bool = "bind interfaces only", Kind::Bool, "No";
        /// Folder for files that may be lost without harm.
        cache_directory: String = "cache directory", Kind::Path, "/var/cache/choro";
        /// Tell clients about changes in folders they watch.
        change_notify: bool = "change notify", Kind::Bool, "Yes";
        /// Socket of ctdbd, for `choro check` and `choro status --cluster`. Empty: the usual one.
        ctdbd_socket: String = "ctdbd socket", Kind::Path, "";
        /// Minutes after which a connection without open files is closed; 0 for never.
        deadtime: u32 = "deadtime", Kind::Integer { min: 0, max: 35_791_394 }, "10080", NotYet;
        /// Keytab that checks Kerberos tickets, with `kerberos method = dedicated keytab`.
        dedicated_keytab_file: String = "dedicated keytab file", Kind::Path, "";
        /// winbindd's database of secrets, whose keys check Kerberos tickets of a domain. Empty:
        /// `secrets.tdb` in `private dir`, or else in Samba's own. Samba has no such parameter.
        domain_secrets: String = "domain secrets", Kind::Path, "";
        /// Command for `/bin/sh` that tells a quota, where the file system keeps none. It runs as
        /// the user, in the folder of the share, and gets three more arguments: `.`; 1 for a user
        /// or 2 for users without limits of their own; and the user's id, or -1. It prints seven
        /// numbers: the state (0 off, 1 counted, 2 enforced), blocks in use, their soft and hard
        /// limit, the same of files; and optionally the size of a block in bytes, which is 1024
        /// otherwise. A limit of 0 is none. It has 10 seconds.
        get_quota_command: String = "get quota command", Kind::Text, "";
        /// Account whose rights a guest has.
        guest_account: String = "guest account", Kind::Text, "nobody";
        /// Users with a lower id have no home in `[homes]`: accounts of the system's programs, and
        /// root. Samba knows no such limit; 0 means none.
        homes_min_uid: u32 =
            "homes min uid", Kind::Integer { min: 0, max: 4_294_967_295 }, "1000";
        /// Serve DFS namespaces, where a share is the root of one: see `msdfs root`.
        host_msdfs: bool = "host msdfs", Kind::Bool, "Yes";
        /// Look up the names of clients. Lists of hosts go by address all the same.
        hostname_lookups: bool = "hostname lookups", Kind::Bool, "No", NotYet;
        /// Interfaces to serve on and to tell clients about: names, patterns, addresses or
        /// networks. Properties after a name, as in
        /// `"eth0;if_index=65,speed=1000000000,capability=RSS,RDMA"`, override those found;
        /// `capability=NONE` is none.
        interfaces: Vec<InterfaceSpec> = "interfaces", Kind::Interfaces, "";
        /// Seconds between probes of idle connections; 0 for none.
        keepalive: u32 = "keepalive", Kind::Integer { min: 0, max: 2_147_483_647 }, "300", NotYet;
        /// Keys that check Kerberos tickets. With a keytab and `realm`, clients may log on with
        /// tickets: users of the domain with `security = ads`, else those of the realm who are
        /// users of this system.
        kerberos_method: KerberosMethod =
            "kerberos method", Kind::Choice(KerberosMethod::WORDS), "default";
        /// Folder for files that live as long as the server runs.
        lock_directory: String = "lock directory" / "lock dir", Kind::Path, "/run/choro";
        /// File the log goes to; standard error when empty.
        log_file: String = "log file", Kind::Path, "";
        /// Detail of the log, 0 to 10. Of single subjects, `subject:level`, only `auth_audit` has
        /// an effect: at 3 it shows each logon.
        log_level: String = "log level" / "debuglevel", Kind::Text, "1";
        /// Have logons wait after others from the same address, or of the same user, have failed.
        logon_delay: bool = "logon delay", Kind::Bool, "Yes";
        /// Failed logons after which others from the same address are refused for a time; 0 for
        /// never.
        logon_failures_max: u32 = "logon failures max", Kind::Integer { min: 0, max: 65_535 }, "0";
        /// Seconds of that refusal, after the last failed logon.
        logon_refusal_time: u32 =
            "logon refusal time", Kind::Integer { min: 1, max: 31_536_000 }, "300";
        /// Letters of a name that its short name begins with.
        mangle_prefix: u32 = "mangle prefix", Kind::Integer { min: 1, max: 6 }, "1";
        /// Failed logons that become guest sessions.
        map_to_guest: MapToGuest = "map to guest", Kind::Choice(MapToGuest::WORDS), "Never";
        /// Bytes of memory that one client may use in its process, for open files and requests in
        /// progress; beyond it requests fail, or reception stops. The data of one request have an
        /// eighth of it at most, whatever `smb2 max read`, `write` and `trans` say.
        max_client_memory: u64 =
    "max client memory", Kind::Bytes { min: 4_194_304, max: 1_099_511_627_776 },
            "268435456";
        /// Clients of one address (in IPv6, of one network of 64 bits) without a logged-on user:
        /// connections before their logon, and guests, who have three quarters of the places. Users
        /// are not counted, but no address has more than three quarters of all places. Raise it
        /// where many guests come through one address; 0 for no limit.
        max_clients_per_address: u32 =
            "max clients per address", Kind::Integer { min: 0, max: 65_536 }, "64";
        /// Size in MiB that no share seems to exceed, whatever is behind it; 0 for no limit. The
        /// size of a single share is told by `dfree command`, or by a project quota of its folder.
        max_disk_size: u32 =
            "max disk size", Kind::Integer { min: 0, max: 2_147_483_647 }, "0";
        /// Clients over which only guests and anonymous users have logged on. Beyond it the newest
        /// client of the address with most of them is dropped, also when a user needs the place. 0
        /// for no limit.
        max_guest_clients: u32 =
            "max guest clients", Kind::Integer { min: 0, max: 65_536 }, "512";
        /// As `max client memory`, for clients without a logged-on user: guests and anonymous
        /// users.
        max_guest_memory: u64 =
            "max guest memory", Kind::Bytes { min: 4_194_304, max: 1_099_511_627_776 }, "16777216";
        /// Size in KiB beyond which the log file is renamed to `NAME.old`, in the place of an
        /// earlier one, and started anew; 0 for never. The size is looked at every 10 seconds.
        max_log_size: u32 = "max log size", Kind::Bytes { min: 0, max: 2_147_483_647 }, "5000";
        /// Files one client process may have open.
        max_open_files: u32 = "max open files", Kind::Integer { min: 1, max: 16_777_216 }, "16424";
        /// Worker processes; 0 for no limit.
        max_smbd_processes: u32 =
            "max smbd processes", Kind::Integer { min: 0, max: 2_147_483_647 }, "0";
        /// Clients that have not logged on yet, as `start:rate:full`: from `start` on, `rate`
        /// percent of new ones are refused, then more and more, and from `full` on all. The first
        /// client of an address is exempt: from `full` on it takes the place of one whose address
        /// has several, or of the oldest one.
        max_startups: Startups = "max startups", Kind::Startups, "64:30:512";
        /// Name that discovery shows: `netbios name` in capitals, or the name of the host.
        mdns_name: MdnsName = "mdns name", Kind::Choice(MdnsName::WORDS), "netbios";
        /// Milliseconds for which an idle connection between two processes is kept; for `messaging
        /// type = stream`. Takes effect with a restart.
        messaging_stream_idle_time: u32 =
            "messaging stream idle time", Kind::Integer { min: 1, max: 3_600_000 }, "1000";
        /// Idle connections to other processes that a process keeps; for `messaging type = stream`.
        /// Takes effect with a restart.
        messaging_stream_connections: u32 =
            "messaging stream connections", Kind::Integer { min: 1, max: 256 }, "10";
        /// Messages between the server's processes: over datagrams, over connections, or by records
        /// in a TDB file and signals; `default` is the first of these in this build. Takes effect
        /// with a restart.
        messaging_type: MessagingType =
            "messaging type", Kind::Choice(MessagingType::WORDS), "default";
        /// Users of the domain with a lower id in this system may not log on: an account of the
        /// domain must not become one of the system's programs, or root.
        min_domain_uid: u32 =
            "min domain uid", Kind::Integer { min: 0, max: 2_147_483_647 }, "1000";
        /// Smallest size in bytes of a WRITE whose data go to the file without passing through
        /// memory, at least 128 KiB; 0 where measurements show that it costs less.
        min_receivefile_size: u64 =
            "min receivefile size", Kind::Bytes { min: 0, max: 2_147_483_647 }, "0";
        /// Announce the server and its Time Machine shares to macOS and Linux by multicast DNS.
        /// Windows finds it by `choro:wsd` and `choro:llmnr`, which are on unless set to `no`.
        multicast_dns_register: bool = "multicast dns register", Kind::Bool, "Yes";
        /// Further names of this server.
        netbios_aliases: Vec<String> = "netbios aliases", Kind::List, "";
        /// Name of this server; the name of the host when empty.
        netbios_name: String = "netbios name", Kind::Upper, "";
        /// Logons with passwords, by NTLM. With `disabled` only tickets of Kerberos are accepted,
        /// which needs `realm` and a keytab.
        ntlm_auth: NtlmAuth = "ntlm auth", Kind::Choice(NtlmAuth::WORDS), "ntlmv2-only";
        /// Offer handles that survive the server, in shares with `continuous availability`.
        persistent_handles: bool = "persistent handles", Kind::Bool, "No";
        /// Folder of the file that holds the server's process id.
        pid_directory: String = "pid directory", Kind::Path, "/run/choro";
        /// Folder of secrets; only root may enter it.
        private_directory: String =
            "private dir" / "private directory", Kind::Path, "/var/lib/choro/private";
        /// Kerberos realm of the server: of its domain with `security = ads`.
        realm: String = "realm", Kind::Upper, "";
        /// Rights of anonymous users and guests in IPC$: 0 list shares and look up users, 1
        /// neither, 2 nothing at all.
        restrict_anonymous: u32 = "restrict anonymous", Kind::Integer { min: 0, max: 2 }, "0";
        /// Authority over users: this server, or with `ads` a domain of Active Directory, of which
        /// Samba's winbindd has made this machine a member. winbindd must run.
        security: Security = "security", Kind::Choice(Security::WORDS), "AUTO";
        /// Highest dialect to negotiate with clients.
        server_max_protocol: Protocol = "server max protocol" / "max protocol" / "protocol",
            Kind::Choice(Protocol::WORDS), "SMB3";
        /// Lowest dialect to negotiate with clients.
        server_min_protocol: Protocol =
            "server min protocol" / "min protocol", Kind::Choice(Protocol::WORDS), "SMB2_02";
        /// Interfaces, addresses and networks that serve clients but are not offered to them for
        /// further connections: such as addresses that move between the nodes of a cluster, where
        /// all connections of a client must go to one node.
        server_multi_channel_hidden_interfaces: Vec<InterfaceSpec> =
            "server multi channel hidden interfaces", Kind::Interfaces, "";
        /// Let a session use several connections.
        server_multi_channel_support: bool = "server multi channel support", Kind::Bool, "Yes";
        /// Place of the server; `security` says the same.
        server_role: ServerRole = "server role", Kind::Choice(ServerRole::WORDS), "AUTO";
        /// Signing of messages; see the values.
        server_signing: Signing = "server signing", Kind::Choice(Signing::WORDS), "default";
        /// Ciphers to negotiate, best first.
        server_smb3_encryption_algorithms: Vec<EncryptionAlgorithm> =
            "server smb3 encryption algorithms", Kind::Choices(EncryptionAlgorithm::WORDS),
            "AES-128-GCM, AES-128-CCM, AES-256-GCM, AES-256-CCM";
        /// Signatures to negotiate, best first.
        server_smb3_signing_algorithms: Vec<SigningAlgorithm> =
            "server smb3 signing algorithms", Kind::Choices(SigningAlgorithm::WORDS),
            "AES-128-GMAC, AES-128-CMAC, HMAC-SHA256";
        /// Description of the server in lists of servers.
        server_string: String = "server string", Kind::Text, "Choro %v";
        /// Command for `/bin/sh` that sets a quota, for `admin users` only. It runs like `get quota
        /// command`, with five more arguments behind those: the state, the soft and the hard limit
        /// in blocks, `0 0` for limits of files, and 1024 for the size of a block. If it prints
        /// nothing, it has failed.
        set_quota_command: String = "set quota command", Kind::Text, "";
        /// Milliseconds after which a request is logged with all its phases; 0 for never. Waiting
        /// for an event, such as a change or a lock, is not counted.
        slow_operation_threshold: u32 =
            "slow operation threshold", Kind::Integer { min: 0, max: 3_600_000 }, "0";
        /// Do not recognize the repetition of lock requests after a channel was lost.
        smb2_disable_lock_sequence_checking: bool =
            "smb2 disable lock sequence checking", Kind::Bool, "No";
        /// Send the break of an oplock once, on the newest channel, as Windows does, without trying
        /// another channel if that fails. Breaks of leases are repeated in any case.
        smb2_disable_oplock_break_retry: bool =
            "smb2 disable oplock break retry", Kind::Bool, "No";
        /// Grant leases on files to clients.
        smb2_leases: bool = "smb2 leases", Kind::Bool, "Yes";
        /// Credits one connection may hold.
        smb2_max_credits: u32 = "smb2 max credits", Kind::Integer { min: 1, max: 65_535 }, "8192";
        /// Bytes of one READ request.
        smb2_max_read: u32 =
            "smb2 max read", Kind::Bytes { min: 65_536, max: 8_388_608 }, "8388608";
        /// Credits that all clients may hold together; 0 for no limit but that of each.
        smb2_total_credits: u32 =
            "smb2 total credits", Kind::Integer { min: 0, max: 2_147_483_647 }, "0";
        /// Bytes of one query, answer or control code.
        smb2_max_trans: u32 =
            "smb2 max trans", Kind::Bytes { min: 65_536, max: 8_388_608 }, "8388608";
        /// Bytes of one WRITE request.
        smb2_max_write: u32 =
            "smb2 max write", Kind::Bytes { min: 65_536, max: 8_388_608 }, "8388608";
        /// Grant leases on folders, too.
        smb3_directory_leases: Tri = "smb3 directory leases", Kind::Choice(Tri::WORDS), "Auto";
        /// Offer the POSIX extensions of SMB 3.1.1.
        smb3_unix_extensions: bool = "smb3 unix extensions", Kind::Bool, "No";
        /// TCP ports to listen on: numbers, or transports such as `tcp` (445), `nbt` (139) and
        /// `tcp:PORT`. Every port also takes clients that begin with a NetBIOS session request.
        smb_ports: Vec<u16> = "smb ports" / "server smb transports", Kind::Ports, "445";
        /// Options of the sockets, such as `TCP_NODELAY`.
        socket_options: Vec<String> = "socket options", Kind::List, "TCP_NODELAY", NotYet;
        /// Folder of databases that outlive the server.
        state_directory: String = "state directory", Kind::Path, "/var/lib/choro";
        /// File that maps names clients give to users of this system.
        username_map: String = "username map", Kind::Path, "";
        /// Let the shares of users admit guests, if their owners want that; else the template
        /// decides.
        usershare_allow_guests: bool = "usershare allow guests", Kind::Bool, "No";
        /// Shares of users (`net usershare`) that are listed; 0 for no shares of users.
        usershare_max_shares: u32 =
            "usershare max shares", Kind::Integer { min: 0, max: 2_147_483_647 }, "0";
        /// Let users share folders of their own only. Root may share any.
        usershare_owner_only: bool = "usershare owner only", Kind::Bool, "Yes";
        /// Folder with a file for each share of a user, written by `net usershare add`. It must
        /// belong to root, have the sticky bit, and not be writable by everyone; those who may
        /// write to it, mostly a group, may have shares.
        usershare_path: String = "usershare path", Kind::Path, "/var/lib/samba/usershares";
        /// Beginnings of paths that users may share; empty for any. Symbolic links in a path count
        /// by the folder they lead to.
        usershare_prefix_allow_list: Vec<String> = "usershare prefix allow list", Kind::List, "";
        /// Beginnings of paths that users may not share, whatever the other list says.
        usershare_prefix_deny_list: Vec<String> = "usershare prefix deny list", Kind::List, "";
        /// Share whose parameters the shares of users have. With `-valid = no` it is not served
        /// itself.
        usershare_template_share: String = "usershare template share", Kind::Text, "";
        /// Map the file of the messages into memory; for `messaging type = tdb`. The other tables
        /// always are. Takes effect with a restart.
        use_mmap: bool = "use mmap", Kind::Bool, "Yes";
        /// Workgroup the server belongs to.
        workgroup: String = "workgroup", Kind::Upper, "WORKGROUP";
    }
}

impl Global {
    /// Lowest and highest dialect to negotiate, as codes of [MS-SMB2] 2.2.3. Loading has verified
    /// their order.
    #[must_use]
    pub fn dialects(&self) -> (u16, u16) {
        let min = self.server_min_protocol.dialect().unwrap_or(DIALECT_MIN);
        let max = self.server_max_protocol.dialect().unwrap_or(DIALECT_MAX);
        (min, max)
    }

    /// Returns the commands for a shell; those that are not set are empty.
    #[must_use]
    pub fn commands(&self) -> [&str; 2] {
        [&self.get_quota_command, &self.set_quota_command]
    }

    /// True if a domain of Active Directory decides about users.
    #[must_use]
    pub fn is_member(&self) -> bool {
        match self.security {
            Security::Ads => true,
            Security::Auto => self.server_role == ServerRole::Member,
            Security::User | Security::Other => false,
        }
    }

    /// Keytab that checks Kerberos tickets, if there is a realm: [`Keytab`].
    #[must_use]
    pub fn keytab(&self) -> Option<Keytab<'_>> {
        if self.realm.is_empty() {
            return None;
        }
        match self.kerberos_method {
            KerberosMethod::Default | KerberosMethod::SecretsOnly => {
                self.is_member().then_some(Keytab::Secrets { or_system: false })
            }
            KerberosMethod::SecretsAndKeytab if self.is_member() => {
                Some(Keytab::Secrets { or_system: true })
            }
            KerberosMethod::SecretsAndKeytab | KerberosMethod::SystemKeytab => {
                Some(Keytab::OfSystem)
            }
            KerberosMethod::DedicatedKeytab => Some(Keytab::File(&self.dedicated_keytab_file)),
        }
    }

    /// Places of winbindd's database of secrets, the first to be tried first: a configuration that
    /// is Samba's, too, may name its `private dir`.
    #[must_use]
    pub fn secrets_files(&self) -> Vec<PathBuf> {
        const FILE: &str = "secrets.tdb";
        /// `private dir` of Samba in Debian, Red Hat and SUSE.
        const SAMBA_PRIVATE: &str = "/var/lib/samba/private";
        match &*self.domain_secrets {
            "" => [&*self.private_directory, SAMBA_PRIVATE]
                .map(|folder| Path::new(folder).join(FILE))
                .to_vec(),
            file => vec![PathBuf::from(file)],
        }
    }

    /// True when `server_signing` refuses clients that do not sign. A member of a domain refuses
    /// them by default: an attacker who relays a client's ticket has no key to sign with.
    #[must_use]
    pub fn signing_required(&self) -> bool {
        match self.server_signing {
            Signing::Required => true,
            Signing::Default => self.is_member(),
            Signing::Off | Signing::IfRequired | Signing::Desired => false,
        }
    }

    /// Detail of the log for subjects without their own level.
    #[must_use]
    pub fn log_detail(&self) -> u32 {
        let first = self.log_level.split_whitespace().next().unwrap_or("");
        first.strip_prefix("all:").unwrap_or(first).parse().map_or(1, |level: u32| level.min(10))
    }

    /// Detail of the log for one subject: the level in `subject:level`, or the general one.
    #[must_use]
    pub fn log_detail_of(&self, subject: &str) -> u32 {
        let words = self.log_level.split_whitespace();
        let levels = words.filter_map(|word| word.split_once(':')).filter(|(it, _)| *it == subject);
        let mut levels =
            levels.filter_map(|(_, level)| level.split('@').next()?.parse::<u32>().ok());
        let level = levels.next_back();
        level.map_or_else(|| self.log_detail(), |level| level.min(10))
    }

    /// Line of the file with a parameter whose value names something of the machine: users,
    /// programs, interfaces. `None` for others and for defaults.
    #[must_use]
    pub fn place(&self, parameter: &str) -> Option<&Place> {
        self.section.place(parameter)
    }

    /// Value of a parametric option `module:option`.
    #[must_use]
    pub fn option(&self, module: &str, option: &str) -> Option<&str> {
        self.section.option(module, option)
    }

    /// Value of the parametric option `module:option` as a boolean; `default` if it is absent or no
    /// boolean.
    #[must_use]
    pub fn option_is_on(&self, module: &str, option: &str, default: bool) -> bool {
        self.section.option_is_on(module, option, default)
    }
}

/// Keytab that checks Kerberos tickets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keytab<'a> {
    /// A file at a path; a type such as `FILE:` may precede it.
    File(&'a str),
    /// The file that krb5.conf names, by default /etc/krb5.keytab.
    OfSystem,
    /// The keys of the machine's passwords in winbindd's database: [`Global::secrets_files`].
    Secrets {
        /// True if the keytab of the system serves where there is no such database.
        or_system: bool,
    },
}

/// SMB 2.0.2 ([MS-SMB2] 2.2.3).
const DIALECT_MIN: u16 = 0x0202;

/// SMB 3.1.1 ([MS-SMB2] 2.2.3).
const DIALECT_MAX: u16 = 0x0311;
