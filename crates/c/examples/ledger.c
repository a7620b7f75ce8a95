/* A ledger: transfers between accounts, many in one message, each message one durable transaction. */
#include <inttypes.h>
#include <ondol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const ondol *connection, const char *what) {
    fprintf(stderr, "%s: %s %s\n", what, ondol_sqlstate(connection), ondol_error(connection));
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER | postgres://...\n", argv[0]);
        return 2;
    }
    ondol *db = ondol_open(argv[1]);
    if (!db) fail(NULL, "open");

    if (ondol_execute(db, "CREATE TABLE IF NOT EXISTS account (id bigint PRIMARY KEY, owner text, balance bigint);"
                          "DELETE FROM account;"
                          "INSERT INTO account VALUES (1, 'Ann', 100), (2, 'Bo', 0), (3, NULL, 50)") < 0)
        fail(db, "execute");
    int take = ondol_prepare(db, "UPDATE account SET balance = balance - $2 WHERE id = $1 AND balance >= $2");
    int give = ondol_prepare(db, "UPDATE account SET balance = balance + $2 WHERE id = $1");
    int find = ondol_prepare(db, "SELECT owner, balance FROM account WHERE id = $1");
    if (take < 0 || give < 0 || find < 0) fail(db, "prepare");

    /* Ten coins from Ann to Bo: both updates, or none. */
    ondol_calls *calls = ondol_calls_new(ONDOL_TOGETHER);
    ondol_add(calls, take);
    ondol_set_int(calls, 0, 1);
    ondol_set_int(calls, 1, 10);
    ondol_add(calls, give);
    ondol_set_int(calls, 0, 2);
    ondol_set_int(calls, 1, 10);
    for (int i = 0; i < 3; i++)
        if (ondol_run(db, calls) < 0) fail(db, "transfer"); /* it is on disk now */
    ondol_calls_free(calls);

    /* Three reads in one message. */
    calls = ondol_calls_new(ONDOL_EACH);
    for (int id = 1; id <= 4; id++) {
        ondol_add(calls, find);
        ondol_set_int(calls, 0, id);
    }
    if (ondol_run(db, calls) < 0) fail(db, "run");
    for (int call = 0; call < 4; call++) {
        int64_t rows = ondol_rows(db, call);
        if (rows < 0) fail(db, "rows");
        if (rows == 0) printf("account %d: none\n", call + 1);
        for (int64_t row = 0; row < rows; row++) {
            const char *owner = "nobody";
            int64_t balance;
            if (ondol_get_text(db, call, row, 0, &owner, NULL) < 0) fail(db, "owner");
            if (ondol_get_int(db, call, row, 1, &balance) < 0) fail(db, "balance");
            printf("account %d: %s has %" PRId64 "\n", call + 1, owner, balance);
        }
    }
    ondol_calls_free(calls);
    if (ondol_close(db) < 0) fail(NULL, "close");
    return 0;
}
