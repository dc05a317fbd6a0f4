"""The Markdown of bench/gpu: what was checked and measured on one GPU, from its units."""
import csv
import io

SIZES = {  # width, layers
    "125m": (768, 12), "350m": (1024, 24), "760m": (1536, 24), "1b": (2048, 24), "3b": (2560, 32),
    "7b": (4096, 32)}
VOCABULARY = {"a": 50368, "b": 50432}
FORMS = {"a": "learned positions, biases", "b": "ALiBi, no bias"}
MFU_GOALS = {"125m": 45, "350m": 48, "760m": 54, "1b": 58, "3b": 59, "7b": 66}  # percent
CEILING_GOAL = 0.88
GOALS = {  # against the fastest PyTorch form: (b, a)
    "125m": (1.2, 1.1), "350m": (1.2, 1.1), "760m": (1.2, 1.1), "1b": (1.05, 1.05),
    "3b": (1.0, 1.0), "7b": (1.0, 1.0)}


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def of_stage(units, stage):
    return {key.split("/", 1)[1]: unit for key, unit in units.items()
            if key.startswith(stage + "/")}


def good(units, key):
    unit = units.get(key)
    return unit["result"] if unit and unit["ok"] else None


def result_of(unit):
    """In a word."""
    return "ok" if unit["ok"] else "skipped" if "skipped" in unit["result"] else "**failed**"


def ceiling(units, size, form):
    """Tokens a second if nothing but the necessary work took time, by this GPU's own rates.

    Products at the rate of each shape, slowed down as the same products are when they run for 60 s;
    attention at the rate of the kernels used; norms and residuals of 28 d bytes a token and layer
    (twice: 2 for x read by a product that adds it, 4 for the norm, 8 for its gradient and what is
    added), GELU of 40 d, the exit's loss of 4 bytes a logit (read and overwritten with its gradient,
    bf16; what the products write and read is part of their time) and, in form a, biases of 36 d, at
    the rate of a copy. None until all of these are measured.
    """
    products = good(units, f"rates/products/{size}")
    attention = good(units, f"rates/attention/{size}/{form}")
    copied = good(units, "rates/copy")
    slower = slowdown(units, size)
    if not (products and attention and copied and slower):
        return None
    width, layers = SIZES[size]
    tokens = products["tokens"]
    seconds = slower * sum(1e-6 * p["microseconds"] * p["times"] for p in products["products"])
    both = attention["attention"]
    seconds += 1e-6 * layers * (both["forward_microseconds"] + both["backward_microseconds"]) \
        * tokens / both["tokens"]
    moved = layers * width * (28 + 40 + (36 if form == "a" else 0)) + 4 * VOCABULARY[form]
    copy = 1e9 * max(copied["gigabytes_per_second"].values())
    return tokens / (seconds + tokens * moved / copy)


def slowdown(units, size):
    """Time of a step's products in the last half of 60 s by that of each one measured alone, as often
    as a step has it."""
    for of in (size, "1b" if SIZES[size][0] >= 1536 else "125m"):
        sustained = good(units, f"rates/sustained/{of}")
        products = good(units, f"rates/products/{of}")
        if sustained and products:
            rates = sustained["tflops_by_second"]
            late = rates[len(rates) // 2:]
            operations = sum(2.0 * p["m"] * p["n"] * p["k"] * p["times"]
                             for p in products["products"])
            alone = sum(1e-6 * p["microseconds"] * p["times"] for p in products["products"])
            return (operations / alone * 1e-12) / (sum(late) / len(late))
    return None


def verdict(value, goal):
    return "met" if value >= goal else "missed"


def speed_rows(units, stage):
    """Ours by size and form, with the peers it took turns with, in the same unit or in one each."""
    rows, all_of = [], of_stage(units, stage)
    for key, unit in all_of.items():
        if key.count("/") > 1:
            continue  # a peer's
        size, form = key.split("/")
        reports = unit["result"]
        ours = reports.get("ParallelLM", reports)
        if "tokens_per_second" not in ours:
            rows.append([size, form, "failed: " + str(ours.get("problem"))[-80:].replace("\n", " "),
                         *[""] * 7])
            continue
        cells, factors = [], []
        for name in ("compile", "transformers"):
            turns = all_of.get(f"{key}/{name}", unit)["result"]
            peer = turns.get(name, {}).get("tokens_per_second")
            mine = turns.get("ParallelLM", {}).get("tokens_per_second")
            factors += [mine / peer] if peer and mine else []
            cells.append(f"{peer:,.0f} (×{mine / peer:.2f})" if peer and mine else "–")
        rate, mfu, most = ours["tokens_per_second"], 100 * ours["mfu"], ceiling(units, size, form)
        goal, mfu_goal = GOALS[size][0 if form == "b" else 1], MFU_GOALS[size]
        rows.append([size, form, f"{rate:,.0f}",
                     f"{mfu:.1f} % ({mfu_goal} {verdict(mfu, mfu_goal)})",
                     f"{100 * ours['mfu_causal']:.1f} %", *cells,
                     f"×{goal} " + (verdict(min(factors), goal) if factors else "not measured"),
                     f"{rate / most:.2f} ({CEILING_GOAL} {verdict(rate / most, CEILING_GOAL)})"
                     if most else "–",
                     f"{ours['peak_bytes'] / 2 ** 30:.1f}"])
    return rows


def variants_rows(units):
    rows = []
    for key, unit in of_stage(units, "variants").items():
        if not unit["ok"]:
            continue
        size, microbatch = key.split("/")
        plain = unit["result"]["plain"]["tokens_per_second"]
        rows += [[size, microbatch, name, f"{one['tokens_per_second']:,.0f}",
                  f"×{one['tokens_per_second'] / plain:.3f}", f"{one['peak_bytes'] / 2 ** 30:.1f}"]
                 for name, one in unit["result"].items()]
    return rows


def lengths_rows(units):
    rows, peers = [], of_stage(units, "lengths")
    for key, unit in peers.items():
        if key.endswith("/peer") or not unit["ok"]:
            continue
        ours = unit["result"]["ParallelLM"]
        other = peers.get(key + "/peer", {"result": {}})["result"].get("compile", {})
        peer = other.get("tokens_per_second")
        size, length = key.split("/")
        rows.append([size, length, f"{ours['tokens_per_second']:,.0f}",
                     f"{100 * ours['mfu']:.1f} %", f"{100 * ours['mfu_causal']:.1f} %",
                     f"{peer:,.0f}" if peer else "–"])
    return rows


def kernels_of(text):
    """Time by kernel of ncu's CSV, the most expensive first."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    sums = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[first:]))):
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        one = sums.setdefault(row["Kernel Name"][:120], {"microseconds": 0.0, "launches": 0})
        if row["Metric Name"] == "gpu__time_duration.sum":
            scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}
            one["microseconds"] += value * scale.get(row.get("Metric Unit", "ns"), 1e-3)
            one["launches"] += 1
    rows = [{"name": name, **one} for name, one in sums.items()]
    return sorted(rows, key=lambda row: -row["microseconds"])[:40]


OUR_RUNS = tuple(f"ParallelLM, seed {seed}" for seed in (1, 2))
PEER_RUNS = tuple(f"PyTorch, seed {seed}" for seed in (1, 2, 3))
LOSS_RUNS = OUR_RUNS + PEER_RUNS


def final_loss(losses):
    """The mean of the last 20."""
    tail = losses[-20:]
    return sum(tail) / len(tail)


def loss_band(units):
    """Whether every final loss of ours lies among those of PyTorch's seeds, or no farther outside than
    these are from each other; None without one of ours and two of theirs."""
    def finals(names):
        runs = {name: good(units, f"training/{name}") for name in names}
        return {name: final_loss(run["losses"]) for name, run in runs.items() if run}

    ours, theirs = finals(OUR_RUNS), finals(PEER_RUNS).values()
    if not ours or len(theirs) < 2:
        return None
    spread = max(theirs) - min(theirs)
    lowest, highest = min(theirs) - spread, max(theirs) + spread
    return {"inside": all(lowest <= loss <= highest for loss in ours.values()),
            "lowest": lowest, "highest": highest, "ours": ours}


def training_text(units):
    runs = {key: unit["result"] for key, unit in of_stage(units, "training").items() if unit["ok"]}
    rows = []
    for key, run in runs.items():
        if "losses" in run:
            losses = run["losses"]
            rows.append([key, len(losses), f"{losses[0]:.3f}", f"{final_loss(losses):.4f}",
                         f"{run['tokens_per_second']:,.0f}"])
    text = table(["run", "steps", "first loss", "mean of the last 20", "tokens/s"], rows) \
        if rows else ""
    band = loss_band(units)
    if band:
        text += f"\nOurs must end between {band['lowest']:.4f} and {band['highest']:.4f}, which is where " \
                "PyTorch's seeds end and as far again on both sides: " \
                + ("met" if band["inside"] else "**missed**") + ".\n"
    resumed = runs.get("killed and resumed")
    if resumed:
        text += f"\nKilled, and resumed after step {resumed['resumed_at']}: the same bits as a run " \
                "that was not.\n"
    return text


def markdown(about, units):
    text = f"# {about['gpu']}, commit {about['commit']}\n\n"
    dates = sorted(unit["date"] for unit in units.values())
    if dates:
        text += f"Measured {dates[0]} to {dates[-1]} UTC. "
    text += f"Driver {about['driver']}, {about['memory']}; CUDA {about['cuda']}, cuDNN " \
            f"{about['cudnn']}; PyTorch {about['torch']}, transformers {about['transformers']}.\n"

    checks = [[key, result_of(unit), unit["result"].get("cases", ""),
               " ".join(unit["result"].get("seeds", [])[:1]), unit["date"]]
              for key, unit in units.items() if key.split("/")[0] in ("ops", "model", "ranks", "sanitizer")]
    if checks:
        text += "\n## Checks\n\n" + table(["what", "", "cases", "seed", "date"], checks)
    speeds = speed_rows(units, "speed") + speed_rows(units, "sizes")
    if speeds:
        text += "\n## Speed at sequence 2048, bf16\n\nForms: " + \
            "; ".join(f"{name}: {what}" for name, what in FORMS.items()) + \
            ". MFU by LLM Foundry's convention; the causal one counts half of attention. In " \
            "brackets: how many times faster than that program in the same turns, and goals. The " \
            "goal in speed is against the faster one of the two.\n\n" + \
            table(["size", "form", "tokens/s", "MFU (goal)", "causal", "torch.compile",
                   "transformers, eager", "goal", "of the ceiling (goal)", "GiB"], speeds)
    rates = of_stage(units, "rates")
    if any(unit["ok"] for unit in rates.values()):
        text += "\n## Rates of the GPU\n\n"
        copied = good(units, "rates/copy")
        if copied:
            text += "Copy: " + ", ".join(f"{1e-3 * rate:.2f} TB/s ({name})" for name, rate in
                                         copied["gigabytes_per_second"].items()) + ".\n\n"
        for key, unit in rates.items():
            if unit["ok"] and key.startswith("sustained"):
                all_rates = unit["result"]["tflops_by_second"]
                text += f"Products of {key.split('/')[1]} without a pause: " \
                        f"{all_rates[0]:.0f} TFLOP/s in the first second, " \
                        f"{all_rates[-1]:.0f} in the last of {len(all_rates)}" \
                        f" ({unit['result']['after']}).\n\n"
        rows = [[key.split("/")[1], p["name"], f"{p['m']} × {p['n']} × {p['k']}",
                 f"{p['microseconds']:.0f}", f"{p['tflops']:.0f}"]
                for key, unit in rates.items() if unit["ok"] and key.startswith("products")
                for p in unit["result"]["products"]]
        if rows:
            text += table(["size", "product", "m × n × k", "µs", "TFLOP/s"], rows)
        rows = [[key.split("/", 1)[1], a["length"], a["dim"], f"{a['forward_tflops']:.0f}",
                 f"{a['backward_tflops']:.0f}"]
                for key, unit in rates.items() if unit["ok"] and key.startswith("attention")
                for a in [unit["result"]["attention"]]]
        if rows:
            text += "\n" + table(["attention", "length", "head", "forward TFLOP/s (causal)",
                                  "backward"], rows)
    rows = variants_rows(units)
    if rows:
        text += "\n## Ways to run a step, form b\n\n" + \
            table(["size", "microbatch", "way", "tokens/s", "of plain", "GiB"], rows)
    rows = lengths_rows(units)
    if rows:
        text += "\n## Sequence lengths, form b\n\n" + \
            table(["size", "length", "tokens/s", "MFU", "causal", "torch.compile"], rows)
    for key, unit in of_stage(units, "profile").items():
        if unit["ok"] and "profile" in unit["result"]:
            profile = unit["result"]["profile"]
            sum_of_all = sum(row["milliseconds"] for row in profile["operations"])
            text += f"\n## Where a step of {key} goes\n\n{profile['step_milliseconds']:.1f} ms, of " \
                    f"which {sum_of_all:.1f} in operations.\n\n" + \
                table(["operation", "ms", "share", "calls", "TFLOP/s"],
                      [[row["name"], f"{row['milliseconds']:.2f}",
                        f"{100 * row['milliseconds'] / profile['step_milliseconds']:.1f} %",
                        row["calls"], f"{row['tflops']:.0f}" if "tflops" in row else ""]
                       for row in profile["operations"]])
    trained = training_text(units)
    if trained:
        text += "\n## Training 125M, form b\n\n" + trained
    return text
