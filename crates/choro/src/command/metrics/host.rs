//! Which names a visitor may call us by.
//!
//! A page from anywhere may let a name of its own lead to this machine's loopback address; its
//! scripts could then read in the browser of whoever looks at it what we tell this machine alone
//! (DNS rebinding). What they cannot do is call us by another name than theirs.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Answers only those who call us by an address or as `localhost`, if nobody but this machine can
/// reach `address`. Whoever listens for others has a name for it.
pub(super) async fn check(
    State(address): State<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if !address.ip().to_canonical().is_loopback() || is_ours(request.headers()) {
        return next.run(request).await;
    }
    let why = "this is for programs and browsers of this machine, by address or as localhost\n";
    (StatusCode::MISDIRECTED_REQUEST, why).into_response()
}

fn is_ours(headers: &HeaderMap) -> bool {
    // Every browser says whom it asks.
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
