//! The options that all benches have.
use crate::Result;
use ondol::TempFolder;
use std::path::{Path, PathBuf};

#[derive(clap::Args, Clone, Debug)]
pub struct Common {
    /// Rounds in which the sides alternate
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
    /// Seconds for each side in each round
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Rows of the table
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,
    /// Run with next to nothing, to see that it works; figures mean nothing then
    #[arg(long)]
    pub tiny: bool,
    /// Parent of the temporary folder that databases are made in; its disk is what durable figures are about
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where CSV, SVG and Markdown are written
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also put the outcome in its section of bench/README.md
    #[arg(long)]
    pub publish: bool,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= 86_400.0 => Ok(s),
        _ => Err("expected seconds, more than 0".into()),
    }
}

/// The folder of the benches, with their README.
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Common {
    pub fn rounds(&self) -> usize {
        if self.tiny { self.rounds.min(2) as usize } else { self.rounds as usize }
    }
    pub fn seconds(&self, usual: f64) -> f64 {
        self.seconds.unwrap_or(if self.tiny { 0.02 } else { usual })
    }
    pub fn rows(&self, usual: u64, tiny: u64) -> u64 {
        self.rows.unwrap_or(if self.tiny { tiny } else { usual })
    }
    /// A folder for databases, removed when dropped.
    pub fn folder(&self) -> Result<TempFolder> {
        match &self.dir {
            Some(d) => {
                std::fs::create_dir_all(d)?;
                Ok(TempFolder::inside(d)?)
            }
            None if self.tiny => Ok(TempFolder::new()?),
            // Folders for temporary files are often in memory; the build's folder seldom is.
            None => {
                let d = home().join("../target/bench-data");
                std::fs::create_dir_all(&d)?;
                Ok(TempFolder::inside(&d.canonicalize()?)?)
            }
        }
    }
    /// Where results go; in a tiny run without `--out` nowhere.
    pub fn out(&self) -> Option<PathBuf> {
        match &self.out {
            Some(d) => Some(d.clone()),
            None if self.tiny => None,
            None => Some(home().join("results")),
        }
    }
}
