//! `ondol serve`: a database for PostgreSQL's clients.
use super::folder::{self, Reading};
use super::holder::held_by;
use super::notify::notify;
use super::{Done, Failed, Ring, say, shell, tell, tell_opened};
use ondol::server::{self, DATABASE, PORT, ServeOptions, Server, SettingGiven, Stage, TlsFiles};
use ondol::{Database, OpenOptions, TempFolder, USER};
use ondol_base::net::allow_descriptors;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Descriptors beside those of connections.
const OTHERS: u64 = 1000;
/// What may lie in the folder before there is a database.
const BESIDE: [&str; 5] = ["server.crt", "server.key", "ondol.conf", "ondol.auto.conf", PASSWORD];
/// The file in the database's folder that has the first password.
const PASSWORD: &str = "initial-password";

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder, made if it is not there
    #[arg(required_unless_present_any = ["temporary", "innodb"], conflicts_with_all = ["temporary", "innodb"])]
    path: Option<PathBuf>,
    /// Serve a database that is gone when the server ends
    #[arg(long)]
    temporary: bool,
    /// Serve the tables of MySQL or MariaDB, read from their files: the data folder of a server that was shut
    /// down, a prepared backup, or a folder of snapshots. Nothing is written there
    #[arg(long, value_name = "FOLDER", conflicts_with = "template")]
    innodb: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// The database that the temporary one is a copy of; it may be in use
    #[arg(long, value_name = "PATH", requires = "temporary")]
    template: Option<PathBuf>,
    /// HOST:PORT to listen on (may be repeated); 127.0.0.1:5432 if neither this nor --socket is given
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// A folder for the Unix socket, or its whole name (may be repeated); PATH if neither this nor --listen
    /// is given
    #[arg(long, value_name = "FOLDER")]
    socket: Vec<PathBuf>,
    /// Connections at most; 10,000 if neither this nor max_connections is given
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// A setting, before those of the environment (ONDOL_NAME) and of the file (may be repeated)
    #[arg(short = 'c', long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// The file of settings; PATH/ondol.conf if that is there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Answer Prometheus there (GET /metrics), whoever asks
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Who connects from this machine needs no password
    #[arg(long)]
    trust_loopback: bool,
    /// The certificate for TLS, and those of who signed it, in PEM; PATH/server.crt if that is there
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM; PATH/server.key if that is there
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Take only connections by TCP that use TLS
    #[arg(long)]
    require_tls: bool,
    /// A further folder to log into (may be repeated; give the same ones, in the same order, each time)
    #[arg(long = "log-folder", value_name = "DIR")]
    log_folders: Vec<String>,
    #[command(flatten)]
    ring: Ring,
    /// Bytes that the database may take in memory (K, M and G multiply by 1024)
    #[arg(long, value_parser = shell::bytes)]
    memory_limit: Option<usize>,
}

/// The first password, which is made if it is not there.
fn password(folder: &Path) -> Result<String, Failed> {
    let path = folder.join(PASSWORD);
    match std::fs::read_to_string(&path) {
        Ok(text) => return Ok(text.trim_end_matches(['\r', '\n']).to_string()),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(Failed::io(format!("could not read {}", path.display()), e)),
    }
    let failed = |e| Failed::io(format!("could not write {}", path.display()), e);
    let made = server::new_password()?;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    writeln!(file, "{made}").and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(made)
}

/// What the environment and the command line say; the latter goes before.
fn settings(args: &Args) -> Result<Vec<SettingGiven>, Failed> {
    let mut all = server::environment(std::env::vars());
    for given in &args.settings {
        let (name, value) = given
            .split_once('=')
            .ok_or_else(|| Failed::Message(format!("-c {given}: expected NAME=VALUE")))?;
        all.push(SettingGiven::new(name.trim(), value.trim(), "the command line"))
    }
    if let Some(n) = args.connections {
        all.push(SettingGiven::new("max_connections", &n.to_string(), "--connections"))
    }
    Ok(all)
}

/// The files for TLS: those that are named, or lie in the folder.
fn tls(args: &Args, folder: &Path) -> Result<Option<TlsFiles>, Failed> {
    let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
    let is_wanted = args.tls_cert.is_some() || args.tls_key.is_some() || certificate.exists() || key.exists();
    if !is_wanted && args.require_tls {
        return Err(Failed::Message(
            "--require-tls needs --tls-cert and --tls-key, or server.crt and server.key in the folder".into(),
        ));
    }
    Ok(is_wanted.then(|| TlsFiles {
        certificate: args.tls_cert.clone().unwrap_or(certificate),
        key: args.tls_key.clone().unwrap_or(key),
    }))
}

/// A socket's whole name: in a folder it has PostgreSQL's.
fn socket(given: &Path, port: u16) -> PathBuf {
    match given.is_dir() {
        true => given.join(format!(".s.PGSQL.{port}")),
        false => given.to_path_buf(),
    }
}

pub fn run(args: Args) -> Done {
    // Holds the folder of a temporary database until the server has ended.
    let mut temporary = None;
    let folder = match &args.path {
        Some(path) => path.clone(),
        None => {
            let memory = PathBuf::from("/dev/shm");
            let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
            let made = TempFolder::swept(&parent)?;
            temporary.insert(made).path().join("db")
        }
    };
    if let Some(template) = &args.template {
        ondol::backup::backup(template, &[], None, &folder)?;
    }
    let mut options = OpenOptions::new();
    for name in BESIDE {
        options = options.beside(name)
    }
    for f in &args.log_folders {
        options = options.log_folder(f)
    }
    if let Some(bytes) = args.memory_limit {
        options = options.memory_limit(bytes)
    }
    let database = args.ring.apply(options).open(&folder).map_err(|e| held_by(e, &folder))?;
    tell_opened(&database);
    let mut own_settings = Vec::new();
    if let Some(of) = &args.innodb {
        let schemas = folder::open(&database, of, &args.reading)?;
        let mut own = |name: &str, value: &str| own_settings.push(SettingGiven::new(name, value, "--innodb"));
        own("default_transaction_read_only", "on");
        if let [only] = &schemas[..] {
            own("search_path", &format!("{}, public", ondol_types::name::quote(only)))
        }
    }

    let mut listen = args.listen.clone();
    let mut sockets: Vec<PathBuf> = args.socket.clone();
    if listen.is_empty() && sockets.is_empty() {
        listen.push(format!("127.0.0.1:{PORT}"));
        sockets.push(folder.clone())
    }
    // A socket's name has the port, which is that of the first address.
    let port =
        listen.first().and_then(|l| l.rsplit_once(':')?.1.parse().ok()).filter(|p| *p > 0).unwrap_or(PORT);
    let sockets: Vec<PathBuf> = sockets.iter().map(|s| socket(s, port)).collect();
    let by_tcp = !listen.is_empty();
    let served = ServeOptions {
        listen,
        sockets: sockets.clone(),
        trust_loopback: args.trust_loopback,
        password: if by_tcp { Some(password(&folder)?) } else { None },
        owner: Some(server::owner_of(&folder).map_err(|e| Failed::io("could not look at the folder", e))?),
        tls: tls(&args, &folder)?,
        require_tls: args.require_tls,
        settings_file: Some(args.config.clone().unwrap_or_else(|| folder.join("ondol.conf"))),
        system_file: Some(folder.join("ondol.auto.conf")),
        settings: own_settings.into_iter().chain(settings(&args)?).collect(),
        metrics: args.metrics.clone(),
        ..ServeOptions::default()
    };
    if let Some(path) = args.config.as_ref().filter(|p| !p.exists()) {
        return Err(Failed::Message(format!("there is no file {}", path.display())));
    }
    let server = Server::start(&database, &served)?;
    // Each connection has one. Where fewer are allowed, connections wait to be taken.
    let _ = allow_descriptors(server.connections() as u64 + OTHERS);
    greet(&server, &sockets, &args, &folder, &database, &served)?;
    server.run(|stage| match stage {
        Stage::Serves => notify("READY=1"),
        Stage::Reloads => notify("RELOADING=1"),
        Stage::Ends => notify("STOPPING=1"),
    })?;
    if temporary.is_none() {
        database.checkpoint()?
    }
    database.close()?;
    say("The server has ended.\n")
}

fn greet(
    server: &Server,
    sockets: &[PathBuf],
    args: &Args,
    folder: &Path,
    database: &Database,
    served: &ServeOptions,
) -> Done {
    let mut text = format!("Ondol {} serves ", env!("CARGO_PKG_VERSION"));
    match args.temporary || args.innodb.is_some() {
        true => {
            let of = args.template.as_ref().map_or(String::new(), |t| format!(", a copy of {}", t.display()));
            let of = args.innodb.as_ref().map_or(of, |f| format!(" over the files in {}", f.display()));
            text += &format!("a temporary database{of}. Nothing of it is kept when the server ends.\n")
        }
        false => text += &format!("{}.\n", folder.display()),
    }
    for a in server.addresses() {
        text += &format!("  postgres://{USER}@{a}/{DATABASE}\n")
    }
    if let Some(a) = server.metrics_address() {
        text += &format!("  http://{a}/metrics\n")
    }
    for s in sockets {
        let place = s.parent().unwrap_or(Path::new("."));
        let place = std::path::absolute(place).unwrap_or_else(|_| place.to_path_buf());
        let port = s.extension().map_or_else(|| PORT.to_string(), |p| p.to_string_lossy().into_owned());
        text += &format!("  psql -h {} -p {port} -U {USER}\n", place.display())
    }
    if served.password.is_some() {
        text += &format!("The password for {USER} over TCP is in {}.\n", folder.join(PASSWORD).display())
    }
    if args.trust_loopback {
        tell("WARNING:  whoever is on this machine may connect as any role, without a password\n")
    }
    if served.tls.is_none() && server.addresses().iter().any(|a| !a.ip().to_canonical().is_loopback()) {
        tell(
            "WARNING:  without --tls-cert and --tls-key, clients on other machines send and get everything unencrypted\n",
        )
    }
    if !args.temporary && args.innodb.is_none() && database.opened().recovered.ring.is_none() {
        text += "A commit is answered once the log is synced: it survives the end of the process, and a power \
                 failure as far as the disk keeps what it was told to.\n"
    }
    say(&text)
}
