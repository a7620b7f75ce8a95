//! A bench's outcome: Markdown for people, CSV with every raw figure, SVG with the charts.
use crate::chart::{self, Chart};
use crate::machine::Machine;
use crate::options::{Common, home};
use crate::rounds::Sample;
use crate::{Error, Result};
use std::fmt::Write;
use std::path::PathBuf;

/// With commas between thousands where it is large, with decimals where it is small.
pub fn number(v: f64) -> String {
    let size = v.abs();
    if !v.is_finite() {
        return "-".into();
    }
    if size < 100.0 && v.fract() != 0.0 {
        return if size < 1.0 { format!("{v:.3}") } else { format!("{v:.2}") };
    }
    let digits = format!("{size:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if v < 0.0 { format!("-{out}") } else { out }
}

pub struct Report {
    bench: &'static str,
    title: String,
    machine: Machine,
    settings: Vec<(String, Vec<(String, String)>)>,
    body: String,
    csv: String,
    charts: Vec<Chart>,
    out: Option<PathBuf>,
    publish: bool,
    tiny: bool,
    children_s: f64,
}

impl Report {
    /// `options` are those of the run; none in tests.
    pub fn new(bench: &'static str, title: impl Into<String>, options: Option<&Common>) -> Report {
        Report {
            bench,
            title: title.into(),
            machine: Machine::watch(),
            settings: vec![],
            body: String::new(),
            csv: "contest,side,round,measure,value\n".into(),
            charts: vec![],
            out: options.and_then(Common::out),
            publish: options.is_some_and(|o| o.publish && !o.tiny),
            tiny: options.is_some_and(|o| o.tiny),
            children_s: 0.0,
        }
    }

    /// What a side was set to; durability belongs here.
    pub fn settings<K: Into<String>, V: Into<String>>(
        &mut self,
        side: impl Into<String>,
        settings: impl IntoIterator<Item = (K, V)>,
    ) {
        let all = settings.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        self.settings.push((side.into(), all));
    }
    /// CPU seconds of processes that belong to the run.
    pub fn children(&mut self, seconds: f64) {
        self.children_s += seconds;
    }
    pub fn section(&mut self, title: &str) {
        let _ = writeln!(self.body, "\n#### {title}\n");
    }
    pub fn say(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.body, "\n{}", text.as_ref());
    }
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let mut width: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
        for r in rows {
            r.iter().zip(&mut width).for_each(|(c, w)| *w = (*w).max(c.chars().count()));
        }
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut s = String::from("|");
            for (i, (c, w)) in cells.zip(&width).enumerate() {
                let pad = " ".repeat(w - c.chars().count());
                s += &if i == 0 { format!(" {c}{pad} |") } else { format!(" {pad}{c} |") };
            }
            s
        };
        let rule: Vec<String> = width
            .iter()
            .enumerate()
            .map(|(i, w)| "-".repeat(w - (i > 0) as usize) + if i > 0 { ":" } else { "" })
            .collect();
        if !self.body.ends_with("\n\n") {
            self.body.push('\n');
        }
        let _ = writeln!(self.body, "{}", line(&mut head.iter().copied()));
        let _ = writeln!(self.body, "{}", line(&mut rule.iter().map(String::as_str)));
        for r in rows {
            let _ = writeln!(self.body, "{}", line(&mut r.iter().map(String::as_str)));
        }
    }
    pub fn chart(&mut self, chart: Chart) {
        self.charts.push(chart);
    }
    pub fn raw(&mut self, contest: &str, side: &str, round: usize, s: &Sample) {
        self.figure(contest, side, round, "operations", s.operations as f64);
        self.figure(contest, side, round, "seconds", s.seconds);
        self.figure(contest, side, round, "cpu_seconds", s.cpu_s);
        for (name, value) in &s.extra {
            self.figure(contest, side, round, name, *value);
        }
    }
    /// One raw figure.
    pub fn figure(&mut self, contest: &str, side: &str, round: usize, measure: &str, value: f64) {
        let quoted = |s: &str| {
            if s.contains([',', '"']) { format!("\"{}\"", s.replace('"', "\"\"")) } else { s.into() }
        };
        let _ = writeln!(
            self.csv,
            "{},{},{},{},{value}",
            quoted(contest),
            quoted(side),
            round + 1,
            quoted(measure)
        );
    }

    pub fn markdown(&self, disturbed: Option<&str>) -> String {
        let mut out = format!("### {}\n\n", self.title);
        let command: Vec<String> = std::env::args().skip(1).collect();
        let _ = writeln!(out, "`ondol-bench {}`\n", command.join(" "));
        if self.tiny {
            out += "**A tiny run: it shows that the bench works; its figures mean nothing.**\n\n";
        }
        if let Some(why) = disturbed {
            let _ = writeln!(out, "**Not quiet, so not to be quoted: {why}.**\n");
        }
        for (k, v) in Machine::description() {
            let _ = writeln!(out, "- {k}: {v}");
        }
        for (side, all) in &self.settings {
            let all: Vec<String> = all.iter().map(|(k, v)| format!("{k} {v}")).collect();
            let _ = writeln!(out, "- {side}: {}", all.join(", "));
        }
        out + &self.body
    }

    /// Prints the report and writes its files.
    pub fn finish(self) -> Result<()> {
        let disturbed = self.machine.disturbed(self.children_s);
        let markdown = self.markdown(disturbed.as_deref());
        println!("{markdown}");
        if let Some(out) = &self.out {
            std::fs::create_dir_all(out)?;
            let file = |ending: &str| out.join(format!("{}.{ending}", self.bench));
            std::fs::write(file("csv"), &self.csv)?;
            std::fs::write(file("svg"), chart::svg(&self.charts))?;
            std::fs::write(file("md"), &markdown)?;
            eprintln!("written: {}, .svg, .md", file("csv").display());
        }
        if self.publish {
            let readme = home().join("README.md");
            let text = std::fs::read_to_string(&readme)?;
            let picture = format!("\n![{}](results/{}.svg)\n", self.title, self.bench);
            let text = published(&text, self.bench, &(markdown + &picture))?;
            std::fs::write(&readme, text)?;
        }
        Ok(())
    }
}

/// The README with a bench's section replaced.
fn published(readme: &str, bench: &str, section: &str) -> Result<String> {
    let (from, to) = (format!("<!-- {bench}: latest run -->\n"), format!("<!-- {bench}: end -->"));
    let missing = || Error::from(format!("the README has no place marked {from:?} to {to:?}"));
    let start = readme.find(&from).ok_or_else(missing)? + from.len();
    let end = start + readme[start..].find(&to).ok_or_else(missing)?;
    Ok(format!("{}{}{}", &readme[..start], section, &readme[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(1234567.4), "1,234,567");
        assert_eq!(number(0.0123), "0.012");
        assert_eq!(number(12.5), "12.50");
        assert_eq!(number(-1234.0), "-1,234");
        assert_eq!(number(7.0), "7");
        assert_eq!(number(f64::NAN), "-");
    }

    #[test]
    fn a_run_replaces_the_one_before() {
        let readme = "a\n<!-- x: latest run -->\nold\n<!-- x: end -->\nb\n";
        let new = published(readme, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- x: latest run -->\nnew\n<!-- x: end -->\nb\n");
        assert!(published("nothing", "x", "").is_err());
    }

    #[test]
    fn a_disturbed_run_says_so() {
        let r = Report::new("x", "X", None);
        assert!(r.markdown(Some("noise")).contains("Not quiet, so not to be quoted: noise"));
        assert!(!r.markdown(None).contains("Not quiet"));
    }

    #[test]
    fn every_bench_has_its_place_in_the_readme() {
        let readme = std::fs::read_to_string(home().join("README.md")).unwrap();
        for bench in [
            "directory",
            "tpcc",
            "load",
            "recovery",
            "checkpoint",
            "pmem",
            "ring",
            "scan",
            "wire",
            "tpcc-wire",
        ] {
            published(&readme, bench, "").unwrap();
        }
    }
}
