"""A machine with GPUs: what it is, how programs are carried there, built and run."""
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARRY = ROOT / "bench" / "carry"
PROGRAMS = ("gpu_tests", "gpu_step", "gpu_rates")
SYSTEM_HEADERS = ("/usr/include", "/usr/include/x86_64-linux-gnu")
# The libraries that a toolkit may lack and PyTorch brings: header, library, and CMake's arguments for them.
BORROWED = (
    ("cudnn_graph.h", "libcudnn.so.9",
     ("-DParallelLM__cudnn_INCLUDE={include}", "-DParallelLM__cudnn_LIBRARY={library}")),
    ("nccl.h", "libnccl.so.2",
     ("-DParallelLM__libnccl_INCLUDE={include}", "-DParallelLM__libnccl_LIBRARY={library}")),
    ("cublasLt.h", "libcublasLt.so.13",
     ("-DCMAKE_CXX_FLAGS=-idirafter {include}", "-DCUDA_cublasLt_LIBRARY={library}")))


class Failure(Exception):
    """A program failed; the text is what it printed."""


class Skipped(Exception):
    """A program cannot run on this machine; the text says why."""


def text_of(*command, variables=None):
    """The standard output of a command; empty where it fails or is not installed."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT,
                              env=variables).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def source_digest():
    """A hash of all sources that are built and run on a GPU machine."""
    digest = hashlib.sha1()
    for folder in ("src/kernels", "src/mpt", "bench", "cmake", "include", "tests"):
        for file in sorted((ROOT / folder).rglob("*")):
            name = file.relative_to(ROOT)
            if (name.name == "gpu" or name.suffix in (".cpp", ".cu", ".cuh", ".hpp", ".py", ".txt")) \
                    and name.parts[1] not in ("carry", "results") and file.is_file():
                digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()


@functools.cache
def carried_commit():
    """The commit that bench/carry/ was made of, where its sources are those of this tree; else empty."""
    file = CARRY / "commit"
    name, digest = file.read_text().split() if file.exists() else ("", "")
    return name if name and digest == source_digest() else ""


@functools.cache
def commit():
    """The commit of this tree, "+changes" where files differ from it. A tree that was carried may be in a
    repository of another commit."""
    if carried_commit():
        return carried_commit()
    head = text_of("git", "rev-parse", "--short=12", "HEAD")
    return (head or "unknown") + "+changes" * bool(text_of("git", "status", "--porcelain", "-uno"))


@functools.cache
def nvcc():
    """The path of nvcc."""
    return shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


def toolkit():
    """The folder of the CUDA Toolkit."""
    return pathlib.Path(nvcc()).resolve().parent.parent


@functools.cache
def python_packages(python):
    """NVIDIA's libraries that came with PyTorch: folders with include/ and lib/."""
    roots = text_of(python, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')").splitlines()
    return [library.parent for root in roots for library in sorted(pathlib.Path(root).glob("*/lib"))]


def borrowed(python):
    """CMake's arguments for the libraries that only PyTorch brings."""
    arguments = []
    for header, library, forms in BORROWED:
        if any((pathlib.Path(folder) / header).exists() for folder in (toolkit() / "include", *SYSTEM_HEADERS)):
            continue
        for folder in python_packages(python):
            paths = {"include": folder / "include", "library": folder / "lib" / library}
            if (paths["include"] / header).exists() and paths["library"].exists():
                arguments += [form.format(**paths) for form in forms]
                break
    return arguments


def environment(python):
    """The environment of our programs, which find the toolkit's libraries, else PyTorch's."""
    paths = [str(toolkit() / "lib64"), *os.environ.get("LD_LIBRARY_PATH", "").split(":"),
             *(str(folder / "lib") for folder in python_packages(python))]
    return {**os.environ, "PARALLELLM_CHECKOUT": str(ROOT), "LD_LIBRARY_PATH": ":".join(filter(None, paths))}


def describe(python):
    """The machine as {name: text}; None where it has no GPU."""
    query = text_of("nvidia-smi", "--query-gpu=name,memory.total,compute_cap,driver_version", "--format=csv,noheader")
    if not query:
        if pathlib.Path("/dev/nvidia0").exists():
            sys.exit("/dev/nvidia0 exists, but nvidia-smi does not describe the GPU")
        return None
    name, memory, capability, driver = (part.strip() for part in query.splitlines()[0].split(","))
    cpu = re.search(r"model name\s*: (.*)", text_of("cat", "/proc/cpuinfo"))
    release = re.search(r"release ([\d.]+)", text_of(nvcc(), "--version"))
    packages = [text_of(python, "-c", f"import {package}; print({package}.__version__)") or "none"
                for package in ("torch", "transformers")]
    cudnn = text_of(sys.executable, "-c", "import ctypes; print(ctypes.CDLL('libcudnn.so.9').cudnnGetVersion())",
                    variables=environment(python)) or "none"
    return {"commit": commit(), "GPU": name, "number of GPUs": len(query.splitlines()), "memory": memory,
            "compute capability": capability, "driver": driver,
            "CUDA": release.group(1) if release else "unknown", "cuDNN": cudnn, "PyTorch": packages[0],
            "transformers": packages[1],
            "host": f"{cpu.group(1) if cpu else os.uname().machine}, {os.cpu_count()} cores, {os.uname().release}"}


def run(command, seconds, variables=None):
    """The standard output of a command. Raises Failure, with all that it printed, where it does not end with 0 or
    has not ended after `seconds`, when its process group is killed. Its output goes to files: a process that hangs
    in the driver does not die, and would hold a pipe."""
    with tempfile.TemporaryFile("w+", errors="replace") as output, \
            tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=variables,
            start_new_session=True)
        ending = ""
        try:
            if process.wait(timeout=seconds) < 0:
                ending = f"\nended by {signal.Signals(-process.returncode).name}"
        except subprocess.TimeoutExpired:
            ending = f"\nstopped after {seconds:.0f} s"
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=20)
        output.seek(0)
        errors.seek(0)
        text = output.read()
        if process.returncode != 0:
            raise Failure((text + errors.read() + ending).strip() or f"it ended with {process.returncode} and no word")
    return text


def report_of(text):
    """The JSON object of the last line of a program's output that has one."""
    line = next((line for line in reversed(text.splitlines()) if line.startswith("{")), None)
    if line is None:
        raise Failure("it ended with 0 and no word")
    return json.loads(line)


def summary_of(text):
    """The line of a program's output that says why it failed, and how it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    endings = [line for line in lines if re.match(r"stopped after|ended by SIG", line)]
    others = [line for line in lines if line not in endings and not line.startswith(("[doctest]", "==="))]
    reason = next((line for line in others if re.search(r"\b(ERROR|FATAL|[Ee]rror)\b", line)), (others or [""])[-1])
    return "; ".join(filter(None, [reason[:240], *endings[:1]]))


def program(name, options):
    """The path of a program of bench/gpu_build: in --programs, carried along, or built here."""
    folders = [options.programs, CARRY / "bin" if carried_commit() else None, options.build / "bin"]
    for folder in filter(None, folders):
        if (folder / name).exists():
            return folder / name
    raise Failure(f"there is no program {name}")


def product(name, options):
    """The path of a program that `./run build` or `./run test` makes, which a GPU machine may lack."""
    for folder in [options.programs] if options.programs else [ROOT / "build/apps", ROOT / "build-test/tests"]:
        if (folder / name).exists():
            return folder / name
    raise Skipped(f"{name} is not in build/ (./run build makes the programs, ./run test the tests)")


def build(options, architecture):
    """Builds the programs, unless they were carried or are named by --programs."""
    if options.programs or (carried_commit() and (CARRY / "bin").exists()):
        return
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    run(["cmake", "-S", ROOT / "bench/gpu_build", "-B", options.build, *ninja,
         f"-DCMAKE_CUDA_ARCHITECTURES={architecture}", f"-DCMAKE_CUDA_COMPILER={nvcc()}", *borrowed(options.python)],
        options.build_limit)
    run(["cmake", "--build", options.build, "-j", os.cpu_count()], options.build_limit)


def carry(options, has_programs):
    """Makes bench/carry/: the headers of libraries that the programs include, the commit's name, and the programs."""
    shutil.rmtree(CARRY, ignore_errors=True)
    probe = "#include <doctest/doctest.h>\n#include <nlohmann/json.hpp>\n#include <xxhash.h>\n"
    found = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-DXXH_INLINE_ALL", "-M", "-xc++", "-"],
                           input=probe, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit(f"bench/gpu carry: doctest, nlohmann-json and xxhash must be installed:\n{found.stderr}")
    for path in found.stdout.replace("\\\n", " ").split()[1:]:
        header = re.search(r"(?:^|/)((?:doctest|nlohmann)/.*|xxhash\.h|xxh3\.h)$", path)
        if header:
            copy = CARRY / "include" / header.group(1)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    if has_programs:
        build(options, "90-real")
        (CARRY / "bin").mkdir()
        for name in PROGRAMS:
            shutil.copy2(options.build / "bin" / name, CARRY / "bin" / name)
    (CARRY / "commit").write_text(f"{commit()}\n{source_digest()}\n")
    size = sum(file.stat().st_size for file in CARRY.rglob("*") if file.is_file())
    print(f"{CARRY}: {size / 2 ** 20:.1f} MiB of {commit()}")
