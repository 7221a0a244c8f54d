"""What runs inside worker processes, and in the zygote that forks them.

- ``zygote``: the warm process that the agent starts; it forks workers and reaps them.
- ``child``: what happens in a freshly forked worker before it runs user code, and at its end.
- ``kin``: finding and ending processes that workers leave behind.
- ``output``: the standard streams of a worker, which tell the agent who prints.
- ``main``: the worker's loop. ``job``: what it takes up before the first work of a job.
"""
