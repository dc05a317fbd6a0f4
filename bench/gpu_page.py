"""The page of results that bench/gpu writes: the machine, what became of each program, and the measured tables."""
import dataclasses
import datetime
import pathlib
import re

# Headings and columns of the tables.
TABLES = {
    "Speed of a step": ("step", "program", "tokens/s", "MFU", "times as fast as it", "GiB"),
    "Memory of a step, GiB": ("step", "planned", "allocated", "planned scratch", "scratch", "taken from the GPU"),
    "Operations of a step": ("step", "operation", "ms", "calls", "TFLOP/s"),
    "pretrain, with as many tokens on each GPU": ("run", "ranks", "GPUs", "tokens/s", "first loss", "last loss"),
    "Training": ("run", "steps", "first loss", "mean of the last 20", "tokens/s"),
}


def table(header, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


@dataclasses.dataclass
class Check:
    """What became of one program of a stage: "passed", "failed" or "skipped", and its words."""
    stage: str
    name: str
    result: str
    words: str
    seconds: float


@dataclasses.dataclass
class Page:
    """The results of one call of bench/gpu; the file is written after every program."""
    machine: dict
    stages: list
    folder: pathlib.Path
    is_rehearsal: bool = False
    checks: list = dataclasses.field(default_factory=list)
    tables: dict = dataclasses.field(default_factory=dict)
    begin: datetime.datetime = dataclasses.field(
        default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))

    @property
    def file(self):
        """Where the page is: its name has the GPU and the time at which the call began."""
        name = re.sub(r"[^a-z0-9]+", "-", self.machine["GPU"].lower()).strip("-")
        return self.folder / f"gpu-{name}-{self.begin:%Y-%m-%d-%H%M%S}.md"

    @property
    def has_failures(self):
        """Whether a program failed."""
        return any(check.result == "failed" for check in self.checks)

    def add_check(self, check):
        """Adds what became of a program."""
        self.checks.append(check)
        self.write()

    def add_row(self, heading, *cells):
        """Adds a row of the table with this heading."""
        self.tables.setdefault(heading, []).append(cells)

    def text(self):
        """The page in Markdown."""
        parts = [f"# ParallelLM on {self.machine['GPU']}" + ", a rehearsal with a tiny model" * self.is_rehearsal,
                 table(["", ""], [["date", f"{self.begin:%Y-%m-%d %H:%M} UTC"], *self.machine.items()])]
        rows = [[check.stage, check.name, f"**{check.result}**" if check.result == "failed" else check.result,
                 f"{check.seconds:.0f}", check.words] for check in self.checks]
        finished = {check.stage for check in self.checks}
        rows += [[stage, "", "not run", "", ""] for stage in self.stages if stage not in finished]
        parts += ["## Stages", table(["stage", "program", "result", "s", ""], rows)]
        for heading, header in TABLES.items():
            if heading in self.tables:
                parts += [f"## {heading}", table(header, self.tables[heading])]
        return "\n\n".join(part.strip() for part in parts) + "\n"

    def write(self):
        """Writes the file, so that it is whole at any time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(self.text())
        temporary.replace(self.file)
