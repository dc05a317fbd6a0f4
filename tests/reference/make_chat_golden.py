#!/usr/bin/env python3
"""Writes tests/golden/chat/templates.json: chat templates as models' tokenizers have them, and what
jinja2 makes of conversations, in the environment that transformers renders them in.

    python3 tests/reference/make_chat_golden.py        # needs jinja2 3.1
"""

import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

TEMPLATES = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}",
    # mosaicml/mpt-7b-8k-chat's form: its own system message, if there is none
    "mpt": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% elif not 'system' in messages[0]['role'] %}"
    "{% set loop_messages = messages %}{% set system_message = 'A conversation between a user and "
    "an LLM-based AI assistant.' %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if loop.index0 == 0 %}{% if system_message != false %}"
    "{{ '<|im_start|>system\n' + system_message.strip() + '\n'}}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% else %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n' }}{% endif %}{% if (add_generation_prompt == true and loop.last) %}"
    "{{ '<|im_start|>' + 'assistant' + '\n' }}{% endif %}{% endfor %}",
    "zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "mistral": "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}"
    "{% endfor %}",
    "llama-2": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("
    "'Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}",
    "llama-3": "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ "
    "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{% endif %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("
    "'Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + "
    "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{'<start_of_turn>model\n'}}{% endif %}",
    "namespace": "{%- set ns = namespace(seen=0) -%}\n{%- for m in messages -%}\n"
    "  {%- if m.role == 'user' -%}\n    {%- set ns.seen = ns.seen + 1 -%}\n  {%- endif %}\n"
    "  {#- a comment -#}\n  [{{ ns.seen }}:{{ m.role | upper }}] {{ m.content | trim }}\n"
    "{% endfor %}\n{{- '>' if add_generation_prompt else '' }}",
}

# Each alone in its own template: what strings are asked, which Python answers by code points.
CHARACTERS = {
    "length": "{% for m in messages %}{{ m.content | length }} {% endfor %}",
    "count": "{{ messages[0]['content']|count }}",
    "slice": "{% for m in messages %}[{{ m.content[1:4] }}]{% endfor %}",
    "slice from": "{% for m in messages %}[{{ m['content'][2:] }}]{% endfor %}",
    "slice to": "{% for m in messages %}[{{ m.content[:-1] }}|{{ m.content[:3] }}]{% endfor %}",
    "slice step": "{% for m in messages %}[{{ m.content[::2] }}|{{ m.content[1:9:3] }}]{% endfor %}",
    "slice backwards": "{% for m in messages %}[{{ m.content[::-1] }}|{{ m.content[-2:0:-1] }}]"
    "{% endfor %}",
    "slice beyond": "{% for m in messages %}[{{ m.content[-100:100] }}|{{ m.content[5:2] }}|"
    "{{ m.content[100:] }}|{{ m.content[0:1000000:2] }}]{% endfor %}",
    "slice of a slice": "{{ messages[0].content[1:][:2][::-1] }}{{ messages[-1:][0].content[0] }}",
    "index": "{% for m in messages %}{{ m.content[0] }}{{ m.content[-1] }}{% endfor %}",
    "index beyond": "{% for m in messages %}({{ m.content[999] }}{{ m.content[-999] }})"
    "{% endfor %}{{ messages[99] }}",
    "for": "{% for m in messages %}{% for c in m.content %}{{ c }},{% endfor %}{% endfor %}",
    "for with a condition": "{% for c in messages[0].content if c != 'a' %}{{ loop.index }}{{ c }}"
    "{% else %}none{% endfor %}",
    "for with else": "{% for c in messages[0].content if c == '?!' %}{{ c }}{% else %}none"
    "{% endfor %}",
    "upper": "{% for m in messages %}{{ m.content.upper() }}|{{ m.content|upper }} {% endfor %}",
    "lower": "{% for m in messages %}{{ m.content.lower() }}|{{ m.content | lower }} {% endfor %}",
    "title": "{% for m in messages %}{{ m.content.title() }}|{{ m.content|title }} {% endfor %}",
    "capitalize": "{% for m in messages %}{{ m.content.capitalize() }}|{{ m.content|capitalize }}"
    " {% endfor %}",
    "strip": "{% for m in messages %}[{{ m.content.strip() }}|{{ m.content.lstrip() }}|"
    "{{ m.content.rstrip() }}|{{ m.content|trim }}]{% endfor %}",
    "strip characters": "{% for m in messages %}[{{ m.content.strip('é日\u3000 ') }}|"
    "{{ m.content.rstrip('!語') }}]{% endfor %}",
    "split": "{% for m in messages %}{% for w in m.content.split() %}<{{ w }}>{% endfor %}"
    "{% for w in m.content.split('é') %}({{ w }}){% endfor %}{% endfor %}",
    "split once": "{% for m in messages %}{{ m.content.split('本', 1)[-1] }}|"
    "{{ m.content.split(None, 1)[0] }}{% endfor %}",
    "replace": "{% for m in messages %}{{ m.content.replace('é', 'e').replace('', '·') }}"
    "{% endfor %}",
    "first and last": "{% for m in messages %}{{ m.content|first }}{{ m.content | last }}"
    "{% endfor %}",
    "reverse and list": "{% for m in messages %}{{ m.content|reverse }}{{ m.content|list|length }}"
    "{% endfor %}",
    "escapes": "{{ '\u00e9\x41\U0001F600' }}{{ '\u2581' + messages[0].content[:1] }}",
    "literals": "{{ 'Größe'|length }}{{ 'ÀÉ'.lower() }}{{ ('a' ~ '日本')[1:] }}{{ 'ß'|upper }}"
    "{{ {'k': 'naïve'[2]}['k'] }}{{ ['é', 'x'][0:1][0] }}",
    "conditions": "{% if messages[0].content[0] in 'éÉ' and messages[0].content|length > 2 %}yes"
    "{% elif 'x'.upper() == 'X' %}no{% endif %}{{ 'a' if messages[0].content[:1] is string else 'b' }}",
    "set and macro": "{%- macro short(t, n=3) -%}{{ t[:n] ~ ('…' if t|length > n else '') }}"
    "{%- endmacro -%}{%- set ns = namespace(t='') -%}{% for m in messages %}"
    "{% set ns.t = ns.t + short(m.content) + short(m.content, 5) %}{% endfor %}{{ ns.t }}",
    "tools": "{{ messages[(messages|length) - 1]['content'][messages[0].content|length - 1:] }}",
}
TEMPLATES |= {"characters: " + name: text for name, text in CHARACTERS.items()}

CONVERSATIONS = [
    [("user", "Hi")],
    [("user", " What is a fox?\n"), ("assistant", "An animal. "), ("user", "And \"Köln\"?")],
    [("system", "Be brief."), ("user", "1 < 2 & 'so'"), ("assistant", "{{ yes }}\n\nno")],
    [("user", "éa日本 語!"), ("assistant", "\u3000Straße ΟΔΟΣ ŉ ﬁn\u00a0"), ("user", "😀e\u0301ǆ don't")],
]


def main():
    def fail(message):
        raise jinja2.exceptions.TemplateError(message)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.globals["raise_exception"] = fail
    cases = []
    for name, text in TEMPLATES.items():
        template = environment.from_string(text)
        for conversation in CONVERSATIONS[-1:] if name.startswith("characters") else CONVERSATIONS:
            messages = [{"role": role, "content": content} for role, content in conversation]
            for prompt in (False, True):
                case = {"template": name, "messages": messages, "add_generation_prompt": prompt}
                try:
                    case["text"] = template.render(
                        messages=messages, add_generation_prompt=prompt, bos_token="<s>",
                        eos_token="</s>", tools=None, documents=None,
                    )
                except jinja2.exceptions.TemplateError as problem:
                    case["error"] = str(problem)
                cases.append(case)
    out = pathlib.Path(__file__).parents[1] / "golden" / "chat" / "templates.json"
    out.write_text(json.dumps({"templates": TEMPLATES, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
