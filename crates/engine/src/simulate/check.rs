//! Compares a whole open database with the model: definitions, rows, and every index with the rows.
use super::model::{SHAPES, State, index_name, table_name};
use super::workload::decode;
use crate::connection::{Access, Connection, Isolation, Scan};
use crate::name::{PUBLIC, USUAL_PATH};
use crate::role::FIRST_ROLE;
use crate::table::Table;
use crate::{Catalog, ColumnDef, Database, IndexDef, IndexKind, IndexOptions, Oid, dictionary};
use ondol_kernel::Strings;
use ondol_types::sqlstate;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Read<'a>(&'a Connection);
impl Strings for Read<'_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        self.0.read_string(slot, len, out)
    }
}

/// Nobody else uses the database. `collected`: nothing dead is left, so indexes hold the rows and nothing
/// else. Gives the number of rows compared.
pub fn database(db: &Arc<Database>, state: &State, collected: bool) -> Result<u64, String> {
    let catalog = db.catalog();
    is_stored(db)?;
    // Others are the definers' (see `definers`).
    let names: Vec<&String> = catalog.tables().map(|t| &t.def.name).filter(|n| n.starts_with('t')).collect();
    let expected: Vec<String> = state.tables.keys().map(|t| table_name(*t)).collect();
    if names.iter().copied().ne(&expected) {
        return Err(format!("tables {names:?} where {expected:?} must be"));
    }
    let mut rows = 0;
    for (number, expected) in &state.tables {
        let t = catalog.table(table_name(*number)).ok_or("a table was lost")?;
        let told = |e: String| format!("table {}: {e}", t.def.name);
        let mut names: Vec<&String> = t.indexes.iter().map(|i| &i.def.name).collect();
        names.sort();
        let shapes: Vec<String> = expected.shapes.iter().map(|s| index_name(*number, *s)).collect();
        if names.iter().copied().ne(&shapes) {
            return Err(told(format!("indexes {names:?} where {shapes:?} must be")));
        }
        if t.heaps != expected.heaps {
            return Err(told(format!("heaps {} where {} must be", t.heaps, expected.heaps)));
        }
        let mut c = db.connect();
        c.begin(Isolation::RepeatableRead, Access::ReadWrite).map_err(|e| e.to_string())?;
        c.start_statement(catalog.version, std::slice::from_ref(t), false).map_err(|e| e.to_string())?;
        rows += table(&mut c, t, expected, collected).map_err(told)?;
        c.rollback();
    }
    Ok(rows)
}

/// The dictionary that everyone goes by is the one that a restart would find.
pub fn is_stored(db: &Arc<Database>) -> Result<(), String> {
    let catalog = db.catalog();
    let mut c = db.connect();
    c.session.snapshot_newest();
    let stored = match dictionary::load(&c.session, &db.dictionary, 0, &BTreeMap::new(), &|| {
        crate::temporary::FIRST
    }) {
        Err(e) if e.sqlstate() == sqlstate::OUT_OF_MEMORY => return Ok(()),
        other => other.map_err(|e| e.to_string())?,
    };
    let told = |what: &str, stored: String, known: String| {
        Err(format!("{what} {stored} are stored where {known} are known"))
    };
    // Nothing else is stored: no row of what has gone.
    let columns = catalog.tables().map(|t| t.def.columns.len()).sum();
    let checks = catalog.tables().map(|t| t.def.checks.len()).sum();
    let of = |c: &ColumnDef| usize::from(c.generated.is_some()) + c.owns.len();
    let owned = catalog.tables().flat_map(|t| &t.def.columns).map(of).sum();
    let foreign = catalog.tables().map(|t| t.def.foreign.len()).sum();
    let given = |i: &IndexDef| {
        let IndexOptions { partial, include, nulls_not_distinct, exclusion, forms } = &i.options;
        let is_crtree = matches!(i.kind, IndexKind::Crtree { .. });
        let given = [*partial, !include.is_empty(), *nulls_not_distinct, *exclusion, is_crtree];
        given.into_iter().filter(|o| *o).count() + forms.len()
    };
    let options = catalog.tables().flat_map(|t| &t.def.indexes).map(given).sum();
    let rooms = catalog.tables().filter(|t| t.def.nature.room.is_some()).count();
    let ranks = catalog.tables().flat_map(|t| &t.def.columns).filter(|c| c.rank.is_some()).count();
    let bits = catalog.tables().flat_map(|t| &t.def.columns).filter(|c| c.bit.is_some()).count();
    let later = catalog.tables().flat_map(|t| &t.def.columns).filter(|c| c.later.is_some()).count();
    let users = || catalog.types.values().filter_map(|t| t.user());
    let parts = users().map(|u| u.parts.len()).sum();
    let placed = catalog.tables().filter(|t| t.def.schema != PUBLIC).count()
        + catalog.sequences().filter(|s| s.def.schema != PUBLIC).count()
        + users().filter(|u| u.schema != PUBLIC).count()
        + catalog.functions.values().filter(|f| f.schema != PUBLIC || f.path != USUAL_PATH).count();
    // Those that are there from the beginning are not stored.
    let schemas = catalog.schemas.values().filter(|s| !s.is_system() && s.number != PUBLIC).count();
    let made = || catalog.roles.values().filter(|r| r.id >= FIRST_ROLE);
    let d = &db.dictionary;
    for (table, count) in [
        (&d.tables, catalog.tables().count()),
        (&d.columns, columns),
        (&d.indexes, catalog.indexes().count()),
        (&d.functions, catalog.functions.len()),
        (&d.types, catalog.types.len()),
        (&d.parts, parts),
        (&d.checks, checks),
        (&d.schemas, schemas),
        (&d.places, placed),
        (&d.sequences, catalog.sequences().count()),
        (&d.owned, owned),
        (&d.foreign, foreign),
        (&d.options, options),
        (&d.stored, rooms + later + ranks + bits),
        (&d.roles, made().count()),
        (&d.memberships, made().map(|r| r.memberships.len()).sum()),
        (&d.settings, catalog.settings.values().map(|s| s.len()).sum()),
        (&d.rights, catalog.rights.len()),
        (&d.column_rights, catalog.rights.values().map(|r| r.columns.len()).sum()),
    ] {
        let rows = dictionary::rows(&c.session, table);
        if rows.len() != count {
            let rows: Vec<_> = rows.into_iter().map(|r| r.1).collect();
            return Err(format!("{count} rows of {} must be there: {rows:?}", table.def.name));
        }
    }
    let tables = |c: &Catalog| c.tables().map(|t| (t.def.clone(), t.heaps)).collect::<Vec<_>>();
    let (a, b) = (tables(&stored), tables(&catalog));
    if a != b {
        return told("tables", format!("{a:?}"), format!("{b:?}"));
    }
    if !stored.indexes().eq(catalog.indexes()) {
        let shown = |c: &Catalog| format!("{:?}", c.indexes().collect::<Vec<_>>());
        return told("indexes", shown(&stored), shown(&catalog));
    }
    if stored.roles != catalog.roles {
        return told("roles", format!("{:?}", stored.roles), format!("{:?}", catalog.roles));
    }
    if stored.settings != catalog.settings {
        return told("settings", format!("{:?}", stored.settings), format!("{:?}", catalog.settings));
    }
    if stored.rights != catalog.rights {
        return told("rights", format!("{:?}", stored.rights), format!("{:?}", catalog.rights));
    }
    if stored.schemas != catalog.schemas {
        return told("schemas", format!("{:?}", stored.schemas), format!("{:?}", catalog.schemas));
    }
    let sequences = |c: &Catalog| c.sequences().map(|s| s.def.clone()).collect::<Vec<_>>();
    let (a, b) = (sequences(&stored), sequences(&catalog));
    if a != b {
        return told("sequences", format!("{a:?}"), format!("{b:?}"));
    }
    if stored.types != catalog.types {
        return told("types", format!("{:?}", stored.types), format!("{:?}", catalog.types));
    }
    if stored.functions != catalog.functions {
        return told("functions", format!("{:?}", stored.functions), format!("{:?}", catalog.functions));
    }
    c.session.unpublish();
    Ok(())
}

fn table(
    c: &mut Connection,
    t: &Arc<Table>,
    expected: &super::model::ModelTable,
    collected: bool,
) -> Result<u64, String> {
    let mut found: BTreeMap<i64, (Oid, Vec<u8>)> = BTreeMap::new();
    let mut scan = Scan::default();
    scan.start(c, t);
    let mut bytes = vec![0; t.layout.row_size];
    while let Some(oid) = scan.next(c, &mut bytes).map_err(|e| e.to_string())? {
        let row = decode(c, t, &bytes);
        match expected.rows.get(&row.uid) {
            None => return Err(format!("{row:?} must not be there")),
            Some(e) if *e != row => return Err(format!("{row:?} where {e:?} must be")),
            _ => {}
        }
        if found.insert(row.uid, (oid, bytes.clone())).is_some() {
            return Err(format!("row {} is there twice", row.uid));
        }
    }
    if let Some((_, r)) = expected.rows.iter().find(|(uid, _)| !found.contains_key(uid)) {
        return Err(format!("{r:?} is missing"));
    }
    for i in &t.indexes {
        let told = |e: String| format!("index {}: {e}", i.def.name);
        let unique = SHAPES.iter().enumerate().any(|(s, x)| x.1 && i.def.name.ends_with(&format!("_{s}")));
        let is_point = matches!(i.def.kind, IndexKind::Crtree { .. });
        let mut rows: Vec<Oid> = vec![];
        for (uid, (oid, bytes)) in &found {
            let (mut key, mut other, mut oids) = (vec![], vec![], vec![]);
            let nulls = i.store.key.key(bytes, &Read(c), &mut key);
            c.lookup(i, &key, &mut oids).map_err(|e| e.to_string())?;
            let n = oids.iter().filter(|o| *o == oid).count();
            if is_point {
                // A row may have an entry in more than one leaf (index/crtree/C7), and none where all values
                // are NULL.
                if (n == 0) != key.is_empty() {
                    return Err(told(format!("row {uid} stands {n} times under its point")));
                }
                if !key.is_empty() {
                    rows.push(*oid)
                }
                continue;
            }
            rows.push(*oid);
            if n != 1 {
                return Err(told(format!("row {uid} stands {n} times under its key")));
            }
            let same = found.values().filter(|(o, b)| {
                other.clear();
                i.store.key.key(b, &Read(c), &mut other);
                oids.contains(o) && other == key
            });
            if unique && !nulls && same.count() != 1 {
                return Err(told(format!("the key of row {uid} is not unique")));
            }
        }
        let mut entries: Vec<Oid> = vec![];
        i.index.verify(&mut |_, oid| entries.push(oid)).map_err(told)?;
        if !collected {
            continue;
        }
        entries.sort_unstable();
        if is_point {
            entries.dedup()
        }
        rows.sort_unstable();
        if entries != rows {
            let extra: Vec<_> = entries.iter().filter(|o| !rows.contains(o)).collect();
            return Err(told(format!("{} entries of {} rows; extra {extra:?}", entries.len(), rows.len())));
        }
        if !is_point && i.index.entries() != rows.len() as u64 {
            return Err(told(format!("counts {} entries where {} are", i.index.entries(), rows.len())));
        }
    }
    Ok(found.len() as u64)
}
