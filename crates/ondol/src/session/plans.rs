//! Plans that are kept: by the database for all sessions, and by each session those that it used lately.
//!
//! - **1** A session copies a plan that it takes from the database ([`Plan`], 2), so that sessions on
//!   different processors write no common line while they find their plans among their own.
//! - **2** The database keeps plans of committed dictionaries. A session that has changed definitions in its
//!   transaction may take such a plan, if it is good for its own dictionary, and gives none.
//! - **3** When the dictionary changes, a session drops its own plans. The database drops those that have a
//!   table that is no more as it was, or that ask the session, and all of them if a name may mean something
//!   else. The others are renewed when they are next wanted (session/N1).
//! - **4** What was not used for longest goes first, roughly: see [`Recent`].
//! - **5** A plan is made anew when a table of it has outgrown it. A session looks whether it is so when it
//!   takes a plan from the database, and once in a while ([`LOOK`]) when it has the plan.
//! - **6** What the database keeps counts against the memory limit, and is less where that is reached.
//! - **7** A text is looked up together with the path by which its names are ([`Listed`]). A session's own
//!   plans are all of its path; those of registered queries are of none.
use crate::session::plan::Plan;
use crate::session::rows::Column;
use ondol_base::sync::{Mutex, RwLock};
use ondol_engine::name::USUAL_PATH;
use ondol_engine::role::BOOTSTRAP;
use ondol_engine::{Catalog, Charge, Meanings, Path};
use ondol_sql::interpret::Frames;
use ondol_types::style::Styles;
use ondol_types::{SqlResult, TypeId};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Texts of which a session keeps plans, and the bytes of texts and plans together.
const OWN: Limit = Limit { texts: 512, bytes: 16 << 20 };
/// The same of each shard of the database's.
const SHARED: Limit = Limit { texts: 1 << 16, bytes: 4 << 20 };
/// Shards, by the hash of the text, so that sessions that only meet new texts do not meet each other.
const SHARDS: usize = 16;
/// A session looks at the sizes of tables each time that it has found so many plans. A prime number, so that
/// a loop of statements has each of them looked at in the end.
const LOOK: u32 = 1021;
/// What a kept plan takes beside its code and its text, about, in bytes.
const OVERHEAD: usize = 512;
/// Steps in which the database's plans are charged.
const STEP: usize = 64 << 10;

#[derive(Clone, Copy)]
struct Limit {
    texts: usize,
    bytes: usize,
}

/// Plans by text and types of parameters, in two generations: what is found in the old one moves into the
/// young one, and when that is half of what is allowed, it becomes the old one, whose rest is dropped.
struct Recent<P> {
    young: Generation<P>,
    old: Generation<P>,
    limit: Limit,
}

struct Generation<P> {
    by_text: HashMap<Arc<str>, Vec<Kept<P>>>,
    bytes: usize,
}

/// The setting `search_path`, unless it is the usual one (7).
pub(crate) type Listed = Option<Arc<str>>;

struct Kept<P> {
    types: Box<[TypeId]>,
    path: Listed,
    bytes: usize,
    plan: P,
}

impl<P> Kept<P> {
    #[inline]
    fn is_for(&self, types: &[TypeId], path: &Listed) -> bool {
        *self.types == *types && self.path == *path
    }
}

impl<P> Default for Generation<P> {
    fn default() -> Self {
        Generation { by_text: HashMap::new(), bytes: 0 }
    }
}

impl<P: Clone> Generation<P> {
    #[inline]
    fn find(&self, text: &str, types: &[TypeId], path: &Listed) -> Option<P> {
        self.by_text.get(text)?.iter().find(|k| k.is_for(types, path)).map(|k| k.plan.clone())
    }
    fn take(&mut self, text: &str, types: &[TypeId], path: &Listed) -> Option<(Arc<str>, Kept<P>)> {
        let list = self.by_text.get_mut(text)?;
        let at = list.iter().position(|k| k.is_for(types, path))?;
        let kept = list.swap_remove(at);
        self.bytes -= kept.bytes;
        let text = self.by_text.get_key_value(text)?.0.clone();
        if self.by_text.get(&text).is_some_and(Vec::is_empty) {
            self.by_text.remove(&text);
        }
        Some((text, kept))
    }
    fn put(&mut self, text: Arc<str>, kept: Kept<P>) {
        self.bytes += kept.bytes;
        self.by_text.entry(text).or_default().push(kept)
    }
    fn retain(&mut self, mut is_good: impl FnMut(&P, &Listed) -> bool) {
        let bytes = &mut self.bytes;
        self.by_text.retain(|_, list| {
            list.retain(|k| {
                let good = is_good(&k.plan, &k.path);
                if !good {
                    *bytes -= k.bytes
                }
                good
            });
            !list.is_empty()
        })
    }
}

impl<P: Clone> Recent<P> {
    fn new(limit: Limit) -> Recent<P> {
        Recent { young: Generation::default(), old: Generation::default(), limit }
    }
    #[inline]
    fn find(&mut self, text: &str, types: &[TypeId], path: &Listed) -> Option<P> {
        match self.young.find(text, types, path) {
            None if !self.old.by_text.is_empty() => self.find_old(text, types, path),
            found => found,
        }
    }
    #[cold]
    fn find_old(&mut self, text: &str, types: &[TypeId], path: &Listed) -> Option<P> {
        let (text, kept) = self.old.take(text, types, path)?;
        let plan = kept.plan.clone();
        self.put(text, kept);
        Some(plan)
    }
    /// Keeps a plan in the place of one that is there, unless it is too large.
    fn keep(&mut self, text: Arc<str>, types: &[TypeId], path: &Listed, bytes: usize, plan: P) {
        self.remove(&text, types, path);
        let bytes = text.len() + path.as_ref().map_or(0, |p| p.len()) + bytes + OVERHEAD;
        if bytes <= self.limit.bytes / 2 {
            self.put(text, Kept { types: types.into(), path: path.clone(), bytes, plan })
        }
    }
    fn put(&mut self, text: Arc<str>, kept: Kept<P>) {
        let (young, limit) = (&self.young, self.limit);
        if young.bytes + kept.bytes > limit.bytes / 2 || young.by_text.len() >= limit.texts / 2 {
            self.old = std::mem::take(&mut self.young)
        }
        self.young.put(text, kept)
    }
    fn remove(&mut self, text: &str, types: &[TypeId], path: &Listed) {
        let _ = self.young.take(text, types, path).or_else(|| self.old.take(text, types, path));
    }
    fn retain(&mut self, mut is_good: impl FnMut(&P, &Listed) -> bool) {
        self.young.retain(&mut is_good);
        self.old.retain(&mut is_good)
    }
    fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }
    fn clear(&mut self) {
        *self = Recent::new(self.limit)
    }
}

/// The plans of a database.
pub(crate) struct SharedPlans {
    dictionary: RwLock<Dictionary>,
    shards: [Mutex<Shard>; SHARDS],
    /// Always the same, as a simulated history must be: whoever fills one shard with texts gains nothing.
    hashes: BuildHasherDefault<DefaultHasher>,
}

/// What the plans are good for (3): all are of dictionaries in which names mean the same, and each can be
/// renewed for this one. It is locked before a shard is, and while plans are found or kept.
#[derive(Default)]
struct Dictionary {
    version: u64,
    meanings: Meanings,
}

struct Shard {
    texts: Recent<Plan>,
    /// Of registered queries, by their numbers.
    queries: HashMap<u32, Plan>,
    charge: Charge,
}

impl Shard {
    /// Charges what it keeps (6).
    fn charge(&mut self) {
        let queries: usize = self.queries.values().map(|p| p.bytes + OVERHEAD).sum();
        let bytes = (self.texts.bytes() + queries).next_multiple_of(STEP);
        if bytes != self.charge.bytes() && self.charge.resize(bytes).is_err() {
            self.texts.clear();
            self.queries.clear();
            self.charge.clear()
        }
    }
}

/// A session's dictionary.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub catalog: &'a Catalog,
    /// Its transaction has changed definitions.
    pub is_own: bool,
}

impl SharedPlans {
    pub fn new(charge: &Charge) -> SharedPlans {
        let shard = |_| {
            let texts = Recent::new(SHARED);
            Mutex::new(Shard { texts, queries: HashMap::new(), charge: charge.another() })
        };
        SharedPlans {
            dictionary: RwLock::default(),
            shards: std::array::from_fn(shard),
            hashes: BuildHasherDefault::default(),
        }
    }
    fn shard_of(&self, text: &str) -> &Mutex<Shard> {
        &self.shards[self.hashes.hash_one(text) as usize % SHARDS]
    }
    fn shard_of_query(&self, query: u32) -> &Mutex<Shard> {
        &self.shards[query as usize % SHARDS]
    }
    /// Makes the plans those of this dictionary (3).
    fn follow(&self, catalog: &Catalog) {
        let mut dictionary = self.dictionary.write();
        let same = dictionary.meanings.are(catalog);
        let usual = path_of(catalog, &None);
        if !same {
            dictionary.meanings = Meanings::of(catalog)
        }
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.texts.retain(|p, listed| {
                let path = || if listed.is_none() { usual.clone() } else { path_of(catalog, listed) };
                same && p.can_be_renewed(catalog, Some(&path()))
            });
            shard.queries.retain(|_, p| same && p.can_be_renewed(catalog, None));
            shard.charge()
        }
        dictionary.version = catalog.version
    }
    /// Runs `f` while the plans are good for what is known, if they are (2).
    fn with<R>(&self, known: Known<'_>, f: impl FnOnce() -> Option<R>) -> Option<R> {
        if !known.is_own && self.dictionary.read().version != known.catalog.version {
            self.follow(known.catalog)
        }
        let dictionary = self.dictionary.read();
        let good = match known.is_own {
            true => dictionary.meanings.are(known.catalog),
            // Else the dictionary has changed again.
            false => dictionary.version == known.catalog.version,
        };
        if good { f() } else { None }
    }
    pub fn find(&self, text: &str, types: &[TypeId], path: &Listed, known: Known<'_>) -> Option<Plan> {
        self.with(known, || {
            let mut shard = self.shard_of(text).lock();
            let kept = shard.texts.find(text, types, path)?;
            let version = kept.program.catalog_version;
            let good = for_now(kept, known, Some(path));
            if !known.is_own {
                match &good {
                    Some(new) if version == known.catalog.version => {}
                    Some(new) => shard.texts.keep(text.into(), types, path, new.bytes, new.clone()),
                    None => shard.texts.remove(text, types, path),
                }
            }
            good
        })
    }
    pub fn keep(&self, text: &Arc<str>, types: &[TypeId], path: &Listed, plan: &Plan, known: Known<'_>) {
        if known.is_own {
            return;
        }
        self.with(known, || {
            let mut shard = self.shard_of(text).lock();
            shard.texts.keep(text.clone(), types, path, plan.bytes, plan.clone());
            shard.charge();
            Some(())
        });
    }
    pub fn find_query(&self, query: u32, known: Known<'_>) -> Option<Plan> {
        self.with(known, || {
            let mut shard = self.shard_of_query(query).lock();
            let good = for_now(shard.queries.get(&query)?.clone(), known, None);
            if !known.is_own {
                match &good {
                    Some(new) => shard.queries.insert(query, new.clone()),
                    None => shard.queries.remove(&query),
                };
            }
            good
        })
    }
    pub fn keep_query(&self, query: u32, plan: &Plan, known: Known<'_>) {
        if known.is_own {
            return;
        }
        self.with(known, || {
            let mut shard = self.shard_of_query(query).lock();
            shard.queries.insert(query, plan.clone());
            shard.charge();
            Some(())
        });
    }
}

fn path_of(catalog: &Catalog, listed: &Listed) -> Path {
    Path::of(catalog, listed.as_deref().unwrap_or(USUAL_PATH))
}

/// A kept plan as it is good now (3, 5, 7).
fn for_now(plan: Plan, known: Known<'_>, path: Option<&Listed>) -> Option<Plan> {
    if plan.is_outgrown() {
        return None;
    }
    match plan.program.catalog_version == known.catalog.version {
        true => Some(plan),
        false => plan.renewed(known.catalog, path.map(|p| path_of(known.catalog, p)).as_ref()),
    }
}

/// The plans that a session keeps (session/N1).
pub(crate) struct Plans {
    shared: Arc<SharedPlans>,
    texts: Recent<Arc<Plan>>,
    /// Finds among the session's own until sizes are looked at again.
    until_look: u32,
    /// By the registered query's number.
    pub queries: Vec<Option<Arc<Plan>>>,
    /// The dictionary that they all are for.
    version: u64,
    /// The path that those of texts are for (7).
    path: Listed,
    /// The role that all of them were looked at for (sql/needs/D3).
    role: u32,
    pub frames: Frames,
    /// Planning the last text took much memory.
    pub took_much: bool,
    /// Texts with parameters for literals with which there is nothing to be won (literals/E3).
    unlifted: HashSet<Box<str>>,
    pub prepared: HashMap<String, Named>,
}

/// A prepared statement with a name.
#[derive(Clone)]
pub(crate) struct Named {
    pub text: Arc<str>,
    /// How its literals are read: as when it was prepared.
    pub styles: Styles,
    pub types: Vec<TypeId>,
    /// What prepared it, and when, in microseconds from 2000-01-01.
    pub whole: Arc<str>,
    pub prepared_us: i64,
    /// PREPARE made it, and no message of a client's.
    pub from_sql: bool,
    /// How often it was executed.
    pub executed: i64,
    /// The result's columns, which stay what they are.
    pub columns: Arc<[Column]>,
}

impl Plans {
    pub fn new(shared: Arc<SharedPlans>) -> Plans {
        Plans {
            shared,
            texts: Recent::new(OWN),
            until_look: LOOK,
            queries: Vec::new(),
            version: 0,
            path: None,
            role: BOOTSTRAP,
            frames: Frames::default(),
            took_much: false,
            unlifted: HashSet::new(),
            prepared: HashMap::new(),
        }
    }
    /// The session's own plan of a text, for the dictionary of this version.
    #[inline]
    pub fn find(&mut self, text: &str, types: &[TypeId], version: u64) -> Option<Arc<Plan>> {
        self.follow(version);
        let plan = self.texts.find(text, types, &None)?;
        self.until_look -= 1;
        if self.until_look == 0 && self.must_go(text, types, &plan) {
            return None;
        }
        Some(plan)
    }
    /// See 5.
    #[cold]
    fn must_go(&mut self, text: &str, types: &[TypeId], plan: &Plan) -> bool {
        self.until_look = LOOK;
        let outgrown = plan.is_outgrown();
        if outgrown {
            self.texts.remove(text, types, &None)
        }
        outgrown
    }
    /// The database's plan of a text.
    pub fn take(&mut self, text: &str, types: &[TypeId], known: Known<'_>) -> Option<Arc<Plan>> {
        Some(Arc::new(self.shared.find(text, types, &self.path, known)?))
    }
    /// A plan of the database's, which the session may run, becomes its own.
    pub fn own(&mut self, text: &str, types: &[TypeId], plan: &Arc<Plan>, known: Known<'_>) {
        self.keep_own(text.into(), types, plan, known)
    }
    fn keep_own(&mut self, text: Arc<str>, types: &[TypeId], plan: &Arc<Plan>, known: Known<'_>) {
        self.follow(known.catalog.version);
        self.texts.keep(text, types, &None, plan.bytes, plan.clone())
    }
    /// Keeps a plan that was made for what is known.
    pub fn keep(&mut self, text: &str, types: &[TypeId], plan: &Arc<Plan>, known: Known<'_>) {
        let text: Arc<str> = text.into();
        self.shared.keep(&text, types, &self.path, plan, known);
        self.keep_own(text, types, plan, known)
    }
    /// The plan of a registered query, if the database has it; else `make` makes it.
    pub fn query(
        &mut self,
        query: u32,
        known: Known<'_>,
        make: impl FnOnce() -> SqlResult<Plan>,
    ) -> SqlResult<Arc<Plan>> {
        self.follow(known.catalog.version);
        let plan = match self.shared.find_query(query, known) {
            Some(plan) => plan,
            None => {
                let plan = make()?;
                self.shared.keep_query(query, &plan, known);
                plan
            }
        };
        Ok(Arc::new(plan))
    }
    /// The plan of a registered query, which the session may run, becomes its own.
    pub fn own_query(&mut self, query: u32, plan: &Arc<Plan>) {
        let at = query as usize;
        if self.queries.len() <= at {
            self.queries.resize(at + 1, None);
        }
        self.queries[at] = Some(plan.clone())
    }
    /// literals/E3
    pub fn is_unlifted(&mut self, text: &str, version: u64) -> bool {
        self.follow(version);
        self.unlifted.contains(text)
    }
    pub fn keep_unlifted(&mut self, text: String) {
        if self.unlifted.len() >= OWN.texts {
            self.unlifted.clear()
        }
        self.unlifted.insert(text.into());
    }
    /// Drops what is of another dictionary (3).
    #[inline]
    fn follow(&mut self, version: u64) {
        if self.version != version {
            self.forget();
            self.version = version
        }
    }
    /// Whether what others keep for whoever may do everything is good here: the path is the usual one, and
    /// the role the bootstrap role.
    pub fn has_usual_path(&self) -> bool {
        self.path.is_none() && self.role == BOOTSTRAP
    }
    pub fn set_role(&mut self, role: u32) {
        self.role = role
    }
    /// Names are looked up by this path from now on (7).
    #[inline]
    pub fn set_path(&mut self, listed: &str) {
        if self.path.as_deref().unwrap_or(USUAL_PATH) != listed {
            self.forget();
            self.path = (listed != USUAL_PATH).then(|| listed.into())
        }
    }
    /// Drops the session's own.
    #[cold]
    pub fn forget(&mut self) {
        self.texts.clear();
        self.queries.clear();
        self.unlifted.clear();
        self.frames.clear()
    }
    /// Drops the session's own, with the memory that they were in.
    pub fn shrink(&mut self) {
        self.forget();
        self.queries = Vec::new()
    }
    /// Drops the session's own, and its prepared statements.
    pub fn discard(&mut self) {
        let (path, role) = (self.path.clone(), self.role);
        *self = Plans::new(self.shared.clone());
        (self.path, self.role) = (path, role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::session::plan::Ready;
    use crate::{Database, TempFolder};

    fn plan(s: &mut Session, text: &str) -> Arc<Plan> {
        match s.ready(text, &[]).expect("a statement that can be planned") {
            Ready::Plan(p) => {
                assert_eq!(p.program.catalog_version, s.connection.catalog_version());
                p
            }
            _ => panic!("{text} has no plan"),
        }
    }
    fn is_same_code(a: &Plan, b: &Plan) -> bool {
        Arc::ptr_eq(&a.program, &b.program)
    }
    fn database() -> (TempFolder, Database) {
        let folder = TempFolder::new().expect("a temporary folder");
        let db = Database::open(folder.path()).expect("a database in it");
        db.session().execute("create table t (id int primary key, v int)").expect("a table");
        (folder, db)
    }

    #[test]
    fn sessions_share_code_and_not_counters() {
        let (_folder, db) = database();
        let (mut a, mut b) = (db.session(), db.session());
        let text = "select v from t where id = 1";
        let first = plan(&mut a, text);
        assert!(Arc::ptr_eq(&first, &plan(&mut a, text)));
        let second = plan(&mut b, text);
        assert!(is_same_code(&first, &second) && !Arc::ptr_eq(&first, &second));
        b.execute("discard plans").expect("forgotten");
        assert!(is_same_code(&first, &plan(&mut b, text)), "the database still has it");
        a.execute("create function f(int) returns int language sql as 'select $1 + 1'").expect("a query");
        let f = a.query_id("f").expect("its number");
        let (one, other) = (a.query_plan(f).expect("a plan"), b.query_plan(f).expect("a plan"));
        assert!(is_same_code(&one, &other), "registered queries too");
        assert!(!is_same_code(&first, &plan(&mut b, text)), "a name that may mean something else");
    }

    #[test]
    fn what_a_transaction_defined_is_its_own() {
        let (_folder, db) = database();
        let (mut a, mut b) = (db.session(), db.session());
        let shared = plan(&mut b, "select v from t where id = 1");
        a.execute("begin; create table own (a int); create index on own (a)").expect("definitions");
        plan(&mut a, "select a from own");
        let renewed = plan(&mut a, "select v from t where id = 1");
        assert!(Arc::ptr_eq(&shared.columns, &renewed.columns), "a plan that is good here as well");
        assert!(b.ready("select a from own", &[]).is_err());
        a.execute("rollback; create table own (a text, b int)").expect("another table by that name");
        assert_eq!(plan(&mut b, "select * from own").columns.len(), 2);
        // Others change definitions meanwhile: it goes by these, too, and keeps what it defined to itself.
        a.execute("begin; create table mine (a int)").expect("a table");
        let mine = plan(&mut a, "select a from mine");
        b.execute("create table theirs (a int); create index on t (v)").expect("definitions");
        let of_both = plan(&mut a, "select t.v, mine.a, theirs.a from t, mine, theirs");
        assert_eq!(of_both.columns.len(), 3);
        assert!(
            !Arc::ptr_eq(&mine.program, &plan(&mut a, "select a from mine").program),
            "another dictionary"
        );
        assert!(b.ready("select a from mine", &[]).is_err());
        a.execute("rollback; create table mine (a int, b int)").expect("another table by that name");
        assert_eq!(plan(&mut b, "select * from mine").columns.len(), 2);
        // A type that only the transaction knows: no plan of the database's may be taken.
        let sum = plan(&mut b, "select 1 + 1");
        a.execute("begin; create type mood as enum ('sad')").expect("a type");
        assert!(!Arc::ptr_eq(&sum.columns, &plan(&mut a, "select 1 + 1").columns));
        a.execute("rollback").expect("the end");
        assert!(Arc::ptr_eq(&sum.columns, &plan(&mut a, "select 1 + 1").columns));
    }

    #[test]
    fn an_outgrown_plan_is_made_anew() {
        let (_folder, db) = database();
        let (mut a, mut b) = (db.session(), db.session());
        let text = "select count(*) from t where v = 1";
        let empty = plan(&mut a, text);
        a.execute("insert into t select i, i from generate_series(1, 900) g(i)").expect("few rows");
        assert!(is_same_code(&empty, &plan(&mut b, text)), "few rows more");
        a.execute("insert into t select i, i from generate_series(901, 20000) g(i)").expect("many rows");
        b.execute("discard plans").expect("forgotten");
        let full = plan(&mut b, text);
        assert!(!is_same_code(&empty, &full), "many rows more");
        let found = (0..=LOOK).find(|_| is_same_code(&full, &plan(&mut a, text)));
        assert!(found.is_some(), "the session that has the old plan looks once in a while");
    }

    #[test]
    fn what_is_used_stays() {
        let mut recent = Recent::new(Limit { texts: 100, bytes: 1 << 20 });
        recent.keep("used".into(), &[], &None, 10, 0);
        recent.keep("used".into(), &[TypeId::INT4], &None, 10, 1);
        for i in 0..1000 {
            recent.keep(format!("{i}").into(), &[], &None, 10, i);
            assert_eq!(recent.find("used", &[], &None), Some(0), "after {i} others");
            assert_eq!(recent.find("used", &[TypeId::INT4], &None), Some(1));
            assert_eq!(recent.find("used", &[TypeId::TEXT], &None), None);
        }
        assert_eq!(recent.find("999", &[], &None), Some(999));
        assert_eq!(recent.find("1", &[], &None), None, "not used for long");
        assert!(recent.young.by_text.len() + recent.old.by_text.len() <= 100);
        let sum =
            |g: &Generation<i32>| -> usize { g.by_text.values().flatten().map(|k| k.bytes).sum::<usize>() };
        assert_eq!(recent.bytes(), sum(&recent.young) + sum(&recent.old));
        recent.keep("used".into(), &[], &None, 600 << 10, 2);
        assert_eq!(recent.find("used", &[], &None), None, "too large to be kept, and not what it was");
        recent.keep("large".into(), &[], &None, 400 << 10, 3);
        recent.keep("large too".into(), &[], &None, 400 << 10, 4);
        recent.keep("large as well".into(), &[], &None, 400 << 10, 5);
        assert!(recent.bytes() <= 1 << 20);
        assert_eq!(recent.find("large", &[], &None), None);
    }
}
