// The messages for malformed input. docs/errors.md is generated from this table, and the test
// checks that both are equal. When a message changes, copy the errors.md that the test writes into
// its working directory over docs/errors.md.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/data/mds/mds_reader.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/eval/icl_rows.hpp>
#include <mpt/finetune/batch_order.hpp>
#include <mpt/finetune/find_files.hpp>
#include <mpt/finetune/read_examples.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/train/checkpoint/possible_counters.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/checkpoint/format/tensor_folder.hpp>
#include <parallel/checkpoint/local/local_pointer.hpp>
#include <support/torch_zip.hpp>
#include "../../src/process/exit_code.hpp"

namespace malformed_test {
namespace {

namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using data_test::put_file;
using nlohmann::json;

/// One row: the malformed input, and the message for it.
struct row {
  std::string input;
  std::string message;
};

/// A group of rows with its heading.
struct group {
  std::string heading;
  std::vector<row> rows;
};

/// Escapes text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (char const c : text) {
    if (c == '|')
      out += "\\|";
    else if (c == '\n')
      out += "⏎";
    else
      out += c;
  }
  return out;
}

/// The message of the error that `action` throws, without the scratch folder's name.
template <class Action>
std::string message_of(fs::path const& folder, Action const& action) {
  auto message = data_test::message_of(action);
  if (folder.empty()) return message;
  auto const prefix = folder.native() + "/";
  for (auto position = message.find(prefix); position != message.npos;
       position = message.find(prefix))
    message.erase(position, prefix.size());
  for (auto position = message.find(folder.native()); position != message.npos;
       position = message.find(folder.native()))
    message.replace(position, folder.native().size(), "FOLDER");
  return message;
}

std::string code(std::string_view text) {
  // no text of this test ends in a backquote
  return "`" + std::string(text) + "`";
}

group yaml_group() {
  group out{"A configuration that is not good YAML", {}};
  auto const add = [&](std::string const& text, std::string const& shown = {}) {
    out.rows.push_back({shown.empty() ? code(text) : shown,
                        message_of("", [&] { (void)mpt::make_document(text, "run.yaml"); })});
  };
  add("a: [1, 2");
  add("a: 1\n b: 2");
  add("a: 1\na: 2");
  add("- 1\n- 2");
  add("a: !!python/object:os.system x");
  add("a: &a [*a]");
  add("a: ${b.c}\nb: {d: 1}");
  add("a: ${b}\nb: ${a}");
  add("a: ${oc.env:HOME}");
  add("a: x${b}\nb: [1]");
  add("a: 1\n---\nb: 2");
  add("? [1]\n: 2");
  add(std::string("a: \0", 4), "a NUL byte");
  add(std::string(33, '[') + std::string(33, ']'), "33 nested lists");
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    auto const reference = "*a" + std::to_string(i - 1);
    laughs += parallel::concat("a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) laughs += (k == 0 ? "" : ", ") + reference;
    laughs += "]\n";
  }
  add(laughs, "aliases of aliases that stand for 10⁹ values");
  add("a: " + std::string(20'000, 'x'), "a scalar of 20 000 bytes");
  add(std::string((1 << 20) + 1, ' '), "a file of more than 1 MiB");
  auto const override_with = [&](std::string const& text) {
    std::string const overrides[] = {text};
    out.rows.push_back({code(text) + " on the command line", message_of("", [&] {
                          (void)mpt::make_document("a: {b: [1]}", "run.yaml", overrides);
                        })});
  };
  override_with("max_duration");
  override_with("a..b=1");
  override_with("a.b.7=1");
  return out;
}

/// The smallest configuration, one line per key, with one line replaced or added.
std::string config_with(std::string const& key, std::string const& line) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"max_seq_len", "max_seq_len: 64"},
      {"max_duration", "max_duration: 10ba"},
      {"global_train_batch_size", "global_train_batch_size: 8"},
      {"model", "model: {d_model: 64, n_heads: 4, n_layers: 2, max_seq_len: 64}"},
      {"tokenizer", "tokenizer: {name: t}"},
      {"optimizer", "optimizer: {name: decoupled_adamw}"},
      {"scheduler", "scheduler: {name: cosine_with_warmup, t_warmup: 2ba}"},
      {"train_loader", "train_loader: {dataset: {local: d}}"}};
  std::string text;
  bool replaced = false;
  for (auto const& [name, old] : lines) {
    bool const is_key = name == key;
    replaced = replaced || is_key;
    if (is_key && line.empty()) continue;
    text += (is_key ? line : old) + "\n";
  }
  return replaced ? text : text + line + "\n";
}

group config_group() {
  group out{"A configuration that says something wrong", {}};
  auto const add = [&](std::string const& key, std::string const& line) {
    auto const text = config_with(key, line);
    out.rows.push_back({line.empty() ? "no " + code(key) : code(line), message_of("", [&] {
                          (void)mpt::read_train_config(mpt::make_document(text, "run.yaml"));
                        })});
  };
  add("max_seq_len", "");
  add("model", "");
  add("max_seq_len", "max_seq_len: many");
  add("max_seq_len", "max_seq_len: 1");
  add("max_duration", "max_duration: 10 batches");
  add("max_duration", "max_duration: 0.5ba");
  add("max_duration", "max_duration: -3ba");
  add("max_duration", "max_duration: 1dur");
  add("max_duration", "max_duration: 60sec");
  add("global_train_batch_size", "global_train_batch_size: 0");
  add("model", "model: {d_model: 64, n_heads: 5}");
  add("model", "model: {n_haeds: 4}");
  add("model", "model: 125m");
  add("model", "model: {norm_type: batchnorm}");
  add("model", "model: {alibi: true}");
  add("model", "model: {attn_config: {attn_type: grouped_query_attention}}");
  add("model", "model: {attn_config: {fused_qkv: false, kv_dim: 64}}");
  add("model",
      "model: {n_layers: 1, block_overrides: {order: [{name: a}], overrides: {a: {attn_config: "
      "{reuse_kv_layer_idx: -1}}}}}");
  add("model", "model: {attn_config: {rope: true, rope_dail_config: {type: ntk}}}");
  add("model", "model: {init_config: {name: normal_}}");
  add("model", "model: {d_model: 64, n_heads: 4, resid_pdrop: 1.5}");
  add("optimizer", "optimizer: {name: sgd}");
  add("optimizer", "optimizer: {name: decoupled_adamw, betas: [0.9]}");
  add("optimizer", "optimizer: {name: decoupled_adamw, lr: 6e-4s}");
  add("scheduler", "scheduler: {name: cosine_with_warmup, t_warmup: 2ba, t_max: 5ba}");
  add("train_loader", "train_loader: {dataset: {local: s3://bucket/c4}}");
  add("train_loader", "train_loader: {name: finetuning, dataset: {split: train}}");
  add("train_loader",
      "train_loader: {name: finetuning, dataset: {hf_name: d, packing_ratio: 0.5}}");
  add("train_loader",
      "train_loader: {name: finetuning, dataset: {hf_name: d, decoder_only_format: false}}");
  add("train_loader", "train_loader: {dataset: {local: c4, target_responses: all}}");
  add("model", "model: {name: hf_causal_lm}");
  add("model", "model: {name: hf_causal_lm, pretrained_model_name_or_path: gpt2}");
  add("model", "model: {name: hf_causal_lm, pretrained_model_name_or_path: mosaicml/mpt-7b}");
  add("model", "model: {peft_config: {r: 8, use_dora: true}}");
  add("mirrors", "mirrors: mosaicml/mpt-7b");
  add("precision", "precision: fp8");
  add("autoresume", "autoresume: true");
  add("local_save_folder", "local_save_folder: /scratch");
  add("run_name", "run_name: ../elsewhere");
  add("spike_check", "spike_check: {window: 2}");
  add("grad_accum", "global_train_batchsize: 8");
  add("callbacks", "callbacks: {of_my_own: {}}");
  add("algorithms", "algorithms: {of_my_own: {}}");
  add("load_path", "load_path: 'run/latest-rank{rank}.pt'");
  return out;
}

group hf_group() {
  group out{"A Hugging Face `config.json`", {}};
  data_test::scratch_folder const folder;
  auto const add = [&](std::string const& text) {
    put_file(folder / "config.json", text);
    out.rows.push_back({code(text), message_of(folder.path(), [&] {
                          (void)mpt::read_hf_config(folder / "config.json");
                        })});
  };
  add("{\"model_type\": \"mpt\",}");
  add("[]");
  add(R"({"model_type": "opt"})");
  add(R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1})");
  add(R"({"model_type": "gpt2", "vocab_size": 9, "n_embd": 8, "n_layer": 1, "n_head": 3})");
  add(R"({"model_type": "mpt", "model_type": "mpt"})");
  add(R"({"model_type": "mpt", "d_model": 64, "n_layers": 2, "vocab_size": 100})");
  auto const sized = [](std::string const& rest) {
    return R"({"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 100, )" +
           rest + "}";
  };
  add(R"({"model_type": "mpt", "d_model": "64", "n_heads": 4, "n_layers": 2, "vocab_size": 100})");
  add(sized(R"("attn_config": 3)"));
  add(sized(R"("torch_dtype": "int8")"));
  add(sized(R"("architectures": ["MptForCausalLM"], "no_bias": false)"));
  add(sized(R"("quantization_config": {"load_in_4bit": true})"));
  add(sized(R"("eos_token_id": "0")"));
  add(sized(R"("eos_token_id": [0, null])"));
  return out;
}

group tokenizer_group() {
  group out{"A `tokenizer.json`", {}};
  auto const good = json::parse(tokenizer_test::small_tokenizer().files().json);
  auto const add = [&](std::string const& input, auto const& change) {
    auto file = good;
    change(file);
    out.rows.push_back({input, message_of("", [&] {
                          (void)mpt::read_tokenizer_json(file.dump(), "tokenizer.json");
                        })});
  };
  out.rows.push_back({"half a file", message_of("", [&] {
                        (void)mpt::read_tokenizer_json(R"({"version": "1.0", "model": {"vo)",
                                                       "tokenizer.json");
                      })});
  add("no `model`", [](json& file) { file.erase("model"); });
  add("`\"type\": \"Unigram\"`", [](json& file) { file["model"]["type"] = "Unigram"; });
  add("BPE dropout", [](json& file) { file["model"]["dropout"] = 0.1; });
  add("no token for a byte", [](json& file) { file["model"]["vocab"].erase("!"); });
  add("two tokens with one id", [](json& file) { file["model"]["vocab"]["zz"] = 5; });
  add("an id of 10¹²", [](json& file) { file["model"]["vocab"]["zz"] = 1'000'000'000'000; });
  add("a merge of three", [](json& file) { file["model"]["merges"][0] = "a b c"; });
  add("a merge of unknown tokens", [](json& file) { file["model"]["merges"][0] = "a zz"; });
  add("an added token listed twice",
      [](json& file) { file["added_tokens"].push_back(file["added_tokens"][0]); });
  add("a normalizer that lowercases", [](json& file) {
    file["normalizer"] = {{"type", "Lowercase"}};
  });
  add("an unknown split pattern", [](json& file) {
    file["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {{{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}}}}};
  });
  return out;
}

group safetensors_group() {
  group out{"A safetensors file", {}};
  data_test::scratch_folder const folder;
  auto const add = [&](std::string const& input, std::string const& bytes) {
    put_file(folder / "w.safetensors", bytes);
    out.rows.push_back({input, message_of(folder.path(), [&] {
                          pc::safetensors_file const file(folder / "w.safetensors");
                        })});
  };
  auto const header = [&](std::string const& text, std::string const& data) {
    add(code(text) + ", " + std::to_string(data.size()) + " bytes of data",
        pc::pack_safetensors_header(text, 0, "test") + data);
  };
  add("an empty file", "");
  add("a text file", "This is no safetensors file, but some text.");
  add("a header cut short", std::string("\x40\0\0\0\0\0\0\0{\"a\":", 13));
  header("{\"a\": 1}", "");
  header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234");
  header(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678");
  header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", "12345678");
  header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
         "12345678");
  header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
         "123456");
  return out;
}

group folder_group() {
  group out{"A folder of weights, a checkpoint", {}};
  data_test::scratch_folder const folder;
  auto const add = [&](std::string const& input, auto const& action) {
    out.rows.push_back({input, message_of(folder.path(), action)});
  };
  auto const open = [&] { pc::tensor_folder const tensors(folder.path()); };
  add("an empty folder", open);
  put_file(folder / "model.safetensors.index.json", R"({"weight_map": {"a": "../a.safetensors"}})");
  add("an index that names `../a.safetensors`", open);
  put_file(folder / "model.safetensors.index.json", R"({"weight_map": {"a": "a.safetensors"}})");
  add("an index that names a file that is not there", open);

  auto const checkpoint = folder / "ep0-ba10";
  auto const read = [&] { mpt::model_source const source(checkpoint); };
  put_file(checkpoint / "manifest.json", "{}");
  add("a manifest cut short", read);
  auto const sealed = [&](pc::manifest const& value) {
    put_file(checkpoint / "manifest.json", pc::format_manifest(value, "test"));
  };
  pc::manifest manifest;
  manifest.state = json::object();
  manifest.slices.files = {{"rank-0.safetensors", 16}};
  sealed(manifest);
  auto const inspect = [&] { static_cast<void>(pc::read_manifest(checkpoint)); };
  add("a file of the checkpoint is missing", inspect);
  put_file(checkpoint / "rank-0.safetensors", "1234");
  add("a file of the checkpoint is cut short", inspect);
  put_file(checkpoint / "rank-0.safetensors", "1234567812345678");
  add("a checkpoint of something else", read);
  manifest.slices.tensors["wte"] = {
      pc::element_type::f32, {4}, {{0, 2, "rank-0.safetensors", 0, 8, 0}}};
  sealed(manifest);
  add("a slice that nobody saved", read);

  auto const count = [&](std::string const& input, json const& state) {
    out.rows.push_back({input, message_of(folder.path(), [&] {
                          mpt::training_clock const clock{.tokens_per_batch = 64,
                                                          .batches_per_epoch = 16};
                          mpt::require_possible_counters(state, clock, checkpoint);
                        })});
  };
  auto const counted =
      json::parse(R"({"batches": 10, "epoch": 0, "batch_in_epoch": 10, "tokens": 640})");
  auto const miscounted = [&](char const* key, json const& number) {
    auto state = counted;
    state[key] = number;
    count(code(parallel::concat('"', key, "\": ", number.dump())) + " after 10 batches", state);
  };
  miscounted("batches", -1);
  miscounted("epoch", 1U);
  miscounted("batch_in_epoch", 3U);
  miscounted("tokens", 641U);

  auto const point = [&] { static_cast<void>(pc::read_local_pointer(folder.path())); };
  put_file(folder / "local.json", "");
  add("an empty `local.json`", point);
  put_file(folder / "local.json", R"({"checkpoint": "latest"})");
  add("a `local.json` that names no checkpoint", point);
  return out;
}

group torch_group() {
  group out{"A pytorch_model.bin, a Composer checkpoint", {}};
  data_test::scratch_folder const folder;
  auto const path = folder / "m.bin";
  auto const add = [&](std::string const& input) {
    out.rows.push_back({input, message_of(folder.path(), [&] {
                          mpt::hf::torch_file const file(path);
                          std::vector<float> one(1);
                          file.read(file.tensors().at("w"), 0, std::span(one));
                        })});
  };
  auto const add_pickle = [&](std::string const& input, std::string const& pickle,
                              test::zip_member const& data = {"m/data/0", "12345678"}) {
    test::write_zip(path, {{"m/data.pkl", pickle}, data});
    add(input);
  };
  auto const weight = [](std::string_view type, std::int64_t stored, std::int64_t size,
                         std::int64_t first) {
    return test::pickle_code()
        .raw("}")
        .text("w")
        .tensor(type, "0", stored, {size}, first)
        .raw("s")
        .stop();
  };
  auto const good = weight("FloatStorage", 2, 2, 0);
  add("none");
  put_file(path, "\x80\x02}q");
  add("a bare pickle");
  test::write_zip(path, {{"m/data.pkl", good}, {"m/data/0", "12345678"}});
  auto const whole = data_test::get_file(path);
  put_file(path, whole.substr(0, whole.size() / 2));
  add("cut short");
  add_pickle("a pickle that calls os.system",
             test::pickle_code().global("os", "system").raw("(").text("id").raw("tR").stop());
  add_pickle("a pickle that makes an object by its class",
             test::pickle_code().raw("(ios\nf\n").stop());
  add_pickle("a pickle cut short", good.substr(0, good.size() - 4));
  add_pickle("a pickle of a number", test::pickle_code().integer(1).stop());
  add_pickle("a million lists", test::pickle_code().raw(std::string((1 << 20) + 1, ']')).stop());
  add_pickle("a tensor beyond its storage", weight("FloatStorage", 2, 2, 1));
  add_pickle("a storage without its bytes", weight("FloatStorage", 4, 2, 0));
  add_pickle("bytes of another name", good, {"m/data/1", "12345678"});
  add_pickle("a tensor of integers", weight("LongStorage", 1, 1, 0));
  add_pickle("zeros, 2 MiB of them compressed", good,
             {"m/data/0", std::string(std::size_t{1} << 21, '\0'), true});
  test::write_zip(path, {{"word/document.xml", "x"}});
  add("a zip file of something else");
  return out;
}

group mds_group() {
  group out{"An MDS set", {}};
  using namespace mpt::data;
  data_test::scratch_folder const folder;
  {
    mds_writer writer(folder.path(),
                      {.columns = {{"tokens", "ndarray:int32"}}, .hashes = {"xxh64"}});
    std::string const value("\x04\2abcdefgh", 10);
    std::string_view const values[] = {value};
    (void)writer.write(values);
    writer.finish();
  }
  auto const index = data_test::get_file(folder / "index.json");
  auto const shard = data_test::get_file(folder / "shard.00000.mds");
  auto const verify = [&](std::string const& input, std::string const& new_index,
                          std::string const& new_shard) {
    put_file(folder / "index.json", new_index);
    put_file(folder / "shard.00000.mds", new_shard);
    out.rows.push_back(
        {input, message_of(folder.path(), [&] { (void)mds_reader(folder.path()).verify(); })});
  };
  auto const changed = [](std::string text, std::string_view from, std::string_view to) {
    auto const position = text.find(from);
    REQUIRE(position != text.npos);
    return text.replace(position, from.size(), to);
  };
  auto const bad_index = [&](std::string_view from, std::string_view to) {
    verify(code(std::string(to)) + " in index.json", changed(index, from, to), shard);
  };
  fs::remove(folder / "index.json");
  out.rows.push_back({"no index.json",
                      message_of(folder.path(), [&] { mds_reader const reader(folder.path()); })});
  verify("half an index.json", index.substr(0, 100), shard);
  bad_index("\"version\": 2}", "\"version\": 3}");
  bad_index("shard.00000.mds", "../../etc/passwd");
  bad_index("ndarray:int32", "ndarray:int33");
  bad_index("ndarray:int32", "pickle");
  bad_index("\"samples\": 1", "\"samples\": 4000000000");
  auto const listed = json::parse(index);
  auto twice = listed;
  twice["shards"].push_back(listed["shards"][0]);
  verify("a shard listed twice", twice.dump(), shard);
  verify("a shard cut short", index, shard.substr(0, shard.size() - 1));
  verify("one bit of a shard changed", index, changed(shard, "abc", "abb"));
  auto const unhashed = changed(index, "xxh64\": \"", "md5\": \"");
  verify("a sample count that differs", unhashed, std::string("\2", 1) + shard.substr(1));
  verify("an offset beyond the file", unhashed, shard.substr(0, 8) + "\x7f" + shard.substr(9));
  auto const first = detail::load<std::uint32_t>(shard.data() + 4);
  verify("a column longer than its sample", unhashed,
         changed(shard, shard.substr(first, 4), std::string("\xff\0\0\0", 4)));
  constexpr std::size_t large = std::size_t{65} << 20;
  auto bomb = listed;
  bomb["shards"][0]["compression"] = "zstd";
  bomb["shards"][0]["hashes"] = json::array();
  bomb["shards"][0]["raw_data"] = {
      {"basename", "shard.00000.mds"}, {"bytes", large}, {"hashes", json::object()}};
  auto const packed = mpt::data::detail::zstd_compress(std::string(large, '\0'), 1);
  bomb["shards"][0]["zip_data"] = {
      {"basename", "shard.00000.mds.zstd"}, {"bytes", packed.size()}, {"hashes", json::object()}};
  fs::remove(folder / "shard.00000.mds");
  put_file(folder / "index.json", bomb.dump());
  put_file(folder / "shard.00000.mds.zstd", packed);
  out.rows.push_back(
      {"a compressed shard that becomes 30 000 times its size",
       message_of(folder.path(), [&] { (void)mds_reader(folder.path()).sample(0); })});
  return out;
}

group text_group() {
  group out{"Text to prepare", {}};
  data_test::scratch_folder const folder;
  auto const add = [&](std::string const& input, std::string const& name,
                       std::string const& bytes) {
    put_file(folder / name, bytes);
    out.rows.push_back({input, message_of(folder.path(), [&] {
                          mpt::data::document_reader reader(folder / name);
                          std::string document;
                          while (reader.next(document))
                            if (reader.format() == mpt::data::text_format::json_lines)
                              (void)mpt::data::text_of_row(document, reader.name(), reader.line());
                        })});
  };
  add(code("{\"text\": \"a\"") + " in a .jsonl", "a.jsonl", "{\"text\": \"a\"");
  add(code("{\"content\": \"a\"}") + " in a .jsonl", "a.jsonl", "{\"content\": \"a\"}");
  add(code("{\"text\": 3}") + " in a .jsonl", "a.jsonl", "{\"text\": 3}");
  add(code(R"({"text": "a", "text": "b"})") + " in a .jsonl", "a.jsonl",
      R"({"text": "a", "text": "b"})");
  add(code("[\"a\"]") + " in a .jsonl", "a.jsonl", "[\"a\"]");
  add("UTF-16 in a .txt", "a.txt", std::string("\xFF\xFEh\0i\0", 6));
  add("Latin-1 in a .jsonl", "a.jsonl", "{\"text\": \"caf\xe9\"}");
  add("a .gz that is none", "a.jsonl.gz", "not compressed");
  auto const packed = mpt::data::detail::zstd_compress(std::string(1000, 'x'), 3);
  add("a .zst cut short", "a.txt.zst", packed.substr(0, packed.size() - 2));
  add("a .zst that becomes 10 000 times its size", "a.txt.zst",
      mpt::data::detail::zstd_compress(std::string(std::size_t{1} << 27, ' '), 1));
  add("an empty .zst", "a.txt.zst", "");
  out.rows.push_back({"a file that is not there", message_of(folder.path(), [&] {
                        mpt::data::document_reader const reader(folder / "none.txt");
                      })});
  out.rows.push_back({"a folder", message_of(folder.path(), [&] {
                        mpt::data::document_reader const reader(folder.path());
                      })});
  return out;
}

group finetuning_group() {
  namespace ft = mpt::finetune;
  group out{"Finetuning data that cannot be read, or learnt from", {}};
  data_test::scratch_folder const folder;
  auto const tokens = tokenizer_test::small_tokenizer();
  auto const add = [&](std::string const& file, std::string const& content,
                       std::string const& shown = {}, ft::preprocessor const& make = {}) {
    put_file(folder / file, content);
    out.rows.push_back(
        {(shown.empty() ? code(content) : shown) + " in " + file, message_of(folder.path(), [&] {
           (void)ft::read_examples({.files = {folder / file}, .preprocess = make, .max_seq_len = 8},
                                   tokens);
         })});
  };
  add("a.jsonl", R"({"promt": "a", "response": "b"})");
  add("a.jsonl", R"({"prompt": "a", "response": "b", "id": 1})");
  add("a.jsonl", R"({"conversations": [{"from": "human", "value": "a"}]})");
  add("a.jsonl", R"({"input_ids": [1, 2], "labels": [3]})");
  add("a.jsonl", R"({"prompt": "a", "response": null})");
  add("a.jsonl", R"({"prompt": "a", "response": ["b"]})");
  add("a.jsonl", R"({"prompt": "a", "prompt": "b", "response": "c"})");
  add("a.jsonl", R"({"prompt": "a", "response": "b")");
  add("a.jsonl", "{\"prompt\": \"caf\xe9\", \"response\": \"b\"}", "Latin-1");
  add("a.jsonl", "\"a\"");
  add("a.jsonl", std::string(66, '[').insert(0, "{\"prompt\": "), "66 nested lists");
  add("a.jsonl", R"({"prompt": "a", "response": ""})");
  add("a.jsonl", R"({"prompt": "one two three four five", "response": "b"})",
      "a prompt of more than max_seq_len tokens");
  add("a.jsonl", "", "nothing");
  add("a.jsonl.gz", "not compressed");
  add("a.json", R"([{"prompt": "a", "response": "b"})");
  add("a.json", R"([{"prompt": "a", "response": "b"},])");
  add("a.json", "{\n  \"prompt\": \"a\"\n}", "an object over several lines");
  add("a.csv", "prompt,response\na\n");
  add("a.csv", "prompt,prompt\na,b\n");
  add("a.csv", "prompt,response\na,\"b\n");
  add("a.csv", "question,answer\na,b\n");
  add("a.jsonl", R"({"messages": []})");
  add("a.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "bot", "content": "b"}]})");
  add("a.jsonl",
      R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]})");
  add("a.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"from": "gpt", "value": "b"}]})");
  auto const columns = [](char const* file, char const* content) {
    return std::pair<std::string, std::string>(file, content);
  };
  for (auto const& [set, row] :
       {columns("tatsu-lab/alpaca", R"({"text": "no mark"})"),
        columns("HuggingFaceH4/databricks_dolly_15k",
                R"({"instruction": "a", "context": "", "response": "b"})")})
    add("a.jsonl", row, code(row) + " as " + set, ft::named_preprocessor(set));
  add("a.jsonl", R"({"question": "a"})", code(R"({"question": "a"})") + " with a mapping",
      ft::column_mapping("question", "answer"));
  auto const find = [&](std::string const& shown, ft::file_names const& names) {
    out.rows.push_back({shown, message_of(folder.path(), [&] { (void)ft::find_files(names); })});
  };
  find("hf_name `mosaicml/dolly_hhrlhf`", {.name = "mosaicml/dolly_hhrlhf", .split = "train"});
  find("hf_name `json` alone", {.name = "json", .split = "train"});
  find("a folder and split `test`", {.name = folder.path().native(), .split = "test"});
  find("split `train[:5%]`", {.name = folder.path().native(), .split = "train[:5%]"});
  auto const add_action = [&](std::string const& shown, auto const& action) {
    out.rows.push_back({shown, message_of(folder.path(), action)});
  };
  add_action("preprocessing_fn `pkg.mod:fn`", [] { (void)ft::named_preprocessor("pkg.mod:fn"); });
  add_action("preprocessing_fn `dolly`", [] { (void)ft::named_preprocessor("dolly"); });
  add_action("target_prompts `length>=x`",
             [] { (void)ft::read_target_policy("length>=x", "last"); });
  put_file(folder / "a.jsonl", R"({"prompt": "a", "response": "b"})");
  add_action("a tokenizer without an end-of-text token", [&] {
    mpt::tokenizer const endless(
        {.json = tokens.files().json, .config = R"({"eos_token": null})", .source = {}});
    (void)ft::read_examples({.files = {folder / "a.jsonl"}}, endless);
  });
  add_action("packing_ratio `0.5`", [] {
    ft::batch_order({1, 1}, {.rows = 1, .packing_ratio = 0.5});
  });
  add_action("3 examples for a batch of 4", [] { ft::batch_order({1, 1, 1}, {.rows = 4}); });
  return out;
}

group task_group() {
  group out{"Tasks of in-context learning", {}};
  data_test::scratch_folder const folder;
  using mpt::eval::task_kind;
  auto const add = [&](task_kind kind, std::string const& bytes, bool categories = false) {
    put_file(folder / "t.jsonl", bytes);
    mpt::eval::task_config task;
    task.file = folder / "t.jsonl";
    task.kind = kind;
    task.has_categories = categories;
    out.rows.push_back({std::string(to_string(kind)) + ": " + code(bytes),
                        message_of(folder.path(), [&] { (void)mpt::eval::read_task_rows(task); })});
  };
  add(task_kind::language_modeling, "");
  add(task_kind::language_modeling, "{\"context\": \"a\", \"answer\": \"b\"}");
  add(task_kind::language_modeling, "{\"context\": [\"a\"], \"continuation\": \"b\"}");
  add(task_kind::language_modeling, "{\"context\": \"a\", \"continuation\": \"b\"}", true);
  add(task_kind::multiple_choice, R"({"query": "a", "choices": ["b", "c"], "gold": 2})");
  add(task_kind::multiple_choice, R"({"query": "a", "choices": "b", "gold": 0})");
  add(task_kind::schema, R"({"context_options": [], "continuation": "b", "gold": 0})");
  add(task_kind::generation,
      "{\"context\": \"a\", \"answer\": \"b\", \"chain_of_thought\": \"c\"}\n"
      "{\"context\": \"a\", \"answer\": \"b\"}");
  add(task_kind::generation, R"({"context": "a", "answer": 5})");
  return out;
}

std::string document_of(std::vector<group> const& groups) {
  std::string text =
      "# What bad input gets\n\n"
      "Every file and argument is checked before it is used, and an error is reported in\n"
      "one message: what is wrong, where, what was expected, what to do. A program prints it after "
      "`error: "
      "`\n"
      "and ends with the status of its cause. This page is made by `tests/mpt/malformed_test.cpp`, "
      "which fails "
      "when\n"
      "it no longer holds. Line ends are shown as ⏎.\n\n"
      "## The status a program ends with\n\n| status | cause | what to do |\n|---|---|---|\n";
  for (auto const& [code, cause, what_to_do] : apps::exit_codes)
    text += "| " + std::to_string(static_cast<int>(code)) + " | " + cell(cause) + " | " +
            cell(what_to_do) + " |\n";
  text +=
      "\nA process that the system kills (128 and the signal's number: 137 by SIGKILL, often for "
      "memory; 139 by\na segmentation fault) says nothing itself; where ranks are processes, the "
      "others or mpirun name it.\n";
  for (auto const& [heading, rows] : groups) {
    text += "\n## " + heading + "\n\n| given | message |\n|---|---|\n";
    for (auto const& [input, message] : rows)
      text += "| " + cell(input) + " | " + cell(message) + " |\n";
  }
  return text;
}

TEST_CASE("malformed input: docs/errors.md holds the messages of this test") {
  std::vector<group> const groups = {yaml_group(),       config_group(), hf_group(),
                                     tokenizer_group(),  mds_group(),    text_group(),
                                     finetuning_group(), task_group(),   safetensors_group(),
                                     folder_group(),     torch_group()};
  std::size_t rows = 0;
  for (auto const& group : groups)
    for (auto const& row : group.rows) {
      auto const& [input, message] = row;
      ++rows;
      CAPTURE(row.input);
      CHECK(message != "no error");
      CHECK(message.size() < 400);  // about three lines
    }
  CHECK(rows >= 150);
  auto const text = document_of(groups);
  auto const page = fs::path(__FILE__).parent_path() / "../../docs/errors.md";
  bool const is_current = data_test::get_file(page) == text;
  if (!is_current) put_file(fs::current_path() / "errors.md", text);
  CHECK_MESSAGE(is_current, "docs/errors.md differs from ",
                (fs::current_path() / "errors.md").string());
}

}  // namespace
}  // namespace malformed_test
