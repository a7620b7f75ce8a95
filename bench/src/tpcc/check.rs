//! Whether the database is what it must be: the twelve consistency conditions (3.3.2), and checksums of all
//! tables.
//!
//! The conditions are computed here from plain reads of all tables, so that nothing rests on the aggregates
//! of the database that is checked.
use super::backend::{Backend, RowSet, Val};
use super::schema::tables;
use super::transactions::Ordered;
use super::{DISTRICTS, Scale};
use crate::Result;
use crate::customers::Checksum;
use crate::random::mix;
use std::collections::HashMap;

#[derive(Clone, Copy, Default)]
struct Order {
    there: bool,
    customer: i64,
    carrier: bool,
    line_count: i64,
    lines: i64,
    lines_undelivered: i64,
    /// Of the delivered lines.
    amount: i64,
    new: bool,
}

#[derive(Default)]
struct District {
    ytd: i64,
    next: i64,
    history: i64,
    deliveries: i64,
    orders: Vec<Order>,
}

#[derive(Clone, Copy, Default)]
struct Customer {
    balance: i64,
    ytd_payment: i64,
    history: i64,
}

/// What the tables hold.
pub struct State {
    warehouses: Vec<(i64, i64)>,
    districts: Vec<District>,
    customers: HashMap<(usize, i64), Customer>,
    scale: Scale,
}

fn numbers(row: &RowSet, columns: &[usize]) -> Result<Vec<i64>> {
    columns.iter().map(|c| row.get(0, *c).int()).collect()
}

impl State {
    pub fn read(backend: &dyn Backend, scale: &Scale) -> Result<State> {
        let mut s = State {
            warehouses: vec![(0, 0); scale.warehouses as usize],
            districts: (0..scale.warehouses * DISTRICTS).map(|_| District::default()).collect(),
            customers: HashMap::new(),
            scale: *scale,
        };
        for table in tables() {
            match table.name {
                "item" | "stock" => {}
                name => backend.scan(&table, &mut |row| s.take(name, row))?,
            }
        }
        Ok(s)
    }

    fn place(&self, w: i64, d: i64) -> Result<usize> {
        match (1..=self.scale.warehouses).contains(&w) && (1..=DISTRICTS).contains(&d) {
            true => Ok(((w - 1) * DISTRICTS + d - 1) as usize),
            false => Err(format!("there is no district {w}.{d}").into()),
        }
    }
    fn order(&mut self, w: i64, d: i64, o: i64) -> Result<&mut Order> {
        let at = self.place(w, d)?;
        let orders = &mut self.districts[at].orders;
        let o = usize::try_from(o)?;
        if orders.len() <= o {
            if o > 1 << 30 {
                return Err(format!("order number {o} in district {w}.{d}").into());
            }
            orders.resize(o + 1, Order::default());
        }
        Ok(&mut orders[o])
    }

    fn take(&mut self, table: &str, row: &RowSet) -> Result<()> {
        match table {
            "warehouse" => {
                let [w, ytd] = numbers(row, &[0, 8])?[..] else { return Ok(()) };
                self.place(w, 1)?;
                self.warehouses[w as usize - 1].0 = ytd;
            }
            "district" => {
                let [w, d, ytd, next] = numbers(row, &[0, 1, 9, 10])?[..] else { return Ok(()) };
                let at = self.place(w, d)?;
                (self.districts[at].ytd, self.districts[at].next) = (ytd, next);
            }
            "customer" => {
                let [w, d, c, balance, paid, delivered] = numbers(row, &[0, 1, 2, 16, 17, 19])?[..] else {
                    return Ok(());
                };
                let at = self.place(w, d)?;
                self.districts[at].deliveries += delivered;
                let customer = self.customers.entry((at, c)).or_default();
                (customer.balance, customer.ytd_payment) = (balance, paid);
            }
            "history" => {
                let [c, cd, cw, d, w, amount] = numbers(row, &[0, 1, 2, 3, 4, 6])?[..] else { return Ok(()) };
                let (at, of) = (self.place(w, d)?, self.place(cw, cd)?);
                self.warehouses[w as usize - 1].1 += amount;
                self.districts[at].history += amount;
                self.customers.entry((of, c)).or_default().history += amount;
            }
            "new_order" => {
                let [w, d, o] = numbers(row, &[0, 1, 2])?[..] else { return Ok(()) };
                self.order(w, d, o)?.new = true;
            }
            "orders" => {
                let [w, d, o, c, count] = numbers(row, &[0, 1, 2, 3, 6])?[..] else { return Ok(()) };
                let carrier = !row.get(0, 5).is_null();
                let order = self.order(w, d, o)?;
                if order.there {
                    return Err(format!("order {w}.{d}.{o} is there twice").into());
                }
                (order.there, order.customer, order.carrier, order.line_count) = (true, c, carrier, count);
            }
            "order_line" => {
                let [w, d, o, amount] = numbers(row, &[0, 1, 2, 8])?[..] else { return Ok(()) };
                let undelivered = row.get(0, 6).is_null();
                let order = self.order(w, d, o)?;
                order.lines += 1;
                order.lines_undelivered += undelivered as i64;
                order.amount += if undelivered { 0 } else { amount };
            }
            _ => {}
        }
        Ok(())
    }

    /// What is broken, each with its condition's number; empty when all is well.
    pub fn broken(&self) -> Vec<String> {
        let mut all = vec![];
        let mut check = |condition: u32, good: bool, what: &dyn Fn() -> String| {
            if !good && all.len() < 50 {
                all.push(format!("condition {condition}: {}", what()));
            }
        };
        for (i, (ytd, history)) in self.warehouses.iter().enumerate() {
            let ds = &self.districts[i * DISTRICTS as usize..(i + 1) * DISTRICTS as usize];
            let sum: i64 = ds.iter().map(|d| d.ytd).sum();
            let w = i + 1;
            check(1, *ytd == sum, &|| format!("W_YTD of warehouse {w} is {ytd}, its districts' sum {sum}"));
            check(8, *ytd == *history, &|| {
                format!("W_YTD of warehouse {w} is {ytd}, its history's sum {history}")
            });
        }
        let mut delivered: HashMap<(usize, i64), i64> = HashMap::new();
        for (i, d) in self.districts.iter().enumerate() {
            let at = format!("district {}.{}", i as i64 / DISTRICTS + 1, i as i64 % DISTRICTS + 1);
            let numbered = || d.orders.iter().enumerate().map(|(n, o)| (n as i64, o));
            let last = numbered().filter(|(_, o)| o.there).map(|(n, _)| n).max().unwrap_or(0);
            let new: Vec<i64> = numbered().filter(|(_, o)| o.new).map(|(n, _)| n).collect();
            let (oldest, newest) = (new.first().copied(), new.last().copied());
            let good = d.next - 1 == last && newest.is_none_or(|n| n == last);
            check(2, good, &|| {
                format!("{at}: D_NEXT_O_ID {}, last order {last}, newest new order {newest:?}", d.next)
            });
            let run = newest.zip(oldest).map_or(0, |(n, o)| n - o + 1);
            check(3, run == new.len() as i64, &|| {
                format!("{at}: {} new orders from {oldest:?} to {newest:?}", new.len())
            });
            let (counts, lines) = d.orders.iter().fold((0, 0), |(c, l), o| (c + o.line_count, l + o.lines));
            check(4, counts == lines, &|| {
                format!("{at}: O_OL_CNT sums up to {counts}, there are {lines} lines")
            });
            let orders = d.orders.iter().filter(|o| o.there).count() as i64;
            for (n, o) in numbered().filter(|(_, o)| o.there || o.new || o.lines > 0) {
                let at = || format!("{at}, order {n}");
                check(5, o.there && o.carrier != o.new, &|| {
                    format!("{}: carrier {}, new order {}", at(), o.carrier, o.new)
                });
                check(6, o.line_count == o.lines, &|| {
                    format!("{}: O_OL_CNT {}, {} lines", at(), o.line_count, o.lines)
                });
                let wanted = if o.carrier { 0 } else { o.lines };
                check(7, o.lines_undelivered == wanted, &|| {
                    format!(
                        "{}: carrier {}, {} of {} lines undelivered",
                        at(),
                        o.carrier,
                        o.lines_undelivered,
                        o.lines
                    )
                });
                *delivered.entry((i, o.customer)).or_default() += o.amount;
            }
            check(9, d.ytd == d.history, &|| {
                format!("{at}: D_YTD {}, its history's sum {}", d.ytd, d.history)
            });
            // 2,100 when the population is fresh; each delivery, which its customer counts, adds one.
            let wanted = self.scale.first_new_order() - 1 + d.deliveries;
            check(11, orders - new.len() as i64 == wanted, &|| {
                format!("{at}: {orders} orders less {} new ones are not {wanted}", new.len())
            });
        }
        for (key @ (i, c), v) in &self.customers {
            let at = || format!("customer {}.{}.{c}", *i as i64 / DISTRICTS + 1, *i as i64 % DISTRICTS + 1);
            let lines = delivered.remove(key).unwrap_or(0);
            check(10, v.balance == lines - v.history, &|| {
                format!("{}: C_BALANCE {}, delivered {lines}, history {}", at(), v.balance, v.history)
            });
            check(12, v.balance + v.ytd_payment == lines, &|| {
                format!(
                    "{}: C_BALANCE {} and C_YTD_PAYMENT {}, delivered {lines}",
                    at(),
                    v.balance,
                    v.ytd_payment
                )
            });
        }
        let expected = self.scale.warehouses * DISTRICTS * self.scale.customers;
        check(10, self.customers.len() as i64 == expected, &|| {
            format!("{} customers of {expected}", self.customers.len())
        });
        check(10, delivered.values().all(|v| *v == 0), &|| {
            "an order is for a customer who is not there".into()
        });
        all
    }

    /// Those of the orders that are not there as a whole.
    pub fn missing(&self, orders: &[Ordered]) -> Vec<Ordered> {
        let there = |o: &Ordered| {
            let at = self.place(o.warehouse, o.district).ok()?;
            self.districts[at].orders.get(usize::try_from(o.order).ok()?)
        };
        let whole =
            |o: &&Ordered| !there(o).is_some_and(|o| o.there && o.lines == o.line_count && o.lines > 0);
        orders.iter().filter(whole).copied().collect()
    }
}

/// Rows and checksum of each table; the order of the rows does not matter.
pub fn checksums(backend: &dyn Backend) -> Result<Vec<(&'static str, u64, u64)>> {
    let sum = |row: &RowSet, width: usize| {
        let mut s = Checksum::new();
        (0..width).for_each(|c| match row.get(0, c) {
            Val::Null => s.number(i64::MIN),
            Val::Int(n) => s.number(mix(n as u64) as i64),
            Val::Text(t) => s.text(t.as_bytes()),
        });
        mix(s.0)
    };
    let mut all = vec![];
    for table in tables() {
        let (mut rows, mut total) = (0u64, 0u64);
        backend.scan(&table, &mut |row| {
            rows += 1;
            total = total.wrapping_add(sum(row, table.columns.len()));
            Ok(())
        })?;
        all.push((table.name, rows, total));
    }
    Ok(all)
}

#[cfg(all(test, feature = "peers"))]
mod tests {
    use super::*;
    use crate::tpcc::populate::populate;
    use crate::tpcc::sqlite::Sqlite;

    fn broken_by(sql: &str) -> Vec<String> {
        let folder = ondol::TempFolder::new().unwrap();
        let path = folder.path().join("db");
        let scale = Scale { warehouses: 1, items: 20, customers: 20 };
        let backend = Sqlite::new(&path, None, "OFF", &[]);
        populate(&backend, &scale).unwrap();
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        State::read(&backend, &scale).unwrap().broken()
    }

    /// Each condition must notice what it is for.
    #[test]
    fn every_condition_catches_its_damage() {
        assert_eq!(broken_by(""), Vec::<String>::new());
        let cases = [
            (1, "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 3"),
            (2, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3"),
            (3, "DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = 17"),
            (4, "DELETE FROM order_line WHERE ol_d_id = 3 AND ol_o_id = 2 AND ol_number = 1"),
            (5, "UPDATE orders SET o_carrier_id = 1 WHERE o_d_id = 3 AND o_id = 20"),
            (6, "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 3 AND o_id = 2"),
            (
                7,
                "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 3 AND ol_o_id = 2 AND ol_number = 1",
            ),
            (8, "UPDATE history SET h_amount = h_amount + 1 WHERE h_d_id = 3 AND h_c_id = 5"),
            (9, "UPDATE history SET h_amount = h_amount + 1 WHERE h_d_id = 3 AND h_c_id = 5"),
            (10, "UPDATE customer SET c_balance = c_balance + 1 WHERE c_d_id = 3 AND c_id = 5"),
            (11, "UPDATE customer SET c_delivery_cnt = 1 WHERE c_d_id = 3 AND c_id = 5"),
            (12, "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_d_id = 3 AND c_id = 5"),
        ];
        for (condition, sql) in cases {
            let found = broken_by(sql);
            assert!(
                found.iter().any(|f| f.starts_with(&format!("condition {condition}:"))),
                "{condition}: {found:?}"
            );
        }
    }

    #[test]
    fn a_lost_order_is_missed() {
        let folder = ondol::TempFolder::new().unwrap();
        let scale = Scale { warehouses: 1, items: 20, customers: 20 };
        let backend = Sqlite::new(&folder.path().join("db"), None, "OFF", &[]);
        populate(&backend, &scale).unwrap();
        let state = State::read(&backend, &scale).unwrap();
        let order = |order| Ordered { warehouse: 1, district: 4, order };
        assert_eq!(state.missing(&[order(20), order(21), order(1)]), [order(21)]);
    }
}
