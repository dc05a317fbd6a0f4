"""Compares ids and texts with Hugging Face's tokenizers, for the vocabularies of Llama 3 and 4, Qwen and Mistral.

    python check_tokenizers.py PROGRAM [WHEELS] [--strings 3000] [--only NAME] [--texts FILE...]

PROGRAM is the test program tokenizer_ids. WHEELS is a folder with the wheels of the packages llama-models,
mistral-common and dashscope (`pip download --no-deps`), which hold vocabularies; transformers' converters make a
tokenizer.json of each. Every string is encoded by both, its ids are decoded, and random ids are decoded. FILEs are
further texts, one JSON object with `text` a line, or plain. Without the wheels or a package: 77, skipped.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import zipfile

SKIPPED = 77


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


try:
    import tokenizers
    from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from transformers import AutoTokenizer
    from transformers.convert_slow_tokenizer import LlamaConverter, TikTokenConverter
    from transformers.integrations.mistral.tokenizer import MistralConverter
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX as QWEN2
    from transformers.models.qwen3_5.tokenization_qwen3_5 import PRETOKENIZE_REGEX as QWEN3_5
    from transformers.tokenization_utils_base import generate_merges
    import google.protobuf, sentencepiece, tiktoken  # noqa: E401, F401 (used by the converters)
except ImportError as problem:
    skip(f"this Python lacks what makes the reference ({problem})")

WHEELS = {"llama_models": "llama_models/llama", "mistral_common": "mistral_common/data/",
          "dashscope": "dashscope/resources/"}
PIECES = """don't I'LL we'Ve 'S 'ſ 'RE'd it''s x'm 'T's Hello hello HELLO HelloWorld iPhone McDonald's eBay e.g. U.S.A.
naïve café e\u0301 E\u0301\u0323 \u0301 \u0301a A\u0301B ﬁ ß ẞ ǅ ʰ ª Ⅷ ² ½ ٣ १२३ 1 12 123 1234 12345 3.14159 1e-5 0xFF
日本語 中文字符 한국어 ㄱ 漢字かな カタカナ العربية עברית हिन्दी ไทย Русский ελληνικά 𝒳𝓎 𐍈 𠜎 \U00010D50\U00010D70 \U000105C0
😀 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ ☺ © ™ → ∑ ℵ \u200b \u200d \u00ad \ufeff \ufffd \u2028 \u0085 \u00a0 \u3000 \u2003 \u1680
\x00 \x01 \x1b \x7f \x1c ! !! ... ??? ,;: (a) [b] {c} <d> /* */ // /n \\n a/b http://x.y/z?q=1&r=2#s @user #tag $5.00 50%
_x_ __init__ snake_case kebab-case a+b==c->d::e<=f!=g&&h||i ''' \"\"\" ``` --- === ~~~ ▁ ▁▁ a▁b <0x0A> <0xFF> <0x41> <unk> <s>
</s> <s>a a</s>b <|endoftext|> <|im_start|>user <|begin_of_text|> <|eot_id|> [INST] [/INST] <tok> x<tok>y <Left> a<Right> word
swordfish keyword Word word_ word\u0301 caf\u00e9s cafe\u0301s""".split()
SPACES = [" "] * 12 + ["", "", "", "", "  ", "   ", "        ", "\n", "\n\n", "\n\n\n", "\r\n", "\r", "\t", "\t\t", " \n", "\n ",
                       " \n \n ", "\t \n\t", "\u00a0", "\u3000 ", " \u2003", "\u0085\n", "\v", "\f ", "\n/"]


def strings(count):
    """Hard strings, the same in every run."""
    generator = random.Random(42)
    yield from ["", " ", "  ", "\n", "a", " a", "a ", "▁", " ▁", "▁a", "<s>", " <s> ", "\n\n \n", "x" * 3000, "ab" * 999,
                " " * 500, "\n" * 300, "中" * 700, "😀" * 200, "é" * 400, "0" * 1001, "Aa" * 600, "A中" * 300]
    for _ in range(count):
        out = ""
        for _ in range(generator.randint(1, 12)):
            kind = generator.random()
            if kind < 0.7:
                out += generator.choice(PIECES)
            elif kind < 0.8:
                out += "".join(chr(generator.choice([generator.randrange(0x20, 0x7F), generator.randrange(0xA0, 0x600),
                                                     generator.randrange(0x900, 0x1200), generator.randrange(0x300, 0x370),
                                                     generator.randrange(0x1E00, 0x2400), generator.randrange(0x3000, 0xD7A4),
                                                     generator.randrange(0x10000, 0x1FFFF)]))
                               for _ in range(generator.randint(1, 6)))
            elif kind < 0.9:
                out += "".join(generator.choice("'sStTdDmMrReEvVlL aA1\n") for _ in range(generator.randint(1, 8)))
            else:
                out += str(generator.randrange(10 ** generator.randint(1, 15)))
            out += generator.choice(SPACES)
        yield out


class Slow:
    """What LlamaConverter needs of a slow tokenizer."""

    def __init__(self, file, legacy):
        self.vocab_file, self.legacy, self.add_prefix_space = str(file), legacy, True

    def convert_ids_to_tokens(self, index):
        return ["<unk>", "<s>", "</s>"][index]


class Extractor:
    """Vocabulary and merges in the order of SentencePiece's scores."""

    def __init__(self, file):
        pass

    def extract(self, scores):
        vocab = {token: index for index, (token, _) in enumerate(scores)}
        return vocab, generate_merges(vocab, dict(scores))


def tiktoken_file(file, tokens, pattern=None):
    arguments = {} if pattern is None else {"pattern": pattern}
    return TikTokenConverter(str(file), extra_special_tokens=tokens, **arguments).converted()


def begin(token, index):
    return processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1",
                                         special_tokens=[(token, index)])


def with_added_tokens(source):
    """A copy with tokens of every kind."""
    out = Tokenizer.from_str(source.to_str())
    out.add_tokens([AddedToken("word", single_word=True, normalized=False), AddedToken("<tok>", normalized=True),
                    AddedToken("<Left>", lstrip=True, normalized=False), AddedToken("<Right>", rstrip=True, normalized=True),
                    AddedToken("cafe\u0301s", single_word=True, normalized=True), AddedToken("  ", normalized=False)])
    out.add_special_tokens([AddedToken("[INST]", normalized=False, lstrip=True, rstrip=True)])
    return out


def changed(source, change):
    description = json.loads(source.to_str())
    change(description)
    return Tokenizer.from_str(json.dumps(description))


def byte_level_tokenizers(folder):
    llama3 = tiktoken_file(folder / "llama_models/llama3/tokenizer.model",
                           ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    first = "<|begin_of_text|>"
    llama3.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                                 begin(first, llama3.token_to_id(first))])
    yield "llama3", llama3
    yield "llama3_added", with_added_tokens(llama3)
    pattern = re.search(r'O200K_PATTERN = r"""(.*?)"""', (folder / "llama_models/llama4/tokenizer.py").read_text(), re.S)
    yield "llama4", tiktoken_file(folder / "llama_models/llama4/tokenizer.model", [first, "<|eot|>"], pattern.group(1))
    qwen2 = tiktoken_file(folder / "dashscope/resources/qwen.tiktoken", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], QWEN2)
    qwen2.normalizer = normalizers.NFC()
    qwen2.model.ignore_merges = False
    yield "qwen2", qwen2
    yield "qwen2_added", with_added_tokens(qwen2)
    split = pre_tokenizers.Split(tokenizers.Regex(QWEN3_5), "isolated")
    qwen2.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    yield "qwen3_5", qwen2
    source = next((folder / "mistral_common/data").glob("tekken_240718.json"))
    tekken = json.loads(source.read_text())
    tekken["special_tokens"] = [{"rank": rank, "token_str": token} for rank, token in
                                enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])]
    (folder / "tekken.json").write_text(json.dumps(tekken))
    yield "tekken", MistralConverter(str(folder / "tekken.json")).converted()


def sentencepiece_tokenizers(folder):
    LlamaConverter.SpmExtractor = Extractor
    data = folder / "mistral_common/data"
    for name, file in (("mistral_v1", "tokenizer.model.v1"), ("mistral_v2", "mistral_instruct_tokenizer_240216.model.v2"),
                       ("mistral_v3", "mistral_instruct_tokenizer_240323.model.v3")):
        for kind, legacy in (("legacy", True), ("first", False)):
            out = LlamaConverter(Slow(data / file, legacy)).converted()
            out.post_processor = begin("<s>", 1)
            yield f"{name}_{kind}", out
            if name != "mistral_v3":
                continue
            yield f"{name}_{kind}_added", with_added_tokens(out)
            if legacy:
                yield f"{name}_normalized", changed(out, lambda d: [t.update(normalized=True) for t in d["added_tokens"]])
                yield f"{name}_replace", changed(out, lambda d: d.update(normalizer=d["normalizer"]["normalizers"][1]))
                yield f"{name}_plain", changed(out, lambda d: d.update(normalizer=None))
                yield f"{name}_unknown", changed(out, lambda d: d["model"].update(byte_fallback=False))
                yield f"{name}_unfused", changed(out, lambda d: d["model"].update(byte_fallback=False, fuse_unk=False))
                yield f"{name}_few_bytes", changed(out, lambda d: [d["model"]["vocab"].pop(f"<0x{b:02X}>") for b in
                                                                   (0xC3, 0xE2, 0xF0)])
                yield f"{name}_whole", changed(out, lambda d: d["model"].update(ignore_merges=True))
            else:
                for scheme in ("always", "never"):
                    yield f"{name}_{scheme}", changed(out, lambda d, scheme=scheme: d["pre_tokenizer"].update(
                        prepend_scheme=scheme, split=True))


def with_plain_added_tokens(description):
    """The tokenizer for decoding: since 0.23 tokenizers decodes an added token that is matched in normalised text to that
    text (and does not skip it as special then), ours and older versions to the token itself."""
    description = json.loads(description)
    for token in description["added_tokens"]:
        token["normalized"] = False
    return Tokenizer.from_str(json.dumps(description))


def requests(reference, texts):
    """Texts, then ids of those texts and random ones."""
    generator = random.Random(7)
    out = list(texts)
    encoded = [e.ids for e in reference.encode_batch(out, add_special_tokens=False)]
    size = reference.get_vocab_size()
    known = sorted(reference.get_vocab().values())
    bytes_ = [i for t, i in reference.get_vocab().items() if re.fullmatch("<0x..>", t)] or known[:300]
    special = [i for i, t in reference.get_added_tokens_decoder().items()]
    assert size == len(known)
    ids = [list(i) for i in encoded]
    for _ in range(len(out)):
        ids.append([generator.choice(generator.choice([known, bytes_, special, known[:2000]]))
                    for _ in range(generator.randint(1, 12))])
    return out, encoded, ids


def answers(program, folder, lines):
    run = subprocess.run([program, str(folder)], input="".join(json.dumps(line) + "\n" for line in lines), text=True,
                         encoding="utf-8", stdout=subprocess.PIPE)
    if run.returncode != 0:
        sys.exit(f"tokenizer_ids failed for {folder}")
    return [json.loads(line) for line in run.stdout.split("\n")[:-1]]


def check(program, name, tokenizer, texts, folder):
    """Compares one tokenizer; returns the number of differences."""
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    decoder = with_plain_added_tokens(reference.to_str())
    inputs, encoded, ids = requests(reference, texts)
    affixes, *found = answers(program, folder, inputs + ids)
    failures = []
    for text, expected, actual in zip(inputs, encoded, found):
        if expected != actual:
            failures.append(f"{text!r}\n  reference {expected}\n  ours      {actual}")
    for tokens, actual in zip(ids, found[len(inputs):], strict=True):
        expected = [decoder.decode(tokens, skip_special_tokens=skipped) for skipped in (False, True)]
        if expected != actual:
            failures.append(f"ids {tokens}\n  reference {expected}\n  ours      {actual}")
    around = AutoTokenizer.from_pretrained(str(folder))("a")["input_ids"]
    if affixes[0] + reference.encode("a", add_special_tokens=False).ids + affixes[1] != around:
        failures.append(f"affixes {affixes}, transformers {around}")
    for failure in failures[:3]:
        print(f"{name}: {failure[:1500]}")
    print(f"{name}: {len(inputs)} texts, {sum(map(len, encoded))} ids, {len(ids)} lists of ids decoded, "
          f"{len(failures)} differ", flush=True)
    return len(failures)


def further_texts(files):
    for file in files:
        content = file.read_text(encoding="utf-8")
        if file.suffix == ".jsonl":
            yield from (json.loads(line)["text"] for line in content.split("\n") if line)
        else:
            yield content


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("wheels", type=pathlib.Path, nargs="?")
    parser.add_argument("--strings", type=int, default=3000)
    parser.add_argument("--only", default="", help="a part of the names of tokenizers")
    parser.add_argument("--texts", type=pathlib.Path, nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.wheels is None:
        skip("no folder of wheels is given (PARALLELLM_WHEELS)")
    texts = list(strings(arguments.strings)) + list(further_texts(arguments.texts))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for package, prefix in WHEELS.items():
            wheel = next(arguments.wheels.glob(f"{package}-*.whl"), None)
            if wheel is None:
                skip(f"no wheel of {package} in {arguments.wheels}")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, [m for m in archive.namelist() if m.startswith(prefix)])
        failures = 0
        for kind in (sentencepiece_tokenizers, byte_level_tokenizers):
            for name, tokenizer in kind(folder):
                if arguments.only in name:
                    failures += check(arguments.program, name, tokenizer, texts, folder / name)
    sys.exit(f"{failures} differ" if failures else 0)


if __name__ == "__main__":
    main()
