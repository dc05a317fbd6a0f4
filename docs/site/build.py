#!/usr/bin/env python3
"""build.py [--keys FILE] [--programs FOLDER] OUT: the documentation site, as OUT/html/index.html.

It needs doxygen, and Sphinx with MyST and a theme: python3 -m pip install -r docs/site/requirements.txt
--keys      what documented_keys has printed; without it the page of keys is left out
--programs  a folder of built programs, whose --help and drawings of steps become pages; without it those are left out
Warnings are errors, links that lead nowhere in the site among them. The site needs no network and no server."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import program_pages  # noqa: E402
import reference_pages  # noqa: E402


def require_tools():
    if shutil.which("doxygen") is None:
        raise SystemExit("the reference is made by doxygen, which is missing; on Debian or Ubuntu: apt-get install doxygen")
    for module in ("sphinx", "myst_parser", "furo"):
        found = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True)
        if found.returncode != 0:
            raise SystemExit(f"{sys.executable} has no {module}: {sys.executable} -m pip install -r {HERE / 'requirements.txt'}")


def rewritten_links(text, folder, pages, staged):
    """Links of a page of the repository, so that they work in the site: to headers' sections, to pages, and to copies of
    other files of the repository."""
    def replace(match):
        label, target = match.groups()
        path, _, fragment = target.partition("#")
        names = {f"{name}.md" for name in (*pages.values(), "keys", "options", "steps")}
        if not path or re.match(r"[a-z]+:", path) or path in names or path.startswith("reference/"):
            return match[0]  # Sphinx checks it
        file = pathlib.Path(os.path.normpath(folder / path))
        if not file.is_relative_to(ROOT) or not file.exists():
            raise SystemExit(f"{folder.relative_to(ROOT)}: a link leads to {target}, which does not exist")
        relative = file.relative_to(ROOT)
        if relative.parts[0] == "include" and file.suffix in (".hpp", ".cuh"):
            return f"[{label}](#{reference_pages.header_anchor(relative.relative_to('include').as_posix())})"
        if file in pages:
            return f"[{label}]({pages[file]}.md{'#' + fragment if fragment else ''})"
        if file.is_dir() or file.suffix == ".md":
            return f"{label} (`{relative}` in the repository)"
        copy = staged / "_files" / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
        return f"[{label}](_files/{relative})"

    link = re.compile(r"(?<!!)\[((?:[^\[\]\n]|\n(?!\n))*)\]\(([^()\s]+)\)")
    blocks = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if block.startswith("```") else link.sub(replace, block) for block in blocks)


def stage_pages(staged):
    """Copies the pages and returns the text of each page of docs/ by its name. A page that neither index.md nor howto.md
    lists comes where index.md says OTHER_PAGES."""
    sources = {file: file.stem for file in sorted((ROOT / "docs").glob("*.md"))}
    sources |= {ROOT / "CHANGELOG.md": "changelog", ROOT / "CONTRIBUTING.md": "contributing"}
    sources |= {file: file.stem for file in sorted((HERE / "pages").glob("*.md"))}
    sources |= {file: f"howto_{file.stem}" for file in sorted((HERE / "howto").glob("*.md"))}
    lists = "".join((HERE / "pages" / name).read_text() for name in ("index.md", "howto.md"))
    others = [name for name in sources.values() if name != "index" and not re.search(rf"^{re.escape(name)}$", lists, re.MULTILINE)]
    for file, name in sources.items():
        (staged / f"{name}.md").write_text(rewritten_links(file.read_text(), file.parent, sources, staged))
    listed = (staged / "index.md").read_text().replace("OTHER_PAGES", "\n".join(others))
    (staged / "index.md").write_text(listed)
    return {name: file.read_text() for file, name in sources.items() if file.parent == ROOT / "docs"}


def run_doxygen(work):
    work.mkdir(parents=True)
    settings = (HERE / "Doxyfile").read_text() + f"INPUT = {ROOT / 'include'}\nSTRIP_FROM_PATH = {ROOT / 'include'}\nOUTPUT_DIRECTORY = {work}\n"
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True, stdout=subprocess.DEVNULL)
    return work / "xml"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys")
    parser.add_argument("--programs")
    parser.add_argument("out", metavar="OUT", type=pathlib.Path)
    arguments = parser.parse_args()
    require_tools()
    begin = time.monotonic()
    out = arguments.out.resolve()
    staged = out / "source"
    for folder in (staged, out / "doxygen", out / "html"):
        shutil.rmtree(folder, ignore_errors=True)
    staged.mkdir(parents=True)
    shutil.copy(HERE / "conf.py", staged)
    shutil.copytree(HERE / "_static", staged / "_static")
    shutil.copytree(ROOT / "docs/pictures", staged / "pictures")
    shutil.copytree(ROOT / "docs" / "examples", staged / "_files" / "docs" / "examples")
    pages = stage_pages(staged)
    reference = reference_pages.write_reference(run_doxygen(out / "doxygen"), ROOT / "include", ROOT / "docs/examples", staged / "reference")
    if reference.unseen:
        raise SystemExit("the comment of a member begins with ///<, or the reference does not show it: " + ", ".join(reference.unseen))
    names = sum(len(entries) for entries in reference.by_file.values())
    said = [f"{len(reference.by_file)} headers with {names} names, {len(reference.undescribed)} without a sentence"]
    absent = "# {}\n\nThis copy of the site was made without this page: {}.\n"
    if arguments.keys:
        said.append(f"{program_pages.write_keys(arguments.keys, pages, staged)} keys")
    else:
        (staged / "keys.md").write_text(absent.format("Keys of the configurations", "build the target `docs_site`"))
    if arguments.programs:
        said.append(f"{program_pages.write_pictures(arguments.programs, ROOT / 'apps/configs/small.yaml', staged)} pictures")
        said.append(f"options of {len(program_pages.write_options(arguments.programs, staged))} programs")
    else:
        (staged / "steps.md").write_text(absent.format("Steps, drawn", "`pretrain print_plan=true` draws the step of a configuration"))
        (staged / "options.md").write_text(absent.format("Options of the programs", "each program's `--help` lists its options"))
    header = (ROOT / "include/parallel/core/version.hpp").read_text()
    version = ".".join(re.search(r"library_version\{(\d+), (\d+), (\d+)\};", header).groups())
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-d",
                    out / "doctrees", staged, out / "html"], check=True, env=os.environ | {"PARALLELLM_VERSION": version})
    print(f"{out / 'html' / 'index.html'}: {', '.join(said)}, in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
