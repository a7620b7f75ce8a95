//! Roles and privileges, beyond what a script can show: restart, checkpoint, dump and restore, other
//! sessions, plans and prepared statements that another role made, registered queries.
use ondol::{QueryId, Rows, Session, ValueRef};
#[path = "common/session.rs"]
mod session;
use session::{dumped, open, open_in, restored, rows};

fn state(s: &mut Session, sql: &str) -> String {
    match s.execute(sql) {
        Ok(_) => "ok".into(),
        Err(e) => e.sqlstate().to_string(),
    }
}

/// Roles with all that there can be of them.
const MADE: &str = "
    CREATE ROLE alice LOGIN PASSWORD 'a';
    CREATE ROLE bob CREATEROLE VALID UNTIL '2040-01-01 00:00:00+00' CONNECTION LIMIT 2;
    CREATE ROLE \"odd one\" NOINHERIT;
    GRANT alice TO bob WITH ADMIN OPTION;
    GRANT pg_monitor TO alice;
    CREATE SCHEMA s AUTHORIZATION alice;
    CREATE TABLE s.t (a serial PRIMARY KEY, b int, c text);
    INSERT INTO s.t (b) VALUES (1), (2);
    ALTER TABLE s.t OWNER TO alice;
    CREATE VIEW v AS SELECT a FROM s.t;
    GRANT SELECT ON v TO PUBLIC;
    CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM s.t;
    ALTER MATERIALIZED VIEW m OWNER TO \"odd one\";
    CREATE TYPE mood AS ENUM ('sad');
    ALTER TYPE mood OWNER TO bob;
    REVOKE USAGE ON TYPE mood FROM PUBLIC;
    CREATE DOMAIN d AS int;
    ALTER DOMAIN d OWNER TO bob;
    CREATE FUNCTION f(int) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM s.t WHERE b >= $1';
    REVOKE EXECUTE ON FUNCTION f FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION f TO bob WITH GRANT OPTION;
    SET ROLE bob; GRANT EXECUTE ON FUNCTION f TO alice; RESET ROLE;
    SET ROLE alice; GRANT UPDATE (b, c) ON s.t TO bob; GRANT DELETE ON s.t TO \"odd one\"; RESET ROLE;
    GRANT CREATE ON SCHEMA public TO bob;
    REVOKE TEMP ON DATABASE postgres FROM PUBLIC;
    ALTER DEFAULT PRIVILEGES FOR ROLE bob REVOKE ALL ON FUNCTIONS FROM PUBLIC;
    ALTER DEFAULT PRIVILEGES FOR ROLE bob IN SCHEMA s GRANT INSERT ON TABLES TO alice;
    ALTER ROLE alice SET statement_timeout = '5s'; ALTER ROLE alice SET search_path = s, \"Odd, one\";
    ALTER ROLE alice SET \"DateStyle\" TO 'German'; ALTER ROLE alice RESET statement_timeout;
    ALTER ROLE bob IN DATABASE postgres SET search_path = ''; ALTER ROLE ALL SET my.own = 'it''s';
    ALTER DATABASE postgres SET default_transaction_read_only = on; ALTER ROLE bob SET work_mem = 4096;
    ALTER ROLE bob RESET ALL; ALTER ROLE alice SET application_name TO 'one'; ALTER ROLE alice SET
    application_name = two; BEGIN; ALTER ROLE bob SET my.own = 'undone'; ROLLBACK;";

/// What there is, without numbers.
fn shown(s: &mut Session) -> Vec<String> {
    let queries = [
        "SELECT rolname || rolsuper || rolinherit || rolcreaterole || rolcanlogin || rolconnlimit || coalesce(rolpassword, '') || coalesce(rolvaliduntil::text, '') FROM pg_authid ORDER BY rolname",
        "SELECT roleid::regrole::text || member::regrole::text || grantor::regrole::text || admin_option FROM pg_auth_members ORDER BY 1",
        "SELECT relname || relowner::regrole::text || coalesce(relacl::text, '') FROM pg_class WHERE relnamespace IN ('s'::regnamespace, 'public'::regnamespace) ORDER BY 1",
        "SELECT attname || attacl::text FROM pg_attribute WHERE attacl IS NOT NULL ORDER BY 1",
        "SELECT nspname || nspowner::regrole::text || coalesce(nspacl::text, '') FROM pg_namespace ORDER BY 1",
        "SELECT proname || proowner::regrole::text || coalesce(proacl::text, '') || prosecdef FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
        "SELECT typname || typowner::regrole::text || coalesce(typacl::text, '') FROM pg_type WHERE typname IN ('mood', 'd', 't') ORDER BY 1",
        "SELECT has_database_privilege('bob', current_database(), 'TEMP')::text || has_database_privilege('bob', current_database(), 'CONNECT')::text",
        "SELECT setdatabase || ' ' || setrole::regrole::text || ' ' || setconfig::text FROM pg_db_role_setting ORDER BY 1",
        "SELECT rolname || rolconfig::text FROM pg_roles WHERE rolconfig IS NOT NULL",
        "SELECT usename || useconfig::text FROM pg_shadow WHERE useconfig IS NOT NULL",
        "SELECT defaclrole::regrole::text || coalesce(defaclnamespace::regnamespace::text, '') || defaclobjtype::text || defaclacl::text FROM pg_default_acl ORDER BY 1",
    ];
    queries.iter().flat_map(|q| rows(s, q)).collect()
}

#[test]
fn they_outlive_restarts_and_checkpoints() {
    let (folder, db) = open();
    let mut s = db.session();
    s.execute(MADE).expect("roles");
    let before = shown(&mut s);
    assert!(before.len() > 35, "{before:?}");
    drop((s, db));
    let db = open_in(&folder);
    let mut s = db.session();
    assert_eq!(shown(&mut s), before);
    s.execute("CHECKPOINT; ALTER TABLE s.t RENAME COLUMN c TO z; ALTER TABLE s.t DROP COLUMN b")
        .expect("done");
    assert_eq!(
        rows(&mut s, "SELECT attname || attacl::text FROM pg_attribute WHERE attacl IS NOT NULL"),
        ["z{bob=w/alice}"]
    );
    let before = shown(&mut s);
    drop((s, db));
    let db = open_in(&folder);
    assert_eq!(shown(&mut db.session()), before);
}

#[test]
fn a_dump_has_all_of_them() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(MADE).expect("roles");
    let text = dumped(&mut s);
    let (_other, again) = restored(&text);
    let mut r = again.session();
    assert_eq!(shown(&mut r), shown(&mut s), "{text}");
    assert_eq!(dumped(&mut r), text);
    assert!(!text.contains("'a'"), "a password is kept as its verifier");
}

#[test]
fn what_a_transaction_did_goes_with_it() {
    let (_folder, db) = open();
    let (mut s, mut other) = (db.session(), db.session());
    s.execute("CREATE ROLE alice; CREATE TABLE t (a int)").expect("a role");
    s.execute(
        "BEGIN; CREATE ROLE bob; GRANT SELECT ON t TO alice, bob; SAVEPOINT p; ALTER TABLE t OWNER TO bob",
    )
    .expect("changes");
    assert_eq!(rows(&mut other, "SELECT rolname FROM pg_roles WHERE rolname = 'bob'").len(), 0);
    let owner =
        "SELECT relowner::regrole::text || coalesce(relacl::text, '-') FROM pg_class WHERE relname = 't'";
    assert_eq!(rows(&mut s, owner), ["bob{bob=arwdDxt/bob,alice=r/bob}"]);
    s.execute("ROLLBACK TO p").expect("back");
    assert_eq!(rows(&mut s, owner), ["postgres{postgres=arwdDxt/postgres,alice=r/postgres,bob=r/postgres}"]);
    assert_eq!(rows(&mut other, owner), ["postgres-"]);
    s.execute("ROLLBACK").expect("back");
    assert_eq!(rows(&mut s, owner), ["postgres-"]);
    assert_eq!(state(&mut s, "DROP ROLE bob"), "42704");
}

/// needs/D3: a plan that one role made serves no other without its rights, by whatever way it is kept.
#[test]
fn plans_are_looked_at_for_each_role() {
    let (_folder, db) = open();
    let (mut s, mut other) = (db.session(), db.session());
    s.execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE ROLE alice")
        .expect("a table");
    let text = "SELECT a FROM t WHERE a = 1";
    assert_eq!(rows(&mut s, text), ["1"]);
    let prepared = s.prepare(text).expect("a statement");
    s.execute("PREPARE p AS SELECT a FROM t WHERE a = 1").expect("another");
    let mut found = Rows::new();
    s.call_prepared(&prepared, &[], &mut found).expect("it is called");
    for who in [&mut s, &mut other] {
        who.execute("SET ROLE alice").expect("become");
        assert_eq!(state(who, text), "42501");
        let refused = who.call_prepared(&prepared, &[], &mut found).expect_err("no right");
        assert_eq!(refused.sqlstate(), "42501");
        assert_eq!(who.execute_prepared(&prepared, &[]).expect_err("no right").sqlstate(), "42501");
    }
    assert_eq!(state(&mut s, "EXECUTE p"), "42501");
    assert_eq!(state(&mut s, "EXPLAIN ANALYZE EXECUTE p"), "42501");
    assert_eq!(state(&mut s, "EXPLAIN ANALYZE SELECT a FROM t"), "42501");
    assert_eq!(state(&mut s, "DECLARE c CURSOR FOR SELECT a FROM t"), "42501");
    s.execute("RESET ROLE; GRANT SELECT ON t TO alice").expect("granted");
    assert_eq!(rows(&mut other, text), ["1"]);
    assert_eq!(other.call_prepared(&prepared, &[], &mut found).expect("allowed").rows, 1);
    s.execute("REVOKE SELECT ON t FROM alice").expect("revoked");
    assert_eq!(state(&mut other, text), "42501");
    assert_eq!(other.call_prepared(&prepared, &[], &mut found).expect_err("no more").sqlstate(), "42501");
    // In an open transaction as well.
    s.execute("GRANT SELECT ON t TO alice").expect("granted");
    other.execute("BEGIN").expect("a transaction");
    assert_eq!(rows(&mut other, text), ["1"]);
    s.execute("REVOKE SELECT ON t FROM alice").expect("revoked");
    assert_eq!(state(&mut other, text), "42501");
    other.execute("ROLLBACK; RESET ROLE").expect("back");
    assert_eq!(rows(&mut other, text), ["1"]);
}

/// A role may hold EXECUTE on queries and nothing else.
#[test]
fn registered_queries_lend_their_owners_rights() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a serial PRIMARY KEY, b int); INSERT INTO t (b) VALUES (5);
         CREATE FUNCTION look(int) RETURNS int LANGUAGE sql AS 'SELECT b FROM t WHERE a = $1';
         CREATE FUNCTION put(int) RETURNS int LANGUAGE sql AS 'INSERT INTO t (b) VALUES ($1) RETURNING a';
         CREATE ROLE app; GRANT EXECUTE ON FUNCTION look, put TO app; CREATE ROLE other",
    )
    .expect("queries");
    let id = |s: &Session, name: &str| -> QueryId { s.query_id(name).expect("its number") };
    let (look, put) = (id(&s, "look"), id(&s, "put"));
    let mut found = Rows::new();
    s.execute("SET ROLE app").expect("become");
    assert_eq!(state(&mut s, "SELECT b FROM t"), "42501");
    for _ in 0..2 {
        assert_eq!(s.call(look, &[ValueRef::Int4(1)], &mut found).expect("called").rows, 1);
    }
    assert_eq!(s.call(put, &[ValueRef::Int4(6)], &mut found).expect("called").rows, 1);
    assert_eq!(rows(&mut s, "EXECUTE look(2)"), ["6"]);
    // As a function it is PostgreSQL's: the caller's rights.
    assert_eq!(state(&mut s, "SELECT look(1)"), "42501");
    // Who may call it as everybody may runs it with his own rights.
    s.execute("SET ROLE other").expect("become");
    assert_eq!(s.call(look, &[ValueRef::Int4(1)], &mut found).expect_err("his own").sqlstate(), "42501");
    s.execute("RESET ROLE; REVOKE EXECUTE ON FUNCTION look FROM PUBLIC; SET ROLE other").expect("revoked");
    assert_eq!(state(&mut s, "EXECUTE look(1)"), "42501");
    s.execute("RESET ROLE").expect("back");
    assert_eq!(s.call(look, &[ValueRef::Int4(1)], &mut found).expect("the owner").rows, 1);
}

/// A session that was opened as a role is that role for good.
#[test]
fn a_session_is_opened_as_a_role() {
    let (_folder, db) = open();
    db.session().execute("CREATE ROLE alice LOGIN; CREATE ROLE bob; GRANT bob TO alice").expect("roles");
    let mut s = db.session();
    assert_eq!(s.set_authenticated("nobody").expect_err("no such role").sqlstate(), "28000");
    s.set_authenticated("alice").expect("there");
    let who = "SELECT current_user || ' ' || session_user";
    assert_eq!(rows(&mut s, who), ["alice alice"]);
    assert_eq!(state(&mut s, "SET SESSION AUTHORIZATION postgres"), "42501");
    s.execute("SET ROLE bob").expect("a member");
    assert_eq!(rows(&mut s, who), ["bob alice"]);
    s.execute("RESET ALL").expect("settings");
    assert_eq!(rows(&mut s, who), ["bob alice"]);
    s.execute("DISCARD ALL").expect("all");
    assert_eq!(rows(&mut s, who), ["alice alice"]);
    assert_eq!(state(&mut s, "SELECT set_config('role', 'postgres', false)"), "0A000");
    db.session().execute("ALTER ROLE alice RENAME TO alicia").expect("renamed");
    assert_eq!(rows(&mut s, who), ["alicia alicia"]);
}
