//! One line for each interval of tracing.

use serde_json::json;
use trace::{Figures, Phase, StoreOperation, all};

/// Formats the line with its line break. Each column has its name, so that no heading scrolls away.
pub(super) fn line(figures: &Figures, as_json: bool) -> String {
    let requests = all(&figures.events.request_end);
    let data = |operation: StoreOperation| {
        figures.events.store_data.get(operation as usize).map_or(0, |it| it.total)
    };
    let (read, written) = (data(StoreOperation::Read), data(StoreOperation::Write));
    let busy_ns = figures.ns.saturating_sub(figures.phase_ns(Phase::Waiting));
    let busy = percent(busy_ns, figures.ns);
    if as_json {
        let line = json!({
            "ns": figures.ns,
            "requests": requests.count,
            "read_bytes": read,
            "written_bytes": written,
            "average_ns": requests.average(),
            "p99_ns": requests.percentile(99),
            "busy_percent": busy,
        });
        return format!("{line}\n");
    }
    format!(
        "requests {:8}  read {:9} KiB  written {:9} KiB  average {:8} us  p99 {:8} us  \
         busy {:5.1} %\n",
        requests.count,
        read / 1_024,
        written / 1_024,
        requests.average() / 1_000,
        requests.percentile(99) / 1_000,
        busy,
    )
}

/// Percentage of the whole; 0 if that is zero.
#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
