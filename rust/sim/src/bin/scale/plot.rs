//! The growth, as lines on logarithmic scales: a cost that does not depend on the size is level.

use std::fmt::Write;

use crate::measure::Row;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const GAP: f64 = 90.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 70.0;
/// Below a plot: its axis, and what its lines are.
const FOOT: f64 = 150.0;
const COLOURS: [&str; 6] = ["#1b6ca8", "#d1495b", "#2e933c", "#8d5fd3", "#d98324", "#5b6770"];

/// A plot: its title, the unit, and the lines by the names of their figures.
struct Plot {
    title: &'static str,
    unit: &'static str,
    lines: &'static [&'static str],
}

const PLOTS: [Plot; 3] = [
    Plot {
        title: "What one lease costs the controller",
        unit: "ns",
        lines: &[
            "a lease, ns",
            "a lease that changes hands, ns",
            "a lease with SPREAD, ns",
            "a lease on one host, ns",
            "a lease by a label of one host in 100, ns",
            "a lease while a group waits for whole hosts, ns",
        ],
    },
    Plot {
        title: "What one death costs",
        unit: "messages, ms",
        lines: &[
            "death of a worker: messages until it is settled",
            "death of a worker: messages at once",
            "death of a host: messages at once",
            "death of a worker: controller, ms",
            "death of a host: controller at once, ms",
        ],
    },
    Plot {
        title: "Placement groups and snapshots",
        unit: "ms",
        lines: &[
            "a group of 4, PACK, ms",
            "a group of 4, SPREAD, ms",
            "a group of 4, STRICT_SPREAD, ms",
            "one group over half of the hosts, ms",
            "snapshot is made, ms",
            "snapshot is read, ms",
        ],
    },
];

pub fn svg(rows: &[Row]) -> String {
    let width = LEFT + PLOTS.len() as f64 * (WIDTH + GAP);
    let height = TOP + HEIGHT + FOOT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (at, plot) in PLOTS.iter().enumerate() {
        draw(&mut out, plot, rows, LEFT + at as f64 * (WIDTH + GAP));
    }
    out.push_str("</svg>\n");
    out
}

/// The decades that these values lie in.
fn decades(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
    let low = logs.iter().copied().reduce(f64::min)?.floor();
    let high = logs.iter().copied().reduce(f64::max)?.ceil();
    // What is level is not to look like a mountain.
    Some((low.min(high - 3.0), high))
}

fn draw(out: &mut String, plot: &Plot, rows: &[Row], left: f64) {
    let points =
        |name: &'static str| rows.iter().filter_map(move |row| Some((f64::from(row.hosts), row.get(name)?)));
    let all = plot.lines.iter().flat_map(|name| points(name));
    let (Some(x), Some(y)) =
        (decades(rows.iter().map(|row| f64::from(row.hosts))), decades(all.map(|it| it.1)))
    else {
        return;
    };
    let across = |value: f64| left + (value.log10() - x.0) / (x.1 - x.0) * WIDTH;
    let down = |value: f64| TOP + HEIGHT - (value.log10() - y.0) / (y.1 - y.0) * HEIGHT;
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"30\" font-size=\"16\" font-weight=\"bold\">{}</text>\
         <text x=\"{left}\" y=\"54\" fill=\"#555\">{}</text>",
        plot.title, plot.unit
    );
    for power in y.0 as i32..=y.1 as i32 {
        let at = down(10_f64.powi(power));
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e3e3e3\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
            left + WIDTH,
            left - 6.0,
            at + 4.0,
            power_text(power)
        );
    }
    for power in x.0 as i32..=x.1 as i32 {
        let at = across(10_f64.powi(power));
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{}\" stroke=\"#e3e3e3\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            TOP + HEIGHT,
            TOP + HEIGHT + 18.0,
            power_text(power)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">hosts, 10 workers each</text>",
        left + WIDTH / 2.0,
        TOP + HEIGHT + 36.0
    );
    for (nth, (name, colour)) in plot.lines.iter().zip(COLOURS).enumerate() {
        let path: Vec<String> = points(name)
            .filter(|(_, value)| *value > 0.0)
            .map(|(hosts, value)| format!("{:.1},{:.1}", across(hosts), down(value)))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for point in path {
            let (cx, cy) = point.split_once(',').unwrap_or_default();
            let _ = writeln!(out, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let at = TOP + HEIGHT + 56.0 + nth as f64 * 16.0;
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{}\" y=\"{at}\">{name}</text>",
            left + 22.0,
            at - 4.0,
            at - 4.0,
            left + 30.0
        );
    }
}

/// 0.01, 1, 1,000, 10 million.
fn power_text(power: i32) -> String {
    match power {
        ..0 => format!("{}", 10_f64.powi(power)),
        0..=2 => format!("{}", 10_i64.pow(power as u32)),
        3..=5 => format!("{},000", 10_i64.pow(power as u32 - 3)),
        _ => format!("{}M", 10_i64.pow(power as u32 - 6)),
    }
}
