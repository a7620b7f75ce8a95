//! The initial database (4.3.3), the same for every back end: a row is a function of the seed and its place.
use super::backend::{Backend, RowSet};
use super::names::{LOAD, data, digits, last_name, letters, permutation};
use super::schema::tables;
use super::{DISTRICTS, Scale};
use crate::Result;
use crate::random::{Random, mix};

const SEED: u64 = 0x7bcc;
/// When everything of the population happened: the first day of 2024, in microseconds since 2000.
pub const POPULATED_US: i64 = 8_766 * 86_400_000_000;

fn random(what: u64, at: i64) -> Random {
    Random::new(mix(SEED + what) ^ at as u64)
}

fn text(row: &mut RowSet, r: &mut Random, low: i64, high: i64) {
    row.write(|s| letters(r, low, high, s))
}
/// Street 1 and 2, city, state, zip.
fn address(row: &mut RowSet, r: &mut Random) {
    (0..3).for_each(|_| text(row, r, 10, 20));
    text(row, r, 2, 2);
    row.write(|s| {
        digits(r, 4, s);
        s.push_str("11111");
    });
}

/// The place of a number within nested ranges: (warehouse, district, number), all from 1.
fn place(i: i64, each: i64) -> (i64, i64, i64) {
    (i / (DISTRICTS * each) + 1, i / each % DISTRICTS + 1, i % each + 1)
}

fn item(i: i64, row: &mut RowSet) {
    let r = &mut random(1, i);
    row.int(i + 1);
    row.int(r.range(1, 10_000));
    text(row, r, 14, 24);
    row.int(r.range(100, 10_000));
    row.write(|s| data(r, s));
}

fn warehouse(i: i64, scale: &Scale, row: &mut RowSet) {
    let r = &mut random(2, i);
    row.int(i + 1);
    text(row, r, 6, 10);
    address(row, r);
    row.int(r.range(0, 2000));
    // The sum of its districts': 300,000.00 with 3,000 customers in each.
    row.int(DISTRICTS * scale.customers * 1000);
}

fn stock(i: i64, scale: &Scale, row: &mut RowSet) {
    let r = &mut random(3, i);
    row.int(i / scale.items + 1);
    row.int(i % scale.items + 1);
    row.int(r.range(10, 100));
    (0..10).for_each(|_| text(row, r, 24, 24));
    (0..3).for_each(|_| row.int(0));
    row.write(|s| data(r, s));
}

fn district(i: i64, scale: &Scale, row: &mut RowSet) {
    let r = &mut random(4, i);
    row.int(i / DISTRICTS + 1);
    row.int(i % DISTRICTS + 1);
    text(row, r, 6, 10);
    address(row, r);
    row.int(r.range(0, 2000));
    // The sum of its customers' first payments: 30,000.00 with 3,000 of them.
    row.int(scale.customers * 1000);
    row.int(scale.customers + 1);
}

fn customer(i: i64, scale: &Scale, row: &mut RowSet) {
    let r = &mut random(5, i);
    let (w, d, c) = place(i, scale.customers);
    [w, d, c].iter().for_each(|n| row.int(*n));
    text(row, r, 8, 16);
    row.text("OE");
    let last = if c <= 1000 { c - 1 } else { LOAD.last_name(r, scale) };
    row.write(|s| last_name(last, s));
    address(row, r);
    row.write(|s| digits(r, 16, s));
    row.int(POPULATED_US);
    row.text(if r.below(10) == 0 { "BC" } else { "GC" });
    row.int(5_000_000);
    row.int(r.range(0, 5000));
    row.int(-1000);
    row.int(1000);
    row.int(1);
    row.int(0);
    text(row, r, 300, 500);
}

fn history(i: i64, scale: &Scale, row: &mut RowSet) {
    let r = &mut random(6, i);
    let (w, d, c) = place(i, scale.customers);
    [c, d, w, d, w, POPULATED_US, 1000].iter().for_each(|n| row.int(*n));
    text(row, r, 12, 24);
}

/// Lines of an initial order.
fn lines(order: i64) -> i64 {
    random(7, order).range(5, 15)
}

/// Orders need their district's permutation of customers, which is kept while it is used.
struct Orders {
    scale: Scale,
    district: i64,
    customers: Vec<i64>,
}

impl Orders {
    fn row(&mut self, i: i64, row: &mut RowSet) {
        let district = i / self.scale.customers;
        if self.district != district {
            self.district = district;
            self.customers = permutation(&mut random(8, district), self.scale.customers);
        }
        let (w, d, o) = place(i, self.scale.customers);
        let r = &mut random(9, i);
        [w, d, o, self.customers[o as usize - 1], POPULATED_US].iter().for_each(|n| row.int(*n));
        match o < self.scale.first_new_order() {
            true => row.int(r.range(1, 10)),
            false => row.null(),
        }
        row.int(lines(i));
        row.int(1);
    }
}

fn order_line(i: i64, line: i64, scale: &Scale, row: &mut RowSet) {
    let r = &mut random(10, i * 16 + line);
    let (w, d, o) = place(i, scale.customers);
    let delivered = o < scale.first_new_order();
    [w, d, o, line, r.range(1, scale.items), w].iter().for_each(|n| row.int(*n));
    if delivered {
        row.int(POPULATED_US)
    } else {
        row.null()
    }
    row.int(5);
    row.int(if delivered { 0 } else { r.range(1, 999_999) });
    text(row, r, 24, 24);
}

/// Makes tables, rows and indexes.
pub fn populate(backend: &dyn Backend, scale: &Scale) -> Result<()> {
    backend.create()?;
    let (w, c) = (scale.warehouses, scale.customers);
    let all = w * DISTRICTS * c;
    for table in tables() {
        let mut i = 0;
        // Counts up to `n`; `make` writes row `i`.
        let mut count = |n: i64, make: &mut dyn FnMut(i64, &mut RowSet)| {
            backend.load(&table, &mut |row| {
                if i == n {
                    return false;
                }
                make(i, row);
                i += 1;
                true
            })
        };
        let loaded = match table.name {
            "item" => count(scale.items, &mut item),
            "warehouse" => count(w, &mut |i, row| warehouse(i, scale, row)),
            "stock" => count(w * scale.items, &mut |i, row| stock(i, scale, row)),
            "district" => count(w * DISTRICTS, &mut |i, row| district(i, scale, row)),
            "customer" => count(all, &mut |i, row| customer(i, scale, row)),
            "history" => count(all, &mut |i, row| history(i, scale, row)),
            "orders" => {
                let mut orders = Orders { scale: *scale, district: -1, customers: vec![] };
                count(all, &mut |i, row| orders.row(i, row))
            }
            "new_order" => {
                let first = scale.first_new_order();
                let each = c + 1 - first;
                count(w * DISTRICTS * each, &mut |i, row| {
                    let (w, d, o) = place(i, each);
                    [w, d, o + first - 1].iter().for_each(|n| row.int(*n));
                })
            }
            "order_line" => {
                let (mut order, mut line, mut of) = (0, 0, lines(0));
                backend.load(&table, &mut |row| {
                    if line == of {
                        (order, line) = (order + 1, 0);
                        of = lines(order);
                    }
                    if order == all {
                        return false;
                    }
                    line += 1;
                    order_line(order, line, scale, row);
                    true
                })
            }
            other => Err(format!("nothing populates the table {other}").into()),
        };
        let n = loaded?;
        eprintln!("{}: {} rows of {}", backend.name(), n, table.name);
    }
    backend.ready()
}
