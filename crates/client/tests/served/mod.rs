//! A server to talk to.
#![allow(dead_code, reason = "each test uses a part")]
use ondol::server::{ServeOptions, Server};
use ondol::{Database, TempFolder};
use std::path::PathBuf;
use std::time::Duration;

pub const LIMIT: Duration = Duration::from_secs(20);
/// Of the role `postgres`, by TCP.
pub const PASSWORD: &str = "it is a secret";

/// A server of a database of its own.
pub struct Served {
    _folder: TempFolder,
    pub path: PathBuf,
    pub db: Database,
    pub server: Option<Server>,
}

impl Served {
    pub fn new() -> Served {
        let folder = TempFolder::new().expect("a folder");
        let path = folder.path().join("db");
        let db = Database::open(&path).expect("a database");
        let options = ServeOptions {
            listen: vec!["127.0.0.1:0".into()],
            password: Some(PASSWORD.into()),
            sockets: vec![path.join(".s.PGSQL.5432")],
            owner: Some(ondol::server::owner_of(&path).expect("an owner")),
            ..ServeOptions::default()
        };
        let server = Some(Server::start(&db, &options).expect("a server"));
        Served { _folder: folder, path, db, server }
    }
    /// By TCP, the socket, and memory.
    pub fn ways(&self) -> [String; 3] {
        let port = self.server.as_ref().expect("a server").addresses()[0].port();
        let folder = self.path.display();
        [
            format!("postgres://postgres:{}@127.0.0.1:{port}", PASSWORD.replace(' ', "%20")),
            format!("postgres:///?host={folder}"),
            format!("postgres:///?host={folder}&memory=require"),
        ]
    }
    pub fn sessions(&self) -> i64 {
        let mut s = self.db.session();
        let found = s.query("SELECT count(*) FROM pg_stat_activity", &[]).expect("the view");
        found.row(0).get(0).expect("a number")
    }
    /// Waits until so many sessions are left.
    pub fn has(&self, sessions: i64) {
        let until = std::time::Instant::now() + LIMIT;
        while self.sessions() != sessions {
            assert!(std::time::Instant::now() < until, "{} sessions", self.sessions());
            std::thread::sleep(Duration::from_millis(5))
        }
    }
}
