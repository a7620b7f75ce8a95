//! The TPC-C driver: its transactions written once, run on any back end.
//!
//! - **T1** Clauses are those of the TPC-C standard, revision 5.11: the population of 4.3.3, the transaction
//!   profiles of 2.4 to 2.8, NURand of 2.1.6, the consistency conditions of 3.3.2. No think or keying time;
//!   the mix is 45 % New-Order, 43 % Payment, 4 % each of Order-Status, Delivery and Stock-Level; 1 % of the
//!   New-Orders name an unused item and are rolled back, 1 % of their lines are supplied by another
//!   warehouse, 15 % of the Payments are for a customer of another warehouse, 60 % of Payment and
//!   Order-Status find their customer by last name. A Delivery is run at once, not queued.
//! - **T2** What a transaction does is drawn before it begins, so that a retry does the same, and one seed
//!   with one thread and a counted clock leaves the same content on every back end.
//! - **T3** Money is exact: cents here, NUMERIC where there is one, integers of cents in SQLite.
//! - **T4** Warehouses are divided among the threads, as terminals stand in warehouses; remote accesses cross
//!   over.
pub mod backend;
pub mod check;
pub mod drive;
pub mod names;
pub mod ondol;
pub mod populate;
#[cfg(feature = "peers")]
pub mod postgres;
pub mod schema;
#[cfg(feature = "peers")]
pub mod sqlite;
pub mod transactions;
#[cfg(feature = "peers")]
pub mod wire;

/// How large the database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub warehouses: i64,
    pub items: i64,
    /// Of each of the ten districts of a warehouse; as many orders.
    pub customers: i64,
}

/// Districts of a warehouse.
pub const DISTRICTS: i64 = 10;

impl Scale {
    pub fn new(warehouses: i64) -> Scale {
        Scale { warehouses, items: 100_000, customers: 3_000 }
    }
    /// Far from the standard: only to see that everything works.
    pub fn tiny() -> Scale {
        Scale { warehouses: 2, items: 200, customers: 30 }
    }
    /// The first order of each district that is not delivered yet: the last three tenths are not.
    pub fn first_new_order(&self) -> i64 {
        self.customers * 7 / 10 + 1
    }
    /// Last names that customers have.
    pub fn last_names(&self) -> i64 {
        self.customers.min(1000)
    }
}
