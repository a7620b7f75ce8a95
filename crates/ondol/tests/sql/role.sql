-- Roles: made, changed, joined, become, dropped.
CREATE ROLE alice;
CREATE USER bob PASSWORD NULL;
CREATE GROUP crew NOINHERIT;
CREATE ROLE dora CREATEROLE CREATEDB LOGIN CONNECTION LIMIT 3 VALID UNTIL '2031-05-06 07:08:09+00';
CREATE ROLE alice;
CREATE ROLE pg_mine;
CREATE ROLE eve LOGIN NOLOGIN;
CREATE ROLE eve CONNECTION LIMIT -2;
SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolconnlimit, rolvaliduntil
FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY rolname;
SELECT oid, rolname, rolinherit, rolcanlogin FROM pg_roles WHERE rolname ~ '^pg_' ORDER BY oid;
SELECT r.rolname, m.rolname AS member, admin_option FROM pg_auth_members a
JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member ORDER BY 1, 2;

-- A verifier is taken as it is; what is no verifier is hashed.
CREATE ROLE vera PASSWORD 'SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$qWmYVaDmJFqLVYDNBPTlmBWIJJCkxQSZoRdMbdnnq0k=:ZwkBfiPcrqU2LXz5lJjkWUxQY6Y1IJ5GDHtFsrRAvFQ=';
SELECT rolpassword FROM pg_authid WHERE rolname = 'vera';
ALTER ROLE vera PASSWORD 'not so secret';
SELECT rolpassword ~ '^SCRAM-SHA-256\$4096:[A-Za-z0-9+/=]{24}\$[A-Za-z0-9+/=]{44}:[A-Za-z0-9+/=]{44}$' AS hashed
FROM pg_authid WHERE rolname = 'vera';
ALTER ROLE vera PASSWORD '';
ALTER ROLE vera PASSWORD NULL;
SELECT rolpassword FROM pg_authid WHERE rolname = 'vera';

-- Members.
GRANT crew TO alice;
GRANT crew TO alice;
GRANT crew TO bob WITH ADMIN OPTION;
GRANT bob TO crew;
GRANT crew TO crew;
GRANT nobody TO alice;
REVOKE alice FROM bob;
REVOKE ADMIN OPTION FOR crew FROM bob;
GRANT pg_read_all_data TO dora;
GRANT pg_database_owner TO alice;
ALTER GROUP crew ADD USER dora;
ALTER GROUP crew DROP USER dora;
SELECT r.rolname, m.rolname AS member, g.rolname AS grantor, admin_option FROM pg_auth_members a
JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.grantor
WHERE m.rolname !~ '^pg_' ORDER BY 1, 2;
SELECT groname, cardinality(grolist) FROM pg_group WHERE groname = 'crew';
SELECT pg_has_role('bob', 'crew', 'MEMBER'), pg_has_role('bob', 'crew', 'USAGE'), pg_has_role('alice', 'bob', 'MEMBER');
SELECT pg_has_role('bob', 'crew', 'rule');

-- Who one is.
SELECT current_user, session_user, user, current_role;
SHOW role;
SET ROLE alice;
SELECT current_user, session_user;
SHOW role;
CREATE ROLE frank;
ALTER ROLE alice CREATEROLE;
ALTER ROLE alice PASSWORD 'own';
DROP ROLE bob;
SET ROLE crew;
SET ROLE dora;
RESET ROLE;
SET ROLE nobody;
SET SESSION AUTHORIZATION bob;
SELECT current_user, session_user;
SET ROLE crew;
SELECT current_user, session_user;
SET ROLE alice;
SET ROLE NONE;
SELECT rolpassword FROM pg_authid;
SELECT passwd FROM pg_shadow;
SELECT usename, passwd FROM pg_user WHERE usename = 'dora';
SET SESSION AUTHORIZATION dora;
CREATE ROLE frank IN ROLE crew ROLE alice;
CREATE ROLE george SUPERUSER;
CREATE ROLE george REPLICATION;
ALTER ROLE postgres NOLOGIN;
GRANT postgres TO dora;
GRANT bob TO frank;
ALTER ROLE frank RENAME TO fred;
ALTER ROLE dora RENAME TO debra;
DROP ROLE postgres;
DROP ROLE dora;
DROP ROLE fred;
RESET SESSION AUTHORIZATION;
SELECT current_user, session_user;

-- Transactions take it back.
BEGIN;
SET LOCAL ROLE alice;
SELECT current_user;
COMMIT;
SELECT current_user;
BEGIN;
SET ROLE alice;
SAVEPOINT s;
SET ROLE bob;
SELECT current_user;
ROLLBACK TO s;
SELECT current_user;
ROLLBACK;
SELECT current_user;
SET LOCAL ROLE alice;
BEGIN;
CREATE ROLE henry;
DROP ROLE alice;
ROLLBACK;
SELECT rolname FROM pg_roles WHERE rolname IN ('alice', 'henry');

-- What others rest on.
DROP ROLE IF EXISTS nobody;
DROP ROLE nobody;
DROP ROLE current_user;
DROP ROLE pg_monitor;
ALTER ROLE pg_monitor LOGIN;
CREATE TABLE t (a int);
CREATE SCHEMA s AUTHORIZATION alice;
ALTER TABLE t OWNER TO alice;
CREATE TABLE u (a int);
GRANT SELECT ON u TO alice;
DROP ROLE alice;
REASSIGN OWNED BY alice TO bob;
SELECT relname, relowner::regrole FROM pg_class WHERE relname IN ('t', 'u') ORDER BY 1;
DROP ROLE alice;
DROP OWNED BY alice;
DROP ROLE alice;
DROP OWNED BY bob;
SELECT to_regclass('t'), to_regnamespace('s'), to_regclass('u');
DROP ROLE bob;
REASSIGN OWNED BY postgres TO dora;
DROP OWNED BY postgres;
DROP ROLE crew, dora, vera;
DROP TABLE u;
