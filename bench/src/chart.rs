//! Charts as SVG: horizontal bars with quartiles, and lines over time. Plain shapes, so that any viewer shows
//! them.
use crate::report::number;
use crate::rounds::Quartiles;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const LABELS: f64 = 270.0;
const RIGHT: f64 = 130.0;
const BAR: f64 = 24.0;
const LINES: f64 = 220.0;
/// Bars that differ by more than this are shown on a logarithmic scale.
const LOGARITHMIC: f64 = 30.0;
const COLOURS: [&str; 6] = ["#c2571a", "#2f6f9f", "#5b8c5a", "#8a5a9e", "#a08a2c", "#666666"];

pub struct Bar {
    pub label: String,
    pub at: Quartiles,
}

enum Kind {
    Bars(Vec<Bar>),
    /// Named lines of points.
    Lines {
        x: String,
        lines: Vec<(String, Vec<(f64, f64)>)>,
    },
}

pub struct Chart {
    title: String,
    unit: String,
    kind: Kind,
}

fn escape(s: &str) -> String {
    s.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Chart {
    pub fn bars(title: &str, unit: &str, bars: Vec<Bar>) -> Chart {
        Chart { title: title.into(), unit: unit.into(), kind: Kind::Bars(bars) }
    }
    pub fn lines(title: &str, x: &str, unit: &str, lines: Vec<(String, Vec<(f64, f64)>)>) -> Chart {
        Chart { title: title.into(), unit: unit.into(), kind: Kind::Lines { x: x.into(), lines } }
    }

    fn height(&self) -> f64 {
        match &self.kind {
            Kind::Bars(b) => 58.0 + b.len() as f64 * BAR,
            Kind::Lines { .. } => 84.0 + LINES,
        }
    }

    fn draw(&self, top: f64, out: &mut String) {
        let head = format!("{} ({})", self.title, self.unit);
        match &self.kind {
            Kind::Bars(bars) => draw_bars(bars, &head, top, out),
            Kind::Lines { x, lines } => draw_lines(lines, &head, x, top, out),
        }
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(what));
}

fn draw_bars(bars: &[Bar], head: &str, top: f64, out: &mut String) {
    let good = |v: f64| v.is_finite() && v > 0.0;
    let largest = bars.iter().map(|b| b.at.high).filter(|v| good(*v)).fold(0.0, f64::max);
    let least = bars.iter().map(|b| b.at.low).filter(|v| good(*v)).fold(f64::INFINITY, f64::min);
    let logarithmic = largest / least > LOGARITHMIC;
    let floor = if logarithmic { 10f64.powf(least.log10().floor()) } else { 0.0 };
    let room = WIDTH - LABELS - RIGHT;
    let place = |v: f64| match (good(v), logarithmic) {
        (false, _) => 0.0,
        (true, false) => v / largest * room,
        (true, true) => (v / floor).log10() / (largest / floor).log10() * room,
    };
    let scale = if logarithmic { ", logarithmic" } else { "" };
    let _ = writeln!(out, "<g font-weight=\"bold\">");
    text(out, 10.0, top + 22.0, "start", &format!("{head}{scale}"));
    out.push_str("</g>\n");
    if logarithmic {
        let mut decade = floor;
        while decade <= largest {
            let x = LABELS + place(decade);
            let (y1, y2) = (top + 34.0, top + 36.0 + bars.len() as f64 * BAR);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
            );
            decade *= 10.0;
        }
    }
    for (i, b) in bars.iter().enumerate() {
        let y = top + 36.0 + i as f64 * BAR;
        text(out, LABELS - 8.0, y + 14.0, "end", &b.label);
        // The first words of a label name whose it is: ours first, by colour.
        let colour = if b.label.starts_with("Ondol") { COLOURS[0] } else { COLOURS[1] };
        let _ = writeln!(
            out,
            "<rect x=\"{LABELS}\" y=\"{:.1}\" width=\"{:.1}\" height=\"16\" fill=\"{colour}\"/>",
            y + 2.0,
            place(b.at.median).max(1.0)
        );
        let (low, high, mid) = (LABELS + place(b.at.low), LABELS + place(b.at.high), y + 10.0);
        let _ = writeln!(
            out,
            "<path d=\"M{low:.1} {mid:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\" stroke=\"#222\" fill=\"none\"/>",
            mid - 4.0,
            mid - 4.0
        );
        text(
            out,
            LABELS + place(b.at.high).max(place(b.at.median)) + 8.0,
            y + 14.0,
            "start",
            &number(b.at.median),
        );
    }
}

fn draw_lines(lines: &[(String, Vec<(f64, f64)>)], head: &str, x: &str, top: f64, out: &mut String) {
    let all = || lines.iter().flat_map(|l| &l.1).filter(|p| p.0.is_finite() && p.1.is_finite());
    let right = all().map(|p| p.0).fold(0.0, f64::max).max(1e-9);
    let high = all().map(|p| p.1).fold(0.0, f64::max).max(1e-9);
    let (left, base, room) = (110.0, top + 36.0 + LINES, WIDTH - 110.0 - RIGHT);
    let _ = writeln!(out, "<g font-weight=\"bold\">");
    text(out, 10.0, top + 22.0, "start", head);
    out.push_str("</g>\n");
    for part in 0..=4 {
        let y = base - LINES * part as f64 / 4.0;
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>",
            left + room
        );
        text(out, left - 8.0, y + 4.0, "end", &number(high * part as f64 / 4.0));
        text(out, left + room * part as f64 / 4.0, base + 18.0, "middle", &number(right * part as f64 / 4.0));
    }
    text(out, left + room / 2.0, base + 36.0, "middle", x);
    for (i, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let path: Vec<String> = points
            .iter()
            .filter(|p| p.0.is_finite() && p.1.is_finite())
            .map(|p| format!("{:.1},{:.1}", left + p.0 / right * room, base - p.1 / high * LINES))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            path.join(" ")
        );
        let _ = writeln!(out, "<g fill=\"{colour}\">");
        text(out, left + room + 8.0, top + 50.0 + i as f64 * 18.0, "start", name);
        out.push_str("</g>\n");
    }
}

/// All charts below each other.
pub fn svg(charts: &[Chart]) -> String {
    let height: f64 = charts.iter().map(Chart::height).sum::<f64>() + 10.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let mut top = 0.0;
    for c in charts {
        c.draw(top, &mut out);
        top += c.height();
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, v: f64) -> Bar {
        Bar { label: label.into(), at: Quartiles { low: v * 0.9, median: v, high: v * 1.1 } }
    }

    #[test]
    fn bars_are_in_proportion() {
        let out = svg(&[Chart::bars("t", "u", vec![bar("Ondol <1>", 100.0), bar("b", 50.0)])]);
        assert!(out.contains("Ondol &lt;1&gt;") && !out.contains("logarithmic"));
        let widths: Vec<f64> = out
            .lines()
            .filter(|l| l.contains("height=\"16\""))
            .map(|l| l.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!((widths[0] / widths[1] - 2.0).abs() < 0.01, "{widths:?}");
        let wide = svg(&[Chart::bars("t", "u", vec![bar("a", 1e7), bar("b", 1e4), bar("c", f64::NAN)])]);
        assert!(wide.contains("logarithmic") && !wide.contains("NaN") && !wide.contains("inf"));
    }

    #[test]
    fn lines_survive_nothing() {
        let out = svg(&[Chart::lines(
            "t",
            "seconds",
            "bytes",
            vec![("a".into(), vec![]), ("b".into(), vec![(1.0, 2.0)])],
        )]);
        assert!(out.contains("<polyline") && !out.contains("NaN"));
    }
}
