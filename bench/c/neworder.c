/* TPC-C's New-Order from C by registered queries, in two messages: what is read and counted up, then what is
   inserted, with the commit. Prints what it did when the time is up.
   neworder WHERETO SECONDS WAREHOUSES ITEMS CUSTOMERS SEED */
#include <inttypes.h>
#include <ondol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DISTRICTS = 10, MOST = 15 };

static const char *QUERIES =
    "CREATE OR REPLACE FUNCTION no_warehouse(integer) RETURNS TABLE (tax numeric) LANGUAGE sql AS"
    " 'SELECT w_tax FROM warehouse WHERE w_id = $1';"
    "CREATE OR REPLACE FUNCTION no_customer(integer, integer, integer) RETURNS TABLE (discount numeric, last varchar, credit char)"
    " LANGUAGE sql AS 'SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3';"
    "CREATE OR REPLACE FUNCTION no_district(integer, integer) RETURNS TABLE (next integer, tax numeric) LANGUAGE sql AS"
    " 'UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id, d_tax';"
    "CREATE OR REPLACE FUNCTION no_item(integer) RETURNS TABLE (price numeric, name varchar, data varchar) LANGUAGE sql AS"
    " 'SELECT i_price, i_name, i_data FROM item WHERE i_id = $1';"
    "CREATE OR REPLACE FUNCTION no_order(integer, integer, integer, integer, timestamp, integer, integer) RETURNS void LANGUAGE sql AS"
    " 'INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)"
    " VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)';"
    "CREATE OR REPLACE FUNCTION no_new(integer, integer, integer) RETURNS void LANGUAGE sql AS"
    " 'INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)';"
    "CREATE OR REPLACE FUNCTION no_line(integer, integer, integer, integer, integer, integer, integer, numeric, char) RETURNS void"
    " LANGUAGE sql AS 'INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,"
    " ol_quantity, ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)'";

static const char *STOCK =
    "CREATE OR REPLACE FUNCTION no_stock%d(integer, integer, integer, integer) RETURNS TABLE (quantity integer, dist char, data varchar)"
    " LANGUAGE sql AS 'UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3"
    " ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4"
    " WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_quantity, s_dist_%02d, s_data'";

static ondol *db;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s %s\n", what, ondol_sqlstate(db), ondol_error(db));
    exit(1);
}
static int good(int done, const char *what) {
    if (done < 0) fail(what);
    return done;
}

static uint64_t state;
static uint64_t drawn(uint64_t n) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}
/* TPC-C's uneven choice among 1 to n (clause 2.1.6). */
static int64_t uneven(uint64_t a, uint64_t n) {
    return (int64_t)(((drawn(a + 1) | drawn(n)) + 7) % n) + 1;
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static void add(ondol_calls *calls, int statement, int count, const int64_t *values) {
    good(ondol_add(calls, statement), "add");
    for (int n = 0; n < count; n++) good(ondol_set_int(calls, n, values[n]), "set");
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: %s WHERETO SECONDS WAREHOUSES ITEMS CUSTOMERS SEED\n", argv[0]);
        return 2;
    }
    double seconds = atof(argv[2]);
    int64_t warehouses = atoll(argv[3]), items = atoll(argv[4]), customers = atoll(argv[5]);
    state = (uint64_t)atoll(argv[6]);
    db = ondol_open(argv[1]);
    if (!db) fail("open");
    if (ondol_execute(db, QUERIES) < 0) fail("register");
    int stock[DISTRICTS];
    for (int d = 1; d <= DISTRICTS; d++) {
        char sql[1024], name[32];
        snprintf(sql, sizeof sql, STOCK, d, d);
        if (ondol_execute(db, sql) < 0) fail("register");
        snprintf(name, sizeof name, "no_stock%d", d);
        stock[d - 1] = good(ondol_registered(db, name), name);
    }
    int begin = good(ondol_prepare(db, "BEGIN ISOLATION LEVEL REPEATABLE READ"), "begin");
    int commit = good(ondol_prepare(db, "COMMIT"), "commit");
    int warehouse = good(ondol_registered(db, "no_warehouse"), "no_warehouse");
    int customer = good(ondol_registered(db, "no_customer"), "no_customer");
    int district = good(ondol_registered(db, "no_district"), "no_district");
    int item = good(ondol_registered(db, "no_item"), "no_item");
    int order = good(ondol_registered(db, "no_order"), "no_order");
    int fresh = good(ondol_registered(db, "no_new"), "no_new");
    int line = good(ondol_registered(db, "no_line"), "no_line");

    ondol_calls *reads = ondol_calls_new(ONDOL_EACH), *writes = ondol_calls_new(ONDOL_EACH);
    uint64_t orders = 0, lines = 0, retries = 0, rolled_back = 0;
    double began = now(), end = began + seconds;
    while (now() < end) {
        int64_t w = 1 + (int64_t)drawn((uint64_t)warehouses), d = 1 + (int64_t)drawn(DISTRICTS);
        int64_t c = uneven(1023, (uint64_t)customers), count = 5 + (int64_t)drawn(MOST - 4);
        int64_t wanted[MOST], supply[MOST], quantity[MOST], all_local = 1;
        int is_valid = drawn(100) > 0;
        for (int n = 0; n < count; n++) {
            wanted[n] = uneven(8191, (uint64_t)items);
            quantity[n] = 1 + (int64_t)drawn(10);
            supply[n] = w;
            if (warehouses > 1 && drawn(100) == 0) {
                while (supply[n] == w) supply[n] = 1 + (int64_t)drawn((uint64_t)warehouses);
                all_local = 0;
            }
        }
        /* The last of an order that is rolled back is an item that there is not (clause 2.4.1.5). */
        if (!is_valid) wanted[count - 1] = items + 1;

        ondol_calls_clear(reads);
        good(ondol_add(reads, begin), "add");
        add(reads, warehouse, 1, (int64_t[]){w});
        add(reads, customer, 3, (int64_t[]){w, d, c});
        add(reads, district, 2, (int64_t[]){w, d});
        for (int n = 0; n < count; n++) add(reads, item, 1, (int64_t[]){wanted[n]});
        int64_t valid = is_valid ? count : count - 1;
        for (int n = 0; n < valid; n++)
            add(reads, stock[d - 1], 4, (int64_t[]){supply[n], wanted[n], quantity[n], supply[n] != w});
        if (ondol_run(db, reads) < 0) {
            if (strcmp(ondol_sqlstate(db), "40001") && strcmp(ondol_sqlstate(db), "40P01")) fail("read");
            if (ondol_execute(db, "ROLLBACK") < 0) fail("rollback");
            retries++;
            continue;
        }
        const int first = 4;
        if (ondol_rows(db, 1) != 1 || ondol_rows(db, 2) != 1 || ondol_rows(db, 3) != 1) fail("no such customer");
        if (!is_valid) {
            if (ondol_rows(db, first + (int)count - 1) != 0) fail("an item that there is not was found");
            if (ondol_execute(db, "ROLLBACK") < 0) fail("rollback");
            rolled_back++;
            continue;
        }
        int64_t o;
        good(ondol_get_int(db, 3, 0, 0, &o), "order's number");
        o--;
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        char at[40];
        strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", gmtime(&t.tv_sec));

        ondol_calls_clear(writes);
        good(ondol_add(writes, order), "add");
        int64_t values[] = {w, d, o, c};
        for (int n = 0; n < 4; n++) good(ondol_set_int(writes, n, values[n]), "set");
        good(ondol_set_text(writes, 4, at, strlen(at)), "set");
        good(ondol_set_int(writes, 5, count), "set");
        good(ondol_set_int(writes, 6, all_local), "set");
        add(writes, fresh, 3, (int64_t[]){w, d, o});
        for (int n = 0; n < count; n++) {
            const char *price, *dist;
            size_t length;
            good(ondol_get_text(db, first + n, 0, 0, &price, NULL), "price");
            good(ondol_get_text(db, first + (int)count + n, 0, 1, &dist, &length), "dist");
            char amount[32];
            int digits = snprintf(amount, sizeof amount, "%.2f", atof(price) * (double)quantity[n]);
            add(writes, line, 7, (int64_t[]){w, d, o, n + 1, wanted[n], supply[n], quantity[n]});
            good(ondol_set_text(writes, 7, amount, (size_t)digits), "set");
            good(ondol_set_text(writes, 8, dist, length), "set");
        }
        good(ondol_add(writes, commit), "add");
        if (ondol_run(db, writes) < 0) {
            if (strcmp(ondol_sqlstate(db), "40001") && strcmp(ondol_sqlstate(db), "40P01")) fail("write");
            if (ondol_execute(db, "ROLLBACK") < 0) fail("rollback");
            retries++;
            continue;
        }
        orders++;
        lines += (uint64_t)count;
    }
    printf("%" PRIu64 " orders %" PRIu64 " lines %" PRIu64 " retries %" PRIu64 " rolled back in %.3f s\n", orders, lines, retries,
           rolled_back, now() - began);
    ondol_calls_free(reads);
    ondol_calls_free(writes);
    return ondol_close(db) < 0;
}
