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
    # mosaicml/mpt-7b-8k-chat's form: a system message of its own, where there is none
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

CONVERSATIONS = [
    [("user", "Hi")],
    [("user", " What is a fox?\n"), ("assistant", "An animal. "), ("user", "And \"Köln\"?")],
    [("system", "Be brief."), ("user", "1 < 2 & 'so'"), ("assistant", "{{ yes }}\n\nno")],
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
        for conversation in CONVERSATIONS:
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
