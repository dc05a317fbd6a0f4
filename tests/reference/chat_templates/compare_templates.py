#!/usr/bin/env python3
"""Compares the program render_templates with jinja2, set up by transformers, over chat templates.

    python3 compare_templates.py render_templates FOLDER     # *.jinja of real models, 9 conversations each
    python3 compare_templates.py render_templates 4000 1     # 4000 random ones with seed 1

A result is right if it is jinja2's text, or an error where jinja2 raises one. needs transformers 5.
"""

import datetime
import json
import pathlib
import subprocess
import sys

import transformers.utils.chat_template_utils as utils

import random_templates

NOW = 1764425096


class fixed_time(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)


def said(role, content, **more):
    return {"role": role, "content": content, **more}


CALL = {"id": "call_123", "type": "function", "function": {"name": "get", "arguments": {"city": "Köln", "x": [1, 2.5, None, True]}}}
TEXT_CALL = {**CALL, "function": {"name": "get", "arguments": '{"city": "K"}'}}
CONVERSATIONS = [
    [said("user", "Hi")],
    [said("system", " Be brief. \n"), said("user", ' What is "a" fox?\n'), said("assistant", "An <animal> & more. ")],
    [said("user", "q"), said("assistant", "<think>\nwhy\n</think>\n\nx"), said("user", "p"), said("assistant", "y")],
    [said("system", "S"), said("user", "éa日本 語!"), said("assistant", "Straße"), said("user", "😀")],
    [said("assistant", "first"), said("user", "u")],
    [said("user", "w?"), said("assistant", "", tool_calls=[CALL]), said("tool", "5", tool_call_id="call_123", name="get"), said("assistant", "5")],
    [said("user", "w?"), said("assistant", "a", reasoning_content="hm", tool_calls=[TEXT_CALL]), said("tool", "5", tool_call_id="call_123")],
    [said("user", [{"type": "text", "text": "look"}, {"type": "image"}]), said("assistant", [{"type": "text", "text": "seen"}])],
    [],
]
PROPERTIES = {"city": {"type": "string", "description": "the city", "enum": ["a", "b"]}, "n": {"type": ["integer", "null"]}}
TOOL = {"name": "get", "description": 'The "weather"', "parameters": {"type": "object", "properties": PROPERTIES, "required": ["city"]}}


def real_cases(folder):
    for file in sorted(pathlib.Path(folder).glob("*.jinja")):
        for number, messages in enumerate(CONVERSATIONS):
            for tools in (None, [{"type": "function", "function": TOOL}]):
                for prompt in (False, True):
                    context = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompt}
                    yield f"{file.name} {number}", file.read_text(), context | {"bos_token": "<s>", "eos_token": "</s>"}


def reference(text, context):
    try:
        return utils._compile_jinja_template(text).render(**context)
    except Exception:
        return None


def main():
    program, source = sys.argv[1:3]
    cases = list(random_templates.cases(int(source), int(sys.argv[3])) if source.isdigit() else real_cases(source))
    utils.datetime = fixed_time
    lines = "".join(json.dumps({"template": text, "context": context, "now": NOW}) + "\n" for _, text, context in cases)
    answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(answers) == len(cases), f"{len(answers)} answers to {len(cases)} templates"
    wrong = [(case, answer) for case, answer in zip(cases, map(json.loads, answers)) if answer.get("text") != reference(*case[1:])]
    for (name, text, context), answer in wrong[:20]:
        print(name, text if source.isdigit() else "", "", "jinja2: " + repr(reference(text, context)), repr(answer), sep="\n")
    print(f"{len(cases) - len(wrong)} of {len(cases)} results are right, {len({case[1] for case, _ in wrong})} templates are wrong in any")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
