//! A stream for tasks of tokio.
use crate::stream;
use ondol_base::net::Interest;
use ondol_base::shm::{Bell, End, Patience};
use std::io::{ErrorKind, Result};
use std::net::Shutdown;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// A connection to Ondol's server in memory that both have, for one task that reads and writes, as those of
/// `tokio-postgres` do: only the task that waited last is woken.
///
/// Before it sleeps a task looks for an answer for some microseconds, if that has paid lately; other tasks of
/// its thread wait meanwhile.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let stream = ondol_client::tokio::MemoryStream::connect("data")?; // as `ondol serve data` has it
/// let mut config = tokio_postgres::Config::new();
/// config.user("postgres").dbname("postgres");
/// let (client, connection) = config.connect_raw(stream, tokio_postgres::NoTls).await?;
/// # Ok(())
/// # }
/// ```
pub struct MemoryStream {
    end: End,
    /// The end's socket once more, which tells when the other side rings.
    bell: UnixStream,
    patience: Patience,
    /// What is waited for.
    until: Interest,
}

impl MemoryStream {
    /// As [`crate::MemoryStream::connect`], which it waits for; it is called in a runtime of tokio.
    pub fn connect(path: impl AsRef<Path>) -> Result<MemoryStream> {
        let end = stream::connect(path.as_ref())?;
        let Bell::System(bell) = end.bell() else { return Err(ErrorKind::Unsupported.into()) };
        let bell = bell.try_clone()?;
        bell.set_nonblocking(true)?;
        let bell = UnixStream::from_std(bell)?;
        Ok(MemoryStream { end, bell, patience: Patience::default(), until: Interest::default() })
    }

    /// Goes on as soon as `work` no longer says `WouldBlock`.
    fn waiting<T>(
        &mut self,
        context: &mut Context<'_>,
        what: Interest,
        mut work: impl FnMut(&End) -> Result<T>,
    ) -> Poll<Result<T>> {
        // What was said before to the other side was taken back.
        let mut is_unsaid = false;
        loop {
            match work(&self.end) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                done => {
                    self.until = Interest {
                        read: self.until.read && !what.read,
                        write: self.until.write && !what.write,
                    };
                    if is_unsaid && self.until != Interest::default() {
                        // The task looks again, and says it again.
                        context.waker().wake_by_ref()
                    }
                    return Poll::Ready(done);
                }
            }
            self.until =
                Interest { read: self.until.read || what.read, write: self.until.write || what.write };
            if self.patience.spin(|| self.end.has_news(what)) {
                continue;
            }
            if !self.end.go_to_sleep(self.until) {
                is_unsaid = true;
                if self.end.has_news(what) {
                    continue;
                }
                // What the task waited for before is there: it looks, or is not interested any more.
                self.until = what;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(self.bell.poll_read_ready(context))?;
            self.end.is_awake();
            is_unsaid = true;
            self.hear()
        }
    }
    /// Takes the rings that have come, so that tokio knows that there are no more.
    fn hear(&self) {
        let mut rings = [0; 64];
        loop {
            match self.bell.try_read(&mut rings) {
                Ok(1..) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // The end, which is noted there.
                _ => return self.end.hear(),
            }
        }
    }
}

impl AsyncRead for MemoryStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let n = ready!(
            self.get_mut().waiting(context, Interest::READ, |end| { end.read(into.initialize_unfilled()) })
        )?;
        into.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemoryStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.get_mut().waiting(context, Interest { read: false, write: true }, |end| end.write(bytes))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        match self.end.bell() {
            Bell::System(bell) => Poll::Ready(bell.shutdown(Shutdown::Both)),
            Bell::World(bell) => Poll::Ready(bell.shutdown(Shutdown::Both)),
        }
    }
}
