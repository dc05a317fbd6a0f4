"""The first hour on a GPU, `bench/gpu all`: its stages in their order, a verdict on each, one page."""
import dataclasses
import re
import time

import gpu_page


class Skipped(Exception):
    """Why something cannot be checked here, which is nobody's failure."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A stage of the first hour: what its time limit is, and which others must have passed."""
    name: str
    seconds: int
    needs: tuple = ("first",)
    lacks: object = lambda about: None  # why it cannot run on such a machine


def no_torch(about):
    if about["torch"] == "none":
        return "there is no PyTorch here (--python names one that has it)"
    return None


def one_gpu(about):
    return "there is one GPU here" if about["gpus"] < 2 else None


# The most informative first.
PARTS = (
    Part("build", 1200, ()),
    Part("first", 120, ("build",)),
    Part("ops", 480),
    Part("model", 480),
    Part("step", 240),
    Part("speed", 480, ("step",), no_torch),
    Part("memory", 300, ("step",)),
    Part("profile", 480, ("step",)),
    Part("trainer", 480),
    Part("big", 480),
    Part("sanitizer", 900),
    Part("ranks", 480),
    Part("gpus", 900, lacks=one_gpu),
    Part("documents", 300),
)


def one_line(text, most=240):
    """The line of a program's output that says why it failed, and what ended it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = [line for line in lines if re.match(r"stopped after|ended by SIG|ended from outside", line)]
    end = ends[0] if ends else ""
    others = [line for line in lines if line not in ends and not line.startswith(("[doctest]", "==="))]
    why = next((line for line in others if re.search(r"\bERROR\b|\bFATAL\b|[Ee]rror\b", line)),
               others[-1] if others else "")
    return "; ".join(part for part in (why[:most], end) if part).replace("|", "\\|") or "no word"


def verdict_of(stage):
    """("passed" | "failed" | "skipped", why) of a stage that has come to its end."""
    if stage.failed:
        key, why = stage.failed[0]
        more = f" (and {len(stage.failed) - 1} more)" if len(stage.failed) > 1 else ""
        return "failed", f"{key}: {one_line(why)}{more}"
    if not stage.complete:
        return "failed", f"not all of it fits in {stage.seconds:.0f} s; run it again to go on"
    missing = "; ".join(f"without {key}: {why}" for key, why in stage.skipped)
    if not stage.good:
        return "skipped", stage.skipped[0][1] if stage.skipped else "nothing to do"
    return "passed", f"{stage.good} of {stage.good + len(stage.skipped)}" + (missing and f"; {missing}")


def first_that_lacks(needs, verdicts):
    return next((name for name in needs if verdicts.get(name, {}).get("verdict") != "passed"), None)


def minutes(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def run_all(results, names, again, limit, begin):
    """Runs the stages that have not passed, of these names (none: all), whatever becomes of the others;
    whether none has failed. `begin(name, seconds)` gives a stage and its work."""
    parts = [part for part in PARTS if not names or part.name in names]
    seconds_of = {part.name: min(part.seconds, limit or part.seconds) for part in parts}
    todo = [part for part in parts
            if again or part.name == "build" or results.verdicts.get(part.name, {}).get("verdict") != "passed"]
    print(f"{len(todo)} of {len(parts)} stages are to be run, in at most "
          f"{minutes(sum(seconds_of[part.name] for part in todo))}")
    for number, part in enumerate(todo, 1):
        seconds, since = seconds_of[part.name], time.monotonic()
        lacking = first_that_lacks(part.needs, results.verdicts)
        reason = f"it needs {lacking}, which has not passed" if lacking else part.lacks(results.about)
        if reason:
            verdict = "skipped", reason
        else:
            print(f"[{number}/{len(todo)}] {part.name}, at most {minutes(seconds)}", flush=True)
            results.judge(part.name, "failed", "ended from outside", 0)  # if somebody ends all of this
            verdict = work_of(begin, part.name, seconds)
        results.judge(part.name, *verdict, time.monotonic() - since)
        print(f"{part.name}: {verdict[0]}: {verdict[1]}", flush=True)
    return not any(results.verdicts.get(part.name, {}).get("verdict") == "failed" for part in parts)


def work_of(begin, name, seconds):
    """The verdict on a stage; what goes wrong in its own code is its failure alone."""
    try:
        stage, work = begin(name, seconds)
        work(stage)
        return verdict_of(stage)
    except Skipped as reason:
        return "skipped", str(reason)
    except Exception as problem:  # pylint: disable=broad-except
        return "failed", one_line(str(problem) or repr(problem))


def page(about, units, verdicts):
    return gpu_page.page(about, units, [(part.name, verdicts.get(part.name)) for part in PARTS])
