//! A PostgreSQL server of a bench's own: made below a folder of its run, and gone with it.
//!
//! PostgreSQL does not run as root: there it runs as the user `postgres`, as Debian's package has one.
use crate::{Error, Result, machine};
use postgres::{Client, NoTls};
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct Cluster {
    bin: PathBuf,
    /// Data and socket.
    data: PathBuf,
    port: String,
    user: Option<(u32, u32)>,
    server: Child,
}

/// What `postgres --version` says, of the programs in a folder; nothing if there are none.
pub fn version(bin: &Path) -> Option<String> {
    let out = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

/// Whom its processes run as; `None`: as this one.
fn user() -> Result<Option<(u32, u32)>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let id = |which: &str| -> Result<u32> {
        let out = Command::new("id").args([which, "postgres"]).output()?;
        String::from_utf8_lossy(&out.stdout).trim().parse().map_err(|_| {
            Error::from("PostgreSQL does not run as root, and there is no user postgres to run it as")
        })
    };
    Ok(Some((id("-u")?, id("-g")?)))
}

fn program(path: PathBuf, user: Option<(u32, u32)>, place: &Path) -> Command {
    let mut command = Command::new(path);
    command.current_dir(place).stdin(Stdio::null());
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}

impl Cluster {
    /// Makes and starts one below `folder`, which others may look into then. It listens at its Unix socket
    /// alone, unless the settings say otherwise.
    pub fn start(bin: &Path, folder: &Path, settings: &[(&str, &str)]) -> Result<Cluster> {
        let user = user()?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        let place = folder.join("postgresql");
        let data = place.join("data");
        std::fs::create_dir(&place)?;
        if let Some((user, group)) = user {
            chown(&place, Some(user), Some(group))?;
        }
        let out = program(bin.join("initdb"), user, &place)
            .args(["-A", "trust", "-N", "-U", "postgres", "--no-locale", "-E", "UTF8", "-D"])
            .arg(&data)
            .output()?;
        if !out.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
        }
        let log = place.join("log");
        let mut server = program(bin.join("postgres"), user, &place);
        server.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c"]);
        server.arg(format!("unix_socket_directories={}", data.display()));
        for (name, value) in settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let server = server.stdout(Stdio::null()).stderr(File::create(&log)?).spawn()?;
        let port = settings.iter().find(|s| s.0 == "port").map_or("5432", |s| s.1).to_string();
        let mut cluster = Cluster { bin: bin.to_path_buf(), data, port, user, server };
        for _ in 0..1000 {
            if cluster.connect().is_ok() {
                return Ok(cluster);
            }
            if cluster.server.try_wait()?.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let why = std::fs::read_to_string(&log).unwrap_or_default();
        Err(format!("the PostgreSQL server does not come up: {}", why.trim()).into())
    }
    pub fn connect(&self) -> Result<Client> {
        let host = self.data.display().to_string().replace('\\', "\\\\").replace('\'', "\\'");
        let address = format!("host='{host}' port={} user=postgres dbname=postgres", self.port);
        Ok(Client::connect(&address, NoTls)?)
    }
    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.data.join(format!(".s.PGSQL.{}", self.port))
    }
    /// A new folder that the server may write to, and others may look into.
    pub fn folder(&self, path: &Path) -> Result<()> {
        std::fs::create_dir(path)?;
        if let Some((user, group)) = self.user {
            chown(path, Some(user), Some(group))?;
        }
        Ok(())
    }
    /// The process that starts the others.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }
    /// CPU seconds of all its processes so far.
    pub fn cpu_seconds(&self) -> f64 {
        machine::family_seconds(self.server.id())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = program(self.bin.join("pg_ctl"), self.user, Path::new("/"))
            .args(["stop", "-s", "-w", "-m", "fast", "-D"])
            .arg(&self.data)
            .status();
        if !stopped.is_ok_and(|s| s.success()) {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
    }
}
