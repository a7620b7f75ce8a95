"""A notebook's ten lines: a random walk of prices, put into a database and drawn."""

import random
import matplotlib.pyplot as plt
import ondol
from tqdm import tqdm

with ondol.connect("market") as db:
    db.execute("CREATE TABLE IF NOT EXISTS quote (id bigint PRIMARY KEY, price double precision)")
    (price,) = db.execute("SELECT coalesce((SELECT price FROM quote ORDER BY id DESC LIMIT 1), 100)").fetchone()
    for first in tqdm(range(0, 100_000, 1000), unit=" thousand"):
        price += random.gauss(0, 1)
        rows = [(first + i, price + random.gauss(0, 1)) for i in range(1000)]
        db.executemany("INSERT INTO quote VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET price = excluded.price", rows)
    means = db.execute("SELECT id / 1000 AS minute, avg(price) AS mean FROM quote GROUP BY 1 ORDER BY 1").fetch_arrow()

plt.plot(means["minute"], means["mean"])
plt.savefig("market.svg")
