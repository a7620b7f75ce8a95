/* Each function of ondol.h, rightly and wrongly, on a database's folder or by a server's address. */
#include <ondol.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ondol *db;
static int failed;

static void expect(int is_so, const char *what, int line) {
    if (is_so) return;
    failed = 1;
    printf("line %d: %s (%s %s)\n", line, what, ondol_sqlstate(db), ondol_error(db));
}
#define EXPECT(is_so) expect(!!(is_so), #is_so, __LINE__)
#define FAILS(done, state) \
    do { \
        expect((done) < 0, #done " fails", __LINE__); \
        expect(!strcmp(ondol_sqlstate(db), state), #done ": " state, __LINE__); \
    } while (0)

static void *cancel(void *unused) {
    usleep(200000);
    ondol_cancel(db);
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    EXPECT(strlen(ondol_version()) >= 5);

    /* Nothing to open. */
    EXPECT(!ondol_open(NULL));
    EXPECT(!strcmp(ondol_sqlstate(NULL), "22023"));
    EXPECT(!strcmp(ondol_error(NULL), "expected where to connect to, found NULL"));
    EXPECT(!ondol_open("postgres://127.0.0.1:1"));
    EXPECT(!strcmp(ondol_sqlstate(NULL), "08001"));
    EXPECT(!ondol_open("postgres://h?a=b"));
    EXPECT(strstr(ondol_error(NULL), "expected dbname, host, memory"));
    EXPECT(!ondol_open("\xff"));
    EXPECT(!strcmp(ondol_sqlstate(NULL), "22021"));

    db = ondol_open(argv[1]);
    if (!db) {
        printf("%s: %s\n", argv[1], ondol_error(NULL));
        return 1;
    }
    EXPECT(!*ondol_error(db) && !*ondol_sqlstate(db));
    EXPECT(ondol_execute(db, "DROP TABLE IF EXISTS v; CREATE TABLE v (id int PRIMARY KEY, b bool, n numeric(9, 2),"
                             " f float8, t text, y bytea, d date, s smallint); SELECT 1") == 1);
    FAILS(ondol_execute(db, "SELECT 1; SELECT 1 / 0; SELECT 2"), "22012");
    FAILS(ondol_execute(db, NULL), "22023");
    FAILS(ondol_prepare(db, "SELEC"), "42601");
    FAILS(ondol_registered(db, "no_query"), "26000");
    EXPECT(ondol_execute(db, "DROP FUNCTION IF EXISTS plus_one; CREATE FUNCTION plus_one(bigint) RETURNS SETOF bigint"
                             " LANGUAGE sql AS 'SELECT $1 + 1'") == 0);

    int insert = ondol_prepare(db, "INSERT INTO v VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    int all = ondol_prepare(db, "SELECT * FROM v ORDER BY id");
    int plus = ondol_registered(db, "plus_one");
    EXPECT(insert >= 0 && all >= 0 && plus >= 0);
    EXPECT(ondol_parameters(db, insert) == 8 && ondol_columns(db, insert) == 0);
    EXPECT(ondol_parameters(db, all) == 0 && ondol_columns(db, all) == 8);
    EXPECT(!strcmp(ondol_column_name(db, all, 2), "n"));
    EXPECT(!ondol_column_name(db, all, 8) && !ondol_column_name(db, all, -1));
    FAILS(ondol_columns(db, 99), "26000");
    FAILS(ondol_columns(db, -1), "26000");

    /* Calls and their parameters. */
    EXPECT(!ondol_calls_new(7));
    ondol_calls *calls = ondol_calls_new(ONDOL_EACH);
    EXPECT(ondol_set_int(calls, 0, 1) < 0);
    EXPECT(ondol_add(calls, insert) == 0);
    EXPECT(ondol_set_int(calls, -1, 1) < 0 && ondol_set_int(calls, 1 << 20, 1) < 0);
    EXPECT(ondol_set_text(calls, 4, "\xff", 1) < 0 && ondol_set_text(calls, 4, NULL, 1) < 0);
    EXPECT(ondol_set_int(NULL, 0, 1) < 0 && ondol_add(NULL, insert) < 0);
    EXPECT(!ondol_set_int(calls, 0, 1));
    EXPECT(!ondol_set_bool(calls, 1, 5));
    EXPECT(!ondol_set_text(calls, 2, "12.345", 6));
    EXPECT(!ondol_set_double(calls, 3, -0.5));
    EXPECT(!ondol_set_text(calls, 4, "na\xc3\xafve", 6));
    EXPECT(!ondol_set_bytes(calls, 5, "a\0b", 3));
    EXPECT(!ondol_set_text(calls, 6, "2000-01-11", 10));
    EXPECT(!ondol_set_int(calls, 7, 32000));
    EXPECT(ondol_add(calls, insert) == 1); /* all NULL but the key */
    EXPECT(!ondol_set_int(calls, 0, 2) && !ondol_set_null(calls, 7));
    EXPECT(ondol_add(calls, insert) == 2); /* does not fit */
    EXPECT(!ondol_set_int(calls, 0, 3) && !ondol_set_int(calls, 7, 99999));
    EXPECT(ondol_add(calls, plus) == 3);
    EXPECT(!ondol_set_int(calls, 0, 41));
    EXPECT(ondol_add(calls, all) == 4);
    EXPECT(!ondol_run(db, calls));
    EXPECT(ondol_affected(db, 0) == 1 && ondol_affected(db, 1) == 1);
    FAILS(ondol_affected(db, 2), "22003");
    FAILS(ondol_affected(db, 5), "22023");
    EXPECT(ondol_rows(db, 3) == 1 && ondol_rows(db, 4) == 2);

    /* What came back. */
    int b;
    int64_t n;
    double f;
    const char *t, *also;
    const void *y;
    size_t length;
    EXPECT(ondol_get_int(db, 3, 0, 0, &n) == 1 && n == 42);
    EXPECT(ondol_get_int(db, 4, 0, 0, &n) == 1 && n == 1);
    EXPECT(ondol_get_bool(db, 4, 0, 1, &b) == 1 && b == 1);
    EXPECT(ondol_get_text(db, 4, 0, 2, &t, NULL) == 1 && !strcmp(t, "12.35"));
    EXPECT(ondol_get_double(db, 4, 0, 3, &f) == 1 && f == -0.5);
    EXPECT(ondol_get_text(db, 4, 0, 4, &also, &length) == 1 && length == 6 && !strcmp(also, "na\xc3\xafve"));
    EXPECT(!strcmp(t, "12.35")); /* is still there */
    EXPECT(ondol_get_bytes(db, 4, 0, 5, &y, &length) == 1 && length == 3 && !memcmp(y, "a\0b", 3));
    EXPECT(ondol_get_int(db, 4, 0, 6, &n) == 1 && n == 10);
    EXPECT(ondol_get_text(db, 4, 0, 6, &t, NULL) == 1 && !strcmp(t, "2000-01-11"));
    EXPECT(ondol_get_int(db, 4, 0, 7, &n) == 1 && n == 32000);
    n = 7;
    for (int column = 1; column < 8; column++) EXPECT(ondol_get_text(db, 4, 1, column, &t, NULL) == 0);
    EXPECT(ondol_get_int(db, 4, 1, 7, &n) == 0 && n == 7);
    EXPECT(ondol_get_bool(db, 4, 1, 1, &b) == 0 && ondol_get_double(db, 4, 1, 3, &f) == 0);
    EXPECT(ondol_get_bytes(db, 4, 1, 5, &y, &length) == 0);
    FAILS(ondol_get_int(db, 4, 0, 4, &n), "42804");
    FAILS(ondol_get_bool(db, 4, 0, 0, &b), "42804");
    FAILS(ondol_get_int(db, 4, 2, 0, &n), "22023");
    FAILS(ondol_get_int(db, 4, -1, 0, &n), "22023");
    FAILS(ondol_get_int(db, 4, 0, 8, &n), "22023");
    FAILS(ondol_get_text(db, 4, 0, 8, &t, NULL), "22023");
    FAILS(ondol_get_int(db, -1, 0, 0, &n), "22023");
    FAILS(ondol_get_int(db, 4, 0, 0, NULL), "22023");

    /* Once more: each fails now but the reads; together, all do. */
    EXPECT(!ondol_run(db, calls));
    FAILS(ondol_affected(db, 0), "23505");
    EXPECT(ondol_detail(db) && strstr(ondol_detail(db), "already exists"));
    EXPECT(!ondol_hint(db));
    EXPECT(ondol_rows(db, 4) == 2);
    ondol_calls_free(calls);
    calls = ondol_calls_new(ONDOL_TOGETHER);
    for (int id = 10; id > 0; id--) {
        ondol_add(calls, insert);
        ondol_set_int(calls, 0, id);
        ondol_set_null(calls, 7);
    }
    FAILS(ondol_run(db, calls), "23505");
    ondol_calls_clear(calls);
    ondol_add(calls, all);
    EXPECT(!ondol_run(db, calls) && ondol_rows(db, 0) == 2);
    FAILS(ondol_run(db, NULL), "22023");
    ondol_calls_clear(calls);
    ondol_add(calls, 99);
    FAILS(ondol_run(db, calls), "26000");
    ondol_calls_clear(calls);
    ondol_add(calls, plus);
    FAILS(ondol_run(db, calls), "08P01");

    /* Statements of every kind, and what they want brought to them. */
    static const char *const others[] = {"SET application_name = 'c'", "SHOW application_name", "EXPLAIN SELECT 1",
                                         "CREATE TEMPORARY TABLE tmp (n int)", "BEGIN", "COMMIT", ""};
    ondol_calls_free(calls);
    calls = ondol_calls_new(ONDOL_EACH);
    for (int i = 0; i < 7; i++) ondol_add(calls, ondol_prepare(db, others[i]));
    EXPECT(!ondol_run(db, calls));
    for (int i = 0; i < 7; i++) EXPECT(ondol_affected(db, i) >= 0);
    EXPECT(ondol_get_text(db, 1, 0, 0, &t, NULL) == 1 && !strcmp(t, "c"));
    EXPECT(ondol_rows(db, 2) >= 1);
    int brought = ondol_prepare(db, "SELECT $1::int, $2::text, $3::real, $4::oid, $5::char(3)");
    ondol_calls_clear(calls);
    ondol_add(calls, brought);
    EXPECT(!ondol_set_double(calls, 0, 1.5) && !ondol_set_bool(calls, 1, 1) && !ondol_set_double(calls, 2, 0.5));
    EXPECT(!ondol_set_int(calls, 3, 4000000000) && !ondol_set_text(calls, 4, "x", 1));
    EXPECT(!ondol_run(db, calls));
    EXPECT(ondol_get_int(db, 0, 0, 0, &n) == 1 && n == 2);
    EXPECT(ondol_get_text(db, 0, 0, 1, &t, NULL) == 1 && !strcmp(t, "true"));
    EXPECT(ondol_get_double(db, 0, 0, 2, &f) == 1 && f == 0.5);
    EXPECT(ondol_get_int(db, 0, 0, 3, &n) == 1 && n == 4000000000);
    EXPECT(ondol_get_text(db, 0, 0, 4, &t, NULL) == 1 && !strcmp(t, "x  "));
    FAILS(ondol_get_bytes(db, 0, 0, 1, &y, &length), "42804");
    ondol_calls_clear(calls);
    ondol_add(calls, ondol_prepare(db, "SELECT $1::bool"));
    EXPECT(!ondol_set_int(calls, 0, 1));
    int ran = ondol_run(db, calls);
    EXPECT(ran < 0 || ondol_affected(db, 0) < 0);
    EXPECT(!strcmp(ondol_sqlstate(db), "42804"));
    EXPECT(ondol_execute(db, "SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'") >= 0);
    ondol_calls_clear(calls);
    ondol_add(calls, ondol_prepare(db, "SELECT '2024-01-02 03:04:05+00'::timestamptz"));
    EXPECT(!ondol_run(db, calls) && ondol_get_text(db, 0, 0, 0, &t, NULL) == 1);
    EXPECT(!strcmp(t, "2024-01-02 03:04:05+00"));
    EXPECT(ondol_execute(db, "RESET TimeZone; RESET DateStyle") >= 0);

    /* What fails as it commits, what was described otherwise, and many parameters. */
    EXPECT(ondol_execute(db, "DROP TABLE IF EXISTS part; DROP TABLE IF EXISTS whole;"
                             "CREATE TABLE whole (id int PRIMARY KEY);"
                             "CREATE TABLE part (id int REFERENCES whole DEFERRABLE INITIALLY DEFERRED)") >= 0);
    int part = ondol_prepare(db, "INSERT INTO part VALUES ($1)");
    ondol_calls_free(calls);
    calls = ondol_calls_new(ONDOL_TOGETHER);
    for (int i = 0; i < 2; i++) {
        ondol_add(calls, part);
        ondol_set_int(calls, 0, i);
    }
    FAILS(ondol_run(db, calls), "23503");
    FAILS(ondol_rows(db, 0), "22023");
    EXPECT(ondol_execute(db, "SELECT * FROM part") == 0);
    int whole = ondol_prepare(db, "SELECT * FROM whole");
    EXPECT(ondol_execute(db, "INSERT INTO whole VALUES (1); ALTER TABLE whole ADD COLUMN more int") >= 0);
    ondol_calls_clear(calls);
    ondol_add(calls, whole);
    FAILS(ondol_run(db, calls), "0A000");
    EXPECT(ondol_execute(db, "DROP FUNCTION plus_one; CREATE FUNCTION plus_one(bigint) RETURNS SETOF text"
                             " LANGUAGE sql AS 'SELECT ''5555''::text'") == 0);
    ondol_calls_clear(calls);
    ondol_add(calls, plus);
    ondol_set_int(calls, 0, 1);
    EXPECT(ondol_run(db, calls) < 0);

    /* Transactions, and an end from another thread. */
    EXPECT(ondol_in_transaction(db) == 0);
    EXPECT(ondol_execute(db, "BEGIN; DELETE FROM v") == 2 && ondol_in_transaction(db) == 1);
    EXPECT(ondol_execute(db, "ROLLBACK") == 0 && ondol_in_transaction(db) == 0);
    int sleep = ondol_prepare(db, "SELECT pg_sleep(100)");
    ondol_calls_clear(calls);
    ondol_add(calls, sleep);
    pthread_t thread;
    pthread_create(&thread, NULL, cancel, NULL);
    FAILS(ondol_run(db, calls), "57014");
    pthread_join(thread, NULL);
    EXPECT(ondol_forget(db, sleep) == 0);
    FAILS(ondol_forget(db, sleep), "26000");
    ondol_calls_clear(calls);
    ondol_add(calls, all);
    EXPECT(!ondol_run(db, calls) && ondol_rows(db, 0) == 2);

    /* NULL for a connection. */
    EXPECT(ondol_execute(NULL, "SELECT 1") < 0 && ondol_run(NULL, calls) < 0 && ondol_close(NULL) == 0);
    EXPECT(ondol_get_int(NULL, 0, 0, 0, &n) < 0 && !ondol_column_name(NULL, 0, 0) && !ondol_in_transaction(NULL));
    ondol_cancel(NULL);
    ondol_calls_free(NULL);
    ondol_calls_clear(NULL);
    ondol_calls_free(calls);
    EXPECT(ondol_execute(db, "BEGIN; INSERT INTO v (id) VALUES (77)") == 1);
    EXPECT(ondol_close(db) == 0);

    /* What was not committed is gone. */
    db = ondol_open(argv[1]);
    EXPECT(db && ondol_execute(db, "SELECT * FROM v") == 2);
    EXPECT(ondol_close(db) == 0);
    if (!failed) puts("all right");
    return failed;
}
