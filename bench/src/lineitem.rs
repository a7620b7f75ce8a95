//! TPC-H's lineitem as CSV: converted from the file that TPC-H's generators write, or made, row `i` being a
//! function of `i` alone and of the same shape.
use crate::options::Common;
use crate::random::mix;
use crate::{Error, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// For every side. Texts of a fixed length are varchar, so that all sides write the same bytes: they differ
/// in what becomes of the blanks behind a char(n).
pub const TABLE: &str = "CREATE TABLE lineitem (l_orderkey bigint NOT NULL, l_partkey integer NOT NULL, l_suppkey integer NOT NULL, l_linenumber integer NOT NULL,
    l_quantity numeric(15, 2) NOT NULL, l_extendedprice numeric(15, 2) NOT NULL, l_discount numeric(15, 2) NOT NULL, l_tax numeric(15, 2) NOT NULL,
    l_returnflag varchar(1) NOT NULL, l_linestatus varchar(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL,
    l_shipinstruct varchar(25) NOT NULL, l_shipmode varchar(10) NOT NULL, l_comment varchar(44) NOT NULL)";
/// Its columns, and those that are numbers of two decimals.
const COLUMNS: usize = 16;
const CENTS: std::ops::Range<usize> = 4..8;

const INSTRUCT: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
const MODE: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
const WORDS: [&str; 16] = [
    "furiously",
    "carefully",
    "quickly",
    "slyly",
    "deposits",
    "requests",
    "accounts",
    "ideas",
    "final",
    "express",
    "regular",
    "ironic",
    "sleep",
    "haggle",
    "nag",
    "wake",
];

/// Row `i`. Days are counted from 1992-01-01, in months of 28 days.
fn row(i: u64, out: &mut Vec<u8>) -> io::Result<()> {
    let (m, n) = (mix(i ^ 0x11e1), mix(i ^ 0x7e43));
    let quantity = 1 + m % 50;
    let price = quantity * (90_000 + (m >> 8) % 110_000);
    let day = (m >> 32) % 2400;
    let (commit, receipt) = (day + (m >> 44) % 60, day + 1 + (m >> 52) % 30);
    let date = |d: u64| format!("{}-{:02}-{:02}", 1992 + d / 336, 1 + d % 336 / 28, 1 + d % 28);
    let (flag, status) = match (day > 1200, n & 1) {
        (true, _) => ("N", "O"),
        (false, 0) => ("R", "F"),
        (false, _) => ("A", "F"),
    };
    write!(
        out,
        "{},{},{},{},{quantity}.00,{}.{:02},0.{:02},0.{:02},{flag},{status},{},{},{},{},{},",
        1 + i / 4,
        1 + n % 200_000,
        1 + (n >> 20) % 10_000,
        1 + i % 4,
        price / 100,
        price % 100,
        (n >> 36) % 11,
        (n >> 44) % 9,
        date(day),
        date(commit),
        date(receipt),
        INSTRUCT[(n >> 50) as usize % INSTRUCT.len()],
        MODE[(n >> 54) as usize % MODE.len()],
    )?;
    // From two to four words, of 39 characters at most.
    for word in 0..2 + n % 3 {
        if word > 0 {
            out.push(b' ')
        }
        out.extend_from_slice(WORDS[(mix(n + word) % WORDS.len() as u64) as usize].as_bytes())
    }
    out.push(b'\n');
    Ok(())
}

/// Writes so many rows; gives the file's bytes.
pub fn make(to: &Path, rows: u64) -> Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(to)?);
    let (mut bytes, mut line) = (0, Vec::new());
    for i in 0..rows {
        line.clear();
        row(i, &mut line)?;
        bytes += line.len() as u64;
        file.write_all(&line)?;
    }
    file.flush()?;
    Ok(bytes)
}

/// A line of fields that each end in `|`, as CSV.
fn converted(line: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), String> {
    let fields = line.strip_suffix(b"|").ok_or("expected fields that each end in |, found another end")?;
    let mut count = 0;
    for field in fields.split(|b| *b == b'|') {
        if count > 0 {
            out.push(b',')
        }
        count += 1;
        // What PostgreSQL would write, so that what all sides write can be compared with this.
        match field.iter().any(|b| b",\"\r\n".contains(b)) || field.is_empty() {
            false => out.extend_from_slice(field),
            true => {
                out.push(b'"');
                for b in field {
                    if *b == b'"' {
                        out.push(b'"')
                    }
                    out.push(*b)
                }
                out.push(b'"')
            }
        }
        // Some generators write whole numbers without.
        if CENTS.contains(&(count - 1)) && !field.contains(&b'.') {
            out.extend_from_slice(b".00")
        }
    }
    out.push(b'\n');
    if count == COLUMNS { Ok(()) } else { Err(format!("expected {COLUMNS} fields, found {count}")) }
}

/// Writes the rows of a file of TPC-H's, the first `most` of them; gives their number and the bytes written.
pub fn convert(tbl: &Path, to: &Path, most: u64) -> Result<(u64, u64)> {
    let told = |e: String| Error::from(format!("{}: {e}", tbl.display()));
    let mut from = BufReader::with_capacity(1 << 20, File::open(tbl).map_err(|e| told(e.to_string()))?);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(to)?);
    let (mut rows, mut bytes, mut line, mut out) = (0, 0, Vec::new(), Vec::new());
    while rows < most {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        out.clear();
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        converted(line, &mut out).map_err(|e| told(format!("line {}: {e}", rows + 1)))?;
        rows += 1;
        bytes += out.len() as u64;
        file.write_all(&out)?;
    }
    file.flush()?;
    if rows == 0 { Err(told("expected rows of lineitem, found none".into())) } else { Ok((rows, bytes)) }
}

/// The rows of `tbl`, or such that are made, as CSV: as many as are asked for. Gives their number and the
/// bytes written.
pub fn csv(tbl: Option<&Path>, common: &Common, to: &Path) -> Result<(u64, u64)> {
    match tbl {
        Some(tbl) => convert(tbl, to, common.rows(u64::MAX, 4_000)),
        None => {
            let rows = common.rows(6_000_000, 4_000);
            Ok((rows, make(to, rows)?))
        }
    }
}

/// Makes the table in PostgreSQL, of the rows of a CSV file.
#[cfg(feature = "peers")]
pub fn load(client: &mut postgres::Client, csv: &Path) -> Result<()> {
    client.batch_execute(TABLE)?;
    let mut writer = client.copy_in("COPY lineitem FROM STDIN (FORMAT csv)")?;
    io::copy(&mut File::open(csv)?, &mut writer)?;
    writer.finish()?;
    Ok(client.batch_execute("VACUUM (ANALYZE, FREEZE) lineitem")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "1|155190|7706|1|17.00|21168.23|0.04|0.02|N|O|1996-03-13|1996-02-12|1996-03-22|DELIVER IN PERSON|TRUCK|";

    #[test]
    fn a_line_of_tpc_h_becomes_csv() {
        let mut out = Vec::new();
        converted(format!("{LINE}egular courts, \"above\"|").as_bytes(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("1,155190,7706,1,17.00,21168.23,"), "{text}");
        assert!(text.ends_with(",TRUCK,\"egular courts, \"\"above\"\"\"\n"), "{text}");
    }

    #[test]
    fn what_is_no_lineitem_is_told_with_its_line() {
        let folder = ondol::TempFolder::new().unwrap();
        let (tbl, to) = (folder.path().join("t.tbl"), folder.path().join("t.csv"));
        std::fs::write(&tbl, format!("{LINE}fine|\n{LINE}\n")).unwrap();
        assert_eq!(convert(&tbl, &to, 1).unwrap().0, 1);
        let e = convert(&tbl, &to, 2).unwrap_err().to_string();
        assert!(e.ends_with("line 2: expected 16 fields, found 15"), "{e}");
        std::fs::write(&tbl, "").unwrap();
        assert!(convert(&tbl, &to, 2).is_err());
        assert!(convert(&folder.path().join("nothing"), &to, 2).is_err());
    }

    #[test]
    fn made_rows_fit_the_table() {
        let mut out = Vec::new();
        (0..5000).for_each(|i| row(i, &mut out).unwrap());
        for line in String::from_utf8(out).unwrap().lines() {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields.len(), COLUMNS, "{line}");
            assert!(fields[13].len() <= 25 && fields[14].len() <= 10 && fields[15].len() <= 44, "{line}");
        }
    }
}
