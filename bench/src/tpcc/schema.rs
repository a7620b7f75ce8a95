//! Tables, indexes and statements, in PostgreSQL's dialect as far as all back ends share it.
use super::DISTRICTS;

/// What a value means. All but text travel as `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    /// A count, which is a bigint.
    Big,
    /// Cents of a NUMERIC with two decimals.
    Money,
    /// Ten-thousandths of a NUMERIC with four decimals.
    Rate,
    Text,
    /// Microseconds since 2000.
    Time,
}

impl Kind {
    /// Decimals of the NUMERIC that carries it.
    pub fn scale(self) -> u16 {
        match self {
            Kind::Money => 2,
            Kind::Rate => 4,
            _ => 0,
        }
    }
    /// The type of a parameter or result.
    pub fn sql(self) -> &'static str {
        match self {
            Kind::Int => "integer",
            Kind::Big => "bigint",
            Kind::Money | Kind::Rate => "numeric",
            Kind::Text => "text",
            Kind::Time => "timestamp",
        }
    }
}

pub struct Column {
    pub name: String,
    pub kind: Kind,
    /// The column's type with its modifiers.
    pub sql: String,
}

pub struct TpccTable {
    pub name: &'static str,
    pub columns: Vec<Column>,
    /// Empty for the history, which has none.
    pub key: Vec<&'static str>,
}

/// A secondary index.
pub const INDEXES: [(&str, &str, &str); 2] = [
    ("customer_name", "customer", "c_w_id, c_d_id, c_last, c_first"),
    ("orders_customer", "orders", "o_w_id, o_d_id, o_c_id, o_id"),
];

/// Each column as "name type"; a type that ends in ? may be NULL.
const TABLES: [(&str, &str, &str); 9] = [
    (
        "warehouse",
        "w_id integer; w_name varchar(10); w_street_1 varchar(20); w_street_2 varchar(20); w_city varchar(20);
         w_state char(2); w_zip char(9); w_tax numeric(4,4); w_ytd numeric(12,2)",
        "w_id",
    ),
    (
        "district",
        "d_w_id integer; d_id integer; d_name varchar(10); d_street_1 varchar(20); d_street_2 varchar(20);
         d_city varchar(20); d_state char(2); d_zip char(9); d_tax numeric(4,4); d_ytd numeric(12,2); d_next_o_id integer",
        "d_w_id d_id",
    ),
    (
        "customer",
        "c_w_id integer; c_d_id integer; c_id integer; c_first varchar(16); c_middle char(2); c_last varchar(16);
         c_street_1 varchar(20); c_street_2 varchar(20); c_city varchar(20); c_state char(2); c_zip char(9);
         c_phone char(16); c_since timestamp; c_credit char(2); c_credit_lim numeric(12,2); c_discount numeric(4,4);
         c_balance numeric(12,2); c_ytd_payment numeric(12,2); c_payment_cnt integer; c_delivery_cnt integer;
         c_data varchar(500)",
        "c_w_id c_d_id c_id",
    ),
    (
        "history",
        "h_c_id integer; h_c_d_id integer; h_c_w_id integer; h_d_id integer; h_w_id integer; h_date timestamp;
         h_amount numeric(6,2); h_data varchar(24)",
        "",
    ),
    ("new_order", "no_w_id integer; no_d_id integer; no_o_id integer", "no_w_id no_d_id no_o_id"),
    (
        "orders",
        "o_w_id integer; o_d_id integer; o_id integer; o_c_id integer; o_entry_d timestamp; o_carrier_id integer?;
         o_ol_cnt integer; o_all_local integer",
        "o_w_id o_d_id o_id",
    ),
    (
        "order_line",
        "ol_w_id integer; ol_d_id integer; ol_o_id integer; ol_number integer; ol_i_id integer; ol_supply_w_id integer;
         ol_delivery_d timestamp?; ol_quantity integer; ol_amount numeric(6,2); ol_dist_info char(24)",
        "ol_w_id ol_d_id ol_o_id ol_number",
    ),
    (
        "item",
        "i_id integer; i_im_id integer; i_name varchar(24); i_price numeric(5,2); i_data varchar(50)",
        "i_id",
    ),
    (
        "stock",
        "s_w_id integer; s_i_id integer; s_quantity integer; s_dist_01 char(24); s_dist_02 char(24); s_dist_03 char(24);
         s_dist_04 char(24); s_dist_05 char(24); s_dist_06 char(24); s_dist_07 char(24); s_dist_08 char(24);
         s_dist_09 char(24); s_dist_10 char(24); s_ytd integer; s_order_cnt integer; s_remote_cnt integer;
         s_data varchar(50)",
        "s_w_id s_i_id",
    ),
];

pub fn tables() -> Vec<TpccTable> {
    let kind = |ty: &str| match ty {
        "integer" => Kind::Int,
        "timestamp" => Kind::Time,
        "numeric(4,4)" => Kind::Rate,
        t if t.starts_with("numeric") => Kind::Money,
        _ => Kind::Text,
    };
    let table = |(name, columns, key): &(&'static str, &'static str, &'static str)| TpccTable {
        name,
        columns: columns
            .split(';')
            .filter_map(|c| c.trim().split_once(' '))
            .map(|(name, ty)| {
                let bare = ty.trim_end_matches('?');
                let sql = if bare == ty { format!("{bare} NOT NULL") } else { bare.to_string() };
                Column { name: name.into(), kind: kind(bare), sql }
            })
            .collect(),
        key: key.split_whitespace().collect(),
    };
    TABLES.iter().map(table).collect()
}

/// The statements, by number. `Stock1` is followed by those of the other nine districts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Q {
    Warehouse,
    District,
    Customer,
    Order,
    NewOrder,
    Item,
    Line,
    PayWarehouse,
    PayDistrict,
    ByName,
    PayCustomer,
    PayBadCredit,
    History,
    StatusCustomer,
    StatusOrder,
    StatusLines,
    Oldest,
    Remove,
    DeliverOrder,
    DeliverLines,
    DeliverCustomer,
    LevelDistrict,
    LevelCount,
    Stock1,
}

/// The stock statement of a district: each gives another of the ten texts.
pub fn stock(district: i64) -> usize {
    Q::Stock1 as usize + (district - 1).clamp(0, DISTRICTS - 1) as usize
}

pub struct Statement {
    pub name: String,
    pub sql: String,
    pub params: Vec<Kind>,
    pub results: Vec<Kind>,
}

/// Kinds by letter: i n m r t d for integer, bigint, money, rate, text and date.
fn kinds(letters: &str) -> Vec<Kind> {
    letters
        .chars()
        .filter_map(|c| match c {
            'i' => Some(Kind::Int),
            'n' => Some(Kind::Big),
            'm' => Some(Kind::Money),
            'r' => Some(Kind::Rate),
            't' => Some(Kind::Text),
            'd' => Some(Kind::Time),
            _ => None,
        })
        .collect()
}

#[rustfmt::skip]
const STATEMENTS: [(Q, &str, &str, &str); 23] = [
    (Q::Warehouse, "i", "r", "SELECT w_tax FROM warehouse WHERE w_id = $1"),
    (Q::District, "ii", "ir",
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id, d_tax"),
    (Q::Customer, "iii", "rtt",
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"),
    (Q::Order, "iiiidii", "",
        "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
         VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)"),
    (Q::NewOrder, "iii", "", "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)"),
    (Q::Item, "i", "mtt", "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1"),
    (Q::Line, "iiiiiiimt", "",
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity,
         ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)"),
    (Q::PayWarehouse, "im", "tttttt",
        "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1
         RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip"),
    (Q::PayDistrict, "iim", "tttttt",
        "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2
         RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip"),
    (Q::ByName, "iit", "i",
        "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first"),
    (Q::PayCustomer, "iiim", "tttttttttdtmrm",
        "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3
         RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
         c_credit_lim, c_discount, c_balance"),
    (Q::PayBadCredit, "iiit", "t",
        "UPDATE customer SET c_data = substr($4 || c_data, 1, 500) WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3
         RETURNING substr(c_data, 1, 200)"),
    (Q::History, "iiiiidmt", "",
        "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"),
    (Q::StatusCustomer, "iii", "tttm",
        "SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"),
    (Q::StatusOrder, "iii", "idi",
        "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3
         ORDER BY o_id DESC LIMIT 1"),
    (Q::StatusLines, "iii", "iiimd",
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"),
    (Q::Oldest, "ii", "i",
        "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1"),
    (Q::Remove, "iii", "", "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3"),
    (Q::DeliverOrder, "iiii", "i",
        "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id"),
    (Q::DeliverLines, "iiid", "m",
        "UPDATE order_line SET ol_delivery_d = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_amount"),
    (Q::DeliverCustomer, "iiim", "",
        "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"),
    (Q::LevelDistrict, "ii", "i", "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2"),
    (Q::LevelCount, "iiiii", "n",
        "SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3
         AND ol_o_id < $4 AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5"),
];

pub fn statements() -> Vec<Statement> {
    let mut all: Vec<Statement> = STATEMENTS
        .iter()
        .map(|(q, params, results, sql)| Statement {
            name: format!("{q:?}").to_lowercase(),
            sql: sql.split_whitespace().collect::<Vec<_>>().join(" "),
            params: kinds(params),
            results: kinds(results),
        })
        .collect();
    all.extend((1..=DISTRICTS).map(|d| Statement {
        name: format!("stock{d}"),
        sql: format!(
            "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, \
             s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4 \
             WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_quantity, s_dist_{d:02}, s_data"
        ),
        params: kinds("iiii"),
        results: kinds("itt"),
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_stand_at_their_numbers() {
        let all = statements();
        for (i, (q, params, ..)) in STATEMENTS.iter().enumerate() {
            assert_eq!(*q as usize, i);
            let last = (1..=9).filter(|n| all[i].sql.contains(&format!("${n}"))).max().unwrap_or(0);
            assert_eq!(last, params.len(), "{}", all[i].sql);
        }
        assert!(all[stock(10)].sql.contains("s_dist_10"));
        assert_eq!(all.len(), stock(10) + 1);
    }

    #[test]
    fn tables_are_whole() {
        let all = tables();
        let columns: Vec<usize> = all.iter().map(|t| t.columns.len()).collect();
        assert_eq!(columns, [9, 11, 21, 8, 3, 8, 10, 5, 17]);
        assert!(all.iter().all(|t| t.key.iter().all(|k| t.columns.iter().any(|c| c.name == *k))));
        assert_eq!(all[5].columns[5].sql, "integer");
        assert_eq!(all[0].columns[7].kind, Kind::Rate);
    }
}
