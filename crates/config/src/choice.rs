//! Parameters whose value is one of a few words.

/// Makes an enum from its words. The first word of a variant is the one that is written back.
macro_rules! choices {
    ($( $(#[$meta:meta])* $type:ident {
        $( $(#[$variant_meta:meta])* $variant:ident = $word:literal $(| $other:literal)* , )+
    } )+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $( $(#[$variant_meta])* $variant, )+ }

        impl $type {
            /// Every accepted word, and the word that is written back for it.
            pub const WORDS: &'static [(&'static str, &'static str)] =
                &[ $( ($word, $word), $( ($other, $word), )* )+ ];

            /// The word that is written back.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl crate::kind::Typed for $type {
            fn typed(canonical: &str) -> Self {
                [ $( Self::$variant, )+ ].into_iter().find(|choice| choice.word() == canonical)
                    .expect("a stored choice is one of its canonical words")
            }
        }
    )+ };
}

choices! {
    /// Yes, no, or as the situation asks: `case sensitive`, `strict locking`, `use sendfile`.
    Tri {
        /// Never, for any client or file.
        No = "No" | "False" | "0" | "Off",
        /// Always, for every client and file.
        Yes = "Yes" | "True" | "1" | "On",
        /// The server decides per client or file.
        Auto = "Auto",
    }

    /// Client-side caching a share suggests: [MS-SMB2] 2.2.10 ShareFlags.
    CscPolicy {
        /// Users choose the files to cache.
        Manual = "manual",
        /// Documents are cached as they are opened.
        Documents = "documents",
        /// As documents, and programs run from the cache.
        Programs = "programs",
        /// No caching by the client.
        Disable = "disable",
    }

    /// Case of new names when `preserve case` is off.
    DefaultCase {
        /// Small letters: `Name` becomes `name`.
        Lower = "lower",
        /// Capital letters: `Name` becomes `NAME`.
        Upper = "upper",
    }

    /// Encryption of messages ([MS-SMB2] 3.3.1.5 EncryptData).
    Encryption {
        /// As [`Encryption::IfRequired`]; a session or share may turn it on.
        Default = "default",
        /// Never, not even with clients that could.
        Off = "No" | "False" | "0" | "Off" | "disabled",
        /// Offered; used when the client asks for it.
        IfRequired = "if_required" | "Yes" | "True" | "1" | "On" | "enabled" | "auto",
        /// Used with every client that can.
        Desired = "desired",
        /// Clients that cannot are refused.
        Required = "required" | "mandatory" | "force" | "forced" | "enforced",
    }

    /// Ciphers of SMB 3: [MS-SMB2] 2.2.3.1.2.
    EncryptionAlgorithm {
        /// AES-128-GCM, the fastest on processors with AES instructions.
        Aes128Gcm = "AES-128-GCM",
        /// AES-128-CCM, the only one of SMB 3.0 and 3.0.2.
        Aes128Ccm = "AES-128-CCM",
        /// AES-256-GCM, of SMB 3.1.1 only.
        Aes256Gcm = "AES-256-GCM",
        /// AES-256-CCM, of SMB 3.1.1 only.
        Aes256Ccm = "AES-256-CCM",
    }

    /// Owner of a new file.
    InheritOwner {
        /// The user who makes it.
        No = "no",
        /// Owner of the folder, in the file system and in the security descriptor.
        WindowsAndUnix = "windows and unix" | "yes",
        /// Owner of the folder in the file system only.
        UnixOnly = "unix only",
    }

    /// Source of the keys that check Kerberos tickets.
    KerberosMethod {
        /// As [`KerberosMethod::SecretsOnly`], as in Samba.
        Default = "default",
        /// winbindd's own database of secrets, of a member of a domain.
        SecretsOnly = "secrets only",
        /// winbindd's own database of secrets; the keytab of the system where there is none.
        SecretsAndKeytab = "secrets and keytab",
        /// The keytab that `dedicated keytab file` names.
        DedicatedKeytab = "dedicated keytab",
        /// The keytab of the system.
        SystemKeytab = "system keytab",
    }

    /// Names for which a short name of 8.3 form is made.
    MangledNames {
        /// None: no file has a short name.
        No = "no" | "false" | "0",
        /// Only names that are not allowed on Windows.
        Illegal = "illegal",
        /// Every name longer than 8.3.
        Yes = "yes" | "true" | "1",
    }

    /// Source of the read-only attribute while none is stored.
    MapReadonly {
        /// No source: the file is not read-only.
        No = "no" | "false" | "0",
        /// The owner's write permission: read-only without it.
        Yes = "yes" | "true" | "1",
        /// The user's access: read-only without the right to write.
        Permissions = "permissions" | "perms",
    }

    /// Failed logons that become guest sessions.
    MapToGuest {
        /// None: every failed logon is refused.
        Never = "Never",
        /// Unknown users; a wrong password of a known user stays an error.
        BadUser = "Bad User",
        /// Every failed logon, also one with a wrong password.
        BadPassword = "Bad Password",
        /// Valid logons without an account of this system.
        BadUid = "Bad Uid",
    }

    /// Name of the server in multicast DNS.
    MdnsName {
        /// The name of the host.
        Host = "mdns",
        /// `netbios name`, or the host's name, in capitals.
        Netbios = "netbios",
    }

    /// Means by which the processes of the server exchange messages.
    MessagingType {
        /// The first of dgram, stream and tdb that was built in.
        Default = "default",
        /// Datagrams over one Unix socket per process.
        Dgram = "dgram",
        /// Connected Unix sockets between two processes.
        Stream = "stream",
        /// Records in a shared TDB file, announced by signals.
        Tdb = "tdb",
    }

    /// Logons with passwords. NTLMv1 is never accepted.
    NtlmAuth {
        /// NTLMv2, and nothing older than that.
        V2Only = "ntlmv2-only" | "No" | "False" | "0" | "Off",
        /// As [`NtlmAuth::V2Only`]: NTLMv1 is refused all the same.
        V1Permitted = "ntlmv1-permitted" | "Yes" | "True" | "1" | "On",
        /// As [`NtlmAuth::V2Only`]: MSCHAPv2 is not for file servers.
        MsChapV2 = "mschapv2-and-ntlmv2-only",
        /// None: only tickets of Kerberos are accepted.
        Disabled = "disabled",
    }

    /// SMB dialects, in their order.
    Protocol {
        /// Lowest or highest that this server speaks, as the parameter is min or max.
        Default = "default",
        /// Anything before SMB 2; not spoken here.
        BeforeSmb2 = "NT1" | "LANMAN2" | "LANMAN1" | "CORE" | "COREPLUS" | "CORE+",
        /// Dialect 0x0202, SMB 2.0.2 ([MS-SMB2] 2.2.3).
        Smb202 = "SMB2_02",
        /// Dialect 0x0210, SMB 2.1 ([MS-SMB2] 2.2.3).
        Smb210 = "SMB2" | "SMB2_10",
        /// Dialect 0x0300, SMB 3.0 ([MS-SMB2] 2.2.3).
        Smb300 = "SMB3_00",
        /// Dialect 0x0302, SMB 3.0.2 ([MS-SMB2] 2.2.3).
        Smb302 = "SMB3_02",
        /// Dialect 0x0311, SMB 3.1.1 ([MS-SMB2] 2.2.3).
        Smb311 = "SMB3" | "SMB3_11",
    }

    /// Authority that decides about users.
    Security {
        /// The authority that fits `server role`.
        Auto = "AUTO",
        /// This server, with users of its own.
        User = "USER",
        /// A domain of Active Directory, whose member this server is.
        Ads = "ADS",
        /// Older authorities, which are not asked.
        Other = "DOMAIN" | "SHARE" | "SERVER",
    }

    /// Place of the server among others.
    ServerRole {
        /// The role that fits `security`.
        Auto = "AUTO",
        /// A server with users of its own.
        Standalone = "standalone server" | "standalone",
        /// A member of a domain.
        Member = "member server" | "member",
        /// A controller of a domain; not spoken here.
        Controller = "classic primary domain controller"
            | "classic backup domain controller"
            | "active directory domain controller"
            | "domain controller"
            | "dc",
    }

    /// Signing of messages ([MS-SMB2] 3.3.1.5 RequireMessageSigning).
    Signing {
        /// Offered, as every SMB2 server must: [MS-SMB2] 3.3.5.4.
        Default = "default",
        /// As [`Signing::Default`] for SMB 2 and later, which cannot turn signing off.
        Off = "No" | "False" | "0" | "Off" | "disabled",
        /// Offered; the client decides, as with [`Signing::Default`].
        IfRequired = "if_required" | "Yes" | "True" | "1" | "On" | "enabled" | "auto",
        /// Offered; the client decides, as with [`Signing::Default`].
        Desired = "desired",
        /// Required: a client that does not sign is refused.
        Required = "required" | "mandatory" | "force" | "forced" | "enforced",
    }

    /// Signatures of SMB 3: [MS-SMB2] 2.2.3.1.7.
    SigningAlgorithm {
        /// AES-128-GMAC, of SMB 3.1.1 only.
        Aes128Gmac = "AES-128-GMAC",
        /// AES-128-CMAC, of SMB 3.0 and later.
        Aes128Cmac = "AES-128-CMAC",
        /// HMAC-SHA256, of SMB 2.0.2 and 2.1.
        HmacSha256 = "HMAC-SHA256",
    }
}

impl Protocol {
    /// Code on the wire: [MS-SMB2] 2.2.3 Dialects. None for what has no code of SMB 2.
    #[must_use]
    pub fn dialect(self) -> Option<u16> {
        match self {
            Self::Default | Self::BeforeSmb2 => None,
            Self::Smb202 => Some(0x0202),
            Self::Smb210 => Some(0x0210),
            Self::Smb300 => Some(0x0300),
            Self::Smb302 => Some(0x0302),
            Self::Smb311 => Some(0x0311),
        }
    }
}
