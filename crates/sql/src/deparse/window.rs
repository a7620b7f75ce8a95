//! Windows: OVER, and the clause WINDOW.
use super::{STANDARD, Scribe};
use crate::bound::{Computed, Exclude, FrameEnd, FrameUnit, Query, Window, WindowCall};
use ondol_types::name::quote;
use ondol_types::{agg, window};

impl<'q> Scribe<'q> {
    /// A function over a window of the query.
    pub(super) fn over(&mut self, q: &'q Query, c: &'q WindowCall) {
        match c.what {
            Computed::Function(id) => {
                let def = window::find(id);
                self.put(def.map_or("", |d| d.name));
                self.put("(");
                self.arguments(&c.args, def.map_or(&[], |d| d.args))
            }
            Computed::Aggregate(id) => {
                let def = agg::find(id);
                let args = match def.is_some_and(|d| d.has_unwritten()) {
                    true => c.args.split_last().map_or(&[][..], |l| l.1),
                    false => &c.args,
                };
                self.put(def.map_or("", |d| d.name));
                self.put(if args.is_empty() { "(*" } else { "(" });
                self.arguments(args, def.map_or(&[], |d| d.args))
            }
        }
        self.put(")");
        if let Some(filter) = &c.filter {
            self.put(" FILTER (WHERE ");
            self.expr(filter, false);
            self.put(")")
        }
        self.put(" OVER ");
        let Some(w) = q.windows.get(usize::from(c.window)) else { return };
        match &w.name {
            Some(name) => self.put(&quote(name)),
            None => self.window(w),
        }
    }

    /// WINDOW: those that have names.
    pub(super) fn window_clause(&mut self, q: &'q Query) {
        for (n, w) in q.windows.iter().filter(|w| w.name.is_some()).enumerate() {
            match n {
                0 => self.line(" WINDOW ", -STANDARD, STANDARD, 1),
                _ => self.put(", "),
            }
            self.put(&quote(w.name.as_deref().unwrap_or_default()));
            self.put(" AS ");
            self.window(w)
        }
    }

    /// What a window is, in parentheses: without what it has of the window that it refines.
    fn window(&mut self, w: &'q Window) {
        self.put("(");
        let mut before = "";
        if let Some(name) = &w.refines {
            self.put(&quote(name));
            before = " "
        }
        if !w.partition.is_empty() && w.refines.is_none() {
            self.put("PARTITION BY ");
            for (n, e) in w.partition.iter().enumerate() {
                self.put(if n > 0 { ", " } else { "" });
                self.key(e)
            }
            before = " "
        }
        if !w.order.is_empty() && !w.order_is_copied {
            self.put(before);
            self.put("ORDER BY ");
            for (n, k) in w.order.iter().enumerate() {
                self.put(if n > 0 { ", " } else { "" });
                self.key(&k.expr);
                self.direction(k.desc, k.nulls_first)
            }
            before = " "
        }
        if w.frame.is_written {
            self.put(before);
            self.frame(w)
        }
        self.put(")")
    }

    fn frame(&mut self, w: &'q Window) {
        let f = &w.frame;
        self.put(match f.unit {
            FrameUnit::Rows => "ROWS ",
            FrameUnit::Range => "RANGE ",
            FrameUnit::Groups => "GROUPS ",
        });
        self.put(if f.is_between { "BETWEEN " } else { "" });
        self.frame_end(&f.start, "UNBOUNDED PRECEDING");
        if f.is_between {
            self.put(" AND ");
            self.frame_end(&f.end, "UNBOUNDED FOLLOWING")
        }
        self.put(match f.exclude {
            Exclude::NoOthers => "",
            Exclude::CurrentRow => " EXCLUDE CURRENT ROW",
            Exclude::Group => " EXCLUDE GROUP",
            Exclude::Ties => " EXCLUDE TIES",
        })
    }

    fn frame_end(&mut self, end: &'q FrameEnd, unbounded: &str) {
        match end {
            FrameEnd::Unbounded => self.put(unbounded),
            FrameEnd::CurrentRow => self.put("CURRENT ROW"),
            FrameEnd::Preceding(e) => {
                self.expr(e, false);
                self.put(" PRECEDING")
            }
            FrameEnd::Following(e) => {
                self.expr(e, false);
                self.put(" FOLLOWING")
            }
        }
    }
}
