"""Random chat templates, for compare_templates.py."""
import random

CONTEXT = dict(s='Hello <World> it\'s', t=' a,b ,c\n', u='éa日本😀ß', e='', n=7, z=0, m=-3, f=2.5, g=-0.75, yes=True, no=False, nul=None,
           l=[3, 1, 2], w=['b', 'a', 'C', ''], d={'a': 1, 'b': 'two', 'items_': [1]}, dd={'B': {'x': 1}, 'a': {'x': [1, 2]}}, el=[], ed={},
           r=[{'role': 'user', 'content': ' hi ', 'n': 2}, {'role': 'assistant', 'content': 'yo', 'n': 1}, {'role': 'user', 'content': 'Zed'}], mix=[1, 'a', None, 2.0, [1], {'k': 'v'}])
NAMES = list(CONTEXT) + ['undef', 'v', 'x', 'q', 'ns']
TYPED = dict(str=['s', 't', 'u', 'e'], int=['n', 'z', 'm'], num=['n', 'z', 'm', 'f', 'g'], list=['l', 'w', 'r', 'mix', 'el'], dict=['d', 'dd', 'ed'])
class generator:
    def __init__(self, rnd): self.r = rnd; self.vars = []
    def c(self, *xs): return self.r.choice(xs)
    def lit(self):
        return self.c('1', '0', '-2', '3.5', "'a'", '"it\'s"', "''", 'true', 'false', 'none', "'x~N~ty'", "'é\\u00e9'", '[]', '{}', '(1, 2)', '[1, "b"]', "{'k': 1}", '10', '1e3', '1_000', "'%s-%d'", '()', "(1,)", '0x1f')
    def name(self): return self.c(*(NAMES + self.vars * 3))
    def str(self, d):
        k = self.r.randrange(15)
        if d <= 0 or k < 3: return self.c(*TYPED['str'])
        if k < 5: return self.lit_str()
        if k < 7: return f"{self.str(d-1)}.{self.c('upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip')}()"
        if k == 7: return f"{self.str(d-1)}[{self.sl()}]"
        if k == 8: return f"({self.str(d-1)} ~ {self.expr(d-1)})"
        if k == 9: return f"({self.str(d-1)} + {self.str(d-1)})"
        if k == 10: return f"{self.str(d-1)}|{self.c('upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'e', 'escape', 'safe', 'indent', 'indent(2)', 'indent(2, true)', 'indent(width=1, blank=true)', 'replace(~Q~a~Q~, ~Q~b~Q~)', 'replace(~Q~l~Q~, ~Q~~Q~, 1)')}"
        if k == 11: return f"{self.str(d-1)}.replace({self.lit_str()}, {self.lit_str()})"
        if k == 12: return f"{self.list(d-1)}|join({self.c('', self.lit_str(), 'd=' + self.lit_str())})"
        if k == 13: return self.c("'%s' % " + f"({self.expr(d-1)},)", "'%5.2f|%-4d|%05d|%x' % (f, n, m, n)", f"'{{}}-{{}}'.format({self.expr(d-1)}, {self.expr(d-1)})", f"'{{0!r:>8}}{{a}}'.format({self.str(0)}, a={self.expr(0)})", "'%(a)s' % d", "'{:>6}|{:<6}|{:^7}|{:06.2f}|{:+d}'.format(s, e, u, f, n)", "'%s' | format(" + self.expr(d-1) + ')', f"'{{:{self.c('5', '<5', '05', '.2', '+', 'x', '#x', '.3f', 'e', '^9', '*^9')}}}'.format({self.num(0)})")
        return f"({self.expr(d-1)})|tojson{self.c('', '', '(indent=2)', '(indent=4)', '(ensure_ascii=true)', '(sort_keys=true)', '(separators=(~Q~,~Q~, ~Q~:~Q~))')}"
    def lit_str(self): return self.c("'a'", "'l'", "''", "','", "' '", "'é'", "'lo'", "'~N~'", "'o W'", "'A-b (c'", "'<&>'")
    def sl(self):
        f = lambda: self.c('', '', '0', '1', '-1', '2', '-2', '5', '-9', 'n')
        k = self.r.randrange(6)
        return self.c('0', '-1', '1', 'z', '99', '-99') if k < 2 else f"{f()}:{f()}" if k < 5 else f"{f()}:{f()}:{self.c('1', '2', '-1', '-2')}"
    def num(self, d):
        k = self.r.randrange(12)
        if d <= 0 or k < 3: return self.c(*TYPED['num'])
        if k < 4: return self.c('1', '2', '3', '-7', '2.5', '0.1', '100')
        if k < 8: return f"({self.num(d-1)} {self.c('+', '-', '*', '/', '//', '%', '%', '//')} {self.num(d-1)})"
        if k == 9: return f"{self.c(self.str(d-1), self.list(d-1), self.dict(d-1))}|{self.c('length', 'count')}"
        if k == 8: return f"({self.c('n', '2', '-3')} ** {self.c('2', '0', '-1', 'n')})"
        if k == 10: return f"({self.num(d-1)})|{self.c('abs', 'round', 'round(1)', 'int', 'float', 'round(0, ~Q~ceil~Q~)', 'round(1, ~Q~floor~Q~)', 'round(-1)')}"
        return self.c(f"{self.list(d-1)}|{self.c('sum', 'min', 'max', 'first', 'last')}", f"{self.str(d-1)}|{self.c('int', 'float', 'int(5)', 'float(1.5)')}", f"{self.str(d-1)}.{self.c('find', 'count', 'rfind')}({self.lit_str()})", f"-{self.num(d-1)}")
    def list(self, d):
        k = self.r.randrange(16)
        if d <= 0 or k < 4: return self.c(*TYPED['list'])
        if k < 5: return '[' + ', '.join(self.expr(d-1) for _ in range(self.r.randrange(4))) + ']'
        if k == 5: return f"({self.expr(d-1)}, {self.expr(d-1)})"
        if k == 6: return f"{self.list(d-1)}[{self.c('1:', ':-1', '::-1', '::2', ':2', '-2:')}]"
        if k == 7: return f"range({self.c('3', '1, 4', '5, 0, -2', 'n', '0', '2, 2')})"
        if k == 8: return f"{self.str(d-1)}.{self.c('split()', 'split(~Q~,~Q~)', 'split(~Q~l~Q~, 1)', 'splitlines()', 'rsplit(~Q~ ~Q~, 1)', 'partition(~Q~o~Q~)', 'split(~Q~~N~~Q~)')}"
        if k == 9: return f"{self.list(d-1)}|{self.c('list', 'sort', 'sort(reverse=true)', 'unique|list', 'reverse|list', 'map(~Q~upper~Q~)|list', 'map(~Q~string~Q~)|list', 'select|list', 'reject|list', 'select(~Q~string~Q~)|list', 'select(~Q~odd~Q~)|list', 'reject(~Q~none~Q~)|list', 'sort(case_sensitive=true)', 'map(~Q~length~Q~)|list')}"
        if k == 10: return f"r|{self.c('map(attribute=~Q~role~Q~)|list', 'selectattr(~Q~role~Q~, ~Q~equalto~Q~, ~Q~user~Q~)|list', 'rejectattr(~Q~role~Q~, ~Q~eq~Q~, ~Q~user~Q~)|list', 'selectattr(~Q~n~Q~, ~Q~defined~Q~)|list', 'selectattr(~Q~n~Q~)|list', 'map(attribute=~Q~n~Q~, default=0)|list', 'sort(attribute=~Q~content~Q~)|map(attribute=~Q~content~Q~)|list', 'map(attribute=~Q~content~Q~)|map(~Q~trim~Q~)|list', 'selectattr(~Q~role~Q~, ~Q~in~Q~, [~Q~user~Q~])|list')}"
        if k == 11: return f"{self.dict(d-1)}.{self.c('items', 'keys', 'values')}()|list"
        if k == 12: return f"{self.dict(d-1)}|{self.c('dictsort', 'items|list', 'list', 'dictsort(reverse=true)', 'dictsort(false, ~Q~value~Q~)')}"
        if k == 13: return f"({self.list(d-1)} + {self.list(d-1)})"
        if k == 14: return f"({self.list(d-1)} * {self.c('2', '0', '1')})"
        return f"{self.str(d-1)}|list"
    def dict(self, d):
        k = self.r.randrange(6)
        if d <= 0 or k < 3: return self.c(*TYPED['dict'])
        if k == 3: return '{' + ', '.join(f"{self.c(self.lit_str(), '1', self.str(0))}: {self.expr(d-1)}" for _ in range(self.r.randrange(3))) + '}'
        if k == 4: return f"dict({self.c('a=1', 'd', 'd, a=2', '[(1, 2)]', '')})"
        return 'r[0]'
    def test(self, d):
        k = self.r.randrange(13)
        if k < 2: return f"{self.num(d-1)} {self.c('==', '!=', '<', '<=', '>', '>=')} {self.num(d-1)}"
        if k == 2: return f"{self.num(d-1)} < {self.num(d-1)} {self.c('<', '<=', '==')} {self.num(d-1)}"
        if k == 3: return f"{self.str(d-1)} {self.c('==', '!=', '<', 'in', 'not in', '>=')} {self.str(d-1)}"
        if k == 4: return f"{self.expr(d-1)} {self.c('in', 'not in')} {self.list(d-1)}"
        if k == 5: return f"{self.str(d-1)} {self.c('in', 'not in')} {self.dict(d-1)}"
        if k < 8: return f"{self.expr(d-1)} is {self.c('', 'not ')}{self.c('defined', 'undefined', 'none', 'string', 'number', 'mapping', 'iterable', 'sequence', 'boolean', 'true', 'false', 'integer', 'float', 'callable', 'lower', 'upper', 'escaped')}"
        if k == 8: return f"{self.num(d-1)} is {self.c('odd', 'even', 'divisibleby 2', 'divisibleby(3)', 'eq 7', 'gt 2', 'in [7, 2.5]', 'sameas true')}"
        if k == 9: return f"{self.str(d-1)}.{self.c('startswith', 'endswith')}({self.c(self.lit_str(), '(~Q~H~Q~, ~Q~a~Q~)')})"
        if k == 10: return f"{self.str(d-1)}.{self.c('isalpha', 'isdigit', 'isupper', 'islower', 'isspace', 'isalnum', 'isnumeric', 'isdecimal', 'isascii')}()"
        if k == 11: return f"not {self.expr(d-1)}"
        return f"{self.expr(d-1)} {self.c('and', 'or')} {self.expr(d-1)}"
    def expr(self, d):
        k = self.r.randrange(26)
        if d <= 0: return self.c(self.name(), self.name(), self.lit())
        if k < 5: return self.str(d)
        if k < 9: return self.num(d)
        if k < 12: return self.list(d)
        if k < 14: return self.dict(d)
        if k < 17: return f"({self.test(d)})"
        if k == 17: return f"({self.expr(d-1)} if {self.test(d-1)}{self.c('', ' else ' + self.expr(d-1), ' else ' + self.expr(d-1))})"
        if k == 18: return f"{self.name()}|{self.c('default(1)', 'd(~Q~x~Q~, true)', 'default', 'default(none)')}"
        if k == 19: return f"{self.c('d.a', 'd.nope', 'd[~Q~b~Q~]', 'dd.a.x', 'dd.B[~Q~x~Q~]', 'r[0].role', 'r[-1][~Q~content~Q~]', 'l[0]', 'l.0', 'w[9]', 'd.get(~Q~a~Q~)', 'd.get(~Q~q~Q~, 5)', 'd.items_', 'd.items()|first', 's[0]', 'u[-1]', 'd.keys()', 'r[1].nope', 'd[~Q~keys~Q~]()|list', 'l[~Q~a~Q~]', 'l.index(2)', 'l.count(1)', 's.nope', 'n.nope', 'd|attr(~Q~a~Q~)', 'loop.index', 'loop', 'ns.c', 'r|first', 'r|last', 'd|length', 'undef.x')}"
        if k == 20: return f"{self.list(d-1)}|{self.c('first', 'last', 'max', 'min', 'join(~Q~-~Q~)', 'map(~Q~int~Q~)|sum', 'tojson')}"
        if k == 21: return self.lit()
        if k == 22: return f"({self.expr(d-1)} {self.c('+', '~', '*', '-', '%', '~')} {self.expr(d-1)})"
        if k == 23: return f"{self.str(d-1)}|{self.c('first', 'last', 'length', 'list|length', 'int', 'title')}"
        if k == 24: return f"{self.expr(d-1)} is {self.c('defined', 'none', 'string')} and {self.expr(d-1)}"
        return self.name()
    def ws(self): return self.c('', '', '', ' ', '\n', '\n  ', ' \n', 'T', 'x y', '\r\n', '\t')
    def tag(self, x): return '{%' + self.c('', '', '', '-', '+') + self.c(' ', ' ', '') + x + self.c(' ', ' ', '\n ') + self.c('', '', '', '-', '+') + '%}'
    def out(self, x): return '{{' + self.c('', '', '', '-') + ' ' + x + ' ' + self.c('', '', '', '-') + '}}'
    def body(self, d, loop=False):
        return ''.join(self.ws() + self.stmt(d, loop) + self.ws() for _ in range(self.r.randrange(1, 4)))
    def target(self):
        v = self.c('v', 'x', 'q', 's', 'n', 'it'); self.vars.append(v); return v
    def stmt(self, d, loop=False):
        k = self.r.randrange(30); t = self.tag
        if d <= 0 or k < 9: return self.out(self.expr(self.r.randrange(0, 4)))
        if k < 12: return t(f"if {self.test(2)}") + self.body(d-1, loop) + self.c('', t('else') + self.body(d-1, loop), t(f"elif {self.test(1)}") + self.body(d-1, loop)) + t('endif')
        if k < 16:
            it = self.c(self.list(2), self.list(2), self.str(1), self.dict(1), 'r', 'undef', 'd.items()', 'range(3)')
            tg = self.target() if it != 'd.items()' else 'k, ' + self.target()
            return t(f"for {tg} in {it}{self.c('', '', ' if ' + self.test(1))}") + self.body(d-1, True) + self.c('', '', t('else') + self.body(d-1, loop)) + t('endfor')
        if k < 20: e = self.expr(2); return t(f"set {self.target()} = {e}")
        if k == 20: return t(f"set {self.c('v, q = (1, 2)', 'v, q = l', 'v, q = w[:2]', 'x = 1, 2')}")
        if k == 21: return t(f"set {self.target()}{self.c('', ' | upper', '|trim|length')}") + self.body(d-1, loop) + t('endset')
        if k == 22: return t('set ns = namespace(c=0, d=[])') + self.body(d-1, loop) + t(f'set ns.c = {self.expr(2)}') + self.out('ns.c')
        if k == 23:
            name = self.c('mac', 'm2'); p = self.c('', 'a', 'a, b=2', 'a=1, b="x"', 'x'); body = self.body(d-1) + self.c('', self.out('a'), self.out('varargs'), self.out('kwargs'), self.out('caller()'), self.out('b'))
            return t(f'macro {name}({p})') + body + t('endmacro') + self.out(f"{name}({self.c('', '1', '1, 2', 'a=5', '1, 2, 3', 'b=1', 'z=1', self.expr(1))})")
        if k == 24: return t('macro wrap(a=1)') + '[' + self.out(self.c('caller()', 'caller(1)', 'caller(a)', 'a')) + ']' + t('endmacro') + t(f"call{self.c('', '', '(p)')} wrap({self.c('', '2')})") + self.body(d-1) + self.c('', self.out('p')) + t('endcall')
        if k == 25: return t(f"filter {self.c('upper', 'trim', 'replace(~Q~a~Q~, ~Q~b~Q~)', 'upper|lower', 'indent(2)', 'length')}") + self.body(d-1, loop) + t('endfilter')
        if k == 26: return t(f"with {self.target()} = {self.expr(1)}{self.c('', ', x = v')}") + self.body(d-1, loop) + t('endwith')
        if k == 27: return self.c('{# c #}', '{#- c -#}', '{% raw %} {{ x }} {% endraw %}', '{%- raw -%} {% if %} {%- endraw -%}', '{#+ c +#}', '{# {{ #}\n', t('generation') + self.body(d-1) + t('endgeneration'))
        if k == 28 and loop: return t(f"if {self.test(1)}") + t(self.c('break', 'continue')) + t('endif')
        if loop: return self.out(self.c('loop.index', 'loop.index0', 'loop.last', 'loop.first', 'loop.length', 'loop.revindex', 'loop.previtem', 'loop.nextitem', 'loop.cycle("a", "b")', 'loop.changed(x)', 'loop.depth', 'loop.revindex0'))
        return t("for i in [1, [2, [3]], 4] recursive") + '(' + self.out('loop(i) if i is iterable else i') + ')' + t('endfor')
def cases(n, seed):
    out = []
    for i in range(n):
        rnd = random.Random(seed * 1000003 + i); g = generator(rnd)
        t = (g.body(rnd.randrange(0, 4)) if i % 2 else g.out(g.expr(rnd.randrange(1, 5)))).replace('~Q~', '"').replace('~N~', '\\n')
        out.append((f'random {seed} {i}', t, CONTEXT))
    return out
