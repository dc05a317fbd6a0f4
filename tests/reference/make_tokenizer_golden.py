"""Makes ../golden/tokenizers.json: small tokenizers of the kinds that are read, with ids and texts by Hugging Face's tokenizers;
and ../golden/small_tokenizer.json: the merges that it learns from three sentences, and ids by variants of that tokenizer.

    python make_tokenizer_golden.py        # needs tokenizers >= 0.20 alone; a second

A variant is a base with a JSON merge patch (RFC 7396). `texts` are encoded; `ids` are the lists of ids in
`decoded_ids`, decoded with and without special tokens. No added token is matched in normalised text that differs from
its own, since versions decode such tokens in different ways.
"""

import json
import pathlib

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers import __version__ as version

MARK = "▁"
TEXTS = ["", " ", "the dog", " the  dog\n", "The dogs'LL do 12345!\n\n", "a<s>the</s> dog", "<s>the dog", " <s> the", "thethe▁dog",
         "é e\u0301 \u0301x ſ'ſ", "日本語 中 😀", "tab\t\tend  \r\n x", "xword word sword_ word", "a <Left> b<Right>  c", "HelloWORLD'S iPhone//\n/",
         "<0x0A>\x00\x7f", "I'M she'Ll 'S", "  \u3000 \u2003x\u00a0y", "ꙮꙮ the ꙮ"]


def token(index, content, **flags):
    return {"id": index, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True} | flags


def added(first):
    return [token(first, "word", single_word=True, special=False), token(first + 1, "<Left>", lstrip=True, special=False),
            token(first + 2, "<Right>", rstrip=True)]


def vocabulary(tokens, merges):
    for left, right in merges:
        if left + right not in tokens:
            tokens.append(left + right)
    return {content: index for index, content in enumerate(tokens)}


def sentencepiece():
    merges = [("h", "e"), (MARK, "t"), (MARK + "t", "he"), (MARK, MARK), ("t", "he"), ("d", "o"), (MARK, "do"), (MARK + "do", "g"),
              (MARK, "d"), ("o", "g"), (MARK * 2, MARK * 2), ("日", "本")]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + list(MARK + "thedogsxaéw日本中")
    vocab = vocabulary(tokens, merges)
    specials = [token(index, content) for index, content in enumerate(tokens[:3])]
    return {"version": "1.0", "added_tokens": specials,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, {
                "type": "Replace", "pattern": {"String": " "}, "content": MARK}]},
            "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocab,
                      "merges": [f"{left} {right}" for left, right in merges]}}


def byte_level():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    merges = [("h", "e"), ("Ġ", "t"), ("Ġt", "he"), ("l", "l"), ("Ã", "©"), ("1", "2"), ("3", "4"), ("12", "34"), ("Ċ", "Ċ"), ("W", "O"),
              ("'", "L"), ("'L", "L"), ("!", "Ċ"), ("o", "W"), ("Ġ", "Ġ"), ("e", "Ì"), ("eÌ", "ģ"), ("s", "'")]
    vocab = vocabulary(["<unk>", "<s>", "</s>"] + letters, merges)
    return {"version": "1.0", "added_tokens": [token(index, t) for index, t in enumerate(["<unk>", "<s>", "</s>"])],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": True, "vocab": vocab,
                      "merges": [[left, right] for left, right in merges]}}


def patterns():
    """The regular expressions of llama-models, transformers and mistral-common."""
    contractions, lines = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    cased = [r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
             r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"]
    symbols = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    yield "gpt2", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    yield "llama3", contractions + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + symbols + lines
    yield "qwen2", contractions + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + symbols + lines
    yield "qwen3_5", (contractions + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + lines)
    yield "gpt4o", "|".join(c + contractions + "?" for c in cased) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + lines
    yield "tekken", "|".join(cased) + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + lines


def metaspace(**options):
    return {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": MARK} | options}


def variants(bases):
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    model = bases["sentencepiece"]
    size = {name: len(base["model"]["vocab"]) for name, base in bases.items()}
    yield "sentencepiece", "prepend", {}
    yield "sentencepiece", "replace", {"normalizer": replace}
    yield "sentencepiece", "no_steps", {"normalizer": None}
    for scheme in ("first", "always", "never"):
        yield "sentencepiece", scheme, metaspace(prepend_scheme=scheme, split=False)
        yield "sentencepiece", scheme + "_split", metaspace(prepend_scheme=scheme)
    yield "sentencepiece", "older_metaspace", metaspace(add_prefix_space=True)
    yield "sentencepiece", "unknown", {"model": {"byte_fallback": False}}
    yield "sentencepiece", "unfused", {"model": {"byte_fallback": False, "fuse_unk": False}}
    yield "sentencepiece", "few_bytes", {"model": {"vocab": {"<0xEA>": None, "<0xC3>": None}}}
    yield "sentencepiece", "whole", {"model": {"ignore_merges": True, "vocab": {"▁the▁dog": size["sentencepiece"]}}}
    yield "sentencepiece", "joined", {"model": {"vocab": {"e▁": size["sentencepiece"]},
                                                "merges": ["e ▁"] + model["model"]["merges"]}}
    yield "sentencepiece", "no_strip", {"decoder": {"decoders": model["decoder"]["decoders"][:3]}}
    yield "sentencepiece", "gemma", {"normalizer": replace, "pre_tokenizer": {
        "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}}
    yield "sentencepiece", "added", {"added_tokens": model["added_tokens"] + added(size["sentencepiece"])} | metaspace(
        prepend_scheme="first", split=False)
    for name, pattern in patterns():
        for inverted in (False, True) if name == "llama3" else (False,):
            split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed" if inverted else "Isolated",
                     "invert": inverted}
            yield "byte_level", name + "_inverted" * inverted, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                split, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}}
    byte_words = {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}}
    yield "byte_level", "added", {"added_tokens": bases["byte_level"]["added_tokens"] + added(size["byte_level"]),
                                  "normalizer": {"type": "NFC"}} | byte_words


def patched(target, patch):
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = patched(out.get(key), value)
    return out


SENTENCES = ["The quick brown fox jumps over the lazy dog. The dog doesn't mind; the fox does.\n",
             "In the beginning there was the word, and the word was with the weaver.  She'd woven 1234 threads, then 1235 more.\n",
             "Naïve cafés serve crème brûlée; the café isn't naïve.\n\n    indented    text\n"]
SMALL_TEXTS = {
    "plain": ["", "The fox", " the  dog\n\n", "<|endoftext|>the<|endoftext|>", "She'd, she'D; they'll 12345 x²", "a \u2003b\u00a0 c\u0085\n",
              "عربي 中文 😀!", "e\u0301 café", "tab\t\tend   ", "''s '' 's '"],
    "nfc": ["e\u0301 cafe\u0301", "\u1100\u1161\u11a8", "\u1100\u1161\u11a7", "a\u0323\u0307 a\u0307\u0323", "\u212b \u2126",
            "a\u0301\u1dfa\u0323"],
    "prefix": ["The fox", " the", "the<|endoftext|>the <|endoftext|> the", ""],
    "whole": ["the fox jumps over the lazy dog the fox jumps over the lazy dog "],
    "ignore": [" dog", "the weaver"],
    "added": ["a     b", "a <L> b", "a<R>   <R>  b", "a <L> <R> <L>b", "e\u0301x éx e\u0301y éy", "<R>\u3000\u2003   x  <|endoftext|>  "]}


def small_tokenizer():
    """A tokenizer of 290 tokens, as ../mpt/tokenizer/small_tokenizer.hpp trains it."""
    out = Tokenizer(models.BPE())
    out.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=290, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(out.to_str())


def small_variant(base, name):
    """As `variant` in ../mpt/tokenizer/tokenizer_test.cpp."""
    out = json.loads(json.dumps(base))
    if name in ("nfc", "added"):
        out["normalizer"] = {"type": "NFC"}
    if name == "prefix":
        out["pre_tokenizer"]["add_prefix_space"] = True
    if name == "whole":
        out["pre_tokenizer"]["use_regex"] = False
    if name == "ignore":
        out["model"]["ignore_merges"] = True
        out["model"]["merges"].pop()
    if name == "added":
        out["added_tokens"] += [token(290 + i, content, normalized=normalized, special=False) for i, (content, normalized) in enumerate(
            [("   ", True), ("  ", True), ("<L>", False), ("<R>", False), ("<L> <R>", False), ("e\u0301x", True), ("e\u0301y", False)])]
        out["added_tokens"][3]["lstrip"] = True
        out["added_tokens"][4]["rstrip"] = True
    return Tokenizer.from_str(json.dumps(out))


def write_small_tokenizer(folder):
    base = small_tokenizer()
    rows = [{"variant": name, "text": text, "ids": small_variant(base, name).encode(text, add_special_tokens=False).ids}
            for name, texts in SMALL_TEXTS.items() for text in texts]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in base["model"]["merges"]]
    text = json.dumps({"tokenizers": version, "merges": merges, "ids": rows}, separators=(",", ":"))
    (folder / "small_tokenizer.json").write_text(text.replace('{"variant"', '\n{"variant"') + "\n")


def main():
    bases = {"sentencepiece": sentencepiece(), "byte_level": byte_level()}
    rows = []
    for base, name, patch in variants(bases):
        source = Tokenizer.from_str(json.dumps(patched(bases[base], patch)))
        ids = [source.encode(text, add_special_tokens=False).ids for text in TEXTS]
        first = 3 + 0x41  # "<0x41>" of SentencePiece's
        lists = ids[2:14:3] + [[1, *ids[3], 2, *ids[2]], [first, 3 + 0xC3], [3 + 0xC3, 3 + 0xA9, *ids[2]], [3 + 0x20, 3 + 0x20, first],
                               [3 + 0xFF, 1, 3 + 0xF0], [0, 3 + 0xE2, 3 + 0x82, 3 + 0xAC], [3 + 0xE2, 1, 3 + 0x82, 3 + 0xAC]]
        if base == "sentencepiece" and name == "few_bytes":
            lists = ids[2:14:3]
        rows.append({"base": base, "variant": name, "patch": patch, "ids": ids, "decoded_ids": lists,
                     "texts": [[source.decode(i, skip_special_tokens=s) for s in (False, True)] for i in lists]})
    golden = {"tokenizers": version, "texts": TEXTS, "bases": bases, "variants": rows}
    folder = pathlib.Path(__file__).parent.parent / "golden"
    (folder / "tokenizers.json").write_text(json.dumps(golden, separators=(",", ":")).replace('{"base"', '\n{"base"') + "\n")
    write_small_tokenizer(folder)


if __name__ == "__main__":
    main()
