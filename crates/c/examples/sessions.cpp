// Sessions of a web site: looked up by their token, kept alive, and let go. The handles free themselves.
#include <iostream>
#include <memory>
#include <ondol.h>
#include <stdexcept>
#include <string>

struct Close {
    void operator()(ondol *c) const { ondol_close(c); }
    void operator()(ondol_calls *c) const { ondol_calls_free(c); }
};
using Connection = std::unique_ptr<ondol, Close>;
using Calls = std::unique_ptr<ondol_calls, Close>;

static std::runtime_error failure(const ondol *connection) {
    return std::runtime_error(std::string(ondol_sqlstate(connection)) + " " + ondol_error(connection));
}

template <class N> static N checked(const Connection &db, N n) {
    if (n < 0) throw failure(db.get());
    return n;
}

int main(int argc, char **argv) try {
    if (argc != 2) throw std::runtime_error("usage: sessions FOLDER | postgres://...");
    Connection db(ondol_open(argv[1]));
    if (!db) throw failure(nullptr);
    checked(db, ondol_execute(db.get(), "DROP TABLE IF EXISTS session;"
                                        "CREATE TABLE session (token text PRIMARY KEY, person text, hits bigint)"));
    int start = checked(db, ondol_prepare(db.get(), "INSERT INTO session VALUES ($1, $2, 0)"));
    int touch = checked(
        db, ondol_prepare(db.get(), "UPDATE session SET hits = hits + 1 WHERE token = $1 RETURNING hits"));

    const std::string tokens[] = {"b2a1", "77f0", "c0de"};
    Calls calls(ondol_calls_new(ONDOL_EACH));
    for (const auto &token : tokens) {
        ondol_add(calls.get(), start);
        ondol_set_text(calls.get(), 0, token.data(), token.size());
        ondol_set_text(calls.get(), 1, "Ann", 3);
    }
    ondol_add(calls.get(), start); // a second time: this call fails, the others do not
    ondol_set_text(calls.get(), 0, tokens[0].data(), tokens[0].size());
    ondol_set_text(calls.get(), 1, "Bo", 2);
    checked(db, ondol_run(db.get(), calls.get()));
    if (ondol_affected(db.get(), 3) < 0) std::cout << ondol_sqlstate(db.get()) << "\n";

    ondol_calls_clear(calls.get());
    for (int i = 0; i < 5; i++) {
        ondol_add(calls.get(), touch);
        ondol_set_text(calls.get(), 0, tokens[i % 3].data(), tokens[i % 3].size());
    }
    checked(db, ondol_run(db.get(), calls.get()));
    for (int i = 0; i < 5; i++) {
        int64_t hits = 0;
        checked(db, ondol_get_int(db.get(), i, 0, 0, &hits));
        std::cout << tokens[i % 3] << " " << hits << "\n";
    }
    return 0;
} catch (const std::exception &e) {
    std::cerr << e.what() << "\n";
    return 1;
}
