#!/usr/bin/env python3
"""Writes golden/tokenizer_folders.json: folders of tokenizers whose files disagree, with the ids that transformers 4.57.6 gives.
needs: pip install transformers==4.57.6 jinja2

Case by case it holds what tokenizer_config.json and the files next to it say, and what differs from one of two small
tokenizer.json. A text has its ids with the tokens that the tokenizer puts around it, and the text of those ids, with and
without special tokens. The case "llama_rebuilt" is transformers 5.24's, as 4.57 would read a tokenizer.model there."""
import argparse
import copy
import json
import pathlib
import tempfile

import transformers
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

END, BEGIN, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
MARK = "\u2581"


def token(content, special=True, **flags):
    return dict(dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=not special, special=special), **flags)


def base(vocab, merges, **steps):
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                 byte_fallback=False, ignore_merges=False, vocab={text: i for i, text in enumerate(vocab)}, merges=merges)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=None,
                post_processor=None, decoder=None, model=model) | steps


BYTES = base(sorted(pre_tokenizers.ByteLevel.alphabet()), [], added_tokens=[dict(token(END), id=256)],
             pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
             decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True))
PIECES = base(["<unk>", "<s>", "</s>", MARK, "a", "b", MARK + "a", "ab", "c", "<0x0A>", "<0x61>"], [MARK + " a", "a b"],
              added_tokens=[dict(token(text), id=i) for i, text in enumerate(["<unk>", "<s>", "</s>"])],
              normalizer=dict(type="Sequence", normalizers=[dict(type="Prepend", prepend=MARK),
                                                            dict(type="Replace", pattern=dict(String=" "), content=MARK)]),
              decoder=dict(type="Sequence", decoders=[dict(type="Replace", pattern=dict(String=MARK), content=" "),
                                                      dict(type="ByteFallback"), dict(type="Fuse"),
                                                      dict(type="Strip", content=" ", start=1, stop=0)]))
PIECES["model"] |= dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
BASES = dict(bytes=BYTES, pieces=PIECES)

GPT2 = dict(tokenizer_class="GPT2Tokenizer")
NEOX = dict(tokenizer_class="GPTNeoXTokenizerFast")
FAST = dict(tokenizer_class="PreTrainedTokenizerFast")
QWEN = dict(tokenizer_class="Qwen2Tokenizer")
LLAMA = dict(tokenizer_class="LlamaTokenizerFast", unk_token=None, bos_token=END, eos_token=END)
PIECES_CLASS = dict(tokenizer_class="LlamaTokenizer", add_bos_token=False)
TEXTS = [f"a{BEGIN}b", f"a {BEGIN} b", f"{BEGIN}  {END} c"]
THINK = ["a <think> b", "a<think>b", "<think>  "]
SPACES = ["ab", " ab", f"a{END}b", f"{END} b"]


def json_with(**steps):
    return {name: value for name, value in steps.items()}


def added(*tokens):
    return [dict(token, id=256 + i) for i, token in enumerate(tokens)]


def template(name):
    piece = dict(Sequence=dict(id="A", type_id=0))
    return dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id=name, type_id=0)), piece],
                pair=[piece, dict(Sequence=dict(id="B", type_id=1))], special_tokens={name: dict(id=name, ids=[256], tokens=[name])})


PREFIX = dict(BYTES["pre_tokenizer"], add_prefix_space=True)
# name: (base, what differs from it, tokenizer_config.json, texts, special_tokens_map.json, added_tokens.json, config.json)
CASES = {
    "decoder_adds": ("bytes", {}, FAST | dict(added_tokens_decoder={"256": token(END), "257": token(BEGIN)}), TEXTS),
    "decoder_adds_in_order_of_ids": ("bytes", {}, FAST | dict(added_tokens_decoder={"258": token(BEGIN), "257": token(STOP)}), TEXTS),
    "decoder_changes_flags": ("bytes", json_with(added_tokens=added(token(END), token("<think>", False, normalized=False))), FAST | dict(
        added_tokens_decoder={"257": token("<think>", False, lstrip=True, rstrip=True, normalized=False)}), THINK),
    "decoder_cannot_make_plain": ("bytes", json_with(added_tokens=added(token(END), token("<think>"))), FAST | dict(
        added_tokens_decoder={"257": token("<think>", False, single_word=True)}), THINK),
    "decoder_makes_special": ("bytes", json_with(added_tokens=added(token(END), token("<think>", False))), FAST | dict(
        added_tokens_decoder={"257": token("<think>", True)}), THINK),
    "decoder_names_another_id": ("bytes", json_with(added_tokens=added(token(END), token("<think>", False))), FAST | dict(
        added_tokens_decoder={"300": token("<think>", True, rstrip=True)}), THINK),
    "decoder_goes_before_other_files": ("bytes", {}, FAST | dict(eos_token=END, added_tokens_decoder={"257": token(BEGIN)}), TEXTS,
                                        dict(eos_token=STOP, additional_special_tokens=["<think>"]), {STOP: 257}),
    "role_of_decoder": ("bytes", {}, FAST | dict(eos_token=BEGIN, added_tokens_decoder={"257": token(BEGIN, False, rstrip=True)}), TEXTS),
    "added_tokens_file": ("bytes", {}, FAST, TEXTS, None, {BEGIN: 257}),
    "added_tokens_file_and_role": ("bytes", {}, FAST | dict(eos_token=BEGIN), TEXTS, None, {BEGIN: 257}),
    "added_tokens_file_and_role_of_class": ("bytes", json_with(normalizer=dict(type="NFC")), NEOX | dict(eos_token=END, unk_token=END), [
        "a<\u00e9>b", "a<e\u0301>b"], dict(bos_token="<\u00e9>"), {"<\u00e9>": 257, "<x\u00e9>": 258}),
    "qwen_role_with_flags": ("bytes", {}, QWEN | dict(sep_token=dict(token(END, lstrip=True), __type="AddedToken"),
                                                      added_tokens_decoder={}, eos_token=None, pad_token=None, unk_token=None), [f"a {END} b"]),
    "added_tokens_file_loses_an_id": ("bytes", {}, FAST, TEXTS, None, {BEGIN: 256, STOP: 257}),
    "further_special_tokens": ("bytes", {}, FAST | dict(additional_special_tokens=[STOP, BEGIN]), TEXTS),
    "further_special_tokens_of_both": ("bytes", {}, FAST | dict(additional_special_tokens=[STOP]), TEXTS,
                                       dict(additional_special_tokens=[token(BEGIN, rstrip=True), STOP])),
    "further_special_token_was_plain": ("bytes", json_with(added_tokens=added(token(END), token("<think>", False))), FAST | dict(
        additional_special_tokens=["<think>"]), THINK),
    "extra_special_tokens": ("bytes", {}, FAST | dict(extra_special_tokens=dict(image_token=BEGIN)), TEXTS),
    "role_without_token": ("bytes", {}, FAST | dict(pad_token=STOP, bos_token=BEGIN), TEXTS),
    "role_with_flags": ("bytes", {}, FAST | dict(eos_token=dict(token(BEGIN, rstrip=True, lstrip=True), __type="AddedToken")), TEXTS),
    "role_in_special_tokens_map": ("bytes", {}, FAST | dict(eos_token=END), TEXTS, dict(eos_token=token(BEGIN, lstrip=True))),
    "role_of_vocabulary": ("bytes", {}, FAST | dict(eos_token="a"), ["cab", "a"]),
    "class_adds_its_tokens": ("bytes", json_with(added_tokens=[]), GPT2, TEXTS),
    "class_adds_no_token_for_null": ("bytes", json_with(added_tokens=[]), GPT2 | dict(unk_token=None, bos_token=None, eos_token=None), TEXTS),
    "qwen_resets_flags": ("bytes", json_with(added_tokens=added(token(END, rstrip=True))), QWEN, [f"a{END} b"]),
    "qwen_keeps_listed_flags": ("bytes", json_with(added_tokens=added(token(END, rstrip=True))), QWEN | dict(eos_token=END), [f"a{END} b"]),
    "white_space_that_another_token_took": ("bytes", json_with(added_tokens=added(token(END, lstrip=True, rstrip=True), token(
        "  ", False, lstrip=True, rstrip=True, normalized=False))), FAST | dict(eos_token=END), [f"c{END}  ", f"c {END}  {END}", "a  "]),
    "special_tokens_are_split": ("bytes", json_with(added_tokens=added(token(END), token("<think>", False))), FAST | dict(
        eos_token=END, additional_special_tokens=[BEGIN], split_special_tokens=True), [f"a{END}b<think>", BEGIN]),
    "prefix_space": ("bytes", {}, GPT2 | dict(add_prefix_space=True), SPACES),
    "no_prefix_space": ("bytes", json_with(pre_tokenizer=PREFIX), GPT2 | dict(add_prefix_space=False), SPACES),
    "no_prefix_space_if_not_said": ("bytes", json_with(pre_tokenizer=PREFIX), FAST, SPACES),
    "prefix_space_of_null": ("bytes", json_with(pre_tokenizer=PREFIX), FAST | dict(add_prefix_space=None), SPACES),
    "prefix_space_in_a_sequence": ("bytes", json_with(pre_tokenizer=dict(type="Sequence", pretokenizers=[PREFIX])), GPT2 | dict(
        add_prefix_space=False), SPACES),
    "prefix_space_of_llama": ("bytes", json_with(pre_tokenizer=PREFIX), LLAMA, SPACES),
    "llama_adds_bos": ("bytes", json_with(post_processor=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True)),
                       LLAMA | dict(add_bos_token=True, add_eos_token=False), ["ab"]),
    "llama_adds_bos_by_itself": ("bytes", {}, LLAMA, ["ab"]),
    "llama_adds_both": ("bytes", {}, LLAMA | dict(add_eos_token=True, bos_token="<s>"), ["ab"]),
    "llama_adds_nothing": ("bytes", json_with(post_processor=template(END)), LLAMA | dict(add_bos_token=False), ["ab"]),
    "neox_adds_nothing": ("bytes", json_with(post_processor=template(END)), NEOX, ["ab"]),
    "neox_adds_eos": ("bytes", {}, NEOX | dict(add_eos_token=True), ["ab"]),
    "template_of_others": ("bytes", json_with(post_processor=template(END)), FAST | dict(add_bos_token=False, add_eos_token=True), ["ab"]),
    "gpt2_adds_no_bos": ("bytes", {}, GPT2 | dict(add_bos_token=True), ["ab"]),
    "pieces": ("pieces", {}, PIECES_CLASS | dict(legacy=False), ["c</s>ca", "a c", " c<s> c"]),
    "pieces_with_new_tokens": ("pieces", {}, PIECES_CLASS | dict(additional_special_tokens=[BEGIN]), [f"c{BEGIN}ca", f"a {BEGIN} c"], None,
                               {"[PAD]": 11}),
    "pieces_without_class": ("pieces", {}, FAST | dict(add_prefix_space=False, legacy=False), ["c</s>ca", "a c"]),
    "class_of_gpt2": ("bytes", json_with(added_tokens=[], pre_tokenizer=PREFIX), {}, TEXTS + SPACES, None, None, dict(model_type="gpt2")),
    "class_of_mpt": ("bytes", json_with(added_tokens=[]), dict(bos_token=BEGIN), TEXTS, None, None, dict(model_type="mpt")),
    "class_of_qwen3": ("bytes", json_with(added_tokens=added(token(END, rstrip=True))), {}, [f"a{END} b"], None, None, dict(model_type="qwen3")),
    "class_of_llama": ("bytes", {}, dict(unk_token=None, bos_token=END, eos_token=END), ["ab"], None, None, dict(model_type="llama")),
    "class_of_mistral": ("pieces", {}, dict(legacy=False), ["c</s>ca", "a c", " c<s> c"], None, None, dict(model_type="mistral")),
    "class_of_gemma": ("bytes", {}, dict(add_eos_token=True), TEXTS, None, None, dict(model_type="gemma2")),
    "class_of_falcon": ("bytes", json_with(pre_tokenizer=PREFIX), {}, SPACES, None, None, dict(model_type="falcon")),
    "class_in_config": ("bytes", json_with(added_tokens=[]), {}, TEXTS, None, None, dict(model_type="llama", tokenizer_class="GPT2Tokenizer")),
    "class_before_config": ("bytes", {}, FAST, ["ab"], None, None, dict(model_type="llama")),
    "class_of_config_alone": ("bytes", json_with(pre_tokenizer=PREFIX), None, SPACES, None, None, dict(model_type="gpt_neox")),
    "llama_of_config_alone": ("pieces", {}, None, ["c</s>ca", "a c", " c<s> c"], None, None, dict(model_type="llama")),
    "llama_rebuilt": ("pieces", {}, PIECES_CLASS | dict(add_prefix_space=True, legacy=False), ["c</s>ca", "a c", "</s> c"]),
    "llama_rebuilt_without_space": ("pieces", {}, PIECES_CLASS | dict(add_prefix_space=False, legacy=False), ["c</s>ca", "a c", "</s> c"]),
}


def merged(name, changes):
    return copy.deepcopy(BASES[name]) | changes


def answers(case):
    base_name, changes, config, texts, *others = case
    with tempfile.TemporaryDirectory() as folder:
        files = {"tokenizer.json": merged(base_name, changes), "tokenizer_config.json": config}
        files |= dict(zip(("special_tokens_map.json", "added_tokens.json", "config.json"), others))
        for name, content in files.items():
            if content is not None:
                pathlib.Path(folder, name).write_text(json.dumps(content))
        reference = AutoTokenizer.from_pretrained(folder)
        out = []
        for text in texts:
            ids = reference(text)["input_ids"]
            out.append([text, ids, *(reference.decode(ids, skip_special_tokens=skip) for skip in (False, True))])
        return dict(size=len(reference), texts=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path, help="golden/tokenizer_folders.json; only the cases of this version are written anew")
    file = parser.parse_args().file
    newer = transformers.__version__ >= "5"
    before = json.loads(file.read_text())["cases"] if file.exists() else {}
    cases = {}
    for name, case in CASES.items():
        base_name, changes, config, _, *others = case
        rest = {key: value for key, value in zip(("special_tokens", "added_tokens", "model"), others) if value is not None}
        found = answers(case) if name.startswith("llama_rebuilt") == newer else {
            key: before.get(name, {}).get(key) for key in ("size", "texts")}
        cases[name] = dict(base=base_name, tokenizer=changes) | ({} if config is None else dict(config=config)) | rest | found
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
    bases = ",\n".join(f"{json.dumps(name)}: {json.dumps(content)}" for name, content in BASES.items())
    file.write_text(f'{{"bases": {{\n{bases}}},\n"cases": {{\n{lines}}}}}\n')


if __name__ == "__main__":
    main()
