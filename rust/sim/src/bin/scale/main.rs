//! What the controller costs as a cluster grows: the real one, up to 10,000 hosts with 100,000 workers.
//!
//! - this file: sizes, the table, and where the plot goes.
//! - [`measure`]: what is measured at one size.
//! - [`plot`]: the lines, as SVG.
//!
//! `scale [--svg FILE] [HOSTS ...]`; see `docs/scale.md`.

#![allow(clippy::disallowed_methods)] // it times, and has arguments
#![allow(clippy::print_stdout)] // and prints a table

mod measure;
mod plot;

use measure::Row;

const SIZES: [u32; 5] = [1, 10, 100, 1_000, 10_000];

fn main() -> Result<(), String> {
    let (mut sizes, mut svg) = (Vec::new(), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--svg" {
            svg = Some(words.next().ok_or("--svg needs the name of a file")?);
        } else {
            let wrong = |_| format!("{word:?} is no number of hosts: scale [--svg FILE] [HOSTS ...]");
            sizes.push(word.parse::<u32>().map_err(wrong)?);
        }
    }
    if sizes.is_empty() {
        sizes.extend(SIZES);
    }
    // The largest first: its memory is not what smaller ones have left.
    sizes.sort_unstable();
    let mut rows: Vec<Row> = Vec::new();
    for hosts in sizes.into_iter().rev() {
        rows.push(Row::measure(hosts, rows.is_empty()));
        println!("measured: {hosts} hosts");
    }
    rows.reverse();
    println!("\n{}", table(&rows));
    if let Some(file) = svg {
        let wrong = |error| format!("{file} cannot be written: {error}");
        std::fs::write(&file, plot::svg(&rows)).map_err(wrong)?;
    }
    Ok(())
}

/// One line a figure, one column a size, in Markdown.
fn table(rows: &[Row]) -> String {
    let mut out = String::from("| |");
    for row in rows {
        let hosts = if row.hosts == 1 { "host" } else { "hosts" };
        out += &format!(" {} {hosts} |", figure(f64::from(row.hosts)));
    }
    out += &format!("\n|---|{}\n", "---:|".repeat(rows.len()));
    let names: Vec<_> = rows.iter().flat_map(|row| row.figures.iter().map(|it| it.0)).collect();
    let mut seen = std::collections::BTreeSet::new();
    for name in names.into_iter().filter(|name| seen.insert(*name)) {
        out += &format!("| {name} |");
        for row in rows {
            let cell = row.get(name).map_or_else(|| "-".to_owned(), figure);
            out += &format!(" {cell} |");
        }
        out += "\n";
    }
    out
}

/// Three digits say all.
fn figure(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let digits = value.abs().max(1.0).log10().floor() as i32;
    let unit = 10_f64.powi((digits - 2).max(0));
    let text = format!("{:.0}", (value / unit).round() * unit);
    let mut out = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
