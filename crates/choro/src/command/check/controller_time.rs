//! The clock of a controller: attribute currentTime of its rootDSE, which LDAP gives to anybody
//! ([MS-ADTS] 3.1.1.3.2).

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};

/// Time for the connection, and for each part of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest answer that is read; a rootDSE with one attribute has a hundred bytes.
const ANSWER_MAX: usize = 4_096;

const ATTRIBUTE: &[u8] = b"currentTime";

/// Tag and length of the text.
const TIME_HEAD: [u8; 2] = [0x04, 17];

/// Returns the seconds by which the controller's clock is ahead of the own one.
pub(super) fn seconds_ahead(controller: &str) -> anyhow::Result<i64> {
    let addresses = (controller, 389).to_socket_addrs().context("its name has no address")?;
    let mut failure = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return ask(stream),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) => Err(error).context("LDAP does not answer"),
        None => bail!("its name has no address"),
    }
}

fn ask(mut stream: TcpStream) -> anyhow::Result<i64> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&question()).context("LDAP does not answer")?;
    let mut answer = Vec::new();
    let mut part = [0; 512];
    loop {
        let count = stream.read(&mut part).context("LDAP does not answer")?;
        answer.extend_from_slice(&part[..count]);
        if let Some(time) = time_in(&answer) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            return Ok(time - i64::try_from(now.as_secs())?);
        }
        ensure!(count > 0 && answer.len() < ANSWER_MAX, "LDAP does not tell the time");
    }
}

/// A SearchRequest (RFC 4511 4.5.1) of the rootDSE, anonymous.
fn question() -> Vec<u8> {
    let element = |tag: u8, content: &[u8]| {
        let len = u8::try_from(content.len()).expect("short elements");
        [&[tag, len], content].concat()
    };
    let (name, scope, aliases) = (element(0x04, b""), [0x0A, 1, 0], [0x0A, 1, 0]);
    let (size, time, types_only) = ([0x02, 1, 1], [0x02, 1, 5], [0x01, 1, 0]);
    let filter = element(0x87, b"objectClass");
    let attributes = element(0x30, &element(0x04, ATTRIBUTE));
    let search =
        [&name[..], &scope, &aliases, &size, &time, &types_only, &filter, &attributes].concat();
    let id = [0x02, 1, 1];
    element(0x30, &[&id[..], &element(0x63, &search)].concat())
}

/// The time in an answer: a set with one text `YYYYMMDDhhmmss.0Z` behind the attribute's name.
fn time_in(answer: &[u8]) -> Option<i64> {
    let at = answer.windows(ATTRIBUTE.len()).position(|it| it == ATTRIBUTE)? + ATTRIBUTE.len();
    let rest = answer.get(at..)?;
    let text = rest.windows(TIME_HEAD.len()).position(|it| it == TIME_HEAD)? + TIME_HEAD.len();
    let digits = rest.get(text..)?.get(..14)?.iter();
    let digits: Vec<i64> =
        digits.map(|it| char::from(*it).to_digit(10).map(i64::from)).collect::<Option<_>>()?;
    let number = |range: std::ops::Range<usize>| {
        Some(digits.get(range)?.iter().fold(0, |number, digit| number * 10 + digit))
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let seconds = (number(8..10)? * 60 + number(10..12)?) * 60 + number(12..14)?;
    Some(days_since_1970(year, month, day)? * 86_400 + seconds)
}

/// Days of the Gregorian calendar; years begin in March, so that a leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    /// Days from the first of March of the year 0 to the first of January 1970.
    const BEFORE_1970: i64 = 719_468;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - BEFORE_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_answer_is_read() {
        let answer = |time: &str| {
            [&[0x30, 0x84][..], ATTRIBUTE, &[0x31, 19, 4, 17], time.as_bytes()].concat()
        };
        assert_eq!(time_in(&answer("19700101000000.0Z")), Some(0));
        assert_eq!(time_in(&answer("20000229120001.0Z")), Some(951_825_601));
        assert_eq!(time_in(&answer("20261126165536.0Z")), Some(1_795_712_136));
    }

    #[test]
    fn an_answer_without_a_time_has_none() {
        for answer in [
            &b""[..],
            b"currentTime",
            b"currentTime\x31\x02\x04\x002026",
            b"currentTime\x04\x1120261399000000.0Z",
        ] {
            assert_eq!(time_in(answer), None);
        }
    }
}
