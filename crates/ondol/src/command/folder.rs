//! A folder of MySQL's or MariaDB's that is served: its tables as foreign tables of a temporary database.
use super::innodb::{ZeroBytes, ZeroDates};
use super::{Done, Failed, say};
use clap::ValueEnum;
use ondol::{Database, TableLeftOut, Value};
use std::path::{Path, PathBuf};

/// How the tables are read.
#[derive(clap::Args)]
pub struct Reading {
    /// What dates that are no days of the calendar (0000-00-00) become: refuse (an error when a row has one;
    /// the usual), null, or text (then all dates are texts)
    #[arg(long, value_name = "WHAT", requires = "innodb")]
    zero_dates: Option<ZeroDates>,
    /// What zero bytes in texts become, which texts here cannot have: refuse (the usual), remove or replace
    #[arg(long, value_name = "WHAT", requires = "innodb")]
    zero_bytes: Option<ZeroBytes>,
    /// The keys of encrypted tables: the file that MariaDB's file_key_management_filename names
    #[arg(long, value_name = "FILE", requires = "innodb")]
    keys: Option<PathBuf>,
    /// The password of an encrypted file of keys
    #[arg(long, value_name = "FILE", requires = "keys")]
    keys_password: Option<PathBuf>,
    /// With the rows of system-versioned tables that were deleted or changed
    #[arg(long, requires = "innodb")]
    history: bool,
    /// Read files although nothing shows that they were at rest
    #[arg(long, requires = "innodb")]
    assume_consistent: bool,
}

impl Reading {
    /// The options of the foreign tables.
    fn options(&self) -> Result<Vec<(String, String)>, Failed> {
        let mut all = Vec::new();
        let mut put = |name: &str, value: &str| all.push((name.to_string(), value.to_string()));
        // The options have the same words.
        let zero_dates = self.zero_dates.and_then(|what| what.to_possible_value());
        let zero_bytes = self.zero_bytes.and_then(|what| what.to_possible_value());
        for (name, word) in [("zero_dates", zero_dates), ("zero_bytes", zero_bytes)] {
            if let Some(word) = word {
                put(name, word.get_name())
            }
        }
        for (name, path) in [("keys", &self.keys), ("keys_password", &self.keys_password)] {
            if let Some(path) = path {
                let path = std::path::absolute(path).map_err(|e| Failed::io(format!("--{name}"), e))?;
                put(name, &path.display().to_string())
            }
        }
        if self.history {
            put("history", "true")
        }
        if self.assume_consistent {
            put("assume_consistent", "true")
        }
        Ok(all)
    }
}

/// The table of what was left out.
const LEFT_OUT: &str = "CREATE TABLE public.left_out (schema text NOT NULL, name text NOT NULL, file text NOT NULL, reason text NOT NULL)";

/// Makes foreign tables of all of a folder's tables, tells what there is, and gives the schemas' names.
pub fn open(database: &Database, folder: &Path, reading: &Reading) -> Result<Vec<String>, Failed> {
    let folder = std::path::absolute(folder).map_err(|e| Failed::io(folder.display().to_string(), e))?;
    let mut s = database.session();
    // First, so that no table of the folder's has its name.
    s.execute(LEFT_OUT)?;
    let schemas = s.import_innodb_folder(&folder, &reading.options()?)?;
    s.execute("COMMENT ON TABLE public.left_out IS 'What of the folder is not here, and why'")?;
    s.execute("GRANT SELECT ON public.left_out TO PUBLIC")?;
    let (mut tables, mut left_out) = (0, 0);
    for schema in &schemas {
        tables += schema.tables;
        left_out += schema.left_out.len();
        for TableLeftOut { name, file, reason } in &schema.left_out {
            let file = file.display().to_string();
            let values = [&schema.name, name, &file, reason].map(|t| Value::Text(t.clone()));
            s.query("INSERT INTO public.left_out VALUES ($1, $2, $3, $4)", &values)?;
        }
    }
    if tables == 0 {
        let reasons = schemas.iter().flat_map(|s| s.left_out.iter().map(move |l| (s, l)));
        let some: Vec<String> =
            reasons.take(3).map(|(s, l)| format!("{}.{}: {}", s.name, l.name, l.reason)).collect();
        return Err(Failed::Message(format!(
            "{} has no table that can be read: {left_out} are left out, as\n{}",
            folder.display(),
            some.join("\n")
        )));
    }
    told(&folder, &schemas.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), tables, left_out)?;
    Ok(schemas.into_iter().map(|s| s.name).collect())
}

fn told(folder: &Path, schemas: &[&str], tables: usize, left_out: usize) -> Done {
    let mut text =
        format!("{} has {tables} tables that can be read, in {}", folder.display(), schemas.join(", "));
    if left_out > 0 {
        text += &format!("; {left_out} things are left out (SELECT * FROM left_out)")
    }
    say(&format!("{text}.\n"))
}
