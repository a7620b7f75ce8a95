/* Ondol for C and C++: a database in this process, or a server, by one text.
 *
 * A connection is for one thread at a time, and not for a process that fork has made of its own: open
 * databases after that. Functions that return a number return a negative one where they fail; ondol_error and
 * ondol_sqlstate tell why. No function ends the process.
 *
 * Numbers of calls, rows, columns and parameters are counted from 0. Texts are UTF-8. One that is given with
 * its length needs no zero byte at its end; one that holds a zero byte is refused when it is used.
 */
#ifndef ONDOL_H
#define ONDOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A session of a database. */
typedef struct ondol ondol;

/* Calls of prepared statements, which go to a server in one message. */
typedef struct ondol_calls ondol_calls;

/* What calls are to each other. */
enum {
    /* Each is a transaction of its own, unless one is open: an error of one leaves the others alone. */
    ONDOL_EACH = 0,
    /* All are one transaction, which commits once, unless one is open: an error of one is the end of all. */
    ONDOL_TOGETHER = 1
};

/* The library's version, as "0.1.0". */
const char *ondol_version(void);

/* Opens a database:
 *
 *   postgres://USER:PASSWORD@HOST:PORT/DATABASE     a server, by TCP
 *   postgres:///?host=/FOLDER                       a server, by the Unix socket in that folder
 *   postgres:///?host=/FOLDER&memory=require        the same in memory that both processes have
 *   FOLDER                                          a database's folder: opened in this process, and made
 *                                                   if it is not there; if a server has it, through that,
 *                                                   in memory
 *
 * NULL, if that fails: ondol_error(NULL) tells why, to the same thread. Connections of a process to one
 * folder share the database. */
ondol *ondol_open(const char *whereto);

/* Closes a connection, and frees it; an open transaction is rolled back. Negative, if commits that were
 * acknowledged before they were on disk cannot be brought there: ondol_error(NULL) tells. NULL is ignored. */
int ondol_close(ondol *connection);

/* What the last function with this connection that failed has said, until the next fails; of NULL, what the
 * last ondol_open, ondol_close or function without a connection has said that failed in this thread. Empty, if
 * none has. */
const char *ondol_error(const ondol *connection);
/* The same as a code of five characters, PostgreSQL's. */
const char *ondol_sqlstate(const ondol *connection);
/* What there is to be said further to it, or NULL. */
const char *ondol_detail(const ondol *connection);
const char *ondol_hint(const ondol *connection);

/* Breaks off what a connection does, from another thread, which nobody closes meanwhile: that fails with 57014,
 * unless it was through already. */
void ondol_cancel(const ondol *connection);

/* 1: a transaction is open; 0: none is. */
int ondol_in_transaction(const ondol *connection);

/* Runs statements without parameters, separated by semicolons; their rows are dropped. The number of rows
 * that the last has changed, or given. The first that fails ends it; those before it stay done. */
int64_t ondol_execute(ondol *connection, const char *sql);

/* Prepares a statement, with $1 and so on for its parameters: its number in this connection. */
int ondol_prepare(ondol *connection, const char *sql);
/* The number of a registered query, which nobody has to prepare. */
int ondol_registered(ondol *connection, const char *name);
/* Forgets a statement. */
int ondol_forget(ondol *connection, int statement);
/* How many parameters it takes, and how many columns its rows have. */
int ondol_parameters(ondol *connection, int statement);
int ondol_columns(ondol *connection, int statement);
/* A column's name, until the connection's next call of this function; NULL, if that fails. */
const char *ondol_column_name(ondol *connection, int statement, int column);

/* Room for calls; NULL, if `commit` is neither ONDOL_EACH nor ONDOL_TOGETHER. */
ondol_calls *ondol_calls_new(int commit);
void ondol_calls_free(ondol_calls *calls);
/* Forgets the calls, keeps the memory. */
void ondol_calls_clear(ondol_calls *calls);
/* Adds a call of a statement; its number. */
int ondol_add(ondol_calls *calls, int statement);
/* Give the call that was added last a parameter. One that is not given is NULL, if a later one is. A text is
 * taken for a parameter of any type, as PostgreSQL reads a literal; numbers are converted as by an
 * assignment. Negative only if there is no call, the parameter's number cannot be, or the text is not
 * UTF-8. */
int ondol_set_null(ondol_calls *calls, int parameter);
int ondol_set_bool(ondol_calls *calls, int parameter, int value);
int ondol_set_int(ondol_calls *calls, int parameter, int64_t value);
int ondol_set_double(ondol_calls *calls, int parameter, double value);
int ondol_set_text(ondol_calls *calls, int parameter, const char *text, size_t length);
int ondol_set_bytes(ondol_calls *calls, int parameter, const void *bytes, size_t length);

/* Runs the calls, in their order, in one message where a server has the database, and waits for all of them;
 * they can be run again. Neighbouring reads by a key wait for the memory together, and calls that write for
 * the disk. What they give is kept until the connection's next ondol_run, ondol_execute, ondol_prepare,
 * ondol_registered or ondol_forget.
 *
 * Fails, if a call of ONDOL_TOGETHER does; if calls are ONDOL_EACH, only where none could be run, or the
 * connection is lost. Then there is nothing to be had of any call. */
int ondol_run(ondol *connection, const ondol_calls *calls);
/* How many rows a call has changed, or given; negative, if it failed, as ondol_error tells. */
int64_t ondol_affected(ondol *connection, int call);
/* How many rows it has given. */
int64_t ondol_rows(ondol *connection, int call);

/* A value: 1, if it is there, 0, if it is NULL (then nothing is written), negative, if it is of another type
 * or there is none of these numbers. ondol_get_int reads integers of every width, oids, dates (days since
 * 2000-01-01) and timestamps (microseconds since then); ondol_get_double reads real, double precision, smallint
 * and integer; ondol_get_bytes reads bytea. ondol_get_text reads any value, as PostgreSQL writes it in its usual
 * styles, in UTC, with a zero byte behind it. Texts and bytes are there as long as the rows are. */
int ondol_get_bool(ondol *connection, int call, int64_t row, int column, int *value);
int ondol_get_int(ondol *connection, int call, int64_t row, int column, int64_t *value);
int ondol_get_double(ondol *connection, int call, int64_t row, int column, double *value);
int ondol_get_text(ondol *connection, int call, int64_t row, int column, const char **text, size_t *length);
int ondol_get_bytes(ondol *connection, int call, int64_t row, int column, const void **bytes, size_t *length);

#ifdef __cplusplus
}
#endif

#endif
