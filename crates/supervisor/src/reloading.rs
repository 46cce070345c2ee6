//! Listening, and reading the configuration again.

use std::sync::Arc;

use ::interfaces::Multichannel;
use process::control::ToWorker;
use settings::default_share;
use settings::messaging_settings::PARAMETERS;
use settings::{CONFIG_FILE, Settings, Source};
use shares::added_shares::AddedShares;
use worker::Prepared;

use super::events::Event;
use super::listeners::{self, Listener};
use super::{Supervisor, effective, interfaces, service_manager};

impl Supervisor {
    /// Reads the configuration again, and returns the number of warnings that this put into the
    /// log. A configuration that cannot be served changes nothing.
    ///
    /// # Errors
    /// Why the old one stays in effect; it is in the log already.
    pub(super) fn reload(&mut self) -> anyhow::Result<u64> {
        if self.stop_deadline.is_some() {
            anyhow::bail!("the server is stopping");
        }
        service_manager::notify("RELOADING=1\n");
        let loaded = self.load_again();
        match &loaded {
            Ok(_) => tracing::info!("configuration {} is in effect", self.command.generation),
            Err(error) => {
                tracing::error!("reload failed, the old configuration stays in effect: {error:#}")
            }
        }
        service_manager::notify("READY=1\n");
        loaded
    }

    fn load_again(&mut self) -> anyhow::Result<u64> {
        let source = self.settings.source.of_reload(CONFIG_FILE.as_ref())?;
        let mut settings = Settings::load(source)?;
        if settings.directories != self.settings.directories {
            let source = &settings.source;
            anyhow::bail!(
                "the server's directories can only be changed by a restart, and {source} has others"
            );
        }
        if let (Source::Default(_), Source::File(_)) = (&self.settings.source, &settings.source) {
            tracing::info!("configuration: {}", settings.source);
        }
        // An operator may have put other files there.
        if let Err(error) = AddedShares::prepare_folder(&settings.directories.state) {
            tracing::warn!("files about shares may not be found: {error:#}");
        }
        let mut warnings = self.warn_of(&mut settings);
        process::log::follow(&settings)?;
        effective::write(&self.command.config, &settings.config)?;
        self.qos.configure(settings.config.classes.iter().map(|section| &section.class));
        self.prepared = Prepared::of(&settings, self.registry.server_id().unique_id);
        self.settings = settings;
        self.command.generation += 1;
        self.command.log_level = None;
        warnings += self.listen_again();
        self.workers.dismiss_idle();
        self.prepare_confinement();
        self.send_log();
        let reload = ToWorker::Reload { generation: self.command.generation };
        self.workers.send_to_serving(&reload);
        self.notifyd.send(&reload);
        self.logond.send(&reload);
        self.auditd.send(&reload);
        self.listen_for_commands();
        self.commandd.send(&reload);
        self.announce_again();
        Ok(warnings)
    }

    /// Has a new configuration keep the parameters that a running server cannot change. Logs the
    /// warnings about it, and returns their number.
    fn warn_of(&self, settings: &mut Settings) -> u64 {
        let config = Arc::make_mut(&mut settings.config);
        let kept = config.keep_global(&self.settings.config, PARAMETERS);
        let kept = kept.into_iter().map(|it| format!("`{it}` changes with the next restart only"));
        let of_lines = settings.warnings.iter().filter(|warning| !warning.kind.is_note());
        let of_lines = of_lines.map(ToString::to_string);
        let all = kept.chain(of_lines).chain(Multichannel::of(&settings.config.global).warning());
        all.inspect(|warning| tracing::warn!("{warning}")).map(|_| 1).sum()
    }

    /// Closes the sockets that are not wanted any more and opens those that are missing. One that
    /// cannot be opened is reported and the others serve. Returns the number of such reports.
    fn listen_again(&mut self) -> u64 {
        let wanted = match interfaces::wanted(&self.settings.config.global) {
            Ok(wanted) => wanted,
            Err(error) => {
                tracing::error!("cannot change the listening addresses: {error:#}");
                return 1;
            }
        };
        let mut faults = 0;
        self.watch_listeners(false);
        self.listeners.retain(|listener| wanted.contains(&listener.address()));
        self.workers.wait_until_closed();
        for address in wanted {
            if self.listeners.iter().any(|listener| listener.address() == address) {
                continue;
            }
            match Listener::bind(address) {
                Ok(listener) => {
                    // Watched below, when its place in the list is known.
                    if let Err(error) = self.events.add(&listener, Event::Listener(usize::MAX)) {
                        tracing::error!("cannot poll {address}: {error}");
                    }
                    self.listeners.push(listener);
                }
                Err(error) if listeners::is_missing_ipv6(address, &error) => {}
                Err(error) => {
                    faults += 1;
                    let advice = listeners::advice(address, &error);
                    tracing::error!("cannot listen on {address}: {error}{advice}");
                }
            }
        }
        self.watch_listeners(self.accept_from.is_none());
        faults
    }
}

/// Opens the listening sockets. The built-in default takes another port if it cannot have 445.
pub(super) fn bind(settings: &mut Settings) -> anyhow::Result<Vec<Listener>> {
    let mut outcome = listeners::bind_all(&interfaces::wanted(&settings.config.global)?);
    let mut ports = default_share::OTHER_PORTS;
    while let (Source::Default(default), Err((_, error))) = (&settings.source, &outcome)
        && listeners::is_port_unavailable(error)
        && let Some(port) = ports.next()
    {
        let mut default = default.clone();
        default.port = port;
        *settings = Settings::load(Source::Default(default))?;
        outcome = listeners::bind_all(&interfaces::wanted(&settings.config.global)?);
    }
    outcome.map_err(|(address, error)| {
        let advice = listeners::advice(address, &error);
        anyhow::anyhow!("cannot listen on {address}: {error}{advice}")
    })
}
