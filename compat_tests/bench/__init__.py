"""`make bench`: raymesh beside Ray, interleaved in one run.

- `catalog`    every row: name, unit, goal; the names are those of `ray microbenchmark` where it has the row
- `pace`       how long measuring takes, on the quiet machine and beside busy processes
- `meter`, `usage`   how a rate or a latency is measured, and an amount of memory or CPU time
- `calls`, `objects`, `tensors`, `crowd`, `life`   the rows' bodies, Ray programs against `import ray`
- `actors`     actors in a module of their own
- `program`    runs rows on the system that it was started on; one process per system and pass
- `start`      the smallest program, for the time from nothing to the first result
- `others`     the same shapes on what a user would otherwise pick
- `passes`     starts the programs, alternating, several times
- `busy`       processes that keep the cores busy
- `figures`, `results`   medians and ratios; what was measured, row by row
- `report`     the tables
- `charts`, `page`, `page.css`   the HTML page: plots as SVG, no script
"""
