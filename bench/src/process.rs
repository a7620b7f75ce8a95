//! A process that serves by a Unix socket, for as long as a bench needs it.
use crate::Result;
use crate::machine::family_seconds;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The name of a server's socket, in a folder.
pub const SOCKET: &str = ".s.PGSQL.5432";

pub struct Process {
    child: Child,
    pub socket: PathBuf,
    /// It ends when its input does.
    ends_itself: bool,
}

impl Process {
    /// This program as a server: `ondol-bench wire OPTION PLACE`, which ends when its input does.
    pub fn start(option: &str, place: &Path, socket: PathBuf) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("wire").arg(option).arg(place);
        Process::run(command, socket, true)
    }
    /// Ondol's server on a folder's database, at a port of this machine as well.
    pub fn serve(folder: &Path, port: u16) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("wire").arg("--serve").arg(folder).args(["--port", &port.to_string()]);
        Process::run(command, folder.join(SOCKET), true)
    }
    /// Gives it once it listens.
    pub fn run(mut command: Command, socket: PathBuf, ends_itself: bool) -> Result<Process> {
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut process = Process { child: command.spawn()?, socket, ends_itself };
        for _ in 0..3000 {
            if UnixStream::connect(&process.socket).is_ok() {
                return Ok(process);
            }
            if let Some(status) = process.child.try_wait()? {
                return Err(format!("the server's process ended by {status}").into());
            }
            std::thread::sleep(Duration::from_millis(10))
        }
        Err("the server's process does not listen".into())
    }
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    /// Of the process and what it began.
    pub fn cpu_seconds(&self) -> f64 {
        family_seconds(self.child.id())
    }
    /// Ends it by SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

/// A port that nobody listens at.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let ended = self.ends_itself
            && (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                matches!(self.child.try_wait(), Ok(Some(_)))
            });
        if !ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
