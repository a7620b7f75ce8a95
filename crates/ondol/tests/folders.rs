//! Folders that earlier versions wrote open unchanged, keep what they hold, and can be written to.
//!
//! Each folder of `tests/folders` holds the files of one database, each compressed, and `made-by.sql`, the
//! script that made it. Such a folder is never written anew: it stands for those that users have.
use ondol::{Database, Session, TempFolder};
use std::io::Read;
use std::path::Path;

/// Unpacks a database of `tests/folders`.
fn unpack(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder of tests/folders").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        if entry.path().is_dir() {
            unpack(&entry.path(), &to.join(name));
        } else if let Some(name) = name.strip_suffix(".gz") {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(entry.path()).expect("a packed file");
            flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("it can be unpacked");
            std::fs::write(to.join(name), bytes).expect("an unpacked file");
        }
    }
}

fn old(name: &str) -> TempFolder {
    let folder = TempFolder::new().expect("a temporary folder");
    unpack(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/folders").join(name), folder.path());
    folder
}

/// The rows of a query, values apart by bars.
fn rows(s: &mut Session, sql: &str) -> Vec<String> {
    let found = s.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
    found.iter().map(|r| r.values().map(|v| v.to_string()).collect::<Vec<_>>().join("|")).collect()
}

const KINDS: &str = "SELECT id, label, fixed, price, seen, tags, code, span, ratio FROM kinds ORDER BY id";

/// Written before there were types that users define.
#[test]
fn a_folder_without_types_of_users_opens_and_is_written_to() {
    let folder = old("untyped");
    let wanted = [
        "1|one|a|1.50|2024-02-29 12:00:00.123+00|{x,NULL,\"a b\"}|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|\
         1 mon 2 days|1.5",
        "2|two|NULL|99.99|NULL|{}|NULL|NULL|NULL",
        "5|5|NULL|NULL|NULL|{p,q}|NULL|NULL|NULL",
    ];
    {
        let db = Database::open(folder.path()).expect("an older folder opens");
        let mut s = db.session();
        assert_eq!(rows(&mut s, KINDS), wanted);
        // By each of its indexes, and by its registered queries.
        assert_eq!(rows(&mut s, "SELECT id FROM kinds WHERE id = 2"), ["2"]);
        assert_eq!(rows(&mut s, "SELECT id FROM kinds WHERE label = 'one'"), ["1"]);
        assert_eq!(rows(&mut s, "SELECT id FROM kinds WHERE fixed = 'a'"), ["1"]);
        assert_eq!(rows(&mut s, "SELECT id FROM kinds WHERE price > 2 AND price < 100"), ["2"]);
        assert_eq!(rows(&mut s, "SELECT id FROM dear(1) ORDER BY id"), ["1", "2"]);
        s.query("SELECT put(6, '{r}')", &[]).expect("a registered query of an older folder");
        let again = s.query("INSERT INTO kinds VALUES (7, '6')", &[]).expect_err("the label is there");
        assert_eq!(again.sqlstate(), "23505");
        s.query("UPDATE kinds SET label = 'none' WHERE id = 5", &[]).expect("its rows can be changed");
        s.query("CREATE TABLE further (a uuid)", &[]).expect("tables can be added");
        s.execute("CREATE TYPE kind AS ENUM ('low', 'high'); CREATE TABLE of_kind (k kind, all_of kind[])")
            .expect("it gets the dictionary's newer tables");
        s.query("INSERT INTO of_kind VALUES ('high', '{low,high}')", &[]).expect("a value of a new type");
        db.close().expect("it closes");
    }
    let db = Database::open(folder.path()).expect("it opens again");
    let mut s = db.session();
    let now = rows(&mut s, KINDS);
    assert_eq!(now[..2], wanted[..2]);
    assert_eq!(
        now[2..],
        ["5|none|NULL|NULL|NULL|{p,q}|NULL|NULL|NULL", "6|6|NULL|NULL|NULL|{r}|NULL|NULL|NULL"]
    );
    assert_eq!(rows(&mut s, "SELECT count(*) FROM further"), ["0"]);
    assert_eq!(rows(&mut s, "SELECT k, all_of, k > 'low' FROM of_kind"), ["high|{low,high}|t"]);
}

const WARES: &str = "SELECT id, kind, price, discount, kinds, code FROM wares ORDER BY id";

/// Written before char(n) kept its blanks and numerics were packed; with a domain and an enum.
#[test]
fn a_folder_with_types_of_users_opens_and_is_written_to() {
    let folder = old("typed");
    {
        let db = Database::open(folder.path()).expect("an older folder opens");
        let mut s = db.session();
        assert_eq!(
            rows(&mut s, WARES),
            [
                "1|low|13.00|0.250|{low,high}|ab",
                "2|high|1.00|0.001|NULL|NULL",
                "3|high|999999.99|-0.500|{}|abcde"
            ]
        );
        // By its indexes, and by its registered queries, of which the last two were compiled otherwise.
        assert_eq!(rows(&mut s, "SELECT id FROM wares WHERE price = 13 AND kind = 'low'"), ["1"]);
        assert_eq!(rows(&mut s, "SELECT id FROM wares WHERE discount = 0.25"), ["1"]);
        assert_eq!(rows(&mut s, "SELECT id FROM below(14)"), ["1", "2"]);
        assert_eq!(rows(&mut s, "SELECT code_or(1, 'x'), code_or(2, 'x')"), ["[ab]|[x]"]);
        assert_eq!(rows(&mut s, "SELECT width(1), width(2), width(3)"), ["5|NULL|5"]);
        // What it defines is asked of new values.
        s.query("SELECT reprice(2, 7.125)", &[]).expect("a registered query of an older folder");
        for (wrong, state) in [("SELECT reprice(1, -1)", "23514"), ("SELECT reprice(1, 1e6)", "22003")] {
            assert_eq!(s.query(wrong, &[]).expect_err("it is not of the domain").sqlstate(), state);
        }
        s.execute("INSERT INTO wares (id, kind) VALUES (5, 'high'); ALTER TYPE kind ADD VALUE 'higher'")
            .expect("its types are used and changed");
        s.execute("CREATE TABLE lists (prices price[] DEFAULT '{1}'); INSERT INTO lists VALUES ('{2,3.5}'), (DEFAULT)")
            .expect("arrays of its domain");
        let wrong =
            s.query("INSERT INTO lists VALUES ('{1,-1}')", &[]).expect_err("an item is not of the domain");
        assert_eq!(wrong.sqlstate(), "23514");
        db.close().expect("it closes");
    }
    let db = Database::open(folder.path()).expect("it opens again");
    let mut s = db.session();
    assert_eq!(
        rows(&mut s, WARES)[1..],
        ["2|high|7.13|0.002|NULL|NULL", "3|high|999999.99|-0.500|{}|abcde", "5|high|1.00|NULL|NULL|NULL"]
    );
    assert_eq!(rows(&mut s, "SELECT id FROM wares WHERE discount = 0.002 AND kind < 'higher'"), ["2"]);
    assert_eq!(rows(&mut s, "SELECT width(1)"), ["5"]);
    assert_eq!(rows(&mut s, "SELECT prices FROM lists ORDER BY prices"), ["{1.00}", "{2.00,3.50}"]);
}

const ACCOUNTS: &str = "SELECT id, owner, balance, rate, fee, whole, any_scale FROM account ORDER BY id";

/// How an instruction of EXPLAIN reads a numeric of few digits: as a word of the row, or as a string.
fn reads(s: &mut Session, column: &str, table: &str) -> &'static str {
    let plan = rows(s, &format!("EXPLAIN SELECT {column} FROM {table} WHERE {column} > 1")).join("\n");
    match (plan.contains("ColPacked"), plan.contains("ColNumeric")) {
        (true, false) => "word",
        (false, true) => "string",
        _ => panic!("a numeric is read in one way: {plan}"),
    }
}

/// What the scripts of the folders `unpacked` and `packed` made, which are the same, is there and can be
/// changed; `stored` is how.
fn numerics_are_there_and_change(name: &str, stored: &str) {
    let folder = old(name);
    let wanted = [
        "1|one|10.75|0.000001|0.50|999999999999999999|1.500",
        "2|two|NaN|NaN|NULL|NULL|Infinity",
        "3|three|-9999999999.99|999999999999.999999|9999.99|-999999999999999999|NULL",
        "5|5|7.78|2.592333|0.50|NULL|NULL",
    ];
    {
        let db = Database::open(folder.path()).expect("an older folder opens");
        let mut s = db.session();
        assert_eq!(rows(&mut s, ACCOUNTS), wanted);
        for column in ["balance", "rate", "fee", "whole"] {
            assert_eq!(reads(&mut s, column, "account"), stored, "{column}");
        }
        assert_eq!(reads(&mut s, "bonus", "loose"), stored);
        // By each of its indexes, and by its registered queries.
        for (condition, id) in [
            ("balance = 10.7500", "1"),
            ("balance = 'NaN' AND owner = 'two'", "2"),
            ("balance < 0", "3"),
            ("rate = 999999999999.9999990", "3"),
            ("rate = 'NaN'", "2"),
        ] {
            assert_eq!(rows(&mut s, &format!("SELECT id FROM account WHERE {condition}")), [id]);
        }
        assert_eq!(rows(&mut s, "SELECT id, balance FROM rich(8)"), ["1|10.75", "2|NaN"]);
        assert_eq!(rows(&mut s, "SELECT pay(1, 0.005), pay(3, -0)"), ["10.76|-9999999999.99"]);
        let full = s.query("SELECT pay(3, -0.01)", &[]).expect_err("it is full");
        assert_eq!(full.sqlstate(), "22003");
        s.execute(
            "SELECT open(6, 1e9); UPDATE account SET fee = fee * 2, whole = -1, rate = NULL WHERE id = 5;
             UPDATE account SET balance = 0.125 WHERE id = 2; UPDATE loose SET price = bonus, bonus = price",
        )
        .expect("its rows can be changed");
        assert_eq!(rows(&mut s, "SELECT id FROM account WHERE balance = 0.13"), ["2"]);
        // A new table is of the new form, whatever it is made of.
        s.execute(
            "CREATE TABLE copied AS SELECT * FROM account; CREATE INDEX copied_balance ON copied (balance);
             CREATE TABLE emptied (n numeric(4,2)); INSERT INTO emptied VALUES (1.005); TRUNCATE loose",
        )
        .expect("tables are made");
        s.execute("INSERT INTO loose VALUES (12.345, 1), (0, 0); ALTER TABLE loose ADD PRIMARY KEY (price)")
            .expect("its rows are put into another layout");
        s.execute("TRUNCATE emptied; INSERT INTO emptied VALUES (2.5)").expect("a new table is emptied");
        db.close().expect("it closes");
    }
    let db = Database::open(folder.path()).expect("it opens again");
    let mut s = db.session();
    let now = [
        "1|one|10.76|0.000001|0.50|999999999999999999|1.500",
        "2|two|0.13|NaN|NULL|NULL|Infinity",
        "3|three|-9999999999.99|999999999999.999999|9999.99|-999999999999999999|NULL",
        "5|5|7.78|NULL|1.00|-1|NULL",
        "6|6|1000000000.00|333333333.333333|0.50|NULL|NULL",
    ];
    assert_eq!(rows(&mut s, ACCOUNTS), now);
    assert_eq!(rows(&mut s, &ACCOUNTS.replace("account", "copied")), now);
    assert_eq!(rows(&mut s, "SELECT id FROM copied WHERE balance > 10.75 ORDER BY id"), ["1", "6"]);
    assert_eq!(rows(&mut s, "SELECT a.id FROM account a JOIN copied c ON a.balance = c.balance").len(), 5);
    for (table, column, how) in [
        ("account", "balance", stored),
        ("account", "fee", stored),
        ("loose", "price", stored),
        ("copied", "balance", "word"),
        ("copied", "fee", "word"),
        ("copied", "any_scale", "string"),
        ("emptied", "n", "word"),
    ] {
        assert_eq!(reads(&mut s, column, table), how, "{table}.{column}");
    }
    assert_eq!(rows(&mut s, "SELECT price, bonus FROM loose ORDER BY price"), ["0.00|0.0", "12.35|1.0"]);
    assert_eq!(rows(&mut s, "SELECT n FROM emptied"), ["2.50"]);
}

/// Written before numerics of few digits were stored as words: what is there stays as it is.
#[test]
fn a_folder_whose_numerics_are_strings_opens_and_is_written_to() {
    numerics_are_there_and_change("unpacked", "string")
}

#[test]
fn a_folder_whose_numerics_are_words_opens_and_is_written_to() {
    numerics_are_there_and_change("packed", "word")
}

/// A folder that was written before columns could be added to rows as they are: zeros were left in them.
#[test]
fn rows_of_an_older_folder_get_columns_as_they_are() {
    let folder = old("packed");
    let before = {
        let db = Database::open(folder.path()).expect("an older folder opens");
        let mut s = db.session();
        let before = rows(&mut s, ACCOUNTS);
        s.execute("ALTER TABLE account ADD note text DEFAULT 'from before', ADD n int").expect("columns");
        s.execute("UPDATE account SET note = 'changed, to more than a head has', n = 7 WHERE id = 2")
            .expect("a change");
        db.close().expect("it closes");
        before
    };
    let db = Database::open(folder.path()).expect("it opens again");
    let mut s = db.session();
    assert_eq!(rows(&mut s, ACCOUNTS), before);
    assert_eq!(
        rows(&mut s, "SELECT id, note, n FROM account ORDER BY id"),
        [
            "1|from before|NULL",
            "2|changed, to more than a head has|7",
            "3|from before|NULL",
            "5|from before|NULL"
        ]
    );
    let missing = "SELECT attname, attmissingval FROM pg_attribute WHERE atthasmissing";
    assert_eq!(rows(&mut s, missing), ["note|{\"from before\"}"]);
}

/// Written when room for columns that are added later was 8 bytes everywhere: rows that have 7 bytes left
/// were made 16 bytes longer for it.
#[test]
fn a_folder_of_longer_rows_opens_and_gets_more_columns() {
    let folder = old("room");
    let slot = "a value that lies in a slot of its own";
    let (x, y) = ("x".repeat(50), "y".repeat(40));
    {
        let db = Database::open(folder.path()).expect("an older folder opens");
        let mut s = db.session();
        let [one, two] = [format!("1|one|{slot}|NULL"), format!("2|two|{slot}|7")];
        assert_eq!(rows(&mut s, "SELECT * FROM seven ORDER BY id"), [one, two, format!("3|three|{y}|9")]);
        let [one, two] = [format!("1|10|{slot}|NULL"), format!("2|20|{x}|NULL")];
        assert_eq!(rows(&mut s, "SELECT * FROM none ORDER BY id"), [one, two]);
        let [one, two] = [1, 2].map(|n| format!("{n}|{n}0|{slot}|NULL"));
        assert_eq!(rows(&mut s, "SELECT * FROM fifteen ORDER BY id"), [one, two, "3|30|short|9".into()]);
        // A table that is made now has shorter rows.
        s.execute("CREATE TABLE anew (id bigint PRIMARY KEY, label text); INSERT INTO anew TABLE still")
            .unwrap();
        for t in ["seven", "none", "fifteen", "still", "anew"] {
            let add = format!("ALTER TABLE {t} ADD COLUMN last text DEFAULT '{slot}', ADD COLUMN n2 int");
            s.execute(&add).unwrap_or_else(|e| panic!("{t}: {e}"));
            s.execute(&format!("UPDATE {t} SET n2 = 5, last = upper(last) WHERE id = 1")).unwrap();
        }
        s.execute("UPDATE seven SET more = 'm'; UPDATE none SET k = 1 WHERE id = 2").unwrap();
    }
    let db = Database::open(folder.path()).expect("it opens again");
    let mut s = db.session();
    let upper = slot.to_uppercase();
    for t in ["still", "anew"] {
        let wanted = [format!("1|one|{upper}|5"), format!("2|two|{slot}|NULL")];
        assert_eq!(rows(&mut s, &format!("SELECT * FROM {t} ORDER BY id")), wanted);
    }
    let more = "SELECT id, more, k, last, n2 FROM";
    let one = |more: &str| format!("1|{more}|NULL|{upper}|5");
    let seven = [one("m"), format!("2|m|7|{slot}|NULL"), format!("3|m|9|{slot}|NULL")];
    assert_eq!(rows(&mut s, &format!("{more} seven ORDER BY id")), seven);
    let none = [one(slot), format!("2|{x}|1|{slot}|NULL")];
    assert_eq!(rows(&mut s, &format!("{more} none ORDER BY id")), none);
    let fifteen = [one(slot), format!("2|{slot}|NULL|{slot}|NULL"), format!("3|short|9|{slot}|NULL")];
    assert_eq!(rows(&mut s, &format!("{more} fifteen ORDER BY id")), fifteen);
}
