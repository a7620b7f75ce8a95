//! The five transactions: drawn first, then run on any link.
use super::backend::{Commit, Failure, Link, RowSet, Tried, Val};
use super::names::{RUN, last_name};
use super::schema::{Q, stock};
use super::{DISTRICTS, Scale};
use crate::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Type {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

pub const TYPES: [Type; 5] =
    [Type::NewOrder, Type::Payment, Type::OrderStatus, Type::Delivery, Type::StockLevel];

impl Type {
    pub fn name(self) -> &'static str {
        ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"][self as usize]
    }
}

#[derive(Clone, Debug)]
struct Line {
    number: i64,
    item: i64,
    supply: i64,
    quantity: i64,
}

/// Whom Payment and Order-Status mean.
#[derive(Clone, Debug)]
enum Who {
    Id(i64),
    Name(String),
}

/// What a transaction is to do, with everything random in it (tpcc/T2).
#[derive(Clone, Debug)]
enum Input {
    NewOrder { w: i64, d: i64, c: i64, lines: Vec<Line>, all_local: bool, now: i64 },
    Payment { w: i64, d: i64, cw: i64, cd: i64, who: Who, amount: i64, now: i64 },
    OrderStatus { w: i64, d: i64, who: Who },
    Delivery { w: i64, carrier: i64, now: i64 },
    StockLevel { w: i64, d: i64, threshold: i64 },
}

/// An order that a New-Order entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    pub warehouse: i64,
    pub district: i64,
    pub order: i64,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Committed {
        commit: Commit,
        order: Option<Ordered>,
    },
    /// As the standard wants it for one New-Order in a hundred.
    RolledBack,
}

/// Draws transactions for the warehouses of one thread and runs them.
pub struct Terminal {
    random: Random,
    scale: Scale,
    /// The warehouses of this thread: `first`, and each `step` further.
    homes: Vec<i64>,
    input: Input,
    out: RowSet,
    /// More rows, while those in `out` are still looked at.
    more: RowSet,
}

/// A number that no item has.
fn unused_item(scale: &Scale) -> i64 {
    scale.items + 1
}

impl Terminal {
    /// Thread `thread` of `threads`.
    pub fn new(scale: Scale, seed: u64, thread: usize, threads: usize) -> Terminal {
        let mine = |w: &i64| (*w - 1) as usize % threads == thread % threads;
        let mut homes: Vec<i64> = (1..=scale.warehouses).filter(mine).collect();
        if homes.is_empty() {
            // More threads than warehouses share them.
            homes.push(thread as i64 % scale.warehouses + 1);
        }
        let input = Input::StockLevel { w: 1, d: 1, threshold: 10 };
        let random = Random::new(seed.wrapping_mul(0x9e37_79b9) ^ (thread as u64) << 32);
        Terminal { random, scale, homes, input, out: RowSet::default(), more: RowSet::default() }
    }

    /// Draws the next transaction; it happens at `now`, in microseconds since 2000.
    pub fn draw(&mut self, now: i64) -> Type {
        let (w, d) = self.draw_place();
        let which = match self.random.below(100) {
            0..45 => Type::NewOrder,
            45..88 => Type::Payment,
            88..92 => Type::OrderStatus,
            92..96 => Type::Delivery,
            _ => Type::StockLevel,
        };
        self.draw_input(which, w, d, now);
        which
    }
    /// Draws the next transaction, which is of this type.
    pub fn draw_only(&mut self, which: Type, now: i64) {
        let (w, d) = self.draw_place();
        self.draw_input(which, w, d, now);
    }
    /// A warehouse and a district of it.
    fn draw_place(&mut self) -> (i64, i64) {
        let r = &mut self.random;
        (self.homes[r.below(self.homes.len() as u64) as usize], r.range(1, DISTRICTS))
    }
    fn draw_input(&mut self, which: Type, w: i64, d: i64, now: i64) {
        let r = &mut self.random;
        let another = |r: &mut Random, scale: &Scale| {
            let other = r.range(1, scale.warehouses - 1);
            if other >= w { other + 1 } else { other }
        };
        let scale = &self.scale;
        let who = |r: &mut Random| match r.below(100) < 60 {
            true => {
                let mut name = String::new();
                last_name(RUN.last_name(r, scale), &mut name);
                Who::Name(name)
            }
            false => Who::Id(RUN.customer(r, scale)),
        };
        self.input = match which {
            Type::NewOrder => {
                let c = RUN.customer(r, scale);
                let n = r.range(5, 15);
                let invalid = r.below(100) == 0;
                let mut lines: Vec<Line> = (1..=n)
                    .map(|number| {
                        let item = RUN.item(r, scale);
                        let remote = scale.warehouses > 1 && r.below(100) == 0;
                        let supply = if remote { another(r, scale) } else { w };
                        Line { number, item, supply, quantity: r.range(1, 10) }
                    })
                    .collect();
                if let Some(last) = lines.last_mut().filter(|_| invalid) {
                    last.item = unused_item(scale);
                }
                let all_local = lines.iter().all(|l| l.supply == w);
                // Stock is locked in one order by all, so that New-Orders do not wait for each other in a
                // circle.
                lines.sort_by_key(|l| (l.item == unused_item(scale), l.supply, l.item));
                Input::NewOrder { w, d, c, lines, all_local, now }
            }
            Type::Payment => {
                let remote = scale.warehouses > 1 && r.below(100) < 15;
                let (cw, cd) = if remote { (another(r, scale), r.range(1, DISTRICTS)) } else { (w, d) };
                let who = who(r);
                Input::Payment { w, d, cw, cd, who, amount: r.range(100, 500_000), now }
            }
            Type::OrderStatus => Input::OrderStatus { w, d, who: who(r) },
            Type::Delivery => Input::Delivery { w, carrier: r.range(1, 10), now },
            Type::StockLevel => Input::StockLevel { w, d, threshold: r.range(10, 20) },
        };
    }

    /// Runs what was drawn, once. After [`Failure::Retry`] it may be run again.
    pub fn run(&mut self, link: &mut dyn Link) -> Tried<Ended> {
        let input = std::mem::replace(&mut self.input, Input::StockLevel { w: 0, d: 0, threshold: 0 });
        let done = self.try_run(&input, link);
        self.input = input;
        if done.is_err() {
            link.rollback();
        }
        done
    }

    fn try_run(&mut self, input: &Input, link: &mut dyn Link) -> Tried<Ended> {
        link.begin(matches!(input, Input::OrderStatus { .. } | Input::StockLevel { .. }))?;
        let mut order = None;
        match input {
            Input::NewOrder { w, d, c, lines, all_local, now } => {
                order = self.new_order(link, *w, *d, *c, lines, *all_local, *now)?;
                if order.is_none() {
                    link.rollback();
                    return Ok(Ended::RolledBack);
                }
            }
            Input::Payment { w, d, cw, cd, who, amount, now } => {
                self.payment(link, (*w, *d), (*cw, *cd), who, *amount, *now)?
            }
            Input::OrderStatus { w, d, who } => self.order_status(link, *w, *d, who)?,
            Input::Delivery { w, carrier, now } => self.delivery(link, *w, *carrier, *now)?,
            Input::StockLevel { w, d, threshold } => self.stock_level(link, *w, *d, *threshold)?,
        }
        Ok(Ended::Committed { commit: link.commit()?, order })
    }

    /// Nothing when the order named an unused item.
    #[allow(clippy::too_many_arguments)]
    fn new_order(
        &mut self,
        link: &mut dyn Link,
        w: i64,
        d: i64,
        c: i64,
        lines: &[Line],
        all_local: bool,
        now: i64,
    ) -> Tried<Option<Ordered>> {
        use Val::Int;
        let out = &mut self.out;
        one(link.call(Q::Warehouse as usize, &[Int(w)], out)?, "warehouse")?;
        let w_tax = out.get(0, 0).int()?;
        one(link.call(Q::Customer as usize, &[Int(w), Int(d), Int(c)], out)?, "customer")?;
        let discount = out.get(0, 0).int()?;
        one(link.call(Q::District as usize, &[Int(w), Int(d)], out)?, "district")?;
        let (o, d_tax) = (out.get(0, 0).int()? - 1, out.get(0, 1).int()?);
        let order =
            [Int(w), Int(d), Int(o), Int(c), Int(now), Int(lines.len() as i64), Int(all_local as i64)];
        one(link.call(Q::Order as usize, &order, out)?, "order")?;
        one(link.call(Q::NewOrder as usize, &[Int(w), Int(d), Int(o)], out)?, "new order")?;

        let mut params: Vec<Val<'_>> = lines.iter().map(|l| Int(l.item)).collect();
        let valid = link.call_each(Q::Item as usize, &params, 1, out)?;
        // The unused item is the last; everything is done for the others before the rollback (2.4.2.3).
        let lines = if valid { lines } else { &lines[..lines.len() - 1] };
        if out.len() != lines.len() {
            return Err(format!("{} of {} items were found", out.len(), lines.len()).into());
        }
        let prices: Vec<i64> = (0..lines.len()).map(|i| out.get(i, 0).int()).collect::<crate::Result<_>>()?;
        params.clear();
        for l in lines {
            params.extend([Int(l.supply), Int(l.item), Int(l.quantity), Int((l.supply != w) as i64)]);
        }
        if !link.call_each(stock(d), &params, 4, &mut self.more)? {
            return Err("an item is not in stock".into());
        }
        params.clear();
        let mut total = 0;
        for (i, l) in lines.iter().enumerate() {
            let amount = prices[i] * l.quantity;
            total += amount;
            // Brand or generic (2.4.2.2): shown on the terminal.
            let original = |t: Val<'_>| t.text().map(|t| t.contains("ORIGINAL"));
            std::hint::black_box(original(out.get(i, 2))? && original(self.more.get(i, 2))?);
            params.extend([
                Int(w),
                Int(d),
                Int(o),
                Int(l.number),
                Int(l.item),
                Int(l.supply),
                Int(l.quantity),
            ]);
            params.extend([Int(amount), self.more.get(i, 1)]);
        }
        if !link.call_each(Q::Line as usize, &params, 9, out)? {
            return Err("an order line was not inserted".into());
        }
        std::hint::black_box(total * (10_000 - discount) / 10_000 * (10_000 + w_tax + d_tax) / 10_000);
        Ok(valid.then_some(Ordered { warehouse: w, district: d, order: o }))
    }

    /// The customer's number: of those with the name, the one in the middle by first name (2.5.2.2).
    fn find(&mut self, link: &mut dyn Link, w: i64, d: i64, who: &Who) -> Tried<i64> {
        match who {
            Who::Id(c) => Ok(*c),
            Who::Name(name) => {
                let n = link.call(
                    Q::ByName as usize,
                    &[Val::Int(w), Val::Int(d), Val::Text(name)],
                    &mut self.out,
                )?;
                if n == 0 {
                    return Err(format!("no customer is called {name}").into());
                }
                Ok(self.out.get((n as usize).div_ceil(2) - 1, 0).int()?)
            }
        }
    }

    fn payment(
        &mut self,
        link: &mut dyn Link,
        (w, d): (i64, i64),
        (cw, cd): (i64, i64),
        who: &Who,
        amount: i64,
        now: i64,
    ) -> Tried<()> {
        use Val::Int;
        one(link.call(Q::PayWarehouse as usize, &[Int(w), Int(amount)], &mut self.out)?, "warehouse")?;
        // H_DATA: both names with four blanks between.
        let mut data = self.out.get(0, 0).text()?.to_string();
        one(link.call(Q::PayDistrict as usize, &[Int(w), Int(d), Int(amount)], &mut self.out)?, "district")?;
        data.push_str("    ");
        data.push_str(self.out.get(0, 0).text()?);
        let c = self.find(link, cw, cd, who)?;
        let out = &mut self.out;
        one(link.call(Q::PayCustomer as usize, &[Int(cw), Int(cd), Int(c), Int(amount)], out)?, "customer")?;
        if out.get(0, 10).text()? == "BC" {
            let note = format!("{c} {cd} {cw} {d} {w} {}.{:02} ", amount / 100, amount % 100);
            one(
                link.call(Q::PayBadCredit as usize, &[Int(cw), Int(cd), Int(c), Val::Text(&note)], out)?,
                "customer",
            )?;
        }
        let history = [Int(c), Int(cd), Int(cw), Int(d), Int(w), Int(now), Int(amount), Val::Text(&data)];
        one(link.call(Q::History as usize, &history, out)?, "history")
    }

    fn order_status(&mut self, link: &mut dyn Link, w: i64, d: i64, who: &Who) -> Tried<()> {
        use Val::Int;
        let c = self.find(link, w, d, who)?;
        let out = &mut self.out;
        one(link.call(Q::StatusCustomer as usize, &[Int(w), Int(d), Int(c)], out)?, "customer")?;
        one(link.call(Q::StatusOrder as usize, &[Int(w), Int(d), Int(c)], out)?, "order")?;
        let o = out.get(0, 0).int()?;
        let n = link.call(Q::StatusLines as usize, &[Int(w), Int(d), Int(o)], out)?;
        if !(5..=15).contains(&n) {
            return Err(format!("order {o} of district {w}.{d} has {n} lines").into());
        }
        Ok(())
    }

    fn delivery(&mut self, link: &mut dyn Link, w: i64, carrier: i64, now: i64) -> Tried<()> {
        use Val::Int;
        let out = &mut self.out;
        for d in 1..=DISTRICTS {
            let o = loop {
                if link.call(Q::Oldest as usize, &[Int(w), Int(d)], out)? == 0 {
                    break None;
                }
                let o = out.get(0, 0).int()?;
                // Another delivery may have taken it meanwhile: then look again.
                if link.call(Q::Remove as usize, &[Int(w), Int(d), Int(o)], out)? == 1 {
                    break Some(o);
                }
            };
            // A district without undelivered orders is passed over (2.7.4.2).
            let Some(o) = o else { continue };
            one(link.call(Q::DeliverOrder as usize, &[Int(w), Int(d), Int(o), Int(carrier)], out)?, "order")?;
            let c = out.get(0, 0).int()?;
            let n = link.call(Q::DeliverLines as usize, &[Int(w), Int(d), Int(o), Int(now)], out)?;
            let mut sum = 0;
            for i in 0..n as usize {
                sum += out.get(i, 0).int()?;
            }
            one(
                link.call(Q::DeliverCustomer as usize, &[Int(w), Int(d), Int(c), Int(sum)], out)?,
                "customer",
            )?;
        }
        Ok(())
    }

    fn stock_level(&mut self, link: &mut dyn Link, w: i64, d: i64, threshold: i64) -> Tried<()> {
        use Val::Int;
        let out = &mut self.out;
        one(link.call(Q::LevelDistrict as usize, &[Int(w), Int(d)], out)?, "district")?;
        let next = out.get(0, 0).int()?;
        let params = [Int(w), Int(d), Int(next - 20), Int(next), Int(threshold)];
        one(link.call(Q::LevelCount as usize, &params, out)?, "count")?;
        out.get(0, 0).int()?;
        Ok(())
    }
}

fn one(n: u64, what: &str) -> Tried<()> {
    match n {
        1 => Ok(()),
        _ => Err(Failure::Fatal(format!("a statement for one {what} met {n}").into())),
    }
}
