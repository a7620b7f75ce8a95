/* SELECT * by libpq, a row at a time: rows and their bytes, which are looked at and forgotten.
   rows CONNECTION QUERY BINARY */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(PGconn *connection, const char *what) {
    fprintf(stderr, "%s: %s", what, PQerrorMessage(connection));
    return 1;
}

int main(int count, char **args) {
    if (count != 4)
        return 2;
    PGconn *connection = PQconnectdb(args[1]);
    if (PQstatus(connection) != CONNECTION_OK)
        return failed(connection, "connect");
    if (!PQsendQueryParams(connection, args[2], 0, NULL, NULL, NULL, NULL, atoi(args[3])))
        return failed(connection, "send");
    PQsetSingleRowMode(connection);
    unsigned long long rows = 0, bytes = 0;
    PGresult *result;
    while ((result = PQgetResult(connection))) {
        ExecStatusType status = PQresultStatus(result);
        if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK)
            return failed(connection, "read");
        if (PQntuples(result) > 0) {
            rows++;
            for (int column = 0, columns = PQnfields(result); column < columns; column++)
                bytes += PQgetlength(result, 0, column);
        }
        PQclear(result);
    }
    printf("%llu %llu\n", rows, bytes);
    PQfinish(connection);
    return 0;
}
