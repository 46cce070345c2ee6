//! HTTP, as far as one request for the name of the host needs it.

use super::MESSAGE_BYTES_MAX;

/// Longest head of a request; those of Windows have 300 bytes.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Longest request, head and message together.
pub const REQUEST_BYTES_MAX: usize = HEAD_BYTES_MAX + MESSAGE_BYTES_MAX;

/// State of a request of which some bytes have come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress<'a> {
    /// The end has not arrived yet.
    More,
    /// It is not a request for the host's name.
    Refused,
    /// The message of the whole request.
    Whole(&'a [u8]),
}

/// Reads a request that begins the bytes, for a resource with this path.
#[must_use]
pub fn parse<'a>(bytes: &'a [u8], path: &str) -> Progress<'a> {
    let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Progress::Refused } else { Progress::More };
    };
    let Some(length) = str::from_utf8(&bytes[..end]).ok().and_then(|head| length(head, path))
    else {
        return Progress::Refused;
    };
    if end > HEAD_BYTES_MAX || length > MESSAGE_BYTES_MAX {
        return Progress::Refused;
    }
    match bytes[end + 4..].get(..length) {
        Some(message) => Progress::Whole(message),
        None => Progress::More,
    }
}

/// Returns the length of the message behind this head.
fn length(head: &str, path: &str) -> Option<usize> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if method != "POST" || target != path || !version.starts_with("HTTP/1.") {
        return None;
    }
    let mut length = None;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return None;
        }
        if name.eq_ignore_ascii_case("content-length") {
            let value: usize = value.trim().parse().ok()?;
            if length.replace(value).is_some() {
                return None;
            }
        }
    }
    length
}

/// Returns the response with a message.
#[must_use]
pub fn response(message: &str) -> Vec<u8> {
    let length = message.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/soap+xml\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{message}"
    )
    .into_bytes()
}

/// The response to everything else.
pub const REFUSAL: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::{Progress, parse};

    const REQUEST: &str = "POST /id HTTP/1.1\r\nHost: nas\r\nContent-Length: 4\r\n\r\nname";

    #[test]
    fn a_request_is_whole_when_its_message_is() {
        for len in 0..REQUEST.len() {
            assert_eq!(parse(&REQUEST.as_bytes()[..len], "/id"), Progress::More, "{len}");
        }
        assert_eq!(parse(REQUEST.as_bytes(), "/id"), Progress::Whole(b"name"));
    }

    #[test]
    fn other_requests_are_refused() {
        for unfit in [
            REQUEST.replace("POST", "GET"),
            REQUEST.replace("/id", "/other"),
            REQUEST.replace("HTTP/1.1", "HTTP/2"),
            REQUEST.replace("Content-Length: 4\r\n", ""),
            REQUEST.replace("Content-Length: 4", "Content-Length: 4\r\nContent-Length: 5"),
            REQUEST.replace("Content-Length: 4", "Content-Length: 99999"),
            REQUEST.replace("Host: nas", "Transfer-Encoding: chunked"),
            "x".repeat(5_000),
            format!("POST /id HTTP/1.1\r\nX: {}", "x".repeat(5_000)),
        ] {
            assert_eq!(parse(unfit.as_bytes(), "/id"), Progress::Refused, "{unfit}");
        }
    }
}
