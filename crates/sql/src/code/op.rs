//! The opcodes: one table, from which the instruction type, its stored form, EXPLAIN's names and operands,
//! the checks before execution and the reference text ([`reference`]) are generated.
//!
//! - **P1** An opcode's number and its operands' kinds are the stored form: a number is never given a new
//!   meaning; what changes needs a new number or a new [`super::FORMAT`].
//! - **P2** A jump is the operand `to` (or `gone`): the text says when it is taken; otherwise the next
//!   instruction follows.
//!
//! A register holds a value of any type, or NULL. *Row area*: the part of the frame's memory where each table
//! cursor has its row. *Temporaries*: strings made on the way, given back by `Reset`.
//!
//! The flat structure (cursors, loops as jumps, one listing a statement) follows SQLite's virtual machine;
//! the separation of key hashing, probing and row reading is there so that a batch can overlap its cache
//! misses.
use super::operand::*;
use super::program::Limits;
use ondol_types::TypeId;
use ondol_types::func::FuncId;

macro_rules! opcodes {
    ($($(#[doc = $doc:literal])* $num:literal $name:ident { $($field:ident: $ty:ident),* };)*) => {
        /// One instruction.
        // Sixteen bytes, so that the address of an instruction is a shift away.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(align(16))]
        pub enum Op {
            $($(#[doc = $doc])* $name { $($field: $ty),* },)*
        }

        impl Op {
            pub fn name(&self) -> &'static str {
                match self { $(Op::$name { .. } => stringify!($name),)* }
            }
            pub fn number(&self) -> u8 {
                match self { $(Op::$name { .. } => $num,)* }
            }
            /// The operands as EXPLAIN shows them: `name=value` in order.
            pub fn operands(&self) -> String {
                let mut out = String::new();
                match self {
                    $(Op::$name { $($field),* } => {
                        $(
                            if !out.is_empty() {
                                out.push(' ');
                            }
                            out += concat!(stringify!($field), "=");
                            $field.show(&mut out);
                        )*
                    })*
                }
                out
            }
            pub fn put(&self, out: &mut Vec<u8>) {
                out.push(self.number());
                match self { $(Op::$name { $($field),* } => { $($field.put(out);)* })* }
            }
            /// `None`: no such opcode, or bytes missing, or an operand of no meaning.
            pub fn get(r: &mut CodeReader<'_>) -> Option<Op> {
                Some(match r.u8()? {
                    $($num => Op::$name { $($field: <$ty as Operand>::get(r)?),* },)*
                    _ => return None,
                })
            }
            /// Checks each operand by itself; what ties operands together is checked in `verify`.
            pub fn check(&self, limits: &Limits) -> Result<(), String> {
                let _ = limits;
                match self { $(Op::$name { $($field),* } => { $($field.check(limits)?;)* })* }
                Ok(())
            }
            /// Where it may jump to.
            pub fn target(&self) -> Option<u32> {
                match self {
                    $(Op::$name { $($field),* } => {
                        let to = None;
                        $(let to = to.or($field.target());)*
                        to
                    })*
                }
            }
            pub fn relocate(&mut self, to: &Relocation<'_>) {
                match self { $(Op::$name { $($field),* } => { $($field.relocate(to);)* })* }
            }
        }

        /// (number, name, operands with their kinds, what it does) of every opcode.
        pub const TABLE: &[(u8, &str, &[(&str, &str)], &str)] = &[
            $(($num, stringify!($name), &[$((stringify!($field), stringify!($ty))),*], concat!($($doc, "\n"),*)),)*
        ];
    };
}

opcodes! {
    /// Ends the program.
    0 Halt {};
    /// Goes on at `to`; every loop passes here or a `...Next`, where a wish to cancel is looked for.
    1 Jump { to: Label };
    /// Calls the code at `to`; `ret` gets the address to come back to.
    2 Gosub { ret: Out, to: Label };
    /// Goes back to where `ret` says.
    3 Return { ret: Reg };
    /// Jumps if `a` is true.
    4 If { a: Reg, to: Label };
    /// Jumps unless `a` is true: if it is false or NULL.
    5 IfNot { a: Reg, to: Label };
    /// Jumps if `a` is false (not if it is NULL).
    6 IfFalse { a: Reg, to: Label };
    /// Jumps if `a` is NULL.
    7 IfNull { a: Reg, to: Label };
    /// Jumps if `a` is not NULL.
    8 IfNotNull { a: Reg, to: Label };
    /// Jumps if this was passed before in this execution, which `done` remembers.
    9 Once { done: State, to: Label };
    /// Remembers in `dst` how much temporary memory is in use.
    10 Mark { dst: Out };
    /// Gives back the temporary memory taken since `mark`.
    11 Reset { mark: Reg };
    /// Fails with the error `what`.
    12 Raise { what: Fault };
    /// Counts for EXPLAIN ANALYZE.
    13 Tally { slot: Slot };

    /// Counts the nodes of the cursor's index that were looked at since it was asked last, for EXPLAIN
    /// ANALYZE.
    196 TallyNodes { cursor: Cur, slot: Slot };

    /// dst := NULL.
    16 Null { dst: Out };
    /// dst := the boolean.
    17 Bool { dst: Out, value: Flag };
    /// dst := the bigint.
    18 Int { dst: Out, value: Imm };
    /// dst := a.
    19 Move { dst: Out, a: Reg };
    /// dst := a IS NULL.
    20 IsNull { dst: Out, a: Reg };
    /// dst := a IS NOT NULL.
    21 IsNotNull { dst: Out, a: Reg };
    /// dst := NOT a.
    22 Not { dst: Out, a: Reg };
    /// dst := a AND b, three-valued.
    23 And { dst: Out, a: Reg, b: Reg };
    /// dst := a OR b, three-valued.
    24 Or { dst: Out, a: Reg, b: Reg };
    /// dst := a + b, integers; an error outside `ty`.
    25 AddInt { dst: Out, a: Reg, b: Reg, ty: IntTy };
    /// dst := a - b, integers; an error outside `ty`.
    26 SubInt { dst: Out, a: Reg, b: Reg, ty: IntTy };
    /// dst := a * b, integers; an error outside `ty`.
    27 MulInt { dst: Out, a: Reg, b: Reg, ty: IntTy };
    /// dst := a + b, doubles; `func` decides what is not an ordinary number.
    28 AddFloat { dst: Out, a: Reg, b: Reg, func: FuncId };
    /// dst := a - b, doubles; `func` decides what is not an ordinary number.
    29 SubFloat { dst: Out, a: Reg, b: Reg, func: FuncId };
    /// dst := a * b, doubles; `func` decides what is not an ordinary number, and zero.
    30 MulFloat { dst: Out, a: Reg, b: Reg, func: FuncId };
    /// dst := a cond b for integers, booleans, dates and timestamps of one kind.
    31 CmpInt { dst: Out, a: Reg, b: Reg, cond: Cond };
    /// dst := a cond b for doubles.
    32 CmpFloat { dst: Out, a: Reg, b: Reg, cond: Cond };
    /// dst := a cond b for strings, by their bytes.
    33 CmpText { dst: Out, a: Reg, b: Reg, cond: Cond };
    /// Jumps unless a cond b is true; types as for `CmpInt`.
    34 UnlessInt { a: Reg, b: Reg, cond: Cond, to: Label };
    /// Jumps unless a cond b is true, for doubles.
    35 UnlessFloat { a: Reg, b: Reg, cond: Cond, to: Label };
    /// Jumps unless a cond b is true, for strings.
    36 UnlessText { a: Reg, b: Reg, cond: Cond, to: Label };
    /// dst := func(args).
    37 Call { dst: Out, func: FuncId, args: Span };
    /// dst := a, converted.
    38 Cast { dst: Out, a: Reg, how: Conv };
    /// dst := a, seen as another type of the same representation; as `character` it is compared in hash
    /// tables and sorts without its trailing blanks.
    39 Retag { dst: Out, a: Reg, ty: TypeId };
    /// dst := a as a double.
    40 IntToFloat { dst: Out, a: Reg };
    /// dst := the integer a as `ty`; jumps when it does not fit.
    41 Narrow { dst: Out, a: Reg, ty: IntTy, to: Label };
    /// dst := which of a and b sorts first in PostgreSQL's order of their type: -1, 0 or 1; NULL if one is
    /// NULL.
    42 Order { dst: Out, a: Reg, b: Reg };
    /// dst := a constant that no register holds.
    43 Load { dst: Out, from: Pool };
    /// dst := a parameter that no register holds.
    44 LoadParam { dst: Out, param: Param };
    /// dst := whether a is among `count` constants that are not NULL; NULL if a is. They are put into the
    /// hash table when it is empty.
    45 InPool { dst: Out, a: Reg, hash: Hash, from: Pool, count: Count };
    /// Puts a into the hash table unless it is there; if a is NULL, null := true instead.
    46 SetPut { hash: Hash, a: Reg, null: Out };
    /// dst := whether a is in the hash table; NULL if a is.
    47 InSet { dst: Out, a: Reg, hash: Hash };

    /// dst := the boolean column at `at`.
    48 ColBool { dst: Out, at: At, null: NullAt };
    /// dst := the smallint column at `at`.
    49 ColInt2 { dst: Out, at: At, null: NullAt };
    /// dst := the integer column at `at`.
    50 ColInt4 { dst: Out, at: At, null: NullAt };
    /// dst := the bigint column at `at`.
    51 ColInt8 { dst: Out, at: At, null: NullAt };
    /// dst := the double column at `at`.
    52 ColFloat8 { dst: Out, at: At, null: NullAt };
    /// dst := the date column at `at`.
    53 ColDate { dst: Out, at: At, null: NullAt };
    /// dst := the timestamp column at `at`.
    54 ColTimestamp { dst: Out, at: At, null: NullAt };
    /// dst := the timestamptz column at `at`.
    55 ColTimestamptz { dst: Out, at: At, null: NullAt };
    /// dst := the string whose head is at `at`.
    56 ColText { dst: Out, at: At, null: NullAt };
    /// dst := the bytea whose head is at `at`.
    57 ColBytea { dst: Out, at: At, null: NullAt };
    /// dst := the numeric whose head is at `at`.
    58 ColNumeric { dst: Out, at: At, null: NullAt };
    /// dst := the char(n) column of the cursor's row.
    59 ColChar { dst: Out, cursor: Cur, column: Col };
    /// dst := the opaque value, of this type, that is at `at` or whose head is there.
    60 ColOpaque { dst: Out, at: At, null: NullAt, ty: TypeId };
    /// dst := the numeric of so many decimals that is a number at `at`.
    61 ColPacked { dst: Out, at: At, null: NullAt, scale: Scale };

    /// dst := func(args), of a function that the connection computes: it knows the sequences.
    62 CallConnection { dst: Out, func: FuncId, args: Span };

    /// dst := a column of the cursor's row that was added later.
    63 ColLater { dst: Out, cursor: Cur, column: Col };

    /// Starts a scan of all rows.
    64 ScanStart { cursor: Cur };
    /// Reads the next row that the statement sees; jumps when there is none.
    65 ScanNext { cursor: Cur, to: Label };
    /// Makes the cursor's key of the values, one for each column of its index; jumps if one is NULL.
    66 KeyPut { cursor: Cur, values: Span, to: Label };
    /// Hashes the key and asks for its bucket (or node) to be brought into the cache.
    67 KeyPrefetch { cursor: Cur };
    /// Gathers the rows that stand under the key.
    68 KeyProbe { cursor: Cur };
    /// Asks for the first gathered row to be brought into the cache.
    69 RowPrefetch { cursor: Cur };
    /// Reads the next gathered row that the statement sees; jumps when there is none. Whether it has the key
    /// is for the instructions that follow to check.
    70 RowNext { cursor: Cur, to: Label };
    /// The range begins at the key made of the values (a prefix of the index's columns; none: at the start).
    71 RangeLow { cursor: Cur, values: Span, edge: Edge };
    /// The range ends at the key made of the values (none: at the end).
    72 RangeHigh { cursor: Cur, values: Span, edge: Edge };
    /// Starts the range scan.
    73 RangeStart { cursor: Cur, backward: Flag };
    /// Begins to gather the rows of boxes.
    197 BoxesNew { cursor: Cur };
    /// Gathers the rows that may lie in a box of the cursor's index: the values are its least ones by column,
    /// then its greatest; open where one is NULL. Whether they do is for the instructions that follow to
    /// check.
    193 BoxProbe { cursor: Cur, values: Span };
    /// All are gathered: `RowNext` is to give each once, by where they lie.
    198 BoxesEnd { cursor: Cur };
    /// Of the rows that the cursor has gathered, leaves those that may lie in a box of the other one's index,
    /// its values as of `BoxProbe`; all of them if they are few, or too few for a search in so large a box.
    199 Within { cursor: Cur, other: Cur, values: Span };
    /// Begins to look for the nearest rows of the cursor's index in a box: the values are that, as of
    /// `BoxProbe`, then a point by column; the columns that count have a bit in `counted`.
    194 NearStart { cursor: Cur, values: Span, counted: Count };
    /// Reads the next of them, the nearest first; jumps when there is none. Whether it lies in the box is for
    /// the instructions that follow to check.
    195 NearNext { cursor: Cur, to: Label };
    /// Forgets the ranges that were kept.
    190 RangesNew { cursor: Cur };
    /// Keeps the range beside those kept before.
    191 RangeKeep { cursor: Cur };
    /// Starts a scan of all ranges that were kept, in the index's order; those that overlap become one.
    192 RangesStart { cursor: Cur, backward: Flag };
    /// Reads the next row of the range (or the ranges) that the statement sees and whose key is the entry's;
    /// jumps when there is none.
    74 RangeNext { cursor: Cur, to: Label };
    /// dst := the cursor's row, as a number that `SetRow` takes.
    75 GetRow { dst: Out, cursor: Cur };
    /// Reads the row that `a` names into the cursor; jumps when the statement does not see it.
    76 SetRow { cursor: Cur, a: Reg, to: Label };
    /// Locks the cursor's row; jumps when it is gone or skipped. `changed` tells whether another transaction
    /// had changed it: then the cursor holds its newest bytes.
    77 Lock { changed: Out, cursor: Cur, how: How, gone: Label };
    /// Jumps if this statement has been at the cursor's row before, else remembers it.
    78 Touch { cursor: Cur, to: Label };
    /// Changes the listed columns of the cursor's locked row.
    79 Update { cursor: Cur, values: Span, columns: List };
    /// Deletes the cursor's locked row.
    80 Delete { cursor: Cur };
    /// Inserts a row of the values.
    81 Insert { table: Tab, values: Span };
    /// Counts a row for the command's tag.
    82 Affected {};
    /// Gives a row out.
    83 Emit { row: Span };
    /// Gives the cursor's row out as it is.
    84 EmitRow { cursor: Cur };

    /// Reads a row that stands under the key of the values in the cursor's unique hash index, and has that
    /// key; jumps when the statement sees none, or a value is NULL. In a batch, all lanes' buckets and rows
    /// are asked for before.
    85 Point { cursor: Cur, values: Span, to: Label };

    /// Gives out, as they are, the row that `Point` would read, if there is one, and its twin.
    86 PointRow { cursor: Cur, values: Span };

    /// Sets columns of the row that `Point` would read for the key, if there is one, and of its twin: locks
    /// it, looks for the key again if another transaction had changed it, and counts it. Outside a
    /// transaction this is mostly done without a frame, in one go.
    87 PointUpdate { cursor: Cur, key: Span, values: Span, columns: List };

    /// Goes back to `to` with another row under the unique key that the cursor was asked for last. Only a
    /// transaction that put a row of its own beside one that its snapshot still shows has such.
    88 Twin { cursor: Cur, to: Label };

    /// Inserts a row of the values; jumps, and inserts nothing, if another row has its key in one of the
    /// listed unique indexes of the table (none: in any).
    89 InsertNew { table: Tab, values: Span, arbiters: List, to: Label };

    /// Inserts a row of the values into the cursor's table; jumps if another row has its key in one of the
    /// listed unique indexes: nothing is inserted then, that row is locked, and the cursor holds its newest
    /// bytes. It is an error if this command has inserted or changed the row.
    90 InsertOrLock { cursor: Cur, values: Span, arbiters: List, to: Label };

    /// Fails: a check of the table, by its number, is false of the new row of the values.
    91 Violated { table: Tab, values: Span, check: Col };
    /// Fails: the new row of the values is not one that the view of the name shows.
    92 OutOfView { table: Tab, values: Span, view: Reg };

    /// dst := the `ctid` of the cursor's row.
    93 RowTid { dst: Out, cursor: Cur };
    /// dst := the `ctid` of the row that was inserted last.
    94 NewTid { dst: Out };
    /// Reads the row that the `ctid` a names into the cursor; jumps when the statement sees none there, or a
    /// is NULL.
    95 TidRow { cursor: Cur, a: Reg, to: Label };

    /// Empties the hash table.
    96 HashClear { hash: Hash };
    /// Puts a row in, whatever is there.
    97 HashPut { hash: Hash, row: Span };
    /// Puts a row in; jumps if one of the same key is there (NULLs count as equal), which becomes the current
    /// one.
    98 HashPutNew { hash: Hash, row: Span, to: Label };
    /// Looks for the first row of the key; jumps when there is none.
    99 HashFind { hash: Hash, key: Span, to: Label };
    /// The next row of the same key; jumps when there is none.
    100 HashFindNext { hash: Hash, to: Label };
    /// dst := a column of the current row.
    101 HashCol { dst: Out, hash: Hash, column: Col };
    /// Adds to the current row's counter.
    102 HashAdd { hash: Hash, by: Imm };
    /// dst := the current row's counter.
    103 HashCount { dst: Out, hash: Hash };
    /// Goes before the first row, in the order they were put in.
    104 HashRewind { hash: Hash };
    /// The next row; jumps when there is none.
    105 HashNext { hash: Hash, to: Label };
    /// dst := the number of rows.
    106 HashSize { dst: Out, hash: Hash };

    /// Puts those of `count` constants into the hash table that are not there yet.
    107 HashPool { hash: Hash, from: Pool, count: Count };

    /// dst := a as an end of a range of values of `ty`, which is taken with that end: it cuts none off, but
    /// there may be others in between. NULL if a is.
    111 RangeEnd { dst: Out, a: Reg, ty: TypeId, lower: Flag };

    /// Empties the list.
    112 MatClear { mat: Mat };
    /// Appends a row.
    113 MatPut { mat: Mat, row: Span };
    /// Goes before the first row.
    114 MatRewind { mat: Mat };
    /// The next row; jumps when there is none.
    115 MatNext { mat: Mat, to: Label };
    /// dst := a column of the current row.
    116 MatCol { dst: Out, mat: Mat, column: Col };
    /// dst := the number of rows.
    117 MatSize { dst: Out, mat: Mat };
    /// Fills the list with a system view's rows.
    118 SystemRows { mat: Mat, view: Name };
    /// Fills the list with what a registered query gives for the arguments.
    119 FunctionRows { mat: Mat, function: Fun, args: Span };

    /// Appends `rows` rows of constants.
    120 MatPool { mat: Mat, from: Pool, rows: Count };
    /// Goes to the row whose number, counted from 0 (or NULL), is in `at`, and counts that up; jumps when
    /// there is none. Several readers can go through one list by this.
    121 MatRead { mat: Mat, at: State, to: Label };
    /// Fills the list with those of a system view's rows in which the column has the value of the key, and
    /// perhaps with others.
    122 SystemRowsOf { mat: Mat, view: Name, column: Col, key: Reg };
    /// Each of two lists gets the other's rows.
    123 MatSwap { a: Mat, b: Mat };

    /// Empties the sorter.
    128 SortClear { sort: Sort };
    /// Only the first `a` rows will be asked for (NULL: all).
    129 SortLimit { sort: Sort, a: Reg };
    /// Puts a row in.
    130 SortPut { sort: Sort, row: Span };
    /// Sorts, and goes before the first row.
    131 SortRun { sort: Sort };
    /// The next row in order; jumps when there is none.
    132 SortNext { sort: Sort, to: Label };
    /// dst := a column of the current row.
    133 SortCol { dst: Out, sort: Sort, column: Col };

    /// Empties the groups.
    144 GroupClear { group: Group };
    /// Finds the group of the key, or begins it.
    145 GroupFor { group: Group, key: Span };
    /// Hands the arguments to an aggregate of the current group.
    146 AggStep { group: Group, agg: Col, args: Span };
    /// dst := the current group's number.
    147 GroupIndex { dst: Out, group: Group };
    /// Goes before the first group.
    148 GroupRewind { group: Group };
    /// The next group; jumps when there is none.
    149 GroupNext { group: Group, to: Label };
    /// dst := a column of the current group's key.
    150 GroupCol { dst: Out, group: Group, column: Col };
    /// dst := the outcome of an aggregate of the current group.
    151 AggValue { dst: Out, group: Group, agg: Col };

    /// Checks the series in `state` (next, stop, step, value): a step of zero is an error.
    160 SeriesStart { state: State };
    /// value := next; next := next + step; jumps when the series is past its stop.
    161 SeriesNext { state: State, to: Label };
    /// dst := a as a row count: an error if it is negative.
    162 LimitOf { dst: Out, a: Reg, offset: Flag };
    /// If `left` is above zero: lowers it and jumps.
    163 Skip { left: State, to: Label };
    /// Unless `left` is NULL: lowers it, and jumps when nothing is left.
    164 CountDown { left: State, to: Label };
    /// Jumps if `a` is zero.
    165 IfZero { a: Reg, to: Label };
    /// dst := a + b as row counts; NULL if one is NULL.
    166 LimitSum { dst: Out, a: Reg, b: Reg };
    /// In `state` (next, stop, sign, value, step): value := next; next := add(next, step); jumps when the
    /// series is past its stop. The values are numbers of 64 bits.
    167 SeriesAdd { state: State, add: FuncId, to: Label };

    /// Begins to read a foreign table from one of the two bounds of its key to the other (NULL: open).
    176 ForeignStart { from: Outside, bounds: Span };
    /// The wanted columns of the next row go where their numbers say, from the first of `row` on; jumps when
    /// there is none.
    177 ForeignNext { from: Outside, row: State, to: Label };
    /// dst := the number of rows that are left.
    178 ForeignCount { dst: Out, from: Outside };

    /// Forgets the window's rows; how far its frames go is checked: an error if it is NULL, or negative.
    184 WindowStart { window: Win, distances: Span };
    /// Puts a row behind those of its partition; jumps, and puts nothing in, if it begins another one.
    185 WindowPut { window: Win, row: Span, to: Label };
    /// The partition is whole: goes before its first row.
    186 WindowRun { window: Win };
    /// The next row of the partition; jumps, and forgets the partition, when there is none.
    187 WindowNext { window: Win, to: Label };
    /// dst := a column of the current row.
    188 WindowCol { dst: Out, window: Win, column: Col };
    /// dst := the value of a function in the current row.
    189 WindowValue { dst: Out, window: Win, call: Col };
}

/// The reference of all opcodes, as text in Markdown.
pub fn reference() -> String {
    let mut out = String::from("| no | opcode | operands | what it does |\n| --- | --- | --- | --- |\n");
    for (number, name, operands, doc) in TABLE {
        let list: Vec<String> = operands.iter().map(|(n, k)| format!("{n}: {k}")).collect();
        let text: Vec<&str> = doc.lines().map(str::trim).collect();
        out += &format!("| {number} | {name} | {} | {} |\n", list.join(", "), text.join(" "));
    }
    out
}
