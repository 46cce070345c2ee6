//! Files of the web page, which are parts of the program.

use axum::Router;
use axum::http::HeaderName;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::routing::get;

/// The page loads its own files and data and nothing else, and runs no script of a name that
/// contains markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// Path, type and content of each file.
const FILES: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/page.css", STYLE, include_str!("page/page.css")),
    ("/icon.svg", IMAGE, include_str!("page/icon.svg")),
    ("/page.js", SCRIPT, include_str!("page/page.js")),
    ("/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/feed.js", SCRIPT, include_str!("page/feed.js")),
    ("/series.js", SCRIPT, include_str!("page/series.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/theme.js", SCRIPT, include_str!("page/theme.js")),
    ("/units.js", SCRIPT, include_str!("page/units.js")),
    ("/dygraph.js", SCRIPT, include_str!(concat!(env!("OUT_DIR"), "/dygraph.min.js"))),
];

/// Adds a route for each file.
pub(super) fn add_to<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    FILES.into_iter().fold(router, |router, (path, kind, text)| {
        router.route(path, get(move || async move { (headers(kind), text) }))
    })
}

fn headers(kind: &'static str) -> [(HeaderName, &'static str); 5] {
    [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ]
}
