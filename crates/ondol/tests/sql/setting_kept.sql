-- ALTER ROLE ... SET, ALTER DATABASE ... SET, ALTER SYSTEM: what sessions and servers begin with.
CREATE ROLE ann;
CREATE ROLE maker CREATEROLE;
CREATE ROLE chief SUPERUSER;
ALTER ROLE ann SET statement_timeout = '5s';
ALTER ROLE ann SET Search_Path = public, "Odd ""one";
ALTER ROLE ann SET my.own TO 'a', b;
ALTER ROLE ann SET my.own TO 'it''s';
ALTER USER ann SET TIME ZONE 'Asia/Tokyo';
ALTER ROLE ann IN DATABASE postgres SET work_mem TO '8MB';
ALTER ROLE ALL SET lock_timeout = 1000;
ALTER ROLE ALL IN DATABASE postgres SET datestyle = 'german';
ALTER DATABASE postgres SET bytea_output = escape;
SELECT setdatabase, setrole::regrole, setconfig FROM pg_db_role_setting ORDER BY 1, 2;
SELECT rolname, rolconfig FROM pg_roles WHERE rolconfig IS NOT NULL;
-- Who is there goes on as before.
SHOW lock_timeout;
ALTER ROLE ann SET statement_timeout = DEFAULT;
ALTER ROLE ann RESET search_path;
ALTER ROLE ann RESET nothing.was;
ALTER DATABASE postgres RESET bytea_output;
ALTER ROLE ALL RESET ALL;
SELECT setdatabase, setrole::regrole, setconfig FROM pg_db_role_setting ORDER BY 1, 2;
-- What is refused.
ALTER ROLE nobody SET work_mem = 64;
ALTER ROLE pg_monitor SET work_mem = 64;
ALTER ROLE ann IN DATABASE other SET work_mem = 64;
ALTER DATABASE other SET work_mem = 64;
ALTER ROLE ann SET nothing = 1;
ALTER ROLE ann RESET nothing;
ALTER ROLE ann SET work_mem = never;
ALTER ROLE ann SET shared_buffers = '1GB';
ALTER ROLE ann SET log_min_duration_statement = 5;
ALTER ROLE ann SET server_version = '15';
ALTER ROLE ann SET role = 'chief';
ALTER ROLE ann SET transaction_isolation = 'serializable';
ALTER ROLE ann SET work_mem FROM CURRENT;
ALTER ROLE ann SET TRANSACTION READ ONLY;
ALTER ROLE ann SET "1.b" = 1;
-- A change is a transaction's.
BEGIN;
ALTER ROLE ann SET work_mem = 64;
SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'ann'::regrole AND setdatabase = 0;
ROLLBACK;
SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'ann'::regrole AND setdatabase = 0;
-- Who may.
SET ROLE ann;
ALTER ROLE ann SET work_mem = 128;
ALTER ROLE maker SET work_mem = 128;
ALTER ROLE ALL SET work_mem = 128;
ALTER DATABASE postgres SET work_mem = 128;
ALTER SYSTEM SET work_mem = 128;
ALTER SYSTEM RESET ALL;
SET ROLE maker;
ALTER ROLE ann SET work_mem = 256;
ALTER ROLE chief SET work_mem = 256;
RESET ROLE;
SELECT setrole::regrole, setconfig FROM pg_db_role_setting ORDER BY 1;
-- They go with the role.
DROP ROLE ann;
SELECT setrole::regrole, setconfig FROM pg_db_role_setting ORDER BY 1;
BEGIN;
ALTER SYSTEM SET work_mem = 128;
ROLLBACK;
ALTER SYSTEM SET work_mem = 128;
