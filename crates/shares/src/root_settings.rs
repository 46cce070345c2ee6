//! From a share's parameters to how the store serves its folder.

use config::choice::{DefaultCase, MangledNames, MapReadonly, Tri};
use config::{Global, Substitutions};
use dtyp::NameExpression;
use proto::share::LockChecks;
use store::{
    CharacterMappings, DefaultStyle, Hide, InheritOwner, ModeAttributes, NewCase, NtAclSettings,
    Piping, ReadOnlySource, RootSettings,
};

use super::recycle_bin::recycle_settings;
use super::served::warn_for_user;
use super::share_properties::local_programs;
use super::shares::Shares;
use super::streams_depot::{depot_settings, names_in_share};

impl Shares<'_> {
    pub(super) fn is_dfs_root(&self, share: &config::Share) -> bool {
        share.msdfs_root && self.config.global.host_msdfs
    }

    /// Clients with POSIX extensions can make links, and so must not be able to make one that leads
    /// out of the share: like Samba, we have one or the other.
    fn allows_wide_links(&self, share: &config::Share) -> bool {
        let allowed = allows_wide_links(&self.config.global);
        if !allowed {
            warn_for_user!(
                "share {}: `wide links` has no effect with `smb3 unix extensions`",
                share.name
            );
        }
        allowed
    }

    /// `vfs objects = acl_xattr` and the module's options.
    fn nt_acls(&self, share: &config::Share) -> Option<NtAclSettings> {
        const MODULE: &str = "acl_xattr";
        if !share.nt_acl_support || !share.has_module(MODULE) {
            return None;
        }
        let mut settings = NtAclSettings::new(self.accounts.is_root());
        settings.ignore_system_acls = share.option_is_on(MODULE, "ignore system acls", false);
        settings.canonicalize_inherited = share.acl_flag_inherited_canonicalization;
        if let Some(name) = share.option(MODULE, "security_acl_name") {
            name.trim().clone_into(&mut settings.attribute);
        }
        settings.default_style = match share.option(MODULE, "default acl style").map(str::trim) {
            Some(style) if style.eq_ignore_ascii_case("windows") => DefaultStyle::Windows,
            Some(style) if style.eq_ignore_ascii_case("everyone") => DefaultStyle::Everyone,
            _ => DefaultStyle::Posix,
        };
        Some(settings)
    }

    /// Returns the store's settings for a share with this path.
    pub(super) fn root_settings(
        &self,
        share: &config::Share,
        path: &str,
        read_only: bool,
        substitutions: &Substitutions,
    ) -> RootSettings {
        let nt_acls = self.nt_acls(share);
        let streams_depot = depot_settings(share, substitutions);
        // Descriptors alone decide then, and the kernel must not be in their way.
        let descriptors_decide = nt_acls.as_ref().is_some_and(|it| it.ignore_system_acls);
        RootSettings {
            case_sensitive: share.case_sensitive == Tri::Yes,
            character_mappings: character_mappings(share),
            mangled_names: mangled_names(share.mangled_names),
            mangle_prefix: u8::try_from(self.config.global.mangle_prefix).unwrap_or(1),
            new_case: new_case(share, share.preserve_case),
            new_short_case: new_case(share, share.short_preserve_case),
            create_mask: share.create_mask | if descriptors_decide { 0o666 } else { 0 },
            directory_mask: if descriptors_decide { 0o777 } else { share.directory_mask },
            force_create_mode: share.force_create_mode,
            force_directory_mode: share.force_directory_mode,
            masks_given_modes: !share.force_user.is_empty(),
            // Descriptors are what is inherited then.
            inherit_permissions: share.inherit_permissions && !descriptors_decide,
            read_only,
            store_dos_attributes: share.store_dos_attributes || descriptors_decide,
            mode_attributes: mode_attributes(share),
            writers_change_permissions: share.dos_filemode,
            ea_support: share.ea_support,
            hide_dot_files: share.hide_dot_files,
            hide_files: expressions(&share.hide_files, share),
            vetoed: vetoed(share, &names_in_share(self.config, (share, path), substitutions)),
            remove_vetoed: share.delete_veto_files,
            delete_readonly: share.delete_readonly,
            nt_acl_support: share.nt_acl_support,
            follow_symlinks: share.follow_symlinks,
            streams: share.named_streams,
            streams_depot,
            apple_streams: share.has_module("fruit"),
            removes_apple_doubles: share.option_is_on("fruit", "delete_empty_adfiles", false),
            backup_bytes_max: backup_bytes_max(share),
            wide_links: share.wide_links && self.allows_wide_links(share),
            dfs_links: self.is_dfs_root(share),
            volume_label: match share.volume.as_str() {
                "" => share.name.clone(),
                label => substitutions.expand(label),
            },
            file_system_name: share.fstype.clone(),
            recycle: recycle_settings(share, substitutions),
            inherit_owner: match share.inherit_owner {
                config::choice::InheritOwner::No => InheritOwner::No,
                config::choice::InheritOwner::UnixOnly => InheritOwner::UnixOnly,
                config::choice::InheritOwner::WindowsAndUnix => InheritOwner::WindowsAndUnix,
            },
            // As Samba's module has it.
            inherit_acls: share.inherit_acls || nt_acls.is_some(),
            nt_acls,
            hide: Hide {
                unreadable: share.hide_unreadable,
                unwriteable: share.hide_unwriteable_files,
                special: share.hide_special_files,
            },
            piping: match share.use_sendfile {
                Tri::No => Piping::Never,
                Tri::Yes => Piping::Always,
                Tri::Auto => Piping::AsMeasured,
            },
            lock_checks: lock_checks(share),
            ..RootSettings::new(path)
        }
    }
}

/// Whether `wide links` of a share have an effect.
pub(super) fn allows_wide_links(global: &Global) -> bool {
    !global.smb3_unix_extensions
}

/// Attributes that bits of the mode stand for: `map archive` and its relatives.
fn mode_attributes(share: &config::Share) -> ModeAttributes {
    ModeAttributes {
        archive: share.map_archive,
        system: share.map_system,
        hidden: share.map_hidden,
        read_only: match share.map_readonly {
            MapReadonly::No => ReadOnlySource::No,
            MapReadonly::Yes => ReadOnlySource::Mode,
            MapReadonly::Permissions => ReadOnlySource::Rights,
        },
    }
}

/// `strict locking`, as the store carries it out.
fn lock_checks(share: &config::Share) -> store::LockChecks {
    match local_programs(share).lock_checks {
        LockChecks::Never => store::LockChecks::Never,
        LockChecks::Uncached => store::LockChecks::Recent,
        LockChecks::Always => store::LockChecks::Always,
    }
}

/// `catia:mappings`, where `vfs objects` asks for them.
fn character_mappings(share: &config::Share) -> CharacterMappings {
    let mappings = share.has_module("catia").then(|| share.option("catia", "mappings")).flatten();
    mappings.map(CharacterMappings::parse).unwrap_or_default()
}

fn mangled_names(names: MangledNames) -> store::MangledNames {
    match names {
        MangledNames::No => store::MangledNames::No,
        MangledNames::Illegal => store::MangledNames::Illegal,
        MangledNames::Yes => store::MangledNames::Yes,
    }
}

fn new_case(share: &config::Share, preserved: bool) -> NewCase {
    match share.default_case {
        _ if preserved => NewCase::Kept,
        DefaultCase::Lower => NewCase::Lower,
        DefaultCase::Upper => NewCase::Upper,
    }
}

/// Names that no client sees: those of `veto files`, and of depots in the share.
fn vetoed(share: &config::Share, depots: &[String]) -> Vec<NameExpression> {
    expressions(&format!("{}/{}", share.veto_files, depots.join("/")), share)
}

/// `/one/two/`, in whatever case unless that matters in the share.
fn expressions(list: &str, share: &config::Share) -> Vec<NameExpression> {
    let read = match share.case_sensitive {
        Tri::Yes => NameExpression::case_sensitive,
        Tri::No | Tri::Auto => NameExpression::new,
    };
    list.split('/').filter(|pattern| !pattern.is_empty()).map(read).collect()
}

/// Returns the highest size of all backups in a share for them.
fn backup_bytes_max(share: &config::Share) -> Option<u64> {
    let is_for_backups = share.has_module("fruit");
    share.option_bytes("fruit", "time machine max size").filter(|max| is_for_backups && *max > 0)
}
