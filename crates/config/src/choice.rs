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
    /// `case sensitive`, `strict locking`, `use sendfile`: yes, no, or as the situation asks.
    Tri {
        /// Never.
        No = "No" | "False" | "0" | "Off",
        /// Always.
        Yes = "Yes" | "True" | "1" | "On",
        /// The server decides per client or file.
        Auto = "Auto",
    }

    /// Client-side caching a share suggests: [MS-SMB2] 2.2.10 ShareFlags.
    CscPolicy {
        /// Users choose the files.
        Manual = "manual",
        /// Documents are cached as they are opened.
        Documents = "documents",
        /// As documents, and programs run from the cache.
        Programs = "programs",
        /// No caching.
        Disable = "disable",
    }

    /// Case of new names when `preserve case` is off.
    DefaultCase {
        /// Small letters.
        Lower = "lower",
        /// Capital letters.
        Upper = "upper",
    }

    /// Whether messages are encrypted.
    Encryption {
        /// As [`Encryption::IfRequired`]; a session or share may turn it on.
        Default = "default",
        /// Never, also when the client could.
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
        /// AES-128-GCM.
        Aes128Gcm = "AES-128-GCM",
        /// AES-128-CCM, the only one of SMB 3.0 and 3.0.2.
        Aes128Ccm = "AES-128-CCM",
        /// AES-256-GCM.
        Aes256Gcm = "AES-256-GCM",
        /// AES-256-CCM.
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

    /// Which names get a short name of 8.3 form.
    MangledNames {
        /// None.
        No = "no" | "false" | "0",
        /// Only names that are not allowed on Windows.
        Illegal = "illegal",
        /// Every name longer than 8.3.
        Yes = "yes" | "true" | "1",
    }

    /// Where the read-only attribute comes from when it is not stored.
    MapReadonly {
        /// Nowhere.
        No = "no" | "false" | "0",
        /// The owner's write permission.
        Yes = "yes" | "true" | "1",
        /// Whether the user may write.
        Permissions = "permissions" | "perms",
    }

    /// Which failed logons become guest.
    MapToGuest {
        /// None.
        Never = "Never",
        /// Unknown users; a wrong password of a known user stays an error.
        BadUser = "Bad User",
        /// Every failed logon.
        BadPassword = "Bad Password",
        /// Valid logons without an account of this system.
        BadUid = "Bad Uid",
    }

    /// How the processes of the server talk.
    MessagingType {
        /// The first of dgram, stream and tdb that was built in.
        Default = "default",
        /// Datagrams.
        Dgram = "dgram",
        /// Connected sockets.
        Stream = "stream",
        /// A shared TDB file.
        Tdb = "tdb",
    }

    /// SMB dialects, in their order.
    Protocol {
        /// Lowest or highest that this server speaks, as the parameter is min or max.
        Default = "default",
        /// Anything before SMB 2; not spoken here.
        BeforeSmb2 = "NT1" | "LANMAN2" | "LANMAN1" | "CORE" | "COREPLUS" | "CORE+",
        /// SMB 2.0.2.
        Smb202 = "SMB2_02",
        /// SMB 2.1.
        Smb210 = "SMB2" | "SMB2_10",
        /// SMB 3.0.
        Smb300 = "SMB3_00",
        /// SMB 3.0.2.
        Smb302 = "SMB3_02",
        /// SMB 3.1.1.
        Smb311 = "SMB3" | "SMB3_11",
    }

    /// Whether messages are signed.
    Signing {
        /// Offered, as every SMB2 server must: [MS-SMB2] 3.3.5.4.
        Default = "default",
        /// As [`Signing::Default`] for SMB 2 and later, which cannot turn signing off.
        Off = "No" | "False" | "0" | "Off" | "disabled",
        /// Offered.
        IfRequired = "if_required" | "Yes" | "True" | "1" | "On" | "enabled" | "auto",
        /// Offered.
        Desired = "desired",
        /// Clients must sign.
        Required = "required" | "mandatory" | "force" | "forced" | "enforced",
    }

    /// Signatures of SMB 3: [MS-SMB2] 2.2.3.1.7.
    SigningAlgorithm {
        /// AES-128-GMAC.
        Aes128Gmac = "AES-128-GMAC",
        /// AES-128-CMAC.
        Aes128Cmac = "AES-128-CMAC",
        /// HMAC-SHA256.
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
