"""Runs Ray programs on Ray and on raymesh and compares what they observe.

- `case`      what a case file imports: the `@case` decorator, `Record`, `main`
- `describe`  turns an observed value or text into plain data that both systems can agree on
- `capture`   catches what the program and its workers print
- `discover`  finds the cases of a file without importing it
- `systems`   how a program is started on Ray and on raymesh
- `run`       runs a case file on one system, in a process of its own
- `verdict`   compares the two answers
- `compare`   `make compare`: the table per feature
"""
