"""Runtime environments of a job, of tasks and of actors."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import ray

from compat_tests.harness.case import Record, case, main

INIT = {
    "num_cpus": 2,
    "include_dashboard": False,
    "logging_level": "error",
    "runtime_env": {"env_vars": {"OF_JOB": "job", "BOTH": "job"}},
}


@ray.remote
def variables(*names):
    return [os.environ.get(name) for name in names]


@ray.remote
class Actor:
    def variables(self, *names):
        return [os.environ.get(name) for name in names]

    def ask(self, task, *names):
        return ray.get(task.remote(*names))

    def env(self):
        return dict(ray.get_runtime_context().runtime_env)


NAMES = ("OF_JOB", "BOTH", "OF_TASK")


@case
def variables_of_a_job_reach_its_workers_and_not_its_driver(record: Record) -> None:
    record("task", ray.get(variables.remote(*NAMES)))
    record("actor", ray.get(Actor.remote().variables.remote(*NAMES)))
    record("driver", [os.environ.get(name) for name in NAMES])
    record("said", dict(ray.get_runtime_context().runtime_env))


@case
def a_task_adds_to_the_variables_of_its_job(record: Record) -> None:
    own = variables.options(runtime_env={"env_vars": {"OF_TASK": "task", "BOTH": "task"}})
    record("own", ray.get(own.remote(*NAMES)))
    record("others", ray.get([variables.remote(*NAMES) for _ in range(4)]))
    record("again", ray.get(own.remote(*NAMES)))


@case
def what_an_actor_starts_inherits_its_environment(record: Record) -> None:
    actor = Actor.options(runtime_env={"env_vars": {"OF_TASK": "actor"}}).remote()
    record("actor", ray.get(actor.variables.remote(*NAMES)))
    record("task of the actor", ray.get(actor.ask.remote(variables, *NAMES)))
    record("said", ray.get(actor.env.remote()))
    own = variables.options(runtime_env={"env_vars": {"OF_TASK": "task"}})
    record("with its own", ray.get(actor.ask.remote(own, *NAMES)))


@case
def a_variable_may_refer_to_another(record: Record) -> None:
    own = variables.options(runtime_env={"env_vars": {"OF_TASK": "more:${HOME}"}})
    record("expanded", ray.get(own.remote("OF_TASK"))[0] == f"more:{os.environ['HOME']}")


@case
def what_is_wrong_is_said(record: Record) -> None:
    for name, env in {
        "number": {"env_vars": {"A": 1}},
        "no dict": {"env_vars": "A=1"},
        "folder": {"working_dir": "."},
        "module": {"py_modules": ["./x"]},
    }.items():
        with record.raises(name):
            ray.get(variables.options(runtime_env=env).remote("A"))
    record("goes on", ray.get(variables.remote("OF_JOB")))


@case
def the_class_of_environments(record: Record) -> None:
    env = ray.runtime_env.RuntimeEnv(env_vars={"OF_TASK": "class"})
    record("is a dict", [isinstance(env, dict), dict(env), env.to_dict()])
    record("works", ray.get(variables.options(runtime_env=env).remote("OF_TASK")))
    with record.raises("pip and conda"):
        ray.runtime_env.RuntimeEnv(pip=["a"], conda="b")
    with record.raises("timeout"):
        ray.runtime_env.RuntimeEnvConfig(setup_timeout_seconds=0)


@case(own_session=True)
def a_folder_goes_to_the_workers(record: Record) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "inside.py").write_text("VALUE = 41\n")
        (root / "data.txt").write_text("data")
        (root / "secret.txt").write_text("secret")
        (root / "ignored.log").write_text("log")
        (root / ".gitignore").write_text("*.log\n")
        (root / "sub").mkdir()
        (root / "sub" / "more.txt").write_text("more")
        (root / "package" / "its_module").mkdir(parents=True)
        (root / "package" / "its_module" / "__init__.py").write_text("VALUE = 7\n")
        env = {
            "working_dir": folder,
            "py_modules": [str(root / "package" / "its_module")],
            "excludes": ["secret.txt", "package"],
        }
        ray.init(num_cpus=1, include_dashboard=False, logging_level="error", runtime_env=env)

        @ray.remote
        def look():
            import inside
            import its_module

            files = sorted(
                str(path.relative_to(".")) for path in Path().rglob("*") if path.is_file()
            )
            files = [name for name in files if "__pycache__" not in name]
            return files, inside.VALUE, its_module.VALUE, os.getcwd() != folder

        record("worker", ray.get(look.remote()))
        said = ray.get_runtime_context().runtime_env
        record("named", said["working_dir"].startswith("gcs://_ray_pkg_"))
        record("keys", sorted(set(said) - {"excludes"}))
        record("driver", os.getcwd() != folder)
        ray.shutdown()


@case(own_session=True)
def a_folder_that_is_not_there(record: Record) -> None:
    with record.raises("missing"):
        ray.init(num_cpus=1, runtime_env={"working_dir": "/nowhere/at/all"})
    record("runs", ray.is_initialized())


@case(own_session=True)
def job_config(record: Record) -> None:
    from ray.job_config import JobConfig

    config = JobConfig(ray_namespace="of-config", runtime_env={"env_vars": {"OF_JOB": "config"}})
    ray.init(num_cpus=1, include_dashboard=False, logging_level="error", job_config=config)
    record("namespace", ray.get_runtime_context().namespace)
    record("variable", ray.get(variables.remote("OF_JOB")))
    ray.shutdown()
    with record.raises("lifetime"):
        JobConfig(default_actor_lifetime="for ever")


main(globals())
