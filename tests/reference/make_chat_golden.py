#!/usr/bin/env python3
"""Writes tests/golden/chat/templates.json: chat templates as models' tokenizers have them, and a table
of the language, with what jinja2 makes of them in the environment of transformers.

    python3 tests/reference/make_chat_golden.py        # needs transformers 5
"""

import json
import pathlib

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

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

# The language, a template each, rendered with CONTEXT.
CONTEXT = {
    "s": "Hello <World> it's", "u": "éa日本😀ß", "n": 7, "m": -3, "f": 2.5, "yes": True, "nul": None,
    "l": [3, 1, 2], "w": ["b", "a", "C", ""], "d": {"a": 1, "b": "two"}, "mix": [1, "a", None, 2.0, [1]],
    "r": [{"role": "user", "content": " hi ", "n": 2}, {"role": "assistant", "content": "yo"}],
}
LANGUAGE = [
    # what set changes
    "{% for x in l %}{% if loop.first %}{% set v = x %}{% endif %}[{{ v }}]{% endfor %}{{ v is defined }}",
    "{% set v = 1 %}{% for x in l %}{% set v = v + x %}{{ v }},{% endfor %}{{ v }}",
    "{% for x in l %}{% for y in l %}{% set v = y %}{% endfor %}{{ v is defined }}{% else %}{% set v = 1 %}{% endfor %}",
    "{% for x in [] %}{% else %}{% set v = 1 %}{{ v }}{% endfor %}{{ v is defined }}",
    "{% macro f() %}{% set v = 1 %}{{ v }}{% endmacro %}{{ f() }}{{ v is defined }}",
    "{% set v = 1 %}{% macro f() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ f() }}",
    "{% if yes %}{% set v = 1 %}{% endif %}{{ v }}{% with v = 5 %}{{ v }}{% endwith %}{{ v }}",
    "{% set v %}{% set z = 1 %}a{{ z }}{% endset %}{{ v }}{{ z is defined }}",
    "{% filter upper %}{% set z = 1 %}a{% endfilter %}{{ z is defined }}",
    "{% generation %}{% set z = 1 %}a{% endgeneration %}{{ z is defined }}",
    "{% for x in l %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}",
    "{% set ns = namespace(c=0) %}{% for x in l %}{% set ns.c = ns.c + x %}{% endfor %}{{ ns.c }}{{ ns.q is defined }}",
    "{% set d.x = 1 %}", "{% set a, (b, c) = 1, [2, 3] %}{{ a }}{{ b }}{{ c }}", "{% set a, b = l %}",
    # loops
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}"
    "{{ loop.last }}{{ loop.length }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}"
    "{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }};{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}({{ loop(x) if x is iterable else x }}{{ loop.depth0 }}){% endfor %}",
    "{% for k, v in d.items() if k != 'a' %}{{ k }}={{ v }}{{ loop.length }}{% endfor %}{% for x in undef %}{% else %}e{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}",
    "{% for x in l %}{% continue %}{% else %}e{% endfor %}", "{% break %}", "{% for loop in l %}{% endfor %}",
    "{% for c in u %}{{ c }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "{% for x in n %}{% endfor %}",
    # macros
    "{% macro f(a, b=2) %}{{ a }}-{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}{{ f(1, 3, 4, c=5) }}{{ f(b=1) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}",
    "{% macro w(t) %}<{{ t }}>{{ caller(1) }}</{{ t }}>{% endmacro %}{% call(x) w('b') %}{{ x }}{{ n }}{% endcall %}",
    "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "{{ g() }}{% macro g() %}{% endmacro %}",
    "{% macro f(x) %}{{ x }}{% if x > 0 %}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    # undefined
    "{{ undef }}{{ undef is defined }}{{ undef|length }}{{ undef|default('d') }}{{ undef ~ 'x' }}{{ undef == undef2 }}",
    "{{ 'a' + undef }}", "{{ undef.x }}", "{{ undef() }}", "{{ -undef }}", "{{ undef < 1 }}", "{{ d.x.y }}", "{{ d['x'] }}",
    "{{ d.x|default }}|{{ ''|default('e', true) }}|{{ none|default('n') }}|{{ d.get('x') }}|{{ d.get('x', 1) }}",
    "{{ 1 if false }}{{ (1 if false) is defined }}", "{{ [undef] }}{{ {'a': undef} }}",
    # numbers
    "{{ n / 2 }} {{ 6 / 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
    "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1.0 % 0 }}", "{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.0001 }} {{ 3.0 }} {{ 1.5e300 * 1e10 }}",
    "{{ true + 1 }} {{ 1 == 1.0 == true }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 0x1f }} {{ 1_000 }} {{ 0b11 }} {{ 0o17 }} {{ -2|abs }}",
    "{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 1.21|round(1, 'ceil') }} {{ 1234|round(-2) }} {{ f|int }} {{ '42.7'|int }} {{ 'x'|int(5) }}"
    " {{ '0x1A'|int(0, 16) }} {{ ' 7 '|float }} {{ 'q'|float(1.5) }} {{ '1_0'|int }}",
    "{{ 'a' < 1 }}", "{{ n + 'a' }}", "{{ 'ab' * 2 }}{{ [1] * 2 }}{{ [1] + [2] }}{{ (1,) + (2,) }}", "{{ [1] + (2,) }}",
    "{{ l|sum }} {{ l|max }} {{ w|min }}", "{{ r|sum(attribute='n') }}", "{{ r[:1]|sum(attribute='n', start=1) }} {{ []|max }}",
    # texts
    "{{ u[1:] }} {{ u[::-1] }} {{ u[-1] }} {{ u|length }} {{ u.upper() }} {{ u.find('本') }} {{ u.center(10, '*') }}",
    "{{ s.split() }} {{ s.split('l') }} {{ s.split('l', 1) }} {{ s.rsplit('l', 1) }} {{ s.partition('o') }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ ' a  b '.split(' ') }}",
    "{{ s.startswith('He') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('x') }} {{ s.count('l') }}", "{{ s.index('zz') }}",
    "{{ s.replace('l', 'L', 1) }} {{ s.removeprefix('He') }} {{ s.removesuffix(\"'s\") }} {{ ','.join(w) }} {{ '7'.zfill(3) }} {{ 'ab'.ljust(4) }}|",
    "{{ s|upper }}{{ s|title }}{{ s|capitalize }}{{ s|e }}{{ ('<' | safe) + '<' }}{{ s|replace('l', 'L', 2) }}{{ '  x '|trim }}{{ 'xax'|trim('x') }}",
    "{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent('> ', blank=true) }}",
    "{{ '%s-%5.2f-%03d-%x-%r' % (s, f, n, 255, 'q') }} {{ '%(a)s' % d }} {{ '%s' % l }} {{ '%d%%' % 5 }} {{ '%s'|format(n) }}", "{{ '%d' % 'x' }}",
    "{{ '{} {1}'.format(1, 2) }}", "{{ '{0} {x!r:>6} {1:05.1f} {{}} {2[a]}'.format(n, f, d, x='q') }} {{ '{:<4}|{:^4}|{:+}|{:#x}'.format('a', 'b', 3, 255) }}",
    "{{ 'a' 'b' }}{{ '\\u00e9\\x41\\101\\n\\q\\é' }}{{ 'a' in s }}{{ 'Hell' in s }}", "{{ 1 in 'a' }}", "{{ 'x' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'a'] }}",
    "{{ 'Ab1'.isalnum() }}{{ 'ab'.isalpha() }}{{ '12'.isdigit() }}{{ 'AB'.isupper() }}{{ ' '.isspace() }}{{ ''.isascii() }}",
    # lists and dictionaries
    "{{ l|sort }} {{ w|sort }} {{ w|sort(case_sensitive=true, reverse=true) }} {{ r|sort(attribute='content')|map(attribute='role')|list }}", "{{ mix|sort }}",
    "{{ l|reverse|list }} {{ l|first }} {{ l|last }} {{ []|first is defined }} {{ ['a', 'A', 'b']|unique|list }}",
    "{{ r|map(attribute='n', default=0)|list }} {{ w|map('upper')|list }} {{ w|select|list }} {{ l|select('odd')|list }} {{ l|reject('gt', 1)|list }}",
    "{{ r|selectattr('role', 'equalto', 'user')|list }} {{ r|selectattr('n', 'defined')|map(attribute='n')|list }} {{ r|rejectattr('n')|list|length }}",
    "{{ d|dictsort(reverse=true) }} {{ d|items|list }}",
    "{% if l|select('gt', 9) %}an iterator is true{% endif %}", "{{ l|map('string')|length }}", "{{ l|nofilter }}", "{% if false %}{{ l|nofilter }}{% endif %}ok",
    "{{ l is notest }}", "{{ d.keys() }} {{ d.values()|list }} {{ d.items() }} {{ d.items()|list }} {{ d.keys()[0] }} {{ range(3) }} {{ range(5, 0, -2)|list }}",
    "{{ l[9] }}{{ l[-1] }}{{ l[1:] }}{{ l['x'] }}{{ l.0 }}{{ l.index(2) }}{{ l.count(9) }}{{ mix[::2] }}", "{{ l.append(1) }}", "{{ n[1:] }}", "{{ d[1:] }}", "{{ l['a':] }}", "{{ '%x' % 2.5 }}", "{{ d.update({}) }}",
    "{{ {'a': 1, 'a': 2, 1: 'x'} }} {{ dict(c=1, **d) }} {{ dict([(1, 2)]) }} {{ (1,) }} {{ () }} {{ d == {'b': 'two', 'a': 1} }}", "{{ {[1]: 2} }}",
    "{{ [3, 1] < [3, 2] }} {{ 1 in l }} {{ 9 not in l }} {{ 'a' in d }} {{ none in mix }} {{ l|join('-') }} {{ r|join(',', attribute='role') }}",
    # tests
    "{{ n is number }}{{ s is string }}{{ d is mapping }}{{ l is sequence }}{{ l is iterable }}{{ nul is none }}{{ yes is true }}{{ 1 is true }}"
    "{{ n is odd }}{{ n is divisibleby 7 }}{{ n is in l }}{{ 'a' is lower }}{{ n is sameas n }}{{ f is float }}{{ n is integer }}{{ yes is integer }}{{ n is not none }}",
    "{{ not n is none and n }}{{ n is defined and n is eq 7 }}{{ 'upper' is filter }}{{ range is callable }}{{ '<'|e is escaped }}", "{{ 1 is 2 }}",
    # JSON and printing
    "{{ mix|tojson }} {{ d|tojson(indent=2) }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': [[], {}]}|tojson(indent=1, sort_keys=true) }}"
    " {{ [1, 2]|tojson(separators=(',', ':')) }} {{ '<\"/\\\\>\\t'|tojson }}", "{{ undef|tojson }}", "{{ l|map('int')|tojson }}",
    "{{ none }} {{ true }} {{ [none, true, 1.0, 'a\\'b', \"it's\", 'é\\n\\x01'] }} {{ {'k': (1, 'x')} }} {{ namespace(a=1) }}",
    # white space
    "a  {%- if yes -%}  b  {%- endif -%}  c", "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\r\n{% if yes %}\r\nb{% endif %}\r\n\r\n", "  {%+ if yes %}x{% endif +%}\n y",
    "{{- 1 -}} \n {{ 2 }}\n", "{# c #}\na {#- c -#} b\n  {# c #}\nd", "{% raw %} {{ x }} {% endraw %}\n{%- raw -%} {% y %} {%- endraw -%} z", "\n\n{{ 1 }}\n\n",
    # errors of syntax, and what a template must not reach
    "{{ 1 +* }}", "{% if %}", "{% for x in l %}", "{{ 'a }}", "{% endfor %}", "{{ (1 }}", "{% include 'x' %}", "{% set 1 = 2 %}", "{{ f(a=1, 2) }}", "{# x",
    "{{ ''.__class__ }}{{ ''.__class__.__mro__ }}", "{{ namespace(_a=1) }}", "{{ range(100001) }}", "{{ raise_exception('why ' ~ n) }}",
]

CONVERSATIONS = [
    [("user", "Hi")],
    [("user", " What is a fox?\n"), ("assistant", "An animal. "), ("user", "And \"Köln\"?")],
    [("system", "Be brief."), ("user", "1 < 2 & 'so'"), ("assistant", "{{ yes }}\n\nno")],
    [("user", "éa日本 語!"), ("assistant", "\u3000Straße ΟΔΟΣ ŉ ﬁn\u00a0"), ("user", "😀e\u0301ǆ don't")],
]


def outcome(text, variables):
    try:
        return {"text": _compile_jinja_template(text).render(**variables)}
    except Exception as problem:
        raised = type(problem) is jinja2.exceptions.TemplateError
        return {"error": str(problem) if raised else ""}


def main():
    cases = []
    for name, text in TEMPLATES.items():
        for conversation in CONVERSATIONS[-1:] if name.startswith("characters") else CONVERSATIONS:
            messages = [{"role": role, "content": content} for role, content in conversation]
            for prompt in (False, True):
                case = {"template": name, "messages": messages, "add_generation_prompt": prompt}
                tokens = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None}
                cases.append(case | outcome(TEMPLATES[name], case | tokens))
    language = [{"template": text} | outcome(text, CONTEXT) for text in LANGUAGE]
    out = pathlib.Path(__file__).parents[1] / "golden" / "chat" / "templates.json"
    golden = {"templates": TEMPLATES, "cases": cases, "context": CONTEXT, "language": language}
    out.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
