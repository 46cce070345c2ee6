//! Host names that a client may use for this server.
//!
//! A hostile web page may let a name of its own resolve to this machine's loopback address; its
//! scripts could then read, in the browser of a local user, data meant for this machine alone (DNS
//! rebinding). Such requests carry the page's own host name, so they can be refused.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Accepts only requests by IP address or as `localhost`, if `address` is reachable from this
/// machine only. A server that listens for others may be reached by any name.
pub(super) async fn check(
    State(address): State<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if !address.ip().to_canonical().is_loopback() || is_ours(request.headers()) {
        return next.run(request).await;
    }
    let why = "only programs on this machine are served, by IP address or as localhost\n";
    (StatusCode::MISDIRECTED_REQUEST, why).into_response()
}

fn is_ours(headers: &HeaderMap) -> bool {
    // Every browser sends a Host header.
    let Some(host) = headers.get(HOST) else { return true };
    let host = host.to_str().ok().and_then(|it| it.parse::<Authority>().ok());
    host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::{HOST, is_ours};

    #[test]
    fn addresses_and_localhost_are_ours_and_no_other_name_is() {
        let with = |host: &'static str| {
            is_ours(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]))
        };
        for host in ["127.0.0.1:9464", "127.0.0.1", "[::1]:9464", "localhost:9464", "LocalHost"] {
            assert!(with(host), "{host}");
        }
        for host in ["example.org:9464", "localhost.example.org", "127.0.0.1.example.org", "", "@"]
        {
            assert!(!with(host), "{host}");
        }
        assert!(is_ours(&HeaderMap::new()));
    }
}
