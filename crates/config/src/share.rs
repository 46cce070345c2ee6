//! Parameters of one share, with their defaults and documentation.

use crate::choice::{
    CscPolicy, DefaultCase, Encryption, InheritOwner, MangledNames, MapReadonly, Tri,
};
use crate::kind::Kind;
use crate::parameter::parameter_table;
use crate::place::Place;
use crate::user_list::{GroupKind, UserList};

parameter_table! {
    /// Settings of a share: its own section on top of `[global]` above it.
    Share in Share {
        /// Show a share only to those who may connect to it.
        access_based_share_enum: bool = "access based share enum", Kind::Bool, "No";
        /// A list of rights counts as inherited only if its writer also asked for inheritance.
        acl_flag_inherited_canonicalization: bool =
            "acl flag inherited canonicalization", Kind::Bool, "Yes";
        /// Users who act as root in this share.
        admin_users: UserList = "admin users", Kind::List, "";
        /// Hide the share from everyone but administrators, who may still connect.
        administrative_share: bool = "administrative share", Kind::Bool, "No", NotYet;
        /// Off: nobody can connect to the share.
        available: bool = "available", Kind::Bool, "Yes";
        /// Show the share in lists of shares.
        browseable: bool = "browseable" / "browsable", Kind::Bool, "Yes";
        /// Tell names apart by case.
        case_sensitive: Tri = "case sensitive" / "casesignames", Kind::Choice(Tri::WORDS), "Auto";
        /// Refuse to create anything in a folder that is about to be deleted, as Windows does.
        check_parent_directory_delete_on_close: bool =
            "check parent directory delete on close", Kind::Bool, "No";
        /// Description of the share in lists of shares.
        comment: String = "comment", Kind::Text, "";
        /// Have opens survive the server, for clients that ask for it; needs `persistent handles`.
        continuous_availability: bool = "continuous availability", Kind::Bool, "No";
        /// Permission bits a new file may have.
        create_mask: u32 = "create mask" / "create mode", Kind::Mode, "0744";
        /// Caching by clients of files for offline use.
        csc_policy: CscPolicy = "csc policy", Kind::Choice(CscPolicy::WORDS), "manual";
        /// Case of new names when `preserve case` is off.
        default_case: DefaultCase = "default case", Kind::Choice(DefaultCase::WORDS), "lower";
        /// Let read-only files be deleted.
        delete_readonly: bool = "delete readonly", Kind::Bool, "No";
        /// Delete a folder together with the vetoed files in it.
        delete_veto_files: bool = "delete veto files", Kind::Bool, "No";
        /// Seconds for which the answer of `dfree command` is cached; 0 to run it for each
        /// question.
        dfree_cache_time: u32 =
            "dfree cache time", Kind::Integer { min: 0, max: 2_147_483_647 }, "0";
        /// Command for `/bin/sh` that tells the size of the share and its free space: two numbers
        /// of blocks, and optionally the size of a block in bytes, which is 1024 otherwise. It runs
        /// as the user, in the folder of the share; one more argument is the path there that a
        /// client asks about, mostly `.`. While it fails, or takes more than 10 seconds, clients
        /// see the figures of the file system. `%U` and the like are as in `preexec`.
        dfree_command: String = "dfree command", Kind::Text, "";
        /// Permission bits a new folder may have.
        directory_mask: u32 = "directory mask" / "directory mode", Kind::Mode, "0755";
        /// Let everyone who may write a file change its permissions and take its ownership, as
        /// always with `vfs objects = acl_xattr`.
        dos_filemode: bool = "dos filemode", Kind::Bool, "No";
        /// Round times to two seconds.
        dos_filetime_resolution: bool = "dos filetime resolution", Kind::Bool, "No", NotYet;
        /// Let everyone who may write a file change its times.
        dos_filetimes: bool = "dos filetimes", Kind::Bool, "Yes", NotYet;
        /// Let opens outlive their connection, unless `kernel oplocks` or `kernel share modes` is
        /// on, or an open has byte-range locks that local programs see (`posix locking`).
        durable_handles: bool = "durable handles", Kind::Bool, "Yes";
        /// Serve and store extended attributes.
        ea_support: bool = "ea support", Kind::Bool, "Yes";
        /// Follow symbolic links that stay inside the share.
        follow_symlinks: bool = "follow symlinks", Kind::Bool, "Yes";
        /// Permission bits a new file has in any case.
        force_create_mode: u32 = "force create mode", Kind::Mode, "0000";
        /// Permission bits a new folder has in any case.
        force_directory_mode: u32 = "force directory mode", Kind::Mode, "0000";
        /// Primary group for access to this share; with `+`, only if the user is a member.
        force_group: String = "force group" / "group", Kind::Text, "";
        /// User whose rights everyone has in this share. The masks then also apply to modes that
        /// clients give.
        force_user: String = "force user", Kind::Text, "";
        /// Name of the file system to tell clients.
        fstype: String = "fstype", Kind::Text, "NTFS";
        /// Let guests connect to the share.
        guest_ok: bool = "guest ok" / "public", Kind::Bool, "No";
        /// Everyone is a guest; needs `guest ok`.
        guest_only: bool = "guest only" / "only guest", Kind::Bool, "No";
        /// Names that begin with a dot are hidden.
        hide_dot_files: bool = "hide dot files", Kind::Bool, "Yes";
        /// Names that are hidden, patterns between slashes.
        hide_files: String = "hide files", Kind::Text, "";
        /// Leave sockets, devices and pipes out of listings.
        hide_special_files: bool = "hide special files", Kind::Bool, "No";
        /// Leave files the user cannot read out of listings.
        hide_unreadable: bool = "hide unreadable", Kind::Bool, "No";
        /// Leave files the user cannot write out of listings.
        hide_unwriteable_files: bool = "hide unwriteable files", Kind::Bool, "No";
        /// Clients that may connect, by address or network. Names and netgroups admit nobody: they
        /// are not looked up.
        hosts_allow: Vec<String> = "hosts allow" / "allow hosts", Kind::List, "";
        /// Clients that may not connect, by address or network. A name or netgroup refuses the
        /// configuration, because this server, unlike Samba, does not look up names of clients.
        hosts_deny: Vec<String> = "hosts deny" / "deny hosts", Kind::List, "";
        /// Let default entries of a POSIX ACL pass to new files.
        inherit_acls: bool = "inherit acls", Kind::Bool, "No";
        /// Owner of a new file.
        inherit_owner: InheritOwner =
            "inherit owner", Kind::Choice(InheritOwner::WORDS), "no";
        /// New files and folders take their permission bits from the folder.
        inherit_permissions: bool = "inherit permissions", Kind::Bool, "No";
        /// Users who may not connect, even if another list admits them.
        invalid_users: UserList = "invalid users", Kind::List, "";
        /// Tell clients also of changes that other programs make in folders they watch.
        kernel_change_notify: bool = "kernel change notify", Kind::Bool, "Yes";
        /// Break the oplock of a client when a local program, or an NFS client of this server,
        /// opens the file; the kernel lets that program wait until the client has written its data,
        /// 45 seconds at most. As in Samba, files then have neither leases nor shared oplocks nor
        /// durable handles, so most clients cache less.
        kernel_oplocks: bool = "kernel oplocks", Kind::Bool, "No";
        /// Lock a file (`flock`) for local programs while a client excludes others: exclusively if
        /// nobody else may read, shared if nobody else may write. A client that would exclude a
        /// local program with such a lock gets a sharing violation. Only programs that use `flock`
        /// take notice. There are no durable handles.
        kernel_share_modes: bool = "kernel share modes", Kind::Bool, "No";
        /// Let several clients cache reads of one file; without it only a client that is alone with
        /// it. Folders are not affected.
        level2_oplocks: bool = "level2 oplocks", Kind::Bool, "Yes";
        /// Honor byte-range locks of other programs.
        locking: bool = "locking", Kind::Bool, "Yes", NotYet;
        /// Names for which a short name of 8.3 form is made, as by `mangling method = hash2`.
        mangled_names: MangledNames =
            "mangled names", Kind::Choice(MangledNames::WORDS), "illegal";
        /// Character in short names of the old method `hash`; those of `hash2` always have `~`.
        mangling_char: String = "mangling char", Kind::Character, "~", NotYet;
        /// Keep the archive attribute of files in the owner's execute permission, as far as `create
        /// mask` has it: where `store dos attributes` is off, or the file system has no extended
        /// attributes.
        map_archive: bool = "map archive", Kind::Bool, "Yes";
        /// Keep the hidden attribute of files in the others' execute permission; as `map archive`.
        map_hidden: bool = "map hidden", Kind::Bool, "No";
        /// Source of the read-only attribute where none is stored (see `map archive`); clients set
        /// it by taking away the write permissions.
        map_readonly: MapReadonly = "map readonly", Kind::Choice(MapReadonly::WORDS), "no";
        /// Keep the system attribute of files in the group's execute permission; as `map archive`.
        map_system: bool = "map system", Kind::Bool, "No";
        /// Tree connects to this share at a time; 0 for no limit.
        max_connections: u32 = "max connections", Kind::Integer { min: 0, max: 2_147_483_647 }, "0";
        /// Serve the share as the root of a DFS namespace: symbolic links in it to
        /// `msdfs:server\share`, or to several with commas between them, lead clients there. Needs
        /// `host msdfs`.
        msdfs_root: bool = "msdfs root", Kind::Bool, "No";
        /// Serve the named streams of files; Samba does so with a module for them in `vfs objects`.
        named_streams: bool = "named streams", Kind::Bool, "Yes";
        /// Store and serve Windows ACLs.
        nt_acl_support: bool = "nt acl support", Kind::Bool, "Yes";
        /// Grant oplocks on files to clients.
        oplocks: bool = "oplocks", Kind::Bool, "Yes";
        /// Folder that the share serves.
        path: String = "path" / "directory", Kind::Path, "";
        /// Let local programs, and NFS clients of this server, see the byte-range locks of clients,
        /// and clients theirs: as locks of the kernel (`fcntl`). A durable handle with such locks
        /// does not outlive its connection. Off for a share on a network file system that cannot
        /// lock.
        posix_locking: bool = "posix locking", Kind::Bool, "Yes";
        /// Command for `/bin/sh`, run as the user when a tree connect ends; see `preexec`.
        postexec: String = "postexec", Kind::Text, "";
        /// Command for `/bin/sh`, run as the user before a tree connect to the share, but IPC$, is
        /// answered. `%U` and the like become one word; characters of clients with a meaning to a
        /// shell become `_`. It has a clean environment, no output, 30 seconds, and the rights of
        /// the service's unit; commands of a client run one after the other.
        preexec: String = "preexec" / "exec", Kind::Text, "";
        /// Refuse the tree connect if `preexec` fails or is not done in time.
        preexec_close: bool = "preexec close", Kind::Bool, "No";
        /// New names keep the case the client gave them.
        preserve_case: bool = "preserve case", Kind::Bool, "Yes";
        /// Users who may not write even where `read only` is off.
        read_list: UserList = "read list", Kind::List, "";
        /// Nobody may write, except `write list`.
        read_only: bool =
            "read only" / not "writeable" / not "writable" / not "write ok", Kind::Bool, "Yes";
        /// As `postexec`, after it and as root.
        root_postexec: String = "root postexec", Kind::Text, "";
        /// As `preexec`, before it and as root, such as to make a home directory. A server that
        /// does not run as root runs it as its own user.
        root_preexec: String = "root preexec", Kind::Text, "";
        /// Refuse the tree connect if `root preexec` fails or is not done in time.
        root_preexec_close: bool = "root preexec close", Kind::Bool, "No";
        /// Encryption of messages; in `[global]`, for whole sessions.
        smb_encrypt: Encryption =
            "server smb encrypt" / "smb encrypt", Kind::Choice(Encryption::WORDS), "default";
        /// New names of 8.3 form keep their case.
        short_preserve_case: bool = "short preserve case", Kind::Bool, "Yes";
        /// Bytes of one extended attribute.
        smbd_max_xattr_size: u32 =
            "smbd max xattr size", Kind::Integer { min: 1, max: 16_777_216 }, "65536", NotYet;
        /// Keep DOS attributes and the birth time in an extended attribute.
        store_dos_attributes: bool = "store dos attributes", Kind::Bool, "Yes";
        /// Give a file its space when its size is set.
        strict_allocate: bool = "strict allocate", Kind::Bool, "No", NotYet;
        /// Refuse READs and WRITEs of bytes that a local program has locked; automatic: of clients
        /// that may not cache, and up to 10 milliseconds after the first lock of the file. Needs
        /// `posix locking`. Locks of other clients are always respected.
        strict_locking: Tri = "strict locking", Kind::Choice(Tri::WORDS), "Auto";
        /// Refuse to rename a folder in which any client has a file open. It is always so here, but
        /// among clients with POSIX extensions, who expect that the files stay open.
        strict_rename: bool = "strict rename", Kind::Bool, "No";
        /// FLUSH waits until the data is on the disk.
        strict_sync: bool = "strict sync", Kind::Bool, "Yes";
        /// Every WRITE waits until the data is on the disk; needs `strict sync`.
        sync_always: bool = "sync always", Kind::Bool, "No";
        /// Send data from the page cache without a copy, if neither signed nor sealed; automatic,
        /// unknown to Samba: where a trial on each connection shows that it costs less.
        use_sendfile: Tri = "use sendfile", Kind::Choice(Tri::WORDS), "Auto";
        /// Users who may connect; everyone when empty.
        valid_users: UserList = "valid users", Kind::List, "";
        /// Names that do not exist for clients, patterns between slashes.
        veto_files: String = "veto files", Kind::Text, "";
        /// Names for which no oplock is granted, patterns between slashes.
        veto_oplock_files: String = "veto oplock files", Kind::Text, "", NotYet;
        /// Modules of Samba; the built-in ones are always active.
        vfs_objects: Vec<String> = "vfs objects" / "vfs object", Kind::List, "";
        /// Label of the volume; the name of the share when empty.
        volume: String = "volume", Kind::Text, "";
        /// Follow symbolic links that leave the share; no effect with `smb3 unix extensions`.
        wide_links: bool = "wide links", Kind::Bool, "No";
        /// Users who may write even where `read only` is on.
        write_list: UserList = "write list", Kind::List, "";
    }
}

impl Share {
    /// Returns a share with another name, and with these values instead of its own, in canonical
    /// form.
    ///
    /// # Panics
    /// If there is no parameter of such a name.
    #[must_use]
    pub fn derived(&self, name: &str, values: &[(&'static str, &str)]) -> Self {
        let mut section = self.section.clone();
        for (parameter, text) in values {
            let (parameter, _) = crate::parameter::find(parameter).expect("a name of the table");
            section.set(parameter, text);
        }
        Self::new(name.to_owned(), section)
    }

    /// Returns true if this user may connect. `invalid users` outweighs `valid users`.
    ///
    /// `is_member` tells whether the user belongs to a group. Lists that contain substitutions are
    /// to be expanded first, see [`UserList::expanded`].
    pub fn admits(&self, user: &str, is_member: impl Fn(GroupKind, &str) -> bool) -> bool {
        !self.invalid_users.contains(user, &is_member)
            && (self.valid_users.is_empty() || self.valid_users.contains(user, &is_member))
    }

    /// Returns true if the share is read-only for this user. `write list` outweighs `read list`,
    /// and that outweighs `read only`.
    pub fn is_read_only_for(
        &self,
        user: &str,
        is_member: impl Fn(GroupKind, &str) -> bool,
    ) -> bool {
        if self.write_list.contains(user, &is_member) {
            return false;
        }
        self.read_only || self.read_list.contains(user, &is_member)
    }

    /// Line of the file with a parameter whose value names something of the machine: users,
    /// programs, interfaces. `None` for others and for defaults.
    #[must_use]
    pub fn place(&self, parameter: &str) -> Option<&Place> {
        self.section.place(parameter)
    }

    /// Value of a parametric option `module:option` of this section.
    #[must_use]
    pub fn option(&self, module: &str, option: &str) -> Option<&str> {
        self.section.option(module, option)
    }

    /// Value of the parametric option `module:option` as a number of bytes, such as `64K`.
    #[must_use]
    pub fn option_bytes(&self, module: &str, option: &str) -> Option<u64> {
        let kind = Kind::Bytes { min: 0, max: u64::MAX };
        kind.canonical(self.option(module, option)?.trim(), "").ok()?.text.parse().ok()
    }

    /// Value of the parametric option `module:option` as a boolean; `default` if it is absent or no
    /// boolean.
    #[must_use]
    pub fn option_is_on(&self, module: &str, option: &str, default: bool) -> bool {
        self.section.option_is_on(module, option, default)
    }

    /// Returns the commands for a shell; those that are not set are empty.
    #[must_use]
    pub fn commands(&self) -> [&str; 5] {
        let Self { preexec, root_preexec, postexec, root_postexec, dfree_command, .. } = self;
        [preexec, root_preexec, postexec, root_postexec, dfree_command]
    }

    /// True when `vfs objects` names the module.
    #[must_use]
    pub fn has_module(&self, module: &str) -> bool {
        self.vfs_objects.iter().any(|name| name.eq_ignore_ascii_case(module))
    }
}
