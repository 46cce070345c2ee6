//! Limits of HTTP connections: their number, and the time for a request.
//!
//! A silent or slow client would otherwise keep a connection, and with it a descriptor, for ever.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Concurrent connections; further ones wait in the kernel's queue.
const HTTP_CONNECTIONS_MAX: usize = 64;

/// Time that a connection is kept after the last answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause after a failed accept, for want of descriptors or memory.
const PAUSE: Duration = Duration::from_secs(1);

/// Listener with a bounded number of connections.
#[derive(Debug)]
pub(super) struct HttpListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    patience: Duration,
}

/// A connection with a deadline for each request.
#[derive(Debug)]
pub(super) struct HttpConnection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    patience: Duration,
    _place: OwnedSemaphorePermit,
}

impl HttpListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        let places = Arc::new(Semaphore::new(HTTP_CONNECTIONS_MAX));
        Self { listener, places, patience: PATIENCE }
    }
}

impl axum::serve::Listener for HttpListener {
    type Io = HttpConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (HttpConnection, SocketAddr) {
        let places = Arc::clone(&self.places);
        let _place = places.acquire_owned().await.expect("nobody closes it");
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let (patience, end) = (self.patience, Box::pin(sleep(self.patience)));
                    return (HttpConnection { stream, end, patience, _place }, address);
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl HttpConnection {
    /// Returns the result of an operation, or an error after the deadline.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_pending() {
            ready!(self.end.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        done
    }
}

impl AsyncRead for HttpConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Checked while bytes arrive too: a client may send one now and then.
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for HttpConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        if let Poll::Ready(Ok(_)) = written {
            let end = Instant::now() + self.patience;
            self.end.as_mut().reset(end);
        }
        self.in_time(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use axum::serve::Listener as _;

    use super::*;

    #[test]
    fn a_connection_without_an_answer_is_closed_after_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("there are descriptors").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
            let mut http_listener =
                HttpListener { patience: Duration::ZERO, ..HttpListener::new(listener) };
            let address = http_listener.local_addr().expect("bound");
            let mut client = std::net::TcpStream::connect(address).expect("it listens");
            client.write_all(b"GET /").expect("it listens");
            let (mut connection, _) = http_listener.accept().await;
            let (mut bytes, mut reader) = ([0; 8], Pin::new(&mut connection));
            let error = loop {
                let mut buffer = ReadBuf::new(&mut bytes);
                let read = std::future::poll_fn(|it| reader.as_mut().poll_read(it, &mut buffer));
                if let Err(error) = read.await {
                    break error;
                }
                assert_ne!(buffer.filled(), b"", "the client has not ended it");
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(http_listener.places.available_permits(), HTTP_CONNECTIONS_MAX - 1);
            drop(connection);
            assert_eq!(http_listener.places.available_permits(), HTTP_CONNECTIONS_MAX);
            assert!(!matches!(client.read(&mut [0]), Ok(1..)), "it has no answer");
        });
    }
}
