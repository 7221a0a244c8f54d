"""`make bench`: raymesh beside Ray, interleaved in one run.

- `catalog`    every row: name, unit, goal; the names are those of `ray microbenchmark` where it has the row
- `meter`      how a rate, a latency or an amount of memory is measured
- `calls`, `objects`, `memory`, `life`   the rows' bodies, Ray programs against `import ray`
- `actors`     actors in a module of their own
- `program`    runs rows on the system that it was started on; one process per system and pass
- `start`      the smallest program, for the time from nothing to the first result
- `others`     the same shapes on what a user would otherwise pick
- `passes`     starts the programs, alternating, several times
- `busy`       processes that keep the cores busy
- `results`    medians and ratios
- `report`, `page`   table, JSON and the HTML page
"""
